"""Fixtures of the commands about documents."""

from command_fixtures import cortex

__all__ = ["cortex"]
