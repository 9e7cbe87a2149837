"""The error tree: classes, codes, suggestions.

A caller catches by class; a person or an agent reads code, message and suggestions.

    CortexError
    ├── ConfigError        configuration   CONFIG_INVALID, WORKSPACE_UNKNOWN, WORKSPACE_MISSING, \
CLIENT_FILE_INVALID, ENTRY_FOREIGN, CHUNKS_FOREIGN, SOURCE_UNKNOWN, SOURCE_REFUSED, \
PLUGIN_UNUSABLE, PLUGIN_UNKNOWN, CORE_CONNECTED, CORE_MISSING
    ├── InputError         processing      QUERY_EMPTY, QUERY_INVALID, REGEX_INVALID, \
ARGUMENT_INVALID, CURSOR_INVALID, BUDGET_TOO_SMALL, DOCUMENT_UNKNOWN, MEMORY_UNKNOWN, \
MEMORY_AMBIGUOUS, MEMORY_REFUSED, RECORD_UNKNOWN, RECORD_INVALID, RECORD_CHANGED, \
TARGET_NOT_FOUND, SCOPE_NOT_FOUND, IDEMPOTENCY_REPLAY, SENSITIVE_BLOCKED, RIGHTS_MISSING, \
APPROVAL_NEEDED, RESYNC_NEEDED, WORKSPACE_AMBIGUOUS
    ├── FileError          filesystem      PATH_OUTSIDE, FILE_NOT_FOUND, FILE_UNREADABLE, \
IMPORT_UNREADABLE, PERMISSION_DENIED, DISK_FULL
    ├── StoreError         filesystem      STORE_LOCKED, STORE_CORRUPT, STORE_LOST, INDEX_DAMAGED, \
STORE_NEWER, STORE_UNWRITABLE, STORE_READ_ONLY, STORE_IO
    ├── LimitError         resource        INDEX_TIMEOUT, SEARCH_TIMEOUT, REGEX_TIMEOUT, \
MEMORY_LIMIT, MEMORY_SHORT, DISK_LIMIT, EMBEDDINGS_LIMIT, INDEX_BUSY, RATE_LIMITED, WORKER_FAILED
    ├── NetworkError       network         SERVER_LOST, CORTEXD_UNAVAILABLE, EMBEDDER_UNAVAILABLE, \
EMBEDDER_REFUSED, EMBEDDER_ANSWER, EMBEDDER_CHANGED, EMBEDDER_MISSING, QDRANT_UNAVAILABLE, \
CORE_UNAVAILABLE, CORE_DENIED, CORE_REFUSED, CORE_ANSWER, ADDRESS_REFUSED, REQUEST_REFUSED, \
AUTH_REQUIRED, AUTH_EXPIRED
    └── Cancelled          processing      CANCELLED

`CODES` holds the fixed facts of each code; message, context and extra suggestions come from the
place that raises it. Rendering is not known here: each family renders the error form of its own
specification.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """Fixed facts of an error code, shared by every error that has it."""

    category: str  # configuration, filesystem, network, processing, resource
    retryable: bool
    suggestion: str
    severity: str = "error"


CODES: Mapping[str, Code] = {
    "CONFIG_INVALID": Code(
        "configuration",
        False,
        "Correct the value that the message names; `cortex config show` lists every setting "
        "with its value and origin.",
    ),
    "WORKSPACE_UNKNOWN": Code(
        "configuration",
        False,
        "Name a folder that is there or a workspace that is known, or leave it out.",
    ),
    "WORKSPACE_AMBIGUOUS": Code(
        "processing", False, "Say which one is meant: give one of the candidates as `workspace`."
    ),
    "WORKSPACE_MISSING": Code(
        "configuration", False, "Start the server with --workspace PATH, or in a project folder."
    ),
    "CLIENT_FILE_INVALID": Code(
        "configuration",
        False,
        "Repair the file in an editor and run the command again; nothing was changed.",
    ),
    "ENTRY_FOREIGN": Code(
        "configuration",
        False,
        "Rename that server in the client, or run the command with --replace to overwrite it.",
    ),
    "CHUNKS_FOREIGN": Code(
        "configuration",
        False,
        "Write them elsewhere with --out DIR, or replace them with `cortex chunks export --force`.",
    ),
    "SOURCE_UNKNOWN": Code(
        "configuration", False, "See the sources with `cortex kb list` or kb_list_sources."
    ),
    "SOURCE_REFUSED": Code(
        "configuration",
        False,
        "Choose another folder; `cortex kb list` shows those that there are.",
    ),
    "PLUGIN_UNUSABLE": Code(
        "configuration",
        False,
        "Mend the plugin, or have a person take it out of team.plugins in $CORTEX_HOME/config.yml.",
    ),
    "PLUGIN_UNKNOWN": Code(
        "configuration", False, "Install the plugin beside Cortex, or name one that is known."
    ),
    "CORE_CONNECTED": Code(
        "configuration",
        False,
        "Leave it first with `cortex disconnect`, your records stay here; or join in a home of "
        "its own: `cortex --profile NAME connect URL`.",
    ),
    "CORE_MISSING": Code("configuration", False, "Join a Core with `cortex connect URL`."),
    "QUERY_EMPTY": Code(
        "processing", False, "Say what to look for: a question, a name or a piece of code."
    ),
    "QUERY_INVALID": Code("processing", False, "Shorten the query or use plain words."),
    "REGEX_INVALID": Code(
        "processing", False, "Fix the expression, or search for the literal text."
    ),
    "REGEX_TIMEOUT": Code(
        "resource",
        False,
        "Simplify the expression: nested repetitions such as (a+)+ take exponential time.",
    ),
    "ARGUMENT_INVALID": Code(
        "processing", False, "Compare the arguments with what the tool or command says it takes."
    ),
    "CURSOR_INVALID": Code("processing", False, "Repeat the search without `cursor`."),
    "BUDGET_TOO_SMALL": Code("processing", False, "Ask for a budget of at least 200 tokens."),
    "DOCUMENT_UNKNOWN": Code(
        "processing", False, "Take the document_id from a search: the document may be gone."
    ),
    "MEMORY_UNKNOWN": Code(
        "processing",
        False,
        "Take the id from query_memories or `cortex memory list`: it may have been deleted.",
    ),
    "MEMORY_AMBIGUOUS": Code(
        "processing", False, "Say which one is meant: SCOPE:ID, or the argument `scope`."
    ),
    "MEMORY_REFUSED": Code(
        "processing", False, "Change what it says, and add it again; nothing was written."
    ),
    "RECORD_UNKNOWN": Code(
        "processing",
        False,
        "Take the id from cortex_search, or from `cortex team thread list` and its like.",
    ),
    "RECORD_INVALID": Code(
        "processing", False, "Change what it says, and send it again; nothing was written."
    ),
    "RECORD_CHANGED": Code(
        "processing",
        True,
        "Read it again, and make the change to what it says now; nothing was written.",
    ),
    "TARGET_NOT_FOUND": Code(
        "processing",
        False,
        "Take the id from cortex_search, or keep it as a draft with cortex_create_draft.",
    ),
    "SCOPE_NOT_FOUND": Code(
        "processing",
        False,
        "See the subcortexes with cortex_get_bootstrap_pack or `cortex team subcortex list`.",
    ),
    "IDEMPOTENCY_REPLAY": Code(
        "processing",
        False,
        "Use a key of its own for each write, and the same one only to try the same write again.",
    ),
    "SENSITIVE_BLOCKED": Code(
        "processing",
        False,
        "Take the secret out and say where it is kept instead; nothing was written.",
    ),
    "RIGHTS_MISSING": Code(
        "processing", False, "Make a draft with cortex_create_draft: a person decides about it."
    ),
    "APPROVAL_NEEDED": Code(
        "processing", False, "Leave it to a person, who decides in a terminal window of their own."
    ),
    "RESYNC_NEEDED": Code(
        "processing", False, "Pull from the start, then compare what is there with what is visible."
    ),
    "PATH_OUTSIDE": Code(
        "filesystem", False, "Give a path relative to the workspace root, without `..`."
    ),
    "FILE_NOT_FOUND": Code(
        "filesystem",
        False,
        "Check the spelling: it may have been moved or deleted; search_code finds the files of "
        "a project.",
    ),
    "FILE_UNREADABLE": Code(
        "filesystem", False, "Run `cortex doctor PATH` to see why the file is left out."
    ),
    "IMPORT_UNREADABLE": Code(
        "filesystem",
        False,
        "Close the program that the file belongs to, check the file with it, then try again.",
    ),
    "PERMISSION_DENIED": Code(
        "filesystem",
        False,
        "Check who may read and write there, or choose another place with CORTEX_HOME.",
    ),
    "DISK_FULL": Code(
        "filesystem", True, "Free some disk space, then try again; nothing that was stored is lost."
    ),
    "STORE_LOCKED": Code("filesystem", True, "Another process is writing; try again in a moment."),
    "STORE_CORRUPT": Code(
        "filesystem",
        False,
        "A project's index is built anew by itself, or by `cortex index --force`; "
        "for your home `cortex doctor` says what is damaged and what saves it.",
    ),
    "STORE_LOST": Code(
        "filesystem",
        False,
        "Run `cortex backup restore` to bring back the last snapshot, or `cortex doctor` to see "
        "what there is.",
    ),
    "INDEX_DAMAGED": Code(
        "filesystem",
        True,
        "Try again in a moment: the index is built anew from what is stored, and nothing is lost.",
    ),
    "STORE_NEWER": Code(
        "filesystem", False, "Upgrade Cortex: this store was written by a newer version."
    ),
    "STORE_UNWRITABLE": Code(
        "filesystem",
        False,
        "Make the store's folder writable, or set CORTEX_HOME to a place that is.",
    ),
    "STORE_READ_ONLY": Code(
        "filesystem", False, "Use a command that writes: `cortex kb` brings the store up to date."
    ),
    "STORE_IO": Code(
        "filesystem",
        True,
        "Check the disk or network drive, its quota too, then try again; nothing that was "
        "stored is lost.",
    ),
    "INDEX_TIMEOUT": Code(
        "processing",
        True,
        "Run it again: indexing goes on where it stopped. Reduce maxFiles or exclude large "
        "folders.",
    ),
    "SEARCH_TIMEOUT": Code(
        "processing", True, "Ask for fewer results or a narrower path, or raise search.timeout."
    ),
    "MEMORY_LIMIT": Code(
        "resource", True, "Raise limits.memory.heap, reduce maxFiles or exclude large folders."
    ),
    "MEMORY_SHORT": Code(
        "resource",
        True,
        "End other programs or raise the limit on memory (`ulimit -v`), then try again; "
        "nothing that was stored is lost.",
    ),
    "DISK_LIMIT": Code("resource", False, "Raise limits.disk.database or exclude large folders."),
    "EMBEDDINGS_LIMIT": Code(
        "resource",
        False,
        "Raise limits.memory.embeddings or exclude large folders; until then search goes by words.",
    ),
    "INDEX_BUSY": Code(
        "resource",
        True,
        "Indexing is under way; search works meanwhile. Try again when it is done.",
    ),
    "WORKER_FAILED": Code(
        "resource",
        True,
        "Check that this user may run the Python that Cortex is installed with, and that memory "
        "is left; then index again.",
    ),
    "RATE_LIMITED": Code(
        "resource", True, "Wait as long as `retry_after_seconds` says, then try again."
    ),
    "EMBEDDER_UNAVAILABLE": Code("network", True, "Check that the embedder runs, then try again."),
    "EMBEDDER_REFUSED": Code(
        "network",
        False,
        "Check the provider's key, model and baseUrl with `cortex config show`; until then "
        "search goes by words.",
    ),
    "EMBEDDER_ANSWER": Code(
        "network",
        False,
        "Check that providers.*.baseUrl leads to an embedding server of the chosen kind.",
    ),
    "EMBEDDER_CHANGED": Code(
        "network",
        False,
        "Serve the earlier model again, or restart Cortex so that everything is embedded by the "
        "new one.",
    ),
    "EMBEDDER_MISSING": Code(
        "network", False, "Install what is missing, or choose another indexing.embeddingProvider."
    ),
    "QDRANT_UNAVAILABLE": Code(
        "network",
        True,
        "See `cortex qdrant status`; until it is back, search goes by words, and nothing is lost.",
    ),
    "CORE_UNAVAILABLE": Code(
        "network",
        True,
        "Check the Core's address and that it runs; where this home is connected, go on "
        "working: what is written waits here.",
    ),
    "CORE_DENIED": Code(
        "network",
        False,
        "Ask who runs the Core for a token, and run `cortex connect URL` again; nothing is lost.",
    ),
    "CORE_REFUSED": Code(
        "network", False, "Check the Core's version and log; what is written waits here."
    ),
    "CORE_ANSWER": Code(
        "network", False, "Check the address with `cortex status`: it should lead to a Cortex Core."
    ),
    "ADDRESS_REFUSED": Code("network", False, "Choose another address or port."),
    "REQUEST_REFUSED": Code(
        "network",
        False,
        "Send it to the server's own address and path, as JSON, with the token where there is one.",
    ),
    "AUTH_REQUIRED": Code(
        "network",
        False,
        "Send `Authorization: Bearer TOKEN` with a token that `cortex core token create` made.",
    ),
    "AUTH_EXPIRED": Code(
        "network", False, "Ask who runs the Core for a new token: this one is over."
    ),
    "CORTEXD_UNAVAILABLE": Code(
        "network",
        True,
        "Look at its log with `cortex mcp logs`, or do without it: CORTEX_NO_SIDECAR=1.",
    ),
    "SERVER_LOST": Code("network", True, "Look whether it was done, then call it again."),
    "CANCELLED": Code(
        "processing", True, "Nothing to do: the request was cancelled.", severity="info"
    ),
    "INTERNAL_ERROR": Code(
        "processing", False, "This is a defect in Cortex: the log holds the details."
    ),
}


class CortexError(Exception):
    """Base class of every error that is reported to a caller.

    `message` says what happened and what to do; `context` holds machine-readable facts.
    `suggestions` come before the suggestion of the code; `instead` replaces the code's suggestion
    where it doesn't fit.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        context: Mapping[str, object] | None = None,
        suggestions: tuple[str, ...] = (),
        instead: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        fixed = CODES[code]
        self.code = code
        self.message = message
        self.category = fixed.category
        self.severity = fixed.severity
        self.retryable = fixed.retryable
        self.context: dict[str, object] = dict(context or {})
        self.suggestions: tuple[str, ...] = (*suggestions, *(instead or (fixed.suggestion,)))

    @property
    def exit_code(self) -> int:
        """Exit code of a command: 2 for wrong usage, as the command-line parser has it, else 1."""
        return 2 if self.code == "ARGUMENT_INVALID" else 1


class ConfigError(CortexError):
    """A setting, file or flag that can't be used."""


class InputError(CortexError):
    """A query or argument that can't be answered as it is."""


class FileError(CortexError):
    """A file or folder that can't be read, or may not be."""


class StoreError(CortexError):
    """The store can't be opened, read or written."""


class LimitError(CortexError):
    """A limit on time, memory, disk or rate was reached; what was done until then is kept."""


class NetworkError(CortexError):
    """Another process or server did not answer, or must not be reached."""


class Cancelled(CortexError):
    """The caller no longer wants the answer."""

    def __init__(self, message: str = "the request was cancelled") -> None:
        super().__init__("CANCELLED", message)


_CLASSES: Mapping[type[CortexError], str] = {
    ConfigError: "CONFIG_INVALID WORKSPACE_UNKNOWN WORKSPACE_MISSING CLIENT_FILE_INVALID "
    "ENTRY_FOREIGN CHUNKS_FOREIGN SOURCE_UNKNOWN SOURCE_REFUSED PLUGIN_UNUSABLE "
    "PLUGIN_UNKNOWN CORE_CONNECTED CORE_MISSING",
    InputError: "QUERY_EMPTY QUERY_INVALID REGEX_INVALID ARGUMENT_INVALID CURSOR_INVALID "
    "BUDGET_TOO_SMALL DOCUMENT_UNKNOWN MEMORY_UNKNOWN MEMORY_AMBIGUOUS "
    "MEMORY_REFUSED RECORD_UNKNOWN RECORD_INVALID RECORD_CHANGED TARGET_NOT_FOUND "
    "SCOPE_NOT_FOUND IDEMPOTENCY_REPLAY SENSITIVE_BLOCKED RIGHTS_MISSING "
    "APPROVAL_NEEDED RESYNC_NEEDED WORKSPACE_AMBIGUOUS",
    FileError: "PATH_OUTSIDE FILE_NOT_FOUND FILE_UNREADABLE IMPORT_UNREADABLE PERMISSION_DENIED "
    "DISK_FULL",
    StoreError: "STORE_LOCKED STORE_CORRUPT STORE_LOST INDEX_DAMAGED STORE_NEWER "
    "STORE_UNWRITABLE STORE_READ_ONLY STORE_IO",
    LimitError: "INDEX_TIMEOUT SEARCH_TIMEOUT REGEX_TIMEOUT MEMORY_LIMIT MEMORY_SHORT "
    "DISK_LIMIT EMBEDDINGS_LIMIT INDEX_BUSY RATE_LIMITED WORKER_FAILED",
    NetworkError: "SERVER_LOST CORTEXD_UNAVAILABLE EMBEDDER_UNAVAILABLE EMBEDDER_REFUSED "
    "EMBEDDER_ANSWER EMBEDDER_CHANGED EMBEDDER_MISSING QDRANT_UNAVAILABLE "
    "CORE_UNAVAILABLE CORE_DENIED CORE_REFUSED CORE_ANSWER ADDRESS_REFUSED "
    "REQUEST_REFUSED AUTH_REQUIRED AUTH_EXPIRED",
}
# A disk that is full.
_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT)
# A disk that is broken or gone, or that can't hold files of this size.
_BROKEN_ERRORS = (errno.EIO, errno.ENXIO, errno.ENODEV, errno.EFBIG, errno.ESTALE)
SHORTAGES = {
    "DISK_FULL": "the disk is full",
    "STORE_IO": "the disk answers with errors",
    "MEMORY_SHORT": "this process gets no more memory",
}
_BY_CODE = {code: kind for kind, codes in _CLASSES.items() for code in codes.split()}


def error_of(code: str, message: str, context: Mapping[str, object] | None = None) -> CortexError:
    """Rebuild an error that another process reported, in its own class.

    A code that isn't known here becomes INTERNAL_ERROR.
    """
    if code == "CANCELLED":
        return Cancelled(message)
    return _BY_CODE.get(code, CortexError)(
        code if code in CODES else "INTERNAL_ERROR", message, context=context
    )


def explained(error: Exception, doing: str, *suggestions: str) -> CortexError:
    """Convert an unexpected exception into a CortexError; a CortexError is returned as it is.

    `suggestions` are used only where nothing better than INTERNAL_ERROR fits.
    """
    if isinstance(error, CortexError):
        return error
    file = f" ({error.filename})" if isinstance(error, OSError) and error.filename else ""
    if shortage := shortage_of(error, doing + file):
        return shortage
    if isinstance(error, PermissionError):
        return FileError("PERMISSION_DENIED", str(error))
    message = f"{doing} failed unexpectedly ({type(error).__name__}: {error})"
    return CortexError(
        "INTERNAL_ERROR", message, context={"operation": doing}, suggestions=suggestions
    )


def shortage_of(error: BaseException, doing: str) -> CortexError | None:
    """Build the error for work that failed for lack of disk or memory; None for any other cause."""
    code = code_of(error, "")
    return error_of(code, f"{doing} failed: {SHORTAGES[code]}") if code else None


def code_of(error: BaseException, otherwise: str) -> str:
    """Return the error code of a disk or memory failure; `otherwise` for any other exception."""
    if is_short_of_memory(error):
        return "MEMORY_SHORT"
    if isinstance(error, OSError) and error.errno in _FULL_ERRORS:
        return "DISK_FULL"
    return "STORE_IO" if isinstance(error, OSError) and error.errno in _BROKEN_ERRORS else otherwise


def is_short_of_memory(error: BaseException) -> bool:
    """Return whether an exception means that the process gets no more memory or threads."""
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, RuntimeError) and "start new thread" in str(error)


def short_of_memory(doing: str) -> LimitError:
    """Build the error for work that the system gave no memory for."""
    return LimitError("MEMORY_SHORT", f"{doing} failed: {SHORTAGES['MEMORY_SHORT']}")
