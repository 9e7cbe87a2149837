"""Trust in a project's own files: the settings that they may and may not change."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cortex.base.errors import ConfigError
from cortex.base.settings import Settings, load
from cortex.base.settings.values import stays_here

FILES = [".cortex/config.yml", "codeindex.config.json", ".cortex/config.json"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "project" / ".cortex").mkdir(parents=True)
    return tmp_path / "project"


def load_with(
    root: Path, project: object, home: object = None, *, file: str = FILES[0], **variables: str
) -> Settings:
    (root / file).write_text(json.dumps(project), encoding="utf-8")
    own = root.parent / "user" / ".cortex"
    own.mkdir(parents=True, exist_ok=True)
    (own / "config.yml").write_text(json.dumps(home or {}), encoding="utf-8")
    (own / "config.yml").chmod(0o600)
    return load(root, environment=variables, user_home=root.parent / "user")


def nest(name: str, value: object) -> dict[str, object]:
    for part in reversed(name.split(".")):
        value = {part: value}
    assert isinstance(value, dict)
    return value


UNTRUSTED = [
    ("providers.openai.apiKey", "sk-stranger"),
    ("providers.openai.baseUrl", "https://evil.example/v1"),
    ("providers.openai.baseUrl", "http://127.0.0.1:9999/v1"),  # the key would go there
    ("providers.cortexEmbed.baseUrl", "http://127.0.0.1:9999"),
    ("providers.cortexEmbed.token", "sk-stranger"),
    ("providers.openai.model", "text-embedding-3-large"),  # which costs more
    ("providers.ollama.baseUrl", "http://10.0.0.1:11434"),
    # Texts would go to whatever listens there
    ("providers.ollama.baseUrl", "http://127.0.0.1:2375/containers"),
    ("embedding.endpoint", "http://evil.example/embed"),
    ("indexing.embeddingProvider", "openai"),
    ("workspace.paths", ["/etc"]),
    ("workspace.paths", [".."]),
    ("storage.cache_location", "~/../../etc/../../.."),
    ("limits.memory.heap", "2GB"),
    ("limits.processing.max_files", 100_001),
    ("limits.processing.index_timeout", "31m"),
    ("search.timeout", "31s"),
    ("search.budget", 4001),
    ("search.cacheSize", "501MB"),
    ("indexing.workers", 2),
    ("retention.days", 31),
    ("server.transport", "http"),
    ("agent_tier", "T2"),
    ("plugins", {"coldstart": {"enabled": True}}),
    ("server.chunksDir", "/etc"),
    ("embedding.autostart", True),
    ("kb.rag.min_score", 0.9),
    ("kb.max_file_size", 9_000_000_000),
    ("mcp.kb.search.max_limit", 200),
    ("mcp.kb.logging.to_stderr", True),
]


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize(("name", "value"), UNTRUSTED)
def test_untrusted_setting_of_a_project_is_ignored_with_a_warning(
    root: Path, name: str, value: object, file: str
) -> None:
    settings = load_with(root, nest(name, value), file=file)
    (warning,) = settings.warnings
    assert warning.startswith(f"{root / file}: {name}: ")
    assert warning.endswith("(ignored)")
    assert "sk-stranger" not in warning
    assert settings.origin(name) == "default"


@pytest.mark.parametrize(
    ("name", "value"), [pair for pair in UNTRUSTED if pair[0] != "server.chunksDir"]
)
def test_untrusted_setting_counts_from_the_persons_own_file(
    root: Path, name: str, value: object
) -> None:
    settings = load_with(root, {}, nest(name, value))
    assert settings.warnings == ()
    assert settings.origin(name) == str(root.parent / "user" / ".cortex" / "config.yml")


@pytest.mark.parametrize(("name", "value"), UNTRUSTED)
def test_untrusted_setting_is_an_error_as_a_runtime_change(
    root: Path, name: str, value: object
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_with(root, {}).changed({name: value})
    assert caught.value.code == "CONFIG_INVALID"
    assert "sk-stranger" not in str(caught.value)


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:9999", "http://localhost:8121/embed", "http://[::1]:1/v1/"]
)
def test_allowed_project_may_name_an_embedding_server_on_this_machine(
    root: Path, address: str
) -> None:
    asked = {"embedding": {"endpoint": address}}
    settings = load_with(root, asked)
    assert settings.embedding.endpoint == ""
    assert "allow this project once with `cortex chunks allow`" in settings.warnings[0]
    settings = load_with(root, asked, {"embedding": {"allowed_projects": [str(root)]}})
    assert (settings.embedding.endpoint, settings.warnings) == (address, ())
    elsewhere = load_with(root, asked, {"embedding": {"allowed_projects": [str(root.parent)]}})
    assert elsewhere.embedding.endpoint == ""


@pytest.mark.parametrize(
    "path", ["any/path", "embed/../containers", "embeddings", "v1/embeddings/x", "%65mbed"]
)
def test_project_may_not_name_another_path_of_this_machine(root: Path, path: str) -> None:
    allowed = {"embedding": {"allowed_projects": [str(root)]}}
    settings = load_with(
        root, {"embedding": {"endpoint": f"http://127.0.0.1:2375/{path}"}}, allowed
    )
    assert settings.embedding.endpoint == ""
    assert "/embed, /v1 or /v1/embeddings" in settings.warnings[0]


def test_project_cannot_allow_itself(root: Path) -> None:
    itself = {"embedding": {"endpoint": "http://127.0.0.1:9", "allowed_projects": [str(root)]}}
    assert load_with(root, itself).embedding.endpoint == ""


def test_project_may_raise_index_limits_that_the_person_left_unset(root: Path) -> None:
    more = {"workspace": {"maxFiles": 90_000, "maxFileSize": "5MB"}}
    settings = load_with(root, more)
    assert (settings.workspace.max_files, settings.workspace.max_file_size) == (90_000, 5_000_000)
    # Which for files is the default as well
    own = {"workspace": {"maxFiles": 25_000, "maxFileSize": "100KB"}}
    settings = load_with(root, more, own)
    assert (settings.workspace.max_files, settings.workspace.max_file_size) == (25_000, 100_000)
    assert [
        warning.partition(": a project")[0].partition(": ")[2] for warning in settings.warnings
    ] == ["workspace.maxFiles: you set 25000", "workspace.maxFileSize: you set 100KB"]
    with pytest.raises(ConfigError, match="you set 25000"):
        settings.changed({"workspace.maxFiles": 26_000})
    fewer = load_with(root, {"workspace": {"maxFiles": 10, "maxFileSize": "1KB"}}, own)
    assert (fewer.workspace.max_files, fewer.workspace.max_file_size) == (10, 1_000)


@pytest.mark.parametrize(
    ("url", "stays"),
    [
        ("http://localhost", True),
        ("https://LOCALHOST:8121/embed", True),
        ("http://127.0.0.1:8121/embed?x=1", True),
        ("http://[::1]:8121", True),
        ("http://localhost@evil.example", False),
        ("http://localhost:80@evil.example/", False),
        ("http://localhost.evil.example", False),
        ("http://127.0.0.1.evil.example", False),
        ("http://localhost\\@evil.example", False),
        ("http://0.0.0.0:80", False),
        ("http://localhost/\n@evil.example", False),
        ("//localhost", False),
        ("http://2130706433/", False),
    ],
)
def test_only_a_certain_loopback_address_counts_as_local(url: str, stays: bool) -> None:
    assert stays_here(url) is stays


def test_project_may_choose_openai_if_the_person_configured_it(root: Path) -> None:
    chosen = {"indexing": {"embeddingProvider": "openai"}}
    assert (
        load_with(root, chosen, CODEINDEX_OPENAI_API_KEY="sk-own").indexing.embedding_provider
        == "openai"
    )
    own = {"providers": {"openai": {"baseUrl": "https://models.example"}}}
    assert load_with(root, chosen, own).indexing.embedding_provider == "openai"
    settings = load_with(root, {}, CODEINDEX_OPENAI_API_KEY="sk-own").changed(
        {"indexing.embeddingProvider": "openai"}
    )
    assert settings.indexing.embedding_provider == "openai"


def test_project_may_choose_ollama_only_if_the_person_configured_it(root: Path) -> None:
    chosen = {"indexing": {"embeddingProvider": "ollama"}}
    refused = load_with(root, chosen)
    assert refused.indexing.embedding_provider == "local"
    assert "'ollama' can be chosen only where" in refused.warnings[0]
    by_itself = {
        **chosen,
        "providers": {"ollama": {"model": "mine", "baseUrl": "http://127.0.0.1:9"}},
    }
    assert load_with(root, by_itself).indexing.embedding_provider == "local"
    for own in ({"model": "mine"}, {"baseUrl": "http://127.0.0.1:9"}):
        settings = load_with(root, chosen, {"providers": {"ollama": own}})
        assert settings.indexing.embedding_provider == "ollama"


def test_only_paths_inside_the_project_count(root: Path) -> None:
    (root / "packages").mkdir()
    settings = load_with(root, {"workspace": {"paths": ["packages", "../user", str(root)]}})
    assert settings.workspace.paths == (str(root / "packages"), str(root))
    (warning,) = settings.warnings
    assert "../user" in warning


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_link_leads_no_path_or_file_outside_the_project(root: Path) -> None:
    (root / "out").symlink_to(root.parent)
    settings = load_with(root, {"workspace": {"paths": ["out"]}})
    assert settings.workspace.paths == ()
    (root.parent / "foreign.json").write_text('{"workspace": {"maxFiles": 3}}', encoding="utf-8")
    (root / "codeindex.config.json").symlink_to(root.parent / "foreign.json")
    settings = load_with(root, {})
    assert settings.workspace.max_files == 25_000
    assert "leaves the project" in settings.warnings[0]


def test_project_may_lower_limits(root: Path) -> None:
    settings = load_with(root, {"limits": {"memory": {"heap": "100MB"}}})
    assert (settings.limits.memory.heap, settings.warnings) == (100_000_000, ())


def test_project_may_lower_the_cost_of_work_and_answers(root: Path) -> None:
    settings = load_with(
        root,
        {
            "search": {"timeout": "5s", "budget": 1000},
            "indexing": {"workers": 1},
            "retention": {"days": 1},
        },
    )
    assert (settings.search.timeout, settings.search.budget, settings.indexing.workers) == (
        5.0,
        1000,
        1,
    )
    assert (settings.retention.days, settings.warnings) == (1, ())


def test_project_may_not_raise_workers_to_the_number_of_cores(root: Path) -> None:
    settings = load_with(root, {"indexing": {"workers": 0}}, {"indexing": {"workers": 1}})
    assert settings.indexing.workers == 1
    assert "not raise it above 1" in settings.warnings[0]


def test_project_may_not_raise_a_limit_above_the_persons_own(root: Path) -> None:
    settings = load_with(
        root, {"limits": {"memory": {"heap": "900MB"}}}, {"limits": {"memory": {"heap": "800MB"}}}
    )
    assert settings.limits.memory.heap == 800_000_000
    assert "not raise it above 800MB" in settings.warnings[0]


def test_project_may_turn_local_only_on_but_not_off(root: Path) -> None:
    assert load_with(root, {"server": {"localOnly": True}}).server.local_only
    settings = load_with(root, {"server": {"localOnly": False}}, {"server": {"localOnly": True}})
    assert settings.server.local_only
    assert "not off" in settings.warnings[0]
    assert not load_with(
        root, {"server": {"localOnly": True}}, CORTEX_SERVER_LOCAL_ONLY="false"
    ).server.local_only


def test_project_setting_equal_to_the_current_value_gives_no_warning(root: Path) -> None:
    assert load_with(root, {"server": {"transport": "stdio"}}).warnings == ()
    settings = load_with(
        root, {"server": {"transport": "stdio"}}, {"server": {"transport": "http"}}
    )
    assert (settings.server.transport, len(settings.warnings)) == ("http", 1)


@pytest.mark.parametrize("name", ["a\nb", "\x1b[2J", "", "x" * 101])
def test_server_name_is_a_single_line(root: Path, name: str) -> None:
    settings = load_with(root, {"server": {"name": name}})
    assert (settings.server.name, len(settings.warnings)) == ("cortex", 1)
    assert load_with(root, {"server": {"name": "Häuser ⌂"}}).server.name == "Häuser ⌂"


def test_http_token_counts_from_its_variable_only(root: Path) -> None:
    settings = load_with(root, {}, {"server": {"httpToken": "t-home"}})
    assert settings.server.http_token == ""
    assert "CORTEX_HTTP_TOKEN" in settings.warnings[0]
    assert "t-home" not in settings.warnings[0]
    assert load_with(root, {}, CORTEX_HTTP_TOKEN="t").server.http_token == "t"
    with pytest.raises(ConfigError):
        load(root, environment={}, flags={"server.httpToken": "t"}, user_home=root.parent)


def test_known_keys_of_other_families_are_kept_without_a_warning(root: Path) -> None:
    team = {
        "default_thread_id": "thread_1",
        "auto_observations": True,
        "stop_hook_policy": "draft_only",
    }
    settings = load_with(root, team, file=".cortex/config.json")
    assert settings.families == team
    assert settings.warnings == ()


def test_own_file_is_trusted_also_if_the_project_is_the_home_folder(tmp_path: Path) -> None:
    (tmp_path / ".cortex").mkdir()
    (tmp_path / ".cortex" / "config.yml").write_text(
        "providers: {openai: {apiKey: sk-own}}", encoding="utf-8"
    )
    (tmp_path / ".cortex" / "config.yml").chmod(0o600)
    settings = load(tmp_path, environment={}, user_home=tmp_path)
    assert (settings.providers.openai.api_key, settings.warnings) == ("sk-own", ())


@pytest.mark.skipif(os.name != "posix", reason="a file's mode says who may read it")
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_api_key_in_a_file_readable_by_others_is_refused_with_the_reason(
    tmp_path: Path, mode: int
) -> None:
    file = tmp_path / ".cortex" / "config.yml"
    file.parent.mkdir()
    file.write_text(
        "providers: {openai: {apiKey: sk-own, model: mine}, cortexEmbed: {token: t-own}}",
        encoding="utf-8",
    )
    file.chmod(mode)
    settings = load(None, environment={}, user_home=tmp_path)
    assert (settings.providers.openai.api_key, settings.providers.cortex_embed.token) == ("", "")
    assert settings.providers.openai.model == "mine"
    assert [warning.count("others can read this file") for warning in settings.warnings] == [1, 1]
    assert "sk-own" not in str(settings.warnings)
    file.chmod(0o600)
    assert load(None, environment={}, user_home=tmp_path).providers.openai.api_key == "sk-own"


def test_project_may_choose_embedders_that_need_no_server(root: Path) -> None:
    for provider in ("onnx", "none"):
        chosen = load_with(root, {"indexing": {"embeddingProvider": provider}})
        assert (chosen.indexing.embedding_provider, chosen.warnings) == (provider, ())


def test_project_may_choose_cortex_embed_only_if_the_person_configured_it(root: Path) -> None:
    chosen = {"indexing": {"embeddingProvider": "cortex-embed"}}
    assert load_with(root, chosen).indexing.embedding_provider == "local"
    for name, value in (("baseUrl", "http://127.0.0.1:9"), ("token", "t")):
        settings = load_with(root, chosen, {"providers": {"cortexEmbed": {name: value}}})
        assert settings.indexing.embedding_provider == "cortex-embed"


def test_project_cannot_let_an_agent_choose_an_embedder(root: Path) -> None:
    chosen = {"indexing.embeddingProvider": "ollama"}
    settings = load_with(root, {"providers": {"ollama": {"model": "a-strangers"}}})
    assert settings.providers.ollama.model == "a-strangers"
    with pytest.raises(ConfigError, match="can be chosen only where"):
        settings.changed(chosen)
    with pytest.raises(ConfigError, match="can be chosen only where"):
        settings.changed({"indexing.chunkSize": 300}).changed(chosen)
    assert (
        load_with(root, {}, CORTEX_PROVIDERS_OLLAMA_MODEL="mine")
        .changed(chosen)
        .value(next(iter(chosen)))
        == "ollama"
    )


@pytest.mark.parametrize(
    "url", ["http://me:sk-pass@a.example", "https://a.example/v1?key=sk-pass", "http://a#sk-pass"]
)
def test_address_with_a_possible_secret_is_refused_and_not_repeated(root: Path, url: str) -> None:
    settings = load_with(root, {}, {"providers": {"openai": {"baseUrl": url}}})
    (warning,) = settings.warnings
    assert "without user, password, ? and #" in warning
    assert "sk-pass" not in warning
    assert settings.providers.openai.base_url == "https://api.openai.com/v1"
    with pytest.raises(ConfigError) as caught:
        load_with(root, {}, CODEINDEX_OLLAMA_BASE_URL=url)
    assert "sk-pass" not in str(caught.value)
