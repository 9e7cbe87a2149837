"""Cortex's home folder and the environment variables it reads; standard library only.

Processes that must start fast (shim, hooks) import this.
"""

from __future__ import annotations

import os

# Type checkers treat this name like typing.TYPE_CHECKING; importing `typing` would take longer
# than everything else in this module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Version of the package: `cortex.__version__`.
VERSION = "0.1.0"
# Folder in a home that hooks write to.
INBOX = "inbox"
# Every variable that Cortex reads, besides CORTEX_<GROUP>_<KEY>, which each setting has. Front ends
# pass them on to cortexd, `cortex.base.settings` reads them, and docs/settings.md lists them.
PREFIXES = ("CORTEX_", "CODEINDEX_", "CONDUIT_", "ACK_")
# Other names of settings; the first one that is set takes precedence.
SETTING_VARIABLES = {
    "CODEINDEX_WORKSPACE_PATH": "workspace.paths",
    "CODEINDEX_MAX_FILES": "workspace.maxFiles",
    "CODEINDEX_MAX_FILE_SIZE": "workspace.maxFileSize",
    "CODEINDEX_CHUNK_SIZE": "indexing.chunkSize",
    "CODEINDEX_EMBEDDING_PROVIDER": "indexing.embeddingProvider",
    "CODEINDEX_UPDATE_INTERVAL": "indexing.updateInterval",
    "CODEINDEX_CACHE_SIZE": "search.cacheSize",
    "CODEINDEX_OPENAI_API_KEY": "providers.openai.apiKey",
    "CODEINDEX_OLLAMA_BASE_URL": "providers.ollama.baseUrl",
    "CORTEX_LOG_LEVEL": "server.logLevel",
    "CODEINDEX_LOG_LEVEL": "server.logLevel",
    "CODEINDEX_ENABLE_TELEMETRY": "server.enableTelemetry",
    "CORTEX_CHUNKS_DIR": "server.chunksDir",
    "CORTEX_HTTP_TOKEN": "server.httpToken",
    "CONDUIT_MCP_MAX_LIMIT": "mcp.kb.search.max_limit",
    "CONDUIT_MCP_LOG_LEVEL": "mcp.kb.logging.level",
    "ACK_MEM_PATH": "memory.path",
    "ACK_MEM_DB": "memory.database",
    "CLAUDE_MEM_DATA_DIR": "memory.claude_mem",
    "ACK_MEM_SCOPE": "memory.scope",
}
# Not settings: they are locations, or too secret to be a setting.
OTHER_VARIABLES = (
    "CORTEX_HOME",
    "CORTEX_PROFILE",
    "CORTEX_CORE_TOKEN",
    "CORTEX_CORE_DB",
    "CORTEX_NO_SIDECAR",
    "CLAUDE_PROJECT_DIR",
    "CONDUIT_HOME",
)
# For commands alone; cortexd needs none of them.
COMMAND_VARIABLES = ("VISUAL", "EDITOR")
# Folder in a home that holds the homes of its profiles.
PROFILES = "profiles"
# Lower case only: a filesystem may ignore case.
_FIRST_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_NAME_CHARACTERS = _FIRST_CHARACTERS | frozenset("._-")
MAX_NAME = 50
NAMES = f"at most {MAX_NAME} small letters, digits, '.', '_' and '-', the first a letter or digit"


def version_parts(version: str) -> tuple[int, ...]:
    """Parse a version for comparison; parts that aren't numbers ("0rc1") are left out."""
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def own_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a connection's settings may depend on."""
    listed = {*SETTING_VARIABLES, *OTHER_VARIABLES}
    return {
        name: value
        for name, value in variables.items()
        if name.startswith(PREFIXES) or name in listed
    }


def find_home(variables: Mapping[str, str], user_home: str) -> str:
    """Return $CORTEX_HOME or ~/.cortex, or the profile in it that CORTEX_PROFILE names.

    Raises: ValueError, with a message for people and the name of the wrong variable.
    """
    given = variables.get("CORTEX_HOME", "")
    if given == "~" or given[:2] in ("~/", "~\\"):
        given = os.path.join(user_home, given[2:])
    home = given or os.path.join(user_home, ".cortex")
    if not os.path.isabs(home):
        raise ValueError(f"CORTEX_HOME={given!r} is not an absolute path", "CORTEX_HOME")
    profile = variables.get("CORTEX_PROFILE", "")
    if not profile:
        return home
    if not is_profile(profile):
        message = (
            f"{profile!r} can't be a profile's name (--profile, or CORTEX_PROFILE): that is {NAMES}"
        )
        raise ValueError(message, "CORTEX_PROFILE")
    return os.path.join(home, PROFILES, profile)


def is_profile(name: str) -> bool:
    """Return whether this is a valid name of a profile."""
    return (
        0 < len(name) <= MAX_NAME
        and name[0] in _FIRST_CHARACTERS
        and _NAME_CHARACTERS.issuperset(name)
    )


def profile_names(home: str) -> list[str]:
    """List the profiles of a home, which must be a home without a profile."""
    try:
        with os.scandir(os.path.join(home, PROFILES)) as entries:
            return sorted(
                entry.name for entry in entries if is_profile(entry.name) and entry.is_dir()
            )
    # The home has no profiles.
    except OSError:
        return []


def split_profile(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """Split `--profile NAME` off the beginning of a command line.

    Returns the profile ("" for none) and the other arguments.
    """
    rest = list(arguments)
    if rest[:1] == ["--profile"] and len(rest) > 1:
        return rest[1], rest[2:]
    if rest and rest[0].startswith("--profile="):
        return rest[0][len("--profile=") :], rest[1:]
    return "", rest
