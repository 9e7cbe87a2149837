"""Lets tests of imports share the databases that they make."""
