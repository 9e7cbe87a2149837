"""Settings of a workspace, from defaults, files, environment and flags, with their origins.

The modules in order: groups (all settings), registry (as a table), merge (checking and trust),
model (Settings), files and load, workspaces.
"""

from cortex.base.settings.files import read_setting, write_setting
from cortex.base.settings.load import (
    choose_profile,
    environment,
    find_conduit,
    find_home,
    load,
    load_again,
)
from cortex.base.settings.model import Settings, known_key
from cortex.base.settings.override import Override, apply_override, read_override
from cortex.base.settings.registry import FAMILY_KEYS, KEYS, FamilyKey, Key
from cortex.base.settings.values import stays_here
from cortex.base.settings.workspaces import Workspace, find_workspaces

__all__ = [
    "FAMILY_KEYS",
    "KEYS",
    "FamilyKey",
    "Key",
    "Override",
    "Settings",
    "Workspace",
    "apply_override",
    "choose_profile",
    "environment",
    "find_conduit",
    "find_home",
    "find_workspaces",
    "known_key",
    "load",
    "load_again",
    "read_override",
    "read_setting",
    "stays_here",
    "write_setting",
]
