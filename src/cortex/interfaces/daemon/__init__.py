"""cortexd, the process that serves every agent of a person, and the shim that clients start."""
