"""Origins of settings, their precedence, and the warnings about bad values."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from cortex.base.errors import ConfigError
from cortex.base.settings import KEYS, Settings, environment, find_conduit, load, load_again
from cortex.base.settings import load as load_settings


class HomeAndProject:
    """A person's home and a project, with the files that a test writes."""

    def __init__(self, folder: Path) -> None:
        self.user, self.root = folder / "user", folder / "project"
        self.user.mkdir()
        self.root.mkdir()
        self.variables: dict[str, str] = {}

    @property
    def home_file(self) -> Path:
        return self.user / ".cortex" / "config.yml"

    def write(self, path: str | Path, content: object) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(
            content if isinstance(content, str) else json.dumps(content), encoding="utf-8"
        )
        return file

    def load(self, **flags: object) -> Settings:
        given = {name.replace("__", "."): value for name, value in flags.items()}
        return load_settings(
            self.root, environment=self.variables, flags=given, user_home=self.user
        )


@pytest.fixture
def place(tmp_path: Path) -> HomeAndProject:
    return HomeAndProject(tmp_path)


def test_every_setting_has_its_default_without_files_and_variables(place: HomeAndProject) -> None:
    settings = place.load()
    assert settings.warnings == ()
    assert {key.name: settings.value(key.name) for key in KEYS} == {
        key.name: key.default for key in KEYS
    }
    assert {settings.origin(key.name) for key in KEYS} == {"default"}
    assert settings.workspace.max_file_size == 1_500_000
    assert settings.limits.processing.index_timeout == 1800.0


def test_origins_of_settings_have_their_order_of_precedence(place: HomeAndProject) -> None:
    seen = [place.load().origin("indexing.chunkSize")]
    files = [place.home_file, ".cortex/config.yml", "codeindex.config.json", ".cortex/config.json"]
    for number, file in enumerate(files, start=1):
        written = place.write(file, {"indexing": {"chunkSize": 100 - number}})
        settings = place.load()
        assert settings.indexing.chunk_size == 100 - number
        assert settings.origin("indexing.chunkSize") == str(written)
        seen.append(settings.origin("indexing.chunk_size"))
    for number, name in enumerate(["CODEINDEX_CHUNK_SIZE", "CORTEX_INDEXING_CHUNK_SIZE"], start=5):
        place.variables[name] = str(100 - number)
        settings = place.load()
        assert settings.indexing.chunk_size == 100 - number
        assert settings.origin("indexing.chunkSize") == f"environment {name}"
    settings = place.load(indexing__chunkSize=93)
    assert (settings.indexing.chunk_size, settings.origin("indexing.chunkSize")) == (
        93,
        "flag --chunk-size",
    )
    changed = settings.changed({"indexing.chunkSize": 92})
    assert (changed.indexing.chunk_size, changed.origin("indexing.chunkSize")) == (92, "runtime")
    assert settings.indexing.chunk_size == 93
    assert changed.warnings == ()
    assert len(set(seen)) == 5


def test_home_file_wins_over_the_document_keys_of_conduit(place: HomeAndProject) -> None:
    conduit = place.write(
        place.user / ".conduit" / "conduit.yaml",
        "kb:\n  rag: {min_score: 0.2, mmr_lambda: 0.6, reranker: x}\nai: {provider: x}\nworkspace: {maxFiles: 3}\n",
    )
    settings = place.load()
    assert (settings.kb.rag.min_score, settings.kb.rag.mmr_lambda) == (0.2, 0.6)
    assert settings.origin("kb.rag.min_score") == str(conduit)
    assert settings.workspace.max_files == 25_000
    # Of the rest Conduit may know more
    assert settings.warnings == (f"{conduit}: unknown key 'kb.rag.reranker'",)
    own = place.write(place.home_file, {"kb": {"rag": {"min_score": 0.3}}})
    settings = place.load()
    assert (settings.kb.rag.min_score, settings.kb.rag.mmr_lambda) == (0.3, 0.6)
    assert settings.origin("kb.rag.min_score") == str(own)
    place.variables["CORTEX_KB_RAG_MIN_SCORE"] = "0.4"
    assert place.load().kb.rag.min_score == 0.4


def test_conduit_home_is_the_folder_of_its_file(place: HomeAndProject) -> None:
    place.write(place.user / "elsewhere" / "conduit.yaml", "mcp: {kb: {search: {max_limit: 9}}}")
    place.variables["CONDUIT_HOME"] = "~/elsewhere"
    settings = place.load()
    assert settings.mcp.kb.search.max_limit == 9
    assert settings.mcp.kb.search.default_limit == 9
    assert find_conduit(place.variables, place.user) == place.user / "elsewhere"
    assert find_conduit({}, place.user) == place.user / ".conduit"


def test_variables_of_conduit_win_over_every_file(place: HomeAndProject) -> None:
    place.write(
        place.home_file,
        {"mcp": {"kb": {"search": {"max_limit": 9}, "logging": {"level": "error"}}}},
    )
    place.variables |= {"CONDUIT_MCP_MAX_LIMIT": "20", "CONDUIT_MCP_LOG_LEVEL": "WARNING"}
    settings = place.load()
    assert (settings.mcp.kb.search.max_limit, settings.mcp.kb.logging.level) == (20, "warn")
    assert settings.origin("mcp.kb.search.max_limit") == "environment CONDUIT_MCP_MAX_LIMIT"
    place.variables["CONDUIT_MCP_MAX_LIMIT"] = "many"
    with pytest.raises(ConfigError, match="CONDUIT_MCP_MAX_LIMIT"):
        place.load()


def test_bad_value_in_the_conduit_file_is_a_warning_with_the_default(place: HomeAndProject) -> None:
    place.write(
        place.user / ".conduit" / "conduit.yaml",
        "mcp: {kb: {search: {default_mode: magic}}}\nkb: 3\n",
    )
    settings = place.load()
    assert settings.mcp.kb.search.default_mode == "hybrid"
    assert len(settings.warnings) == 2


def test_absent_flag_leaves_the_value_unchanged(place: HomeAndProject) -> None:
    assert place.load(workspace__paths=None).origin("workspace.paths") == "default"
    assert place.load(workspace__paths=["x"]).origin("workspace.paths") == "flag --workspace"


def test_camel_case_and_snake_case_keys_are_read_everywhere(place: HomeAndProject) -> None:
    place.write(
        "codeindex.config.json",
        {"$schema": "x", "workspace": {"max_files": 10}, "limits": {"disk": {"logs": 5}}},
    )
    place.write(
        ".cortex/config.yml",
        "chunking: {docChunkSize: 300, doc_overlap: 20}\nsearch.cache_size: 1MB\n",
    )
    settings = place.load()
    assert (settings.workspace.max_files, settings.limits.disk.logs) == (10, 5)
    assert (settings.chunking.doc_chunk_size, settings.chunking.doc_overlap) == (300, 20)
    assert settings.search.cache_size == 1_000_000
    assert settings.warnings == ()


def test_ignored_paths_of_chunk_files_join_the_excluded_patterns(place: HomeAndProject) -> None:
    place.write(
        ".cortex/config.yml",
        "paths: {ignore: [vendor/**, '*.log']}\nworkspace: {excludePatterns: ['*.log', a]}",
    )
    settings = place.load()
    assert settings.workspace.exclude_patterns == ("*.log", "a", "vendor/**")
    assert settings.changed({"paths.ignore": []}).workspace.exclude_patterns == ("*.log", "a")


@pytest.mark.parametrize(
    ("written", "key", "near"),
    [
        ({"workspace": {"maxFils": 1}}, "workspace.maxFils", "workspace.maxFiles"),
        ({"maxFiles": 1}, "maxFiles", "workspace.maxFiles"),
        ({"workspce": {"maxFiles": 1}}, "workspce", "workspace"),
        ({"indexing": {"chunk_sise": 1}}, "indexing.chunk_sise", "indexing.chunkSize"),
    ],
)
def test_unknown_key_is_a_warning_with_the_nearest_known_key(
    place: HomeAndProject, written: object, key: str, near: str
) -> None:
    file = place.write("codeindex.config.json", written)
    assert place.load().warnings == (f"{file}: unknown key {key!r}; did you mean {near!r}?",)


def test_unknown_key_unlike_any_other_is_a_warning_without_a_guess(place: HomeAndProject) -> None:
    file = place.write("codeindex.config.json", {"zzzzqq": 1})
    assert place.load().warnings == (f"{file}: unknown key 'zzzzqq'",)


def test_many_unknown_keys_give_few_warnings(place: HomeAndProject) -> None:
    place.write("codeindex.config.json", {f"q{number}": 1 for number in range(5000)})
    assert len(place.load().warnings) == 21


def test_misspelled_variable_is_a_warning_with_the_nearest_name(place: HomeAndProject) -> None:
    place.variables["CODEINDEX_MAX_FILE"] = "3"
    (warning,) = place.load().warnings
    assert warning.startswith(
        "environment CODEINDEX_MAX_FILE: unknown variable; did you mean CODEINDEX_MAX_FILE"
    )


@pytest.mark.parametrize(
    ("group", "key", "value", "allowed"),
    [
        ("workspace", "maxFiles", "many", "a whole number of at least 1"),
        ("workspace", "maxFiles", True, "a whole number of at least 1"),
        ("workspace", "maxFileSize", "5 parsecs", "a size such as 1.5MB"),
        ("indexing", "chunkSize", 49, "from 50 to 1000"),
        ("indexing", "embeddingProvider", "hal", "cortex-embed or none"),
        ("indexing", "updateInterval", "soon", "a duration such as 60s"),
        ("search", "relevanceThreshold", 1.5, "from 0 to 1"),
        ("search", "timeout", 0, "above 0"),
        ("server", "logLevel", "loud", "debug, info, warn or error"),
        ("workspace", "excludePatterns", {"a": 1}, "a list of texts"),
        ("workspace", "excludePatterns", "[not json", "a list of texts"),
        ("embedding", "endpoint", "ftp://localhost", "http:// or https://"),
    ],
)
def test_bad_value_in_a_file_is_a_warning_and_the_lower_origin_counts(
    place: HomeAndProject, group: str, key: str, value: object, allowed: str
) -> None:
    file = place.write("codeindex.config.json", {group: {key: value}})
    settings = place.load()
    (warning,) = settings.warnings
    assert warning.startswith(f"{file}: {group}.{key}: ")
    assert allowed in warning
    assert settings.origin(f"{group}.{key}") == "default"
    with pytest.raises(ConfigError) as caught:
        settings.changed({f"{group}.{key}": value})
    assert caught.value.code == "CONFIG_INVALID"
    with pytest.raises(ConfigError, match="flag --"):
        load(place.root, environment={}, flags={f"{group}.{key}": value}, user_home=place.user)


def test_bad_value_in_a_project_leaves_the_value_of_the_home_file(place: HomeAndProject) -> None:
    place.write(place.home_file, {"workspace": {"maxFiles": 7}})
    place.write("codeindex.config.json", {"workspace": {"maxFiles": "x"}})
    assert place.load().workspace.max_files == 7


def test_bad_variable_is_an_error_that_names_it(place: HomeAndProject) -> None:
    place.variables["CODEINDEX_CHUNK_SIZE"] = "9"
    with pytest.raises(
        ConfigError,
        match=r"environment CODEINDEX_CHUNK_SIZE: indexing\.chunkSize: '9'.*from 50 to 1000",
    ):
        place.load()


def test_empty_variable_counts_as_unset(place: HomeAndProject) -> None:
    place.variables["CODEINDEX_MAX_FILES"] = ""
    assert place.load().origin("workspace.maxFiles") == "default"


def test_unknown_key_of_a_runtime_change_is_an_error(place: HomeAndProject) -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'indexing.chunkSize'"):
        place.load().changed({"indexing.chunkSzie": 100})


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("codeindex.config.json", "{", "isn't valid JSON at line 1"),
        (".cortex/config.yml", "a: [1", "isn't valid YAML"),
        (".cortex/config.yml", "a: 1\na: 2\n", "isn't valid YAML"),
        (".cortex/config.yml", "!!python/object:os.system x", "isn't valid YAML"),
        ("codeindex.config.json", "[" * 100_000, "is nested too deeply"),
        ("codeindex.config.json", "[1]", "holds no keys"),
        ("codeindex.config.json", " " * 256_001, "is larger than 256KB"),
    ],
)
def test_unreadable_settings_file_is_ignored_with_a_warning(
    place: HomeAndProject, name: str, text: str, reason: str
) -> None:
    file = place.write(name, text)
    (warning,) = place.load().warnings
    assert warning.startswith(f"{file}: {reason}")


def test_settings_file_that_is_no_text_is_a_warning(place: HomeAndProject) -> None:
    (place.root / "codeindex.config.json").write_bytes(b"\xff\xfe\x00")
    assert "isn't UTF-8" in place.load().warnings[0]


def test_exponential_yaml_aliases_are_harmless(place: HomeAndProject) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    lines += ["workspace: {paths: *a11, excludePatterns: *a11}", "default_thread_id: *a11"]
    place.write(".cortex/config.yml", "\n".join(lines))
    warnings = place.load().warnings
    assert max(len(warning) for warning in warnings) < 1000


def test_empty_file_and_empty_groups_give_no_warning(place: HomeAndProject) -> None:
    place.write(".cortex/config.yml", "# nothing\nworkspace:\nsearch: {timeout: }\n")
    place.write("codeindex.config.json", "")
    assert place.load().warnings == ()


def test_value_instead_of_a_group_is_a_warning(place: HomeAndProject) -> None:
    file = place.write("codeindex.config.json", {"workspace": 5})
    assert place.load().warnings == (
        f"{file}: workspace: is a group of keys, not a value (ignored)",
    )


def test_value_above_its_ceiling_is_capped_with_a_warning(place: HomeAndProject) -> None:
    place.variables = {"CODEINDEX_MAX_FILES": "200000", "CODEINDEX_MAX_FILE_SIZE": "6MB"}
    settings = place.load(indexing__chunkOverlap=200)
    assert (settings.workspace.max_files, settings.workspace.max_file_size) == (100_000, 5_000_000)
    assert settings.indexing.chunk_overlap == 125
    assert len(settings.warnings) == 3
    place.variables["CORTEX_LIMITS_PROCESSING_MAX_FILES"] = "300000"
    assert place.load().workspace.max_files == 200_000


def test_telemetry_setting_gives_a_warning_that_there_is_none(place: HomeAndProject) -> None:
    place.variables["CODEINDEX_ENABLE_TELEMETRY"] = "true"
    assert place.load().warnings == (
        "server.enableTelemetry: there is no telemetry; nothing is collected or sent",
    )


def test_list_in_a_variable_is_parsed_from_commas_json_or_path_separators(
    place: HomeAndProject,
) -> None:
    place.variables = {
        "CORTEX_WORKSPACE_EXCLUDE_PATTERNS": "a, b",
        "CORTEX_WORKSPACE_INCLUDE_PATTERNS": '["x,y"]',
        "CORTEX_WORKSPACE_PATHS": os.pathsep.join(["/one", "/two"]),
        "CORTEX_INDEXING_STRATEGIES": "words",
    }
    settings = place.load()
    assert settings.workspace.exclude_patterns == ("a", "b")
    assert settings.workspace.include_patterns == ("x,y",)
    assert settings.workspace.paths == ("/one", "/two")
    assert settings.indexing.strategies == ("tfidf",)


def test_home_follows_from_variable_and_profile(place: HomeAndProject) -> None:
    assert place.load().home == place.user / ".cortex"
    place.variables["CORTEX_HOME"] = str(place.user / "x")
    assert place.load().home == place.user / "x"
    place.variables["CORTEX_PROFILE"] = "work"
    assert place.load().home == place.user / "x" / "profiles" / "work"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CORTEX_HOME", "relative"),
        *(("CORTEX_PROFILE", name) for name in ("../up", "a/b", "Work", ".work", "w" * 51)),
    ],
)
def test_relative_home_or_unsafe_profile_is_an_error(
    place: HomeAndProject, name: str, value: str
) -> None:
    place.variables[name] = value
    with pytest.raises(ConfigError, match=name):
        place.load()


def test_environment_has_only_variables_of_cortex(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "CODEINDEX_MAX_FILES",
        "CORTEX_SEARCH_BUDGET",
        "CORTEX_SEARCH_BUDGIT",
        "CLAUDE_PROJECT_DIR",
        "CORTEX_XDR_KEY",
    ):
        monkeypatch.setenv(name, "1")
    found = environment()
    assert {
        "CODEINDEX_MAX_FILES",
        "CORTEX_SEARCH_BUDGET",
        "CORTEX_SEARCH_BUDGIT",
        "CLAUDE_PROJECT_DIR",
    } <= set(found)
    assert "CORTEX_XDR_KEY" not in found
    assert "PATH" not in found


def test_loading_reads_only_the_given_variables(
    place: HomeAndProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEINDEX_MAX_FILES", "3")
    monkeypatch.setenv("CORTEX_HOME", "/nowhere")
    settings = place.load()
    assert settings.workspace.max_files == 25_000
    assert settings.home == place.user / ".cortex"


def test_settings_are_frozen(place: HomeAndProject) -> None:
    settings = place.load()
    with pytest.raises(ValueError, match="frozen"):
        settings.workspace.max_files = 3  # type: ignore[misc]
    with pytest.raises(ValueError, match="frozen"):
        settings.warnings = ()  # type: ignore[misc]


def test_secrets_are_absent_from_every_representation(place: HomeAndProject) -> None:
    place.variables = {"CODEINDEX_OPENAI_API_KEY": "sk-hush", "CORTEX_HTTP_TOKEN": "tok-hush"}
    settings = place.load()
    assert (settings.providers.openai.api_key, settings.server.http_token) == (
        "sk-hush",
        "tok-hush",
    )
    assert "hush" not in repr(settings) + str(settings)


def test_unknown_key_in_a_group_of_conduit_is_a_warning(place: HomeAndProject) -> None:
    written = "mcp: {kb: {serch: {max_limit: 9}}}\nkbs: {rag: {}}\nkb: {ragg: {min_score: 1}}\nai: {model: x}\n"
    conduit = place.write(place.user / ".conduit" / "conduit.yaml", written)
    assert place.load().warnings == (
        f"{conduit}: unknown key 'mcp.kb.serch'; did you mean 'mcp.kb.search'?",
        f"{conduit}: unknown key 'kbs'; did you mean 'kb'?",
        f"{conduit}: unknown key 'kb.ragg'; did you mean 'kb.rag'?",
    )


def test_settings_are_reloaded_only_after_a_file_changed(place: HomeAndProject) -> None:
    first = place.load(search__budget=900)
    assert load_again(first) is first
    for number, file in enumerate(
        (place.home_file, ".cortex/config.yml", "codeindex.config.json"), start=1
    ):
        written = place.write(file, {"indexing": {"chunkSize": 100 + number}})
        assert load_again(first, settle_seconds=60) is first  # it may be half written
        again = load_again(first)
        assert (again.indexing.chunk_size, again.origin("indexing.chunkSize")) == (
            100 + number,
            str(written),
        )
        assert again.search.budget == 900
    again = load_again(first)
    (place.root / "codeindex.config.json").unlink()
    assert load_again(again).indexing.chunk_size == 102


def test_index_variables_of_one_of_several_clients_are_ignored_with_a_warning(
    place: HomeAndProject,
) -> None:
    written = place.write("codeindex.config.json", {"workspace": {"maxFiles": 300}})
    place.variables |= {
        "CODEINDEX_CHUNK_SIZE": "50",
        "CODEINDEX_MAX_FILES": "300",
        "CORTEX_SEARCH_BUDGET": "900",
    }
    plain = load_settings(
        place.root, environment={"CORTEX_SEARCH_BUDGET": "900"}, user_home=place.user, shared=True
    )
    settings = load_settings(
        place.root, environment=place.variables, user_home=place.user, shared=True
    )
    assert (settings.indexing.chunk_size, settings.workspace.max_files, settings.search.budget) == (
        250,
        300,
        900,
    )
    (said,) = settings.unheeded()  # the other variable says what counts anyway
    assert said == (
        "environment CODEINDEX_CHUNK_SIZE: indexing.chunkSize is the same for all clients of an index, and 250 counts "
        "(default); for 50 run `cortex config set indexing.chunkSize 50`"
    )
    assert (settings.origin("workspace.maxFiles"), settings == plain, plain.unheeded()) == (
        str(written),
        True,
        (),
    )
    place.write("codeindex.config.json", {"indexing": {"chunkSize": 50}})
    assert settings.unheeded(load_again(settings)) == (
        "environment CODEINDEX_MAX_FILES: workspace.maxFiles is the same for all clients of an index, and 25000 counts "
        "(default); for 300 run `cortex config set workspace.maxFiles 300`",
    )
    place.variables["CODEINDEX_CHUNK_SIZE"] = "many"
    with pytest.raises(ConfigError, match="CODEINDEX_CHUNK_SIZE"):
        load_settings(place.root, environment=place.variables, user_home=place.user, shared=True)


def test_project_file_of_a_megabyte_is_refused_quickly(place: HomeAndProject) -> None:
    place.write(".cortex/config.yml", "".join(f"k{number}: {number}\n" for number in range(70_000)))
    started = time.process_time()
    (warning,) = place.load().warnings
    assert "is larger than 256KB (file ignored)" in warning
    assert time.process_time() - started < 1


def test_broken_file_keeps_its_last_readable_settings(tmp_path):
    (tmp_path / "home").mkdir()
    file = tmp_path / "home" / "config.yml"
    file.write_text("workspace:\n  excludePatterns: ['drop/**']\n", encoding="utf-8")
    before = load(None, environment={"CORTEX_HOME": str(tmp_path / "home")})
    file.write_text("workspace:\n  excludePatterns: ['drop/**\n", encoding="utf-8")
    after = load_again(before)
    assert after.workspace.exclude_patterns == before.workspace.exclude_patterns
    assert [str(file) in warning for warning in after.ignored_files()] == [True]
    assert load_again(after) is after
    file.write_text("workspace:\n  excludePatterns: ['keep/**']\n", encoding="utf-8")
    mended = load_again(after)
    assert mended.ignored_files() == () and "keep/**" in mended.workspace.exclude_patterns


@pytest.mark.parametrize("broken", ["paths:\n  ignore: ['drop/**\n", "[1, 2]\n", b"\xff\xfe\xff"])
def test_new_process_has_the_last_readable_settings_of_a_broken_file(
    place: HomeAndProject, broken: str | bytes
) -> None:
    own = place.write(place.home_file, "security:\n  redact: index\n")
    project = place.write(".cortex/config.yml", "paths:\n  ignore: ['drop/**']\n")
    before = place.load()
    for file in (own, project):
        file.write_bytes(broken if isinstance(broken, bytes) else broken.encode())
    after = place.load()
    assert (after.security.redact, "drop/**" in after.workspace.exclude_patterns) == (
        before.security.redact,
        True,
    )
    assert ["its last valid content is used" in warning for warning in after.ignored_files()] == [
        True,
        True,
    ]
    if os.name == "posix":
        assert {
            file.stat().st_mode & 0o777 for file in (place.user / ".cortex/last-settings").iterdir()
        } == {0o600}
    project.unlink()
    assert "drop/**" not in place.load().workspace.exclude_patterns


def test_loading_settings_creates_no_home(place: HomeAndProject) -> None:
    place.write(".cortex/config.yml", "paths:\n  ignore: ['drop/**']\n")
    place.load()
    assert not place.home_file.parent.exists()
