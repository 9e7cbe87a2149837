"""Fixtures of the commands, for those that belong to no family."""

from command_fixtures import cortex, foreign, impatient, in_window, on_terminal, shop, typed

__all__ = ["cortex", "foreign", "impatient", "in_window", "on_terminal", "shop", "typed"]
