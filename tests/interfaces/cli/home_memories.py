"""Titles of the memories in the home that the tests of backups damage and restore."""

TITLES = ("Apples grow on trees", "Pears are harder than plums")
