"""The error tree: one table of codes, with the class and the fixed facts of each.

A caller catches by class; a person or an agent reads code, message and suggestions.

    CortexError
    ├── ConfigError    a setting, file or flag
    ├── InputError     a query or an argument
    ├── FileError      a file or a folder
    ├── StoreError     the store
    ├── LimitError     time, memory, disk or rate
    ├── NetworkError   another process or a server
    └── Cancelled      the caller no longer wants the answer

A row of `CODES` is all that a new code needs: classes, HTTP statuses, the codes of the team's tools
and of a Core, and the tables of the handbook follow from it. Message, context and extra suggestions
come from the place that raises it. Rendering is not known here: each family renders the error form
of its own specification.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass


class CortexError(Exception):
    """Base class of every error that is reported to a caller.

    `message` says what happened and what to do; `context` holds machine-readable facts.
    `suggestions` come before the suggestion of the code; `instead` replaces the code's suggestion
    where it doesn't fit.
    """

    category = "processing"

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

    category = "configuration"


class InputError(CortexError):
    """A query or argument that can't be answered as it is."""


class FileError(CortexError):
    """A file or folder that can't be read, or may not be."""

    category = "filesystem"


class StoreError(CortexError):
    """The store can't be opened, read or written."""

    category = "filesystem"


class LimitError(CortexError):
    """A limit on time, memory, disk or rate was reached; what was done until then is kept."""

    category = "resource"


class NetworkError(CortexError):
    """Another process or server did not answer, or must not be reached."""

    category = "network"


class Cancelled(CortexError):
    """The caller no longer wants the answer."""

    def __init__(self, message: str = "the request was cancelled") -> None:
        super().__init__("CANCELLED", message)


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """Fixed facts of an error code, shared by every error that has it."""

    suggestion: str
    kind: type[CortexError]
    retryable: bool = False
    severity: str = "error"
    # Where it isn't the category of the class.
    own_category: str = ""
    # HTTP status of the JSON API; without one, 503 if retryable, else 500.
    status: int = 0
    # Code in the answers of a Core, and its status there if it isn't `status`.
    core: str = ""
    core_status: int = 0
    # Code in the answers of the team's tools.
    tool: str = ""

    @property
    def category(self) -> str:
        """Category: configuration, filesystem, network, processing or resource."""
        return self.own_category or self.kind.category

    @property
    def api_status(self) -> int:
        """HTTP status of the JSON API."""
        return self.status or self._server_status

    @property
    def core_answer(self) -> tuple[str, int]:
        """Code and HTTP status at a Core."""
        if not self.core:
            return "SERVER_ERROR", self._server_status
        return self.core, self.core_status or self.status

    @property
    def _server_status(self) -> int:
        return 503 if self.retryable else 500


# The table of a new error code. In its order, the handbook and the OpenAPI documents list them.
CODES: Mapping[str, ErrorCode] = {
    "CONFIG_INVALID": ErrorCode(
        "Correct the value that the message names; `cortex config show` lists every setting with "
        "its value and origin.",
        ConfigError, status=400, core="VALIDATION_ERROR",
    ),
    "WORKSPACE_UNKNOWN": ErrorCode(
        "Name an existing folder or a known workspace, or leave it out.",
        ConfigError, status=404,
    ),
    "WORKSPACE_MISSING": ErrorCode(
        "Start the server with --workspace PATH, or in a project folder.",
        ConfigError,
    ),
    "CLIENT_FILE_INVALID": ErrorCode(
        "Repair the file in an editor and run the command again; nothing was changed.",
        ConfigError,
    ),
    "ENTRY_FOREIGN": ErrorCode(
        "Rename that server in the client, or run the command with --replace to overwrite it.",
        ConfigError,
    ),
    "CHUNKS_FOREIGN": ErrorCode(
        "Write them elsewhere with --out DIR, or replace them with `cortex chunks export "
        "--force`.",
        ConfigError,
    ),
    "SOURCE_UNKNOWN": ErrorCode(
        "List the sources with `cortex kb list` or kb_list_sources.",
        ConfigError, status=404,
    ),
    "SOURCE_REFUSED": ErrorCode(
        "Choose another folder; `cortex kb list` shows the present sources.",
        ConfigError,
    ),
    "PLUGIN_UNUSABLE": ErrorCode(
        "Repair the plugin, or have a person remove it from team.plugins in "
        "$CORTEX_HOME/config.yml.",
        ConfigError, core="SERVER_ERROR", core_status=503,
    ),
    "PLUGIN_UNKNOWN": ErrorCode(
        "Install the plugin in the environment of Cortex, or name a known one.",
        ConfigError,
    ),
    "CORE_CONNECTED": ErrorCode(
        "Leave it first with `cortex disconnect` (your records stay here), or connect a home "
        "of its own: `cortex --profile NAME connect URL`.",
        ConfigError,
    ),
    "CORE_MISSING": ErrorCode("Join a Core with `cortex connect URL`.", ConfigError),
    "QUERY_EMPTY": ErrorCode(
        "Say what to look for: a question, a name or a piece of code.",
        InputError, status=400, core="QUERY_TOO_SHORT", tool="QUERY_TOO_SHORT",
    ),
    "QUERY_INVALID": ErrorCode(
        "Shorten the query or use plain words.",
        InputError, status=400, core="VALIDATION_ERROR", tool="VALIDATION_ERROR",
    ),
    "REGEX_INVALID": ErrorCode(
        "Fix the expression, or search for the literal text.",
        InputError, status=400,
    ),
    "ARGUMENT_INVALID": ErrorCode(
        "Compare the arguments with the description of the tool or the help of the command.",
        InputError, status=400, core="VALIDATION_ERROR", tool="VALIDATION_ERROR",
    ),
    "CURSOR_INVALID": ErrorCode(
        "Repeat the search without `cursor`.",
        InputError, status=400, core="VALIDATION_ERROR", tool="VALIDATION_ERROR",
    ),
    "BUDGET_TOO_SMALL": ErrorCode(
        "Ask for a budget of at least 200 tokens.",
        InputError, status=400, core="BUDGET_TOO_SMALL", tool="BUDGET_TOO_SMALL",
    ),
    "DOCUMENT_UNKNOWN": ErrorCode(
        "Take the document_id from a search: the document may be gone.",
        InputError, status=404, core="NOT_FOUND", tool="NOT_FOUND",
    ),
    "MEMORY_UNKNOWN": ErrorCode(
        "Take the id from query_memories or `cortex memory list`: it may have been deleted.",
        InputError, status=404, tool="NOT_FOUND",
    ),
    "MEMORY_AMBIGUOUS": ErrorCode(
        "Say which one you mean: SCOPE:ID, or the argument `scope`.",
        InputError, status=400, tool="VALIDATION_ERROR",
    ),
    "MEMORY_REFUSED": ErrorCode(
        "Change the text and add it again; nothing was written.",
        InputError,
    ),
    "RECORD_UNKNOWN": ErrorCode(
        "Take the id from cortex_search, or from a list such as `cortex team thread list`.",
        InputError, status=404, core="NOT_FOUND", tool="NOT_FOUND",
    ),
    "RECORD_INVALID": ErrorCode(
        "Correct what the message names and send it again; nothing was written.",
        InputError, status=400, core="VALIDATION_ERROR", tool="VALIDATION_ERROR",
    ),
    "RECORD_CHANGED": ErrorCode(
        "Read it again and apply the change to its new version; nothing was written.",
        InputError, retryable=True, status=409, core="CONFLICT", tool="VALIDATION_ERROR",
    ),
    "TARGET_NOT_FOUND": ErrorCode(
        "Take the id from cortex_search, or keep it as a draft with cortex_create_draft.",
        InputError, status=404, core="TARGET_NOT_FOUND", tool="TARGET_NOT_FOUND",
    ),
    "SCOPE_NOT_FOUND": ErrorCode(
        "See the subcortexes with cortex_get_bootstrap_pack or `cortex team subcortex list`.",
        InputError, status=404, core="SCOPE_NOT_FOUND", tool="SCOPE_NOT_FOUND",
    ),
    "IDEMPOTENCY_REPLAY": ErrorCode(
        "Use a new key for each write; repeat a key only to retry the same write.",
        InputError, status=409, core="IDEMPOTENCY_CONFLICT", tool="IDEMPOTENCY_REPLAY",
    ),
    "SENSITIVE_BLOCKED": ErrorCode(
        "Remove the secret and say where it is kept instead; nothing was written.",
        InputError, status=403, core="SENSITIVE_BLOCKED", tool="SENSITIVE_BLOCKED",
    ),
    "RIGHTS_MISSING": ErrorCode(
        "Create a draft with cortex_create_draft: a person decides about it.",
        InputError, status=403, core="PERMISSION_DENIED", tool="PERMISSION_DENIED",
    ),
    "APPROVAL_NEEDED": ErrorCode(
        "Leave it to a person, who decides in a terminal of their own.",
        InputError, status=403, core="PERMISSION_DENIED", tool="PERMISSION_DENIED",
    ),
    "RESYNC_NEEDED": ErrorCode(
        "Pull from the start, then compare the local records with the visible ones.",
        InputError, core="RESYNC_NEEDED", core_status=410,
    ),
    "WORKSPACE_AMBIGUOUS": ErrorCode(
        "Give one of the candidates as `workspace`.",
        InputError, status=400,
    ),
    "PATH_OUTSIDE": ErrorCode(
        "Give a path relative to the workspace root, without `..`.",
        FileError, status=403, core="VALIDATION_ERROR", core_status=400, tool="PERMISSION_DENIED",
    ),
    "FILE_NOT_FOUND": ErrorCode(
        "Check the spelling: it may have been moved or deleted; search_code finds the files of a "
        "project.",
        FileError, status=404, tool="NOT_FOUND",
    ),
    "FILE_UNREADABLE": ErrorCode(
        "Run `cortex doctor PATH` to see why the file is left out.",
        FileError, status=403, tool="PERMISSION_DENIED",
    ),
    "IMPORT_UNREADABLE": ErrorCode(
        "Close the program that the file belongs to, check the file with it, then try again.",
        FileError,
    ),
    "PERMISSION_DENIED": ErrorCode(
        "Check who may read and write there, or choose another place with CORTEX_HOME.",
        FileError, tool="PERMISSION_DENIED",
    ),
    "DISK_FULL": ErrorCode(
        "Free some disk space, then try again; nothing that was stored is lost.",
        FileError, retryable=True,
    ),
    "STORE_LOCKED": ErrorCode(
        "Another process is writing; try again in a moment.",
        StoreError, retryable=True,
    ),
    "STORE_CORRUPT": ErrorCode(
        "A project's index is rebuilt automatically, or with `cortex index --force`; for "
        "your home, `cortex doctor` says what is damaged and how to repair it.",
        StoreError,
    ),
    "STORE_LOST": ErrorCode(
        "Run `cortex backup restore` to bring back the last snapshot, or `cortex doctor` to see "
        "what there is.",
        StoreError,
    ),
    "INDEX_DAMAGED": ErrorCode(
        "Try again in a moment: the index is rebuilt from the database, and nothing is lost.",
        StoreError, retryable=True,
    ),
    "STORE_NEWER": ErrorCode(
        "Upgrade Cortex: this store was written by a newer version.",
        StoreError,
    ),
    "STORE_UNWRITABLE": ErrorCode(
        "Make the store's folder writable, or set CORTEX_HOME to a place that is.",
        StoreError,
    ),
    "STORE_READ_ONLY": ErrorCode(
        "Use a command that writes: `cortex kb` brings the store up to date.",
        StoreError,
    ),
    "STORE_IO": ErrorCode(
        "Check the disk or network drive, its quota too, then try again; nothing that was stored "
        "is lost.",
        StoreError, retryable=True,
    ),
    "INDEX_TIMEOUT": ErrorCode(
        "Run it again: indexing continues where it stopped. Reduce maxFiles or exclude large "
        "folders.",
        LimitError, retryable=True, own_category="processing", status=504,
    ),
    "SEARCH_TIMEOUT": ErrorCode(
        "Ask for fewer results or a narrower path, or raise search.timeout.",
        LimitError, retryable=True, own_category="processing", status=504,
    ),
    "REGEX_TIMEOUT": ErrorCode(
        "Simplify the expression: nested repetitions such as (a+)+ take exponential time.",
        LimitError, status=504,
    ),
    "MEMORY_LIMIT": ErrorCode(
        "Raise limits.memory.heap, reduce maxFiles or exclude large folders.",
        LimitError, retryable=True,
    ),
    "MEMORY_SHORT": ErrorCode(
        "End other programs or raise the limit on memory (`ulimit -v`), then try again; nothing "
        "that was stored is lost.",
        LimitError, retryable=True,
    ),
    "DISK_LIMIT": ErrorCode("Raise limits.disk.database or exclude large folders.", LimitError),
    "EMBEDDINGS_LIMIT": ErrorCode(
        "Raise limits.memory.embeddings or exclude large folders; until then search goes by "
        "words.",
        LimitError,
    ),
    "INDEX_BUSY": ErrorCode(
        "Indexing is under way; search works meanwhile. Try again when it is done.",
        LimitError, retryable=True, status=409,
    ),
    "RATE_LIMITED": ErrorCode(
        "Wait as long as `retry_after_seconds` says, then try again.",
        LimitError, retryable=True, status=429, core="RATE_LIMITED", tool="RATE_LIMITED",
    ),
    "WORKER_FAILED": ErrorCode(
        "Check that this user may run the Python that Cortex is installed with, and that memory "
        "is left; then index again.",
        LimitError, retryable=True,
    ),
    "SERVER_LOST": ErrorCode(
        "Check whether it was done, then call it again.",
        NetworkError, retryable=True,
    ),
    "CORTEXD_UNAVAILABLE": ErrorCode(
        "Look at its log with `cortex mcp logs`, or work without it: CORTEX_NO_SIDECAR=1.",
        NetworkError, retryable=True,
    ),
    "EMBEDDER_UNAVAILABLE": ErrorCode(
        "Check that the embedder runs, then try again.",
        NetworkError, retryable=True,
    ),
    "EMBEDDER_REFUSED": ErrorCode(
        "Check the provider's key, model and baseUrl with `cortex config show`; until then search "
        "goes by words.",
        NetworkError,
    ),
    "EMBEDDER_ANSWER": ErrorCode(
        "Check that providers.*.baseUrl leads to an embedding server of the chosen kind.",
        NetworkError,
    ),
    "EMBEDDER_CHANGED": ErrorCode(
        "Serve the earlier model again, or restart Cortex so that everything is embedded by the "
        "new one.",
        NetworkError,
    ),
    "EMBEDDER_MISSING": ErrorCode(
        "Install what is missing, or choose another indexing.embeddingProvider.",
        NetworkError,
    ),
    "QDRANT_UNAVAILABLE": ErrorCode(
        "See `cortex qdrant status`; until it is back, search goes by words, and nothing is lost.",
        NetworkError, retryable=True,
    ),
    "CORE_UNAVAILABLE": ErrorCode(
        "Check the Core's address and that it runs; a connected home keeps working and sends "
        "its writes later.",
        NetworkError, retryable=True,
    ),
    "CORE_DENIED": ErrorCode(
        "Ask the Core's administrator for a token and run `cortex connect URL` again; "
        "nothing is lost.",
        NetworkError,
    ),
    "CORE_REFUSED": ErrorCode(
        "Check the Core's version and log; what was written waits here.",
        NetworkError,
    ),
    "CORE_ANSWER": ErrorCode(
        "Check the address with `cortex status`: it should lead to a Cortex Core.",
        NetworkError,
    ),
    "ADDRESS_REFUSED": ErrorCode("Choose another address or port.", NetworkError),
    "REQUEST_REFUSED": ErrorCode(
        "Send it to the server's own address and path, as JSON, with the token if the server "
        "has one.",
        NetworkError, status=403,
    ),
    "AUTH_REQUIRED": ErrorCode(
        "Send `Authorization: Bearer TOKEN` with a token that `cortex core token create` made.",
        NetworkError, core="AUTH_REQUIRED", core_status=401,
    ),
    "AUTH_EXPIRED": ErrorCode(
        "Ask the Core's administrator for a new token.",
        NetworkError, core="AUTH_EXPIRED", core_status=401,
    ),
    "CANCELLED": ErrorCode(
        "Nothing to do: the request was cancelled.",
        Cancelled, retryable=True, severity="info",
    ),
    "INTERNAL_ERROR": ErrorCode(
        "This is a defect in Cortex; the log has the details.",
        CortexError,
    ),
}  # fmt: skip

# A disk that is full.
_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT)
# A disk that is broken or gone, or that can't hold files of this size.
_BROKEN_ERRORS = (errno.EIO, errno.ENXIO, errno.ENODEV, errno.EFBIG, errno.ESTALE)
SHORTAGES = {
    "DISK_FULL": "the disk is full",
    "STORE_IO": "the disk answers with errors",
    "MEMORY_SHORT": "this process gets no more memory",
}


def error_of(code: str, message: str, context: Mapping[str, object] | None = None) -> CortexError:
    """Rebuild an error that another process reported, in its own class.

    A code that isn't known here becomes INTERNAL_ERROR.
    """
    if code == "CANCELLED":
        return Cancelled(message)
    code = code if code in CODES else "INTERNAL_ERROR"
    return CODES[code].kind(code, message, context=context)


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
