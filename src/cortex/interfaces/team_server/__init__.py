"""Team server (Core): access policy, application of client actions, HTTP interface."""
