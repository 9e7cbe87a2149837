"""Read-only adapters for the stores of other products, one module for each."""
