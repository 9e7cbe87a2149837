"""Lets the tests here import their own modules as `protocol.…`."""
