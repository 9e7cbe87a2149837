"""Two sets of forty questions to a mixed home, ten for each type of answer.

Each set was written before anything of it was asked, and not changed since: a question that fails
is given as one. "In other words" is asked without knowing how the answer is worded, and
shares hardly a word with it; "as people ask" is asked by a team member, with the words that
are usual for the thing, but not its title or identifier, and about other answers. Half of them are
phrases, half of them sentences, as people and agents type them. The right answer is given as a key of
mixed_texts.py, as a page of docs/, or as a file of src/cortex and what is defined in it.
"""

from __future__ import annotations

from dataclasses import dataclass

RECORD, DOCUMENT, MEMORY, FUNCTION = "record", "document", "memory", "function"
TYPES = (RECORD, DOCUMENT, MEMORY, FUNCTION)


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and everything that answers it."""

    type: str
    text: str
    right: tuple[str, ...]


IN_OTHER_WORDS = (
    # A comment is opened by its thread, so either is right.
    Question(RECORD, "how do we withdraw a version that turned out to be broken", ("withdraw",)),
    Question(
        RECORD, "what did we decide about support for older Python interpreters?", ("interpreters",)
    ),
    Question(RECORD, "builds for ARM laptops with Windows", ("windows-arm",)),
    Question(RECORD, "what happened when the demo machine ran out of disk space?", ("demo-disk",)),
    Question(
        RECORD, "starting up is slow when the home directory is on NFS", ("nfs-comment", "nfs")
    ),
    Question(RECORD, "results of fuzzing the ipynb parser", ("fuzz-notebooks",)),
    Question(RECORD, "How much electricity does a laptop need to build the vectors?", ("power",)),
    Question(RECORD, "is anybody renewing the code signing certificate", ("certificate",)),
    Question(RECORD, "state of the Japanese translation", ("japanese",)),
    Question(RECORD, "Who takes care of users with screen readers?", ("accessibility",)),
    #
    Question(
        DOCUMENT, "what works while the vector database server can't be reached?", ("qdrant.md",)
    ),
    Question(
        DOCUMENT, "several editors sharing one background process", ("daemon.md", "operations.md")
    ),
    Question(
        DOCUMENT,
        "undo what the installer wrote into my editor's configuration",
        ("clients.md", "operations.md"),
    ),
    Question(DOCUMENT, "Why was my scanned PDF left out?", ("documents.md",)),
    Question(
        DOCUMENT,
        "does an environment variable win over the project's config file",
        ("settings.md",),
    ),
    Question(DOCUMENT, "calling a tool with curl instead of MCP", ("http.md",)),
    Question(
        DOCUMENT, "Does the bundled model understand languages other than English?", ("model.md",)
    ),
    Question(DOCUMENT, "does it phone home: telemetry, update checks, downloads", ("security.md",)),
    Question(DOCUMENT, "how do I write an extension that adds to a context pack?", ("plugins.md",)),
    Question(
        DOCUMENT,
        "add the chunk search to an MCP server that I wrote myself",
        ("composition.md", "chunks.md"),
    ),
    #
    Question(MEMORY, "why do large downloads break off after a minute in the office", ("proxy",)),
    Question(MEMORY, "test machine whose time is wrong", ("clock",)),
    Question(
        MEMORY, "The debugger doesn't stop at breakpoints when I run pytest", ("breakpoints",)
    ),
    Question(MEMORY, "how does Ines want her reviews split", ("reviews",)),
    Question(MEMORY, "watcher test that fails now and then on Macs", ("apfs",)),
    Question(MEMORY, "where did the Grafana graphs go?", ("grafana",)),
    Question(
        MEMORY, "At what time of night must the replica's schema not be changed?", ("replica",)
    ),
    Question(MEMORY, "make building the Docker image faster", ("docker",)),
    Question(MEMORY, "are we allowed to distribute the font of the slides", ("font",)),
    Question(MEMORY, "which customer needs semicolons in the CSV export?", ("semicolons",)),
    #
    Question(
        FUNCTION,
        "guess the character set of a file's bytes and drop the BOM",
        ("readers/encoding.py#decode",),
    ),
    Question(
        FUNCTION,
        "which repository does a linked git worktree belong to",
        ("paths.py#main_worktree",),
    ),
    Question(FUNCTION, "break camelCase names into their parts", ("text.py#split_identifier",)),
    Question(FUNCTION, "Where are credentials in a text blanked out?", ("leaks.py#redact",)),
    Question(
        FUNCTION,
        "find the locks that a killed background server left on disk",
        ("daemon/control.py#left_behind",),
    ),
    Question(
        FUNCTION,
        "how do we give freed memory back to the operating system?",
        ("process.py#give_memory_back",),
    ),
    Question(
        FUNCTION,
        "roman numerals and letters of numbered lists",
        ("readers/numbers.py#counted", "readers/numbers.py#_roman"),
    ),
    Question(
        FUNCTION,
        "stop a path from leaving the folder through a symlink",
        ("paths.py#resolve_inside",),
    ),
    Question(
        FUNCTION, "Is a pagination cursor of another query refused?", ("paging.py#read_cursor",)
    ),
    Question(
        FUNCTION,
        "does this clone lack the older commits of its history",
        ("sources/git.py#is_shallow",),
    ),
)

AS_PEOPLE_ASK = (
    Question(RECORD, "which licenses are allowed for third-party dependencies?", ("licences",)),
    Question(RECORD, "how do we measure latency, p95 or median", ("metrics",)),
    Question(RECORD, "postmortem about the CI runners that did nothing over the weekend", ("outage-report",)),
    Question(RECORD, "Do we publish wheels for Alpine Linux?", ("musl", "musl-comment")),
    Question(RECORD, "why did the browser warn about the demo site's certificate", ("demo-cert",)),
    Question(RECORD, "retrospective: what went wrong in the autumn release?", ("retro",)),
    Question(RECORD, "what is the biggest customer repository we have indexed", ("customer-size",)),
    Question(RECORD, "which tests fail without a network connection?", ("coffee",)),
    Question(RECORD, "task for reducing the number of images in the container registry", ("quota",)),
    Question(RECORD, "what did users say in the survey", ("survey",)),
    #
    Question(DOCUMENT, "how do I use Ollama for the embeddings?", ("embedders.md",)),
    Question(DOCUMENT, "searching several workspaces with one MCP server", ("code.md",)),
    Question(DOCUMENT, "Where do we deviate from the MCP specification?", ("conformance.md",)),
    Question(DOCUMENT, "list of all error codes and what to do about them", ("errors.md",)),
    Question(DOCUMENT, "Which files are skipped when a folder is indexed?", ("files.md",)),
    Question(DOCUMENT, "install cortex and run a first search", ("getting-started.md",)),
    Question(DOCUMENT, "can memories from claude-mem be imported?", ("memory.md", "commands.md")),
    Question(DOCUMENT, "using the search from a Python script", ("python.md",)),
    Question(DOCUMENT, "how is the score of a search hit computed, and how can I see its parts", ("ranking.md",)),
    Question(DOCUMENT, "command line options for listing memories", ("commands.md",)),
    #
    Question(MEMORY, "why does the VPN connection drop at noon?", ("vpn",)),
    Question(MEMORY, "the linker gets killed on arm-01", ("arm-01",)),
    Question(MEMORY, "how many days does Prometheus keep metrics", ("prometheus",)),
    Question(MEMORY, "Are our database backups ever test-restored?", ("backup",)),
    Question(MEMORY, "Docker buildx cache is empty in every pipeline run", ("buildx",)),
    Question(MEMORY, "what date format does Kestrel want in its reports?", ("kestrel",)),
    Question(MEMORY, "when is the daily stand-up", ("standup",)),
    Question(MEMORY, "adapter for the projector in meeting room B", ("room",)),
    Question(MEMORY, "How did we speed up the regex of the log parser?", ("regex",)),
    Question(MEMORY, "minimum Rust version for building the index library", ("rust-toolchain",)),
    #
    Question(FUNCTION, "where do we parse durations like 30s or 5m in settings?", ("settings/values.py#parse_duration",)),
    Question(FUNCTION, "detect the delimiter of a CSV file", ("readers/sheets.py#_delimiter",)),
    Question(FUNCTION, "Which function runs the migrations of the database schema?", ("store/schema.py#migrate",)),
    Question(FUNCTION, "recently changed files from git log", ("sources/git.py#recent_files",)),
    Question(FUNCTION, "remove repeated headers and footers from PDF pages", ("readers/pdf.py#_drop_running_lines",)),
    Question(FUNCTION, "how do we estimate how many tokens a text has?", ("text.py#estimate_tokens",)),
    Question(
        FUNCTION, "convert a gitignore pattern into a regular expression", ("sources/ignore.py#_expression", "sources/ignore.py#_translate")
    ),
    Question(FUNCTION, "how similar are two memories, for finding duplicates", ("memories/hygiene.py#likeness",)),
    Question(FUNCTION, "check whether the HTTP server's host is localhost or a loopback address", ("surfaces/http_door.py#is_loopback",)),
    Question(FUNCTION, "how many inotify watches does watching a folder need?", ("sources/watch.py#watches_needed",)),
)  # fmt: skip

SETS = (("in other words", IN_OTHER_WORDS), ("as people ask", AS_PEOPLE_ASK))
