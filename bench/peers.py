"""Cortex and semble side by side, in one run, on one tree: cost of indexing, size of the index, speed of queries.

    python bench/peers.py TREE --semble-python VENV/bin/python --semble-model DIR [--cortex .venv/bin/cortex] [--repeat 3] [--json OUT]

Each round works on a copy of TREE with empty caches, semble first. CPU seconds are user + system of the whole process tree; memory is the peak
sum of RssAnon over the tree, sampled every 20 ms, above that of a bare Python. Indexing is the product's own cold command, start-up included.
Warm queries go through an MCP stdio session (Cortex with its answer cache off), and for semble also in process, without any protocol. semble runs
twice: with what it indexes by default (code only) and with everything it can (code, docs and configuration, which is nearer to what Cortex indexes).
Its own model comes from a hub; DIR is a local model2vec folder instead. Linux only (/proc).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import queue
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

SAMPLE_SECONDS = 0.02
COMMAND_SECONDS = 1800
CALL_SECONDS = 120
ROUNDS = 3  # of all queries in a warm session
COLD_QUERIES = 5
RESULTS = 10
WARM_UP = "where is the version number"

# Questions about Django and a file that answers each, so that a fast wrong answer shows.
QUERIES = (
    ("how is a queryset evaluated lazily", "django/db/models/query.py"),
    ("validate the csrf token of a request", "django/middleware/csrf.py"),
    ("resolve a url path to a view", "django/urls/resolvers.py"),
    ("hash a password with pbkdf2", "django/contrib/auth/hashers.py"),
    ("QuerySet.bulk_create", "django/db/models/query.py"),
    ("compile a WHERE clause to SQL", "django/db/models/sql/where.py"),
    ("detect model changes for a migration", "django/db/migrations/autodetector.py"),
    ("render a template with autoescape", "django/template/base.py"),
    ("SessionMiddleware", "django/contrib/sessions/middleware.py"),
    ("parse a multipart form upload", "django/http/multipartparser.py"),
    ("send an email over smtp", "django/core/mail/backends/smtp.py"),
    ("memcached cache backend", "django/core/cache/backends/memcached.py"),
    ("split a long list of objects into pages", "django/core/paginator.py"),
    ("transaction.atomic savepoint rollback", "django/db/transaction.py"),
    ("inlineformset_factory", "django/forms/models.py"),
    ("run a management command from code", "django/core/management/__init__.py"),
    ("connect a receiver to a signal", "django/dispatch/dispatcher.py"),
    ("make a datetime aware of the time zone", "django/utils/timezone.py"),
    ("serve static files in development", "django/contrib/staticfiles/handlers.py"),
    ("admin change list filters", "django/contrib/admin/filters.py"),
)

SEMBLE_WARM = """
import json, sys, time
from semble import SembleIndex
from semble.types import ContentType
tree, content, warm_up, rounds, k, queries = json.loads(sys.argv[1])
index = SembleIndex.from_path(tree, content=tuple(ContentType) if content == "all" else (ContentType.CODE,))
index.search(warm_up, top_k=k)
out, before = [], time.process_time()
for turn in range(rounds):
    for query in queries:
        start = time.perf_counter()
        results = index.search(query, top_k=k)
        out.append([(time.perf_counter() - start) * 1000, [r.chunk.file_path for r in results]])
cpu = time.process_time() - before
print(json.dumps({"answers": out, "cpu": cpu, "files": index.stats.indexed_files, "chunks": index.stats.total_chunks, "cached": index.loaded_from_disk}))
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a process tree took."""

    wall: float
    cpu: float
    rss_anon_mb: float  # peak of the sum over the tree, above a bare Python
    output: str


@dataclass(frozen=True, slots=True)
class Answers:
    """Warm queries: milliseconds of each, how many of the questions were answered at all, and how many with the expected file."""

    milliseconds: tuple[float, ...]
    answered: int
    expected: int


@dataclass(slots=True)
class Row:
    """One product's measurements; one entry for each round."""

    name: str
    files: int = 0
    chunks: int = 0
    index_cpu: list[float] = field(default_factory=list)
    index_wall: list[float] = field(default_factory=list)
    index_rss: list[float] = field(default_factory=list)
    disk_mb: list[float] = field(default_factory=list)
    cold_ms: list[float] = field(default_factory=list)
    cold_cpu_ms: list[float] = field(default_factory=list)
    mcp_ms: list[float] = field(default_factory=list)
    mcp_rss: list[float] = field(default_factory=list)
    mcp_cpu_ms: list[float] = field(default_factory=list)  # mean over a session's queries, one entry for each round
    inside_ms: list[float] = field(default_factory=list)
    inside_cpu_ms: list[float] = field(default_factory=list)
    answered: int = 0
    expected: int = 0


class Watch:
    """Samples a process and everything that it started, by descent and by session, until it has ended."""

    def __init__(self, root: int) -> None:
        self.peak_kb = 0
        self._root = root
        self._ticks: dict[int, int] = {}
        self._known = {root}
        self._samples = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> float:
        """End sampling; the CPU seconds seen in all processes."""
        self._done.set()
        self._thread.join()
        return self._cpu_seconds()

    def cpu_seconds(self) -> float:
        """The CPU seconds until the next sample."""
        before = self._samples
        while self._samples < before + 2 and self._thread.is_alive():  # one that began after this call
            time.sleep(SAMPLE_SECONDS / 4)
        return self._cpu_seconds()

    def _cpu_seconds(self) -> float:
        return sum(list(self._ticks.values())) / os.sysconf("SC_CLK_TCK")

    def _run(self) -> None:
        while not self._done.wait(SAMPLE_SECONDS):
            self._sample()

    def _sample(self) -> None:
        anonymous = 0
        for entry in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
            try:
                stat = (
                    Path(f"/proc/{entry}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
                )
                if entry not in self._known and int(stat[1]) not in self._known and int(stat[3]) != self._root:
                    continue
                self._known.add(entry)
                self._ticks[entry] = int(stat[11]) + int(stat[12])
                anonymous += rss_anon_kb(entry)
            except (OSError, IndexError):
                continue  # it has just ended
        self.peak_kb = max(self.peak_kb, anonymous)
        self._samples += 1


def rss_anon_kb(process: int) -> int:
    for line in Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    return 0


def bare_python_kb(python: str) -> int:
    """RssAnon of an interpreter that has done nothing."""
    bare = subprocess.Popen(
        [python, "-c", "print(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert bare.stdin is not None and bare.stdout is not None
    bare.stdout.readline()
    size = rss_anon_kb(bare.pid)
    bare.communicate("\n", timeout=30)
    return size


def run(command: Sequence[str], environment: dict[str, str], bare_kb: int) -> Cost:
    """Run a command to its end and say what it took, processes that it started included."""
    start = time.perf_counter()
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out, tempfile.TemporaryFile("w+", encoding="utf-8") as err:
        child = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
        )
        watch = Watch(child.pid)
        killer = threading.Timer(COMMAND_SECONDS, child.kill)
        killer.start()
        _, status, usage = os.wait4(child.pid, 0)
        killer.cancel()
        wall = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        # wait4 knows the children that were waited for, the samples those that were not.
        cpu = max(watch.stop(), usage.ru_utime + usage.ru_stime)
        out.seek(0)
        err.seek(0)
        if child.returncode != 0:
            raise SystemExit(f"{' '.join(command[:4])} ... ended with {child.returncode}:\n{err.read()[-2000:]}")
        return Cost(wall, cpu, max(0, watch.peak_kb - bare_kb) / 1024, out.read())


class Session:
    """A small MCP client on a server's stdio."""

    def __init__(self, command: Sequence[str], environment: dict[str, str]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed in `close`
        self.server = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._number = 0
        threading.Thread(target=self._read, daemon=True).start()
        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "peers", "version": "1"}}
        self.request("initialize", client)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def request(self, method: str, params: dict[str, object]) -> dict:
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        deadline = time.monotonic() + CALL_SECONDS
        while True:
            line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            if not line:
                raise SystemExit(f"the server ended during {method}: {self._tail()}")
            message = json.loads(line)
            if message.get("id") == self._number and "method" not in message:
                if "error" in message:
                    raise SystemExit(f"{method}: {message['error']}")
                return message["result"]
            if "id" in message and "method" in message:  # the server asks us something that we don't offer
                self._send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "not offered"}})

    def close(self) -> None:
        assert self.server.stdin is not None and self.server.stdout is not None
        self.server.stdin.close()
        try:
            self.server.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.server.kill()
            self.server.wait()
        self.server.stdout.close()
        self._errors.close()

    def _send(self, message: dict[str, object]) -> None:
        assert self.server.stdin is not None
        self.server.stdin.write(json.dumps(message) + "\n")
        self.server.stdin.flush()

    def _read(self) -> None:
        assert self.server.stdout is not None
        for line in self.server.stdout:
            if line.strip():
                self._lines.put(line)
        self._lines.put("")

    def _tail(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode("utf-8", "replace")[-2000:]


def ask_all(ask: Callable[[str], list[str]]) -> Answers:
    """Ask every question in every round."""
    timed: list[tuple[float, list[str]]] = []
    for _ in range(ROUNDS):
        for query, _file in QUERIES:
            start = time.perf_counter()
            files = ask(query)
            timed.append(((time.perf_counter() - start) * 1000, files))
    return judge(timed)


def judge(timed: Sequence[tuple[float, list[str]]]) -> Answers:
    last = [files for _, files in timed[-len(QUERIES) :]]
    expected = sum(file in files[:RESULTS] for (_, file), files in zip(QUERIES, last, strict=True))
    return Answers(tuple(took for took, _ in timed), sum(bool(files) for files in last), expected)


def ask_over_mcp(
    row: Row,
    command: Sequence[str],
    environment: dict[str, str],
    tool: str,
    arguments: dict[str, object],
    bare_kb: int,
    ready: bool,
) -> Answers:
    """Warm answers of an MCP server, after one that doesn't count."""
    session = Session(command, environment)
    watch = Watch(session.server.pid)

    def ask(query: str) -> list[str]:
        return files_of(session.request("tools/call", {"name": tool, "arguments": {"query": query, **arguments}}))

    try:
        if ready:
            wait_until_ready(session)
        ask(WARM_UP)
        before = watch.cpu_seconds()
        answers = ask_all(ask)
        row.mcp_ms += answers.milliseconds
        row.mcp_cpu_ms.append((watch.cpu_seconds() - before) * 1000 / len(answers.milliseconds))
        row.mcp_rss.append(max(0, watch.peak_kb - bare_kb) / 1024)
        return answers
    finally:
        watch.stop()
        session.close()


def files_of(result: dict) -> list[str]:
    """The files in a tool's answer, in order."""
    text = result["content"][0]["text"]
    if result.get("isError"):
        raise SystemExit(f"the tool failed: {text[:500]}")
    return [hit.get("file") or hit.get("file_path", "") for hit in json.loads(text).get("results", ())]


def wait_until_ready(session: Session) -> None:
    """Wait until Cortex has compared the tree with its index, so that queries are not measured against that work."""
    deadline = time.monotonic() + CALL_SECONDS
    while time.monotonic() < deadline:
        answer = session.request("resources/read", {"uri": "codeindex://workspace/status"})
        if json.loads(answer["contents"][0]["text"])["indexing"]["status"] == "ready":
            return
        time.sleep(0.1)
    raise SystemExit("Cortex was not ready in time")


def measure_semble(row: Row, python: str, model: str, tree: Path, content: str, bare_kb: int, mcp: bool) -> None:
    """One round of semble with an empty cache."""
    with tempfile.TemporaryDirectory(prefix="peers-semble-") as cache:
        environment = {**os.environ, "SEMBLE_MODEL_NAME": model, "SEMBLE_CACHE_LOCATION": cache, "HF_HUB_OFFLINE": "1"}
        semble = (
            [python, "-m", "semble.cli"]
            if not Path(python).with_name("semble").exists()
            else [str(Path(python).with_name("semble"))]
        )
        search = lambda query: [*semble, "search", query, str(tree), "-k", str(RESULTS), "--content", content]  # noqa: E731
        add_indexing(row, run(search(WARM_UP), environment, bare_kb), bytes_below(Path(cache)))
        add_cold(row, [run(search(query), environment, bare_kb) for query, _ in QUERIES[:COLD_QUERIES]])
        question = json.dumps([str(tree), content, WARM_UP, ROUNDS, RESULTS, [query for query, _ in QUERIES]])
        inside = json.loads(run([python, "-c", SEMBLE_WARM, question], environment, bare_kb).output)
        if not inside["cached"]:
            raise SystemExit("semble did not find the index that its command wrote")
        row.files, row.chunks = inside["files"], inside["chunks"]
        answers = judge([(took, files) for took, files in inside["answers"]])
        row.inside_ms += answers.milliseconds
        row.inside_cpu_ms.append(inside["cpu"] * 1000 / len(answers.milliseconds))
        row.answered, row.expected = answers.answered, answers.expected
        if mcp:
            arguments: dict[str, object] = {"repo": str(tree), "top_k": RESULTS, "content": content}
            ask_over_mcp(row, semble, environment, "search", arguments, bare_kb, ready=False)


def measure_cortex(row: Row, cortex: str, tree: Path, bare_kb: int) -> None:
    """One round of Cortex with no store and an empty home."""
    with tempfile.TemporaryDirectory(prefix="peers-cortex-") as home:
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("CORTEX_", "CODEINDEX_"))
        }
        environment |= {"CORTEX_HOME": home, "CORTEX_SEARCH_ENABLE_CACHING": "false"}
        store = tree / ".cortex"
        try:
            cost = run([cortex, "index", str(tree), "--json"], environment, bare_kb)
            add_indexing(row, cost, bytes_below(store) + bytes_below(Path(home)))
            search = lambda query: [cortex, "search", query, "--path", str(tree), "--limit", str(RESULTS), "--json"]  # noqa: E731
            add_cold(row, [run(search(query), environment, bare_kb) for query, _ in QUERIES[:COLD_QUERIES]])
            serve = [cortex, "mcp", "code", "--workspace", str(tree)]
            arguments: dict[str, object] = {"maxResults": RESULTS, "threshold": 0}
            answers = ask_over_mcp(row, serve, environment, "search_code", arguments, bare_kb, ready=True)
            row.answered, row.expected = answers.answered, answers.expected
            row.files, row.chunks = count_cortex(serve, environment)
        finally:
            shutil.rmtree(store, ignore_errors=True)


def count_cortex(serve: Sequence[str], environment: dict[str, str]) -> tuple[int, int]:
    session = Session(serve, environment)
    try:
        wait_until_ready(session)
        indexing = json.loads(
            session.request("resources/read", {"uri": "codeindex://workspace/status"})["contents"][0]["text"]
        )["indexing"]
        return indexing["indexedFiles"], indexing["totalChunks"]
    finally:
        session.close()


def add_indexing(row: Row, cost: Cost, size: int) -> None:
    row.index_cpu.append(cost.cpu)
    row.index_wall.append(cost.wall)
    row.index_rss.append(cost.rss_anon_mb)
    row.disk_mb.append(size / 1e6)


def add_cold(row: Row, costs: Sequence[Cost]) -> None:
    row.cold_ms += [cost.wall * 1000 for cost in costs]
    row.cold_cpu_ms += [cost.cpu * 1000 for cost in costs]


def bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) if folder.exists() else 0


def render(rows: Sequence[Row]) -> str:
    """A Markdown table: medians over the rounds, p50 / p95 over all queries."""
    lines = [
        ("", [row.name for row in rows]),
        ("files / chunks", [f"{row.files:,} / {row.chunks:,}" for row in rows]),
        ("indexing, CPU s", [middle(row.index_cpu, ".2f") for row in rows]),
        ("indexing, wall s", [middle(row.index_wall, ".2f") for row in rows]),
        ("indexing, peak RssAnon MB", [middle(row.index_rss, ".0f") for row in rows]),
        ("index on disk, MB", [middle(row.disk_mb, ".1f") for row in rows]),
        ("one search command, wall ms", [middle(row.cold_ms, ".0f") for row in rows]),
        ("one search command, CPU ms", [middle(row.cold_cpu_ms, ".0f") for row in rows]),
        ("warm query over MCP, ms p50 / p95", [spread(row.mcp_ms) for row in rows]),
        ("the same, p50 of the quietest pass", [quietest(row.mcp_ms) for row in rows]),
        ("the same, CPU ms", [middle(row.mcp_cpu_ms, ".1f") for row in rows]),
        ("warm query in process, ms p50 / p95", [spread(row.inside_ms) for row in rows]),
        ("the same, p50 of the quietest pass", [quietest(row.inside_ms) for row in rows]),
        ("the same, CPU ms", [middle(row.inside_cpu_ms, ".1f") for row in rows]),
        ("MCP server, peak RssAnon MB", [middle(row.mcp_rss, ".0f") for row in rows]),
        (
            f"answered / expected file in the first {RESULTS}, of {len(QUERIES)}",
            [f"{row.answered} / {row.expected}" for row in rows],
        ),
    ]
    table = [f"| {name} | {' | '.join(cells)} |" for name, cells in lines]
    return "\n".join([table[0], "|---" + "|---:" * len(rows) + "|", *table[1:]])


def middle(values: Sequence[float], form: str) -> str:
    return format(statistics.median(values), form) if values else "-"


def spread(values: Sequence[float]) -> str:
    if not values:
        return "-"
    return f"{statistics.median(values):.1f} / {sorted(values)[int(0.95 * (len(values) - 1))]:.1f}"


def quietest(values: Sequence[float]) -> str:
    """The best median of one pass over all queries: what is left when other work on the machine is taken away."""
    passes = [values[start : start + len(QUERIES)] for start in range(0, len(values), len(QUERIES))]
    return f"{min(statistics.median(one) for one in passes):.1f}" if passes else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tree", type=Path)
    parser.add_argument(
        "--semble-python", help="the Python of an environment that has semble; left out: semble isn't measured"
    )
    parser.add_argument("--semble-model", help="folder of a local model2vec model")
    parser.add_argument("--semble-content", nargs="+", default=["code", "all"], choices=["code", "all"])
    parser.add_argument(
        "--semble-mcp", action="store_true", help="measure semble's MCP server too (needs its `mcp` extra)"
    )
    parser.add_argument("--cortex", help="the cortex command; left out: Cortex isn't measured")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write all numbers here")
    options = parser.parse_args()
    if options.semble_python and not options.semble_model:
        parser.error("--semble-python needs --semble-model")
    rows = {content: Row(f"semble, {content}") for content in options.semble_content} if options.semble_python else {}
    cortex = Row("cortex") if options.cortex else None
    bare_kb = bare_python_kb(sys.executable)
    with tempfile.TemporaryDirectory(prefix="peers-tree-") as folder:
        tree = Path(folder).resolve() / options.tree.name
        shutil.copytree(options.tree, tree, symlinks=True, ignore=shutil.ignore_patterns(".cortex"))
        for turn in range(options.repeat):
            for content, row in rows.items():
                # Not resolved: a virtual environment's Python is a link, and what it links to knows nothing of semble.
                python, model = os.path.abspath(options.semble_python), str(Path(options.semble_model).resolve())
                measure_semble(row, python, model, tree, content, bare_kb, options.semble_mcp)
            if cortex is not None:
                measure_cortex(cortex, os.path.abspath(options.cortex), tree, bare_kb)
            print(f"round {turn + 1} of {options.repeat} done", file=sys.stderr, flush=True)
    measured = [*rows.values(), *([cortex] if cortex else [])]
    print(
        f"{options.tree.name}, {options.repeat} rounds, {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}\n"
    )
    print(render(measured))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps([asdict(row) for row in measured], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
