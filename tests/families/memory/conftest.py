"""Lets tests of memories share the databases that other tests make."""
