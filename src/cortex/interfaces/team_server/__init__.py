"""A team's server: who may see and do what, what clients send, and the doors to it."""
