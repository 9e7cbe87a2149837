"""Fixtures of the commands about memories."""

from command_fixtures import cortex, foreign, in_window, on_terminal, shop, typed

__all__ = ["cortex", "foreign", "in_window", "on_terminal", "shop", "typed"]
