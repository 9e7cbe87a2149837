"""The memory family: a user's own memories and those in other products' databases."""
