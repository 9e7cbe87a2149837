"""Lets tests of the pages share the databases that other tests make."""
