"""Loading of settings by precedence: defaults, files, environment, flags; later ones win.

    defaults < conduit.yaml < $CORTEX_HOME/config.yml < <root>/.cortex/config.yml
             < <root>/codeindex.config.json < <root>/.cortex/config.json
             < environment < flags (< runtime, see Settings.changed)

`environment()` is the only place in Cortex that reads the process's own variables; `load` takes
them as an argument, because one process may serve connections with different ones. Trust needs two
passes: the values that a project may set depend on the settings without it, and these include the
environment, which comes after the project's files.
"""

from __future__ import annotations

import difflib
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from cortex.base.errors import ConfigError
from cortex.base.runtime import home
from cortex.base.settings.files import read_file
from cortex.base.settings.groups import Groups
from cortex.base.settings.merge import Layers, SettingEntry, SettingOrigin
from cortex.base.settings.model import FileStates, Inputs, Settings, known_key
from cortex.base.settings.registry import KEYS, Key

PROJECT_FILES = (".cortex/config.yml", "codeindex.config.json", ".cortex/config.json")
OWN_FILE, CONDUIT_FILE = "config.yml", "conduit.yaml"
# Flags that aren't named like their key.
_FLAGS = {"workspace.paths": "--workspace"}
_PREFIXES = (
    *(f"CORTEX_{group.upper()}_" for group in Groups.model_fields),
    "CODEINDEX_",
    "CONDUIT_MCP_",
)
_VARIABLES = {variable: key for key in KEYS for variable in key.variables}


def environment() -> dict[str, str]:
    """Return the process's variables that Cortex reads.

    These are the ones listed in `base/runtime/home.py`, and all with the prefix of a setting.
    """
    names = {*home.OTHER_VARIABLES, *home.COMMAND_VARIABLES, *_VARIABLES}
    return {
        name: value
        for name, value in os.environ.items()
        if name in names or name.startswith(_PREFIXES)
    }


def choose_profile(name: str) -> None:
    """Use the home of a profile in this process and its children."""
    os.environ["CORTEX_PROFILE"] = name


def load(
    root: Path | None,
    *,
    environment: Mapping[str, str],
    flags: Mapping[str, object] | None = None,
    user_home: Path | None = None,
    shared: bool = False,
) -> Settings:
    """Load the settings of the workspace at `root`, or those that apply without one.

    `flags` are keyed by a setting's name; None means not given. `shared` is for a client of a
    process that serves several: settings that decide what an index holds then come from files
    alone, and `unheeded` lists the variables that are ignored.

    Raises: ConfigError (CONFIG_INVALID) for an invalid flag or variable; problems in files are in
    `warnings`.
    """
    user_home = user_home or Path.home()
    own_home = find_home(environment, user_home)
    files = _file_states(root, own_home, environment, user_home)
    own, own_warnings = _read_own(own_home, environment, user_home)
    project, project_warnings = _read_project(root, own_home)
    variables = list(_read_variables(environment))
    ignored = [
        entry for entry in variables if shared and isinstance(entry.key, Key) and entry.key.index
    ]
    applied = [entry for entry in variables if entry not in ignored]
    typed = (
        (applied, SettingOrigin.ENVIRONMENT),
        (list(_read_flags(flags or {})), SettingOrigin.FLAG),
    )

    trusted = Layers()
    for entries, speaker in ((own, SettingOrigin.HOME), *typed):
        trusted.lay(entries, speaker, held=trusted, root=root)
    layers = Layers(warnings=[*own_warnings, *project_warnings, *_unknown_variables(environment)])
    for entries, speaker in ((own, SettingOrigin.HOME), (project, SettingOrigin.PROJECT), *typed):
        layers.lay(entries, speaker, held=trusted, root=root)
    # An invalid value is an error even where the variable is ignored.
    Layers().lay(ignored, SettingOrigin.ENVIRONMENT, held=trusted, root=root)
    inputs = Inputs(
        root, dict(environment), dict(flags or {}), user_home, shared, files, tuple(ignored)
    )
    return Settings.build(layers, home=own_home, root=root, own=trusted, inputs=inputs)


def load_again(settings: Settings, *, settle_seconds: float = 0.0) -> Settings:
    """Reload the settings if their files changed.

    Returns the same object where no file changed, or one changed so lately that it may be half
    written. Where a file can't be read any more, the earlier values apply: a typo must not switch
    off what a file excludes.
    """
    inputs = settings.inputs
    if inputs is None:
        return settings
    files = _file_states(inputs.root, settings.home, inputs.environment, inputs.user_home)
    if files == inputs.files:
        return settings
    now = time.time_ns()
    if any(state and 0 <= now - state[0] < settle_seconds * 1e9 for state in files):
        return settings
    reloaded = load(
        inputs.root,
        environment=inputs.environment,
        flags=inputs.flags,
        user_home=inputs.user_home,
        shared=inputs.shared,
    )
    if set(reloaded.ignored_files()) <= set(settings.ignored_files()):
        return reloaded
    return settings.model_copy(update={"warnings": reloaded.warnings, "inputs": reloaded.inputs})


def _file_states(
    root: Path | None, home: Path, environment: Mapping[str, str], user_home: Path
) -> FileStates:
    """Return time, size and inode of each settings file, None where there is none."""
    paths = [find_conduit(environment, user_home) / CONDUIT_FILE, home / OWN_FILE]
    paths += [root / name for name in PROJECT_FILES] if root else []
    states: list[tuple[int, int, int] | None] = []
    for path in paths:
        try:
            status = os.stat(path)
            states.append((status.st_mtime_ns, status.st_size, status.st_ino))
        except (OSError, ValueError):
            states.append(None)
    return tuple(states)


def find_home(environment: Mapping[str, str], user_home: Path) -> Path:
    """Return Cortex's home folder. Raises: ConfigError (CONFIG_INVALID)."""
    try:
        return Path(home.find_home(environment, str(user_home)))
    except ValueError as error:
        message, variable = error.args
        raise ConfigError("CONFIG_INVALID", message, context={"key": variable}) from None


def _read_own(
    home: Path, environment: Mapping[str, str], user_home: Path
) -> tuple[list[SettingEntry], list[str]]:
    """Read the user's own files.

    Of conduit.yaml only the keys of documents are ours; the rest belongs to that product.
    """
    conduit, conduit_warnings = read_file(
        find_conduit(environment, user_home) / CONDUIT_FILE, groups=("kb", "mcp"), home=home
    )
    entries, warnings = read_file(home / OWN_FILE, home=home)
    documents = [entry for entry in conduit if entry.key.name.startswith(("kb.", "mcp.kb."))]
    return documents + entries, conduit_warnings + warnings


def find_conduit(environment: Mapping[str, str], user_home: Path) -> Path:
    """Return the folder in which Conduit keeps its files: conduit.yaml, and a base to import."""
    given = environment.get("CONDUIT_HOME", "")
    return expand(given, user_home) if given else user_home / ".conduit"


def _read_project(root: Path | None, home: Path) -> tuple[list[SettingEntry], list[str]]:
    entries: list[SettingEntry] = []
    warnings: list[str] = []
    for path in [root / name for name in PROJECT_FILES] if root else ():
        # The root is the user's home folder, so this file was already read.
        if path.resolve() == (home / OWN_FILE).resolve():
            continue
        file_entries, file_warnings = read_file(path, within=root, home=home)
        entries += file_entries
        warnings += file_warnings
    return entries, warnings


def _read_variables(environment: Mapping[str, str]) -> Iterator[SettingEntry]:
    """Yield one entry per key, from the first of its variables that is set; CORTEX_* come first."""
    for key in KEYS:
        name = next((variable for variable in key.variables if environment.get(variable)), "")
        if name:
            yield SettingEntry(key, _split_paths(name, environment[name]), f"environment {name}")


def _split_paths(name: str, value: str) -> object:
    if name == "CORTEX_WORKSPACE_PATHS" and not value.lstrip().startswith("["):
        return [path for path in value.split(os.pathsep) if path]
    return [value] if name == "CODEINDEX_WORKSPACE_PATH" else value


def _read_flags(flags: Mapping[str, object]) -> Iterator[SettingEntry]:
    for name, value in flags.items():
        if value is None:
            continue
        key = known_key(name)
        spelled = key.attribute[-1] if isinstance(key, Key) else key.name
        yield SettingEntry(
            key, value, "flag " + _FLAGS.get(key.name, "--" + spelled.replace("_", "-"))
        )


def _unknown_variables(environment: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(environment):
        if (
            name.startswith(_PREFIXES)
            and name not in _VARIABLES
            and name not in home.OTHER_VARIABLES
        ):
            near = difflib.get_close_matches(name, _VARIABLES, n=1, cutoff=0.6)
            yield f"environment {name}: unknown variable" + (
                f"; did you mean {near[0]}?" if near else ""
            )


def expand(path: str, user_home: Path) -> Path:
    """Replace a leading ~ in `path`.

    Path.expanduser isn't used because it reads the process's own variables.
    """
    return (
        user_home / path[2:]
        if path[:2] in ("~/", "~\\")
        else user_home
        if path == "~"
        else Path(path)
    )
