"""Definition of every setting: group, type, default, range, description and trust.

Frozen pydantic models, one per group, nested as in the files; `registry.py` reads its table from
here. Knows no file, no variable's value and no origin. Groups that come from
`codeindex.config.json` are spelled in camelCase there, the others in snake_case; both spellings are
read everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

from cortex.base.settings.values import (
    parse_duration,
    parse_list,
    parse_paths,
    parse_size,
    parse_url,
    refuse_boolean,
)

DEFAULT_EXCLUDES = ("node_modules/**", ".git/**", "dist/**", "build/**", "*.log", "*.tmp")


class Trust(StrEnum):
    """Restriction on a key in a project's own files, which are untrusted."""

    FREE = "yes"
    NEVER = "no"
    LOOPBACK = "loopback only, once allowed"
    INSIDE = "inside the root"
    LOWER = "lower only"
    CAPPED = "lower only, where you set it"
    ON = "on only"
    PROVIDER = "if configured"
    ENVIRONMENT = "environment only"  # not from the home file either


@dataclass(frozen=True, slots=True)
class SettingKind:
    """Name of a value's type in messages and documentation."""

    name: str


@dataclass(frozen=True, slots=True)
class KeyMark:
    """Facts about a setting that pydantic doesn't know.

    Its trust, whether it is a secret, and whether it decides what an index holds.
    """

    trust: Trust = Trust.FREE
    secret: bool = False
    index: bool = False


Whole = Annotated[int, BeforeValidator(refuse_boolean), SettingKind("whole number")]
Number = Annotated[float, BeforeValidator(refuse_boolean), SettingKind("number")]
Size = Annotated[int, BeforeValidator(parse_size), SettingKind("size")]
Duration = Annotated[float, BeforeValidator(parse_duration), SettingKind("duration")]
Texts = Annotated[tuple[str, ...], BeforeValidator(parse_list), SettingKind("list")]
Paths = Annotated[tuple[str, ...], BeforeValidator(parse_paths), SettingKind("list of paths")]
Line = Annotated[
    str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f-\x9f]*$"), SettingKind("line of text")
]
Name = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,100}$"),
    SettingKind("letters, digits, _ and -"),
]
Rates = Annotated[
    tuple[Annotated[int, Field(ge=0, le=1_000_000)], ...],
    BeforeValidator(parse_list),
    SettingKind("a list of five numbers"),
]
Url = Annotated[str, BeforeValidator(parse_url), SettingKind("address")]

_STRATEGIES = {"meaning": "embeddings", "semantic": "embeddings", "words": "tfidf", "fts5": "tfidf"}


def _strategies(value: object) -> object:
    parts = parse_list(value)
    if isinstance(parts, list | tuple):
        return [_STRATEGIES.get(part, part) if isinstance(part, str) else part for part in parts]
    return parts


def _level(value: object) -> object:
    lower = value.lower() if isinstance(value, str) else value
    return "warn" if lower == "warning" else lower


class SettingsGroup(BaseModel):
    """A group of settings.

    `merge.py` validates values one by one, so every field has a default.
    """

    model_config = ConfigDict(
        frozen=True,
        defer_build=True,
        hide_input_in_errors=True,
        coerce_numbers_to_str=True,
        allow_inf_nan=False,
        validate_by_name=True,
        validate_by_alias=True,
    )


class CamelGroup(SettingsGroup):
    """A group with camelCase keys in files."""

    model_config = ConfigDict(alias_generator=to_camel)


class WorkspaceSettings(CamelGroup):
    paths: Annotated[Paths, KeyMark(Trust.INSIDE)] = Field(
        (), description="The folders that are indexed; empty: found by the working directory."
    )
    exclude_patterns: Annotated[Texts, KeyMark(index=True)] = Field(
        DEFAULT_EXCLUDES,
        description="Files left out, as in .gitignore. A list replaces the default.",
    )
    include_patterns: Annotated[Texts, KeyMark(index=True)] = Field(
        ("**/*",), min_length=1, description="Only files that match one of these are indexed."
    )
    max_file_size: Annotated[Size, KeyMark(Trust.CAPPED, index=True)] = Field(
        1_500_000,
        ge=1,
        description="Larger files are skipped; at most limits.processing.max_file_size.",
    )
    max_files: Annotated[Whole, KeyMark(Trust.CAPPED, index=True)] = Field(
        25_000,
        ge=1,
        description="Files beyond this number are skipped; at most limits.processing.max_files.",
    )
    watch_files: bool = Field(
        True,
        description="Follow changes as they are saved; otherwise every indexing.updateInterval.",
    )


class Indexing(CamelGroup):
    chunk_size: Annotated[Whole, KeyMark(index=True)] = Field(
        250, ge=50, le=1000, description="Every chunker's target, in tokens."
    )
    chunk_overlap: Annotated[Whole, KeyMark(index=True)] = Field(
        0,
        ge=0,
        le=500,
        description="Tokens that two chunks of the line chunker share; at most half of chunkSize.",
    )
    strategies: Annotated[
        tuple[Literal["embeddings", "tfidf"], ...],
        BeforeValidator(_strategies),
        SettingKind("list"),
        KeyMark(index=True),
    ] = Field(
        ("embeddings", "tfidf"),
        min_length=1,
        description="What is indexed: meaning (embeddings) and words (tfidf). Words always are.",
    )
    embedding_provider: Annotated[
        Literal["local", "onnx", "openai", "ollama", "cortex-embed", "none"],
        KeyMark(Trust.PROVIDER, index=True),
    ] = Field(
        "local",
        description="Who turns text into vectors: local is the model that comes along, none "
        "leaves only words. A project may choose "
        "openai, ollama or cortex-embed only where you configured it: a key, another baseUrl, "
        "for ollama another model.",
    )
    update_interval: Duration = Field(
        60.0,
        ge=1,
        description="Time between two comparing scans where watching is off or impossible.",
    )
    batch_size: Whole = Field(
        100,
        ge=1,
        le=10_000,
        description="Files that are stored in one step; earlier where they are large or slow.",
    )
    workers: Annotated[Whole, KeyMark(Trust.LOWER)] = Field(
        0, ge=0, le=64, description="Processes that read and cut files; 0: by the number of cores."
    )


class SearchSettings(CamelGroup):
    default_max_results: Whole = Field(
        50, ge=1, le=200, description="Results where a question doesn't say how many."
    )
    relevance_threshold: Number = Field(
        0.65, ge=0, le=1, description="Results below this relevance are left out."
    )
    timeout: Annotated[Duration, KeyMark(Trust.LOWER)] = Field(
        30.0, gt=0, description="A search that takes longer ends with SEARCH_TIMEOUT."
    )
    enable_caching: bool = Field(True, description="Remember answers until something changes.")
    cache_size: Annotated[Size, KeyMark(Trust.LOWER)] = Field(
        500_000_000, ge=0, description="Most that remembered answers may take."
    )
    budget: Annotated[Whole, KeyMark(Trust.LOWER)] = Field(
        4000,
        ge=200,
        le=1_000_000,
        description="Tokens that an answer may cost where the question doesn't say.",
    )


class OpenAI(CamelGroup):
    api_key: Annotated[str, KeyMark(Trust.NEVER, secret=True)] = Field(
        "",
        repr=False,
        description="Key for the OpenAI-compatible server, from a file that only you can read.",
    )
    # Another model may cost more.
    model: Annotated[str, KeyMark(Trust.NEVER, index=True)] = Field(
        "text-embedding-3-small", min_length=1, description="Embedding model."
    )
    dimensions: Annotated[Whole, KeyMark(index=True)] = Field(
        0,
        ge=0,
        le=100_000,
        description="Length of the vectors, where the model can shorten them; 0: as it makes them.",
    )
    batch_size: Whole = Field(
        100, ge=1, le=2048, description="Texts in one request; at most limits.network.batch_size."
    )
    # The key is sent there.
    base_url: Annotated[Url, KeyMark(Trust.NEVER)] = Field(
        "https://api.openai.com/v1",
        min_length=1,
        description="Address of the OpenAI-compatible server.",
    )


class Ollama(CamelGroup):
    # Texts are sent there.
    base_url: Annotated[Url, KeyMark(Trust.NEVER)] = Field(
        "http://localhost:11434", min_length=1, description="Address of Ollama."
    )
    model: Annotated[str, KeyMark(index=True)] = Field(
        "nomic-embed-text", min_length=1, description="Embedding model."
    )
    timeout: Duration = Field(
        30.0,
        gt=0,
        description="Longest wait for one request; at most limits.network.embedding_timeout.",
    )


class CortexEmbed(CamelGroup):
    # The token is sent there.
    base_url: Annotated[Url, KeyMark(Trust.NEVER)] = Field(
        "http://127.0.0.1:8121",
        min_length=1,
        description="Address of a `cortex models serve`, or of a cortex-embed.",
    )
    token: Annotated[str, KeyMark(Trust.NEVER, secret=True)] = Field(
        "", repr=False, description="Its token, from a file that only you can read."
    )


class Providers(CamelGroup):
    openai: OpenAI = OpenAI.model_construct()
    ollama: Ollama = Ollama.model_construct()
    cortex_embed: CortexEmbed = CortexEmbed.model_construct()


class ServerSettings(CamelGroup):
    name: Line = Field(
        "cortex", min_length=1, max_length=100, description="Name shown to MCP clients."
    )
    version: Line = Field(
        "", max_length=100, description="Version shown to MCP clients; empty: the installed one."
    )
    transport: Annotated[Literal["stdio", "http"], KeyMark(Trust.NEVER)] = Field(
        "stdio",
        description="How `cortex mcp` speaks without --http; http: at 127.0.0.1:8765, path /mcp.",
    )
    log_level: Annotated[Literal["debug", "info", "warn", "error"], BeforeValidator(_level)] = (
        Field(
            "info",
            description="What is logged; debug: each call of a tool, with its time and hits, "
            "without content.",
        )
    )
    enable_telemetry: bool = Field(
        False,
        description="Accepted for compatibility: there is no telemetry, and turning it on is "
        "answered with a warning.",
    )
    local_only: Annotated[bool, KeyMark(Trust.ON)] = Field(
        False, description="No embedder but local ones, no socket but loopback."
    )
    idle_timeout: Annotated[Duration, KeyMark(Trust.NEVER)] = Field(
        1800.0, ge=0, description="How long cortexd stays without clients; 0: until it is stopped."
    )
    memory: Annotated[Size, KeyMark(Trust.NEVER)] = Field(
        2_000_000_000,
        ge=0,
        description="Above this cortexd closes the projects that were unused longest, until "
        "their next call; 0: no limit.",
    )
    rate_limit: Annotated[Whole, KeyMark(Trust.NEVER)] = Field(
        1200,
        ge=0,
        le=1_000_000,
        description="Requests per minute that one HTTP client may send; 0: any number.",
    )
    chunks_dir: Annotated[str, KeyMark(Trust.INSIDE)] = Field(
        ".cortex/chunks",
        min_length=1,
        description="Folder of the chunk files, relative to the workspace.",
    )
    http_token: Annotated[str, KeyMark(Trust.ENVIRONMENT, secret=True)] = Field(
        "",
        repr=False,
        description="Token that HTTP clients must send; needed to serve beyond this machine.",
    )


class Retention(CamelGroup):
    days: Annotated[Whole, KeyMark(Trust.LOWER)] = Field(
        30,
        ge=1,
        le=36_500,
        description="How long the search cache, logs and the operations log are kept.",
    )


class MemoryLimits(SettingsGroup):
    heap: Annotated[Size, KeyMark(Trust.LOWER)] = Field(
        1_000_000_000, ge=1, description="Memory that indexing may take."
    )
    cache: Annotated[Size, KeyMark(Trust.LOWER)] = Field(
        500_000_000, ge=0, description="Memory for remembered answers."
    )
    embeddings: Annotated[Size, KeyMark(Trust.LOWER)] = Field(
        300_000_000,
        ge=0,
        description="Memory for vectors; beyond it EMBEDDINGS_LIMIT, and search goes by words.",
    )
    buffer: Annotated[Size, KeyMark(Trust.LOWER)] = Field(
        200_000_000, ge=1, description="Memory for files that wait to be stored."
    )


class DiskLimits(SettingsGroup):
    database: Annotated[Size, KeyMark(Trust.LOWER)] = Field(
        10_000_000_000, ge=1, description="Disk that a store may take."
    )
    cache: Annotated[Size, KeyMark(Trust.LOWER)] = Field(
        5_000_000_000,
        ge=0,
        description="Disk for remembered answers; they are kept in memory only, so this is "
        "never reached.",
    )
    logs: Annotated[Size, KeyMark(Trust.LOWER)] = Field(
        1_000_000_000,
        ge=0,
        description="Disk for the operations log; its oldest lines are removed first. All other "
        "logs go to stderr.",
    )


class NetworkLimits(SettingsGroup):
    embedding_timeout: Annotated[Duration, KeyMark(Trust.LOWER)] = Field(
        30.0, gt=0, description="Longest wait for one embedding request."
    )
    batch_size: Annotated[Whole, KeyMark(Trust.LOWER)] = Field(
        100, ge=1, description="Most texts in one embedding request."
    )
    concurrent_requests: Annotated[Whole, KeyMark(Trust.LOWER)] = Field(
        10, ge=1, description="Most embedding requests of one project at once."
    )


class ProcessingLimits(SettingsGroup):
    max_files: Annotated[Whole, KeyMark(Trust.LOWER, index=True)] = Field(
        100_000, ge=1, description="The most that workspace.maxFiles may be."
    )
    max_file_size: Annotated[Size, KeyMark(Trust.LOWER, index=True)] = Field(
        5_000_000, ge=1, description="The most that workspace.maxFileSize may be."
    )
    chunk_timeout: Annotated[Duration, KeyMark(Trust.LOWER)] = Field(
        10.0, gt=0, description="Time for one file; then it is skipped."
    )
    index_timeout: Annotated[Duration, KeyMark(Trust.LOWER)] = Field(
        1800.0, gt=0, description="Time for one index run; then INDEX_TIMEOUT."
    )


class LimitSettings(SettingsGroup):
    memory: MemoryLimits = MemoryLimits.model_construct()
    disk: DiskLimits = DiskLimits.model_construct()
    network: NetworkLimits = NetworkLimits.model_construct()
    processing: ProcessingLimits = ProcessingLimits.model_construct()


class ChunkPaths(SettingsGroup):
    code: Texts = Field((), description="Chunk files: patterns of the code that they cover.")
    docs: Texts = Field((), description="Chunk files: patterns of the documents that they cover.")
    ignore: Annotated[Texts, KeyMark(index=True)] = Field(
        (), description="Patterns left out, in addition to workspace.excludePatterns."
    )


class Chunking(SettingsGroup):
    strategies: Annotated[
        tuple[Literal["symbols", "definitions", "data"], ...],
        BeforeValidator(parse_list),
        SettingKind("list"),
    ] = Field(
        ("symbols", "definitions", "data"), description="Chunk files: the kinds of code chunks."
    )
    doc_chunk_size: Whole = Field(
        400, ge=1, description="Chunk files: size of a document's chunk, in tokens."
    )
    doc_overlap: Whole = Field(
        50, ge=0, description="Chunk files: tokens that two chunks of a document share."
    )
    code_chunk_size: Whole = Field(
        0, ge=0, description="Chunk files: size of a code chunk, in tokens; 0: whole definitions."
    )
    overlap: Whole = Field(0, ge=0, description="Chunk files: tokens that two code chunks share.")


class EmbeddingSettings(SettingsGroup):
    provider: Literal["local", "openai"] = Field(
        "local", description="Chunk files: who made their vectors."
    )
    model: str = Field(
        "", description="Chunk files: the model of their vectors; empty: as the files say."
    )
    dimensions: Whole = Field(
        0,
        ge=0,
        le=100_000,
        description="Chunk files: length of their vectors; 0: as the files say.",
    )
    # Queries are sent there.
    endpoint: Annotated[Url, KeyMark(Trust.LOOPBACK)] = Field(
        "",
        description="Chunk files: address of the server that embeds queries; empty: a model of "
        "our own, where the files are of one.",
    )
    allowed_projects: Annotated[Paths, KeyMark(Trust.NEVER)] = Field(
        (),
        description="Chunk files: projects that may name an embedding server on this machine in "
        "files of their own; "
        "`cortex chunks allow` adds one.",
    )
    required: bool = Field(
        False,
        description="Chunk files: no answers by words alone; without the server there is an error.",
    )
    # It starts a process.
    autostart: Annotated[bool, KeyMark(Trust.NEVER)] = Field(
        False,
        description="Chunk files: start `cortex models serve` at a loopback endpoint where "
        "none answers.",
    )


class Storage(SettingsGroup):
    cache_location: Annotated[str, KeyMark(Trust.INSIDE)] = Field(
        "", description="Chunk files: folder of another indexer's cache. No effect yet."
    )
    branch_cache_enabled: bool = Field(
        True, description="Chunk files: another indexer's cache for each branch. No effect yet."
    )
    cache_max_age_days: Whole = Field(
        30,
        ge=0,
        description="Chunk files: age at which another indexer drops a cache. No effect yet.",
    )
    cache_max_size_mb: Whole = Field(
        500,
        ge=0,
        description="Chunk files: most that another indexer's caches may take, in MB. No effect "
        "yet.",
    )


def _redact(value: object) -> object:
    # YAML reads a bare off as false.
    return "off" if value is False else value


class Security(SettingsGroup):
    redact: Annotated[
        Literal["off", "answers", "index"],
        BeforeValidator(_redact),
        KeyMark(Trust.NEVER, index=True),
    ] = Field(
        "answers",
        description="Secrets in files: redacted in answers and exports, also kept out of the "
        "index, or shown (off).",
    )


class Rag(SettingsGroup):
    fusion: Annotated[Literal["auto", "rrf"], KeyMark(Trust.NEVER)] = Field(
        "auto",
        description="Documents: how words and meaning become one ranking: auto adds up "
        "evidence, rrf adds up ranks (k = 60).",
    )
    min_score: Annotated[Number, KeyMark(Trust.NEVER)] = Field(
        0.0, ge=0, le=1, description="Documents: results below this score are left out."
    )
    semantic_weight: Annotated[Number, KeyMark(Trust.NEVER)] = Field(
        0.5,
        ge=0,
        le=1,
        description="Documents: weight of meaning; 0.5 as measured, 1 twice that, 0 words only.",
    )
    enable_mmr: Annotated[bool, KeyMark(Trust.NEVER)] = Field(
        True, description="Documents: prefer results that differ."
    )
    mmr_lambda: Annotated[Number, KeyMark(Trust.NEVER)] = Field(
        0.7, ge=0, le=1, description="Documents: relevance against difference; 1: relevance alone."
    )


class KbQdrant(SettingsGroup):
    # Vectors of documents are sent there.
    url: Annotated[Url, KeyMark(Trust.NEVER)] = Field(
        "",
        description="Documents: address of a Qdrant server that keeps their vectors; empty: "
        "files do.",
    )
    api_key: Annotated[str, KeyMark(Trust.NEVER, secret=True)] = Field(
        "",
        repr=False,
        description="Documents: key for that server, from a file that only you can read.",
    )
    collection: Annotated[Name, KeyMark(Trust.NEVER)] = Field(
        "cortex_kb", description="Documents: what the names of its collections begin with."
    )


class Kb(SettingsGroup):
    rag: Rag = Rag.model_construct()
    qdrant: KbQdrant = KbQdrant.model_construct()
    max_file_size: Annotated[Size, KeyMark(Trust.NEVER, index=True)] = Field(
        50_000_000, ge=1, description="Documents: larger files are skipped, and listed as such."
    )
    read_timeout: Annotated[Duration, KeyMark(Trust.NEVER)] = Field(
        60.0,
        gt=0,
        description="Documents: time for one file; then it is skipped, and listed as such.",
    )


class KbSearch(SettingsGroup):
    default_mode: Annotated[Literal["hybrid", "semantic", "fts5"], KeyMark(Trust.NEVER)] = Field(
        "hybrid", description="Documents: mode of a search that names none; fts5: words."
    )
    default_limit: Annotated[Whole, KeyMark(Trust.NEVER)] = Field(
        10,
        ge=1,
        le=200,
        description="Documents: results of a search that doesn't say how many; at most max_limit.",
    )
    max_limit: Annotated[Whole, KeyMark(Trust.NEVER)] = Field(
        50, ge=1, le=200, description="Documents: most results of a search."
    )
    semantic_fallback: Annotated[bool, KeyMark(Trust.NEVER)] = Field(
        True,
        description="Documents: answer by words where meaning is unavailable; false: that is an "
        "error.",
    )


class KbLogging(SettingsGroup):
    level: Annotated[
        Literal["debug", "info", "warn", "error"], BeforeValidator(_level), KeyMark(Trust.NEVER)
    ] = Field(
        "info",
        description="Documents: what is logged of their tools, where server.logLevel isn't set; "
        "debug: each call, without content.",
    )
    to_stderr: Annotated[bool, KeyMark(Trust.NEVER)] = Field(
        False,
        description="Documents: log to the client's stderr, too; without cortexd nowhere else.",
    )


class McpKb(SettingsGroup):
    search: KbSearch = KbSearch.model_construct()
    logging: KbLogging = KbLogging.model_construct()


class Mcp(SettingsGroup):
    kb: McpKb = McpKb.model_construct()


class MemorySettings(SettingsGroup):
    path: Annotated[Line, KeyMark(Trust.NEVER)] = Field(
        "",
        description="Memories: folder with claude-mem.db and scopes/NAME/memory.db; empty: "
        "~/.ack-mem.",
    )
    database: Annotated[Line, KeyMark(Trust.NEVER)] = Field(
        "",
        description="Memories: a claude-mem database to read; empty: claude-mem.db in memory.path.",
    )
    claude_mem: Annotated[Line, KeyMark(Trust.NEVER)] = Field(
        "", description="Memories: claude-mem's own folder; empty: ~/.claude-mem."
    )
    scope: Annotated[Line, KeyMark(Trust.NEVER)] = Field(
        "", description="Memories: the current scope; empty: found by the project."
    )
    uncurated: Annotated[Literal["approved", "staging"], KeyMark(Trust.NEVER)] = Field(
        "approved",
        description="Memories: what undecided rows of other products' databases count as.",
    )


class TeamSettings(SettingsGroup):
    agent_tier: Annotated[Whole, KeyMark(Trust.NEVER)] = Field(
        1,
        ge=1,
        le=2,
        description="Team: what agents may do: 1 observes and drafts, 2 also updates tasks.",
    )
    publish_comments: Annotated[bool, KeyMark(Trust.NEVER)] = Field(
        False, description="Team: agents of tier 2 publish comments instead of drafting them."
    )
    embed_sensitive: Annotated[bool, KeyMark(Trust.NEVER)] = Field(
        False,
        description="Team: vectors are made of sensitive records, too; otherwise only words "
        "find them.",
    )
    name: Annotated[Line, KeyMark(Trust.NEVER)] = Field(
        "",
        description="Team: what others call you in mentions and assignments; empty: your login "
        "name.",
    )
    approval: Annotated[Literal["terminal", "studio"], KeyMark(Trust.NEVER)] = Field(
        "terminal",
        description="Team: where a person decides: commands ask on a terminal; studio: only on "
        "the page of a later version.",
    )
    plugins: Annotated[Texts, KeyMark(Trust.NEVER)] = Field(
        ("git",), description="Team: plugins that are used."
    )
    # The team's records and a token are sent there.
    server: Annotated[Url, KeyMark(Trust.NEVER)] = Field(
        "",
        description="Team: address of the Core that `cortex connect` and `cortex sync` join "
        "where none is joined yet.",
    )
    sync_seconds: Annotated[Duration, KeyMark(Trust.NEVER)] = Field(
        30.0,
        ge=0,
        le=86_400,
        description="Team: how often cortexd syncs by itself; 0: only `cortex sync` does.",
    )


class CoreSettings(SettingsGroup):
    host: Annotated[Line, KeyMark(Trust.NEVER)] = Field(
        "127.0.0.1", min_length=1, description="Core: address that `cortex core serve` listens on."
    )
    port: Annotated[Whole, KeyMark(Trust.NEVER)] = Field(
        8790, ge=0, le=65_535, description="Core: port that it listens on; 0: any free one."
    )
    rates: Annotated[Rates, KeyMark(Trust.NEVER)] = Field(
        (60, 120, 300, 600, 1200),
        min_length=5,
        max_length=5,
        description="Core: requests per minute of a principal of tier 0 to 4; 0: any number.",
    )
    log_format: Annotated[Literal["json", "text"], KeyMark(Trust.NEVER)] = Field(
        "json", description="Core: how its log is written to stderr."
    )


class Groups(SettingsGroup):
    """All groups at their defaults."""

    workspace: WorkspaceSettings = WorkspaceSettings.model_construct()
    indexing: Indexing = Indexing.model_construct()
    search: SearchSettings = SearchSettings.model_construct()
    providers: Providers = Providers.model_construct()
    server: ServerSettings = ServerSettings.model_construct()
    retention: Retention = Retention.model_construct()
    limits: LimitSettings = LimitSettings.model_construct()
    paths: ChunkPaths = ChunkPaths.model_construct()
    chunking: Chunking = Chunking.model_construct()
    embedding: EmbeddingSettings = EmbeddingSettings.model_construct()
    storage: Storage = Storage.model_construct()
    security: Security = Security.model_construct()
    kb: Kb = Kb.model_construct()
    mcp: Mcp = Mcp.model_construct()
    memory: MemorySettings = MemorySettings.model_construct()
    team: TeamSettings = TeamSettings.model_construct()
    core: CoreSettings = CoreSettings.model_construct()
