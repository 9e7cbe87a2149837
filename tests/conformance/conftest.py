"""Lets the tests here import `protocol.…` and `conformance.…`."""
