"""`make tour`: a walk through all that agents can do, with an independent MCP client.

Makes a small repository, starts `cortex mcp code` on it, and prints each step as a transcript with
the tokens (characters / 4) that its answer costs. Exit code 1 if anything isn't as expected. The
client (client.py) is plain JSON-RPC on two pipes, standard library only.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.common.mcp_client import RpcError, Session

FRESH_SECONDS = 1.0
GIVE_UP_SECONDS = 15.0  # a busy machine may be late: that is said, and only then wrong
SHOWN = 3
FILES = {
    "README.md": "# Harbour\n\nShips ask for a berth; the harbour master gives them one.\n\n## Tides\n\nBig ships wait for high water.\n",
    "harbour/berths.py": '''"""Berths and who lies there."""


class BerthTaken(Exception):
    """Another ship lies there."""


def assign_berth(ship: str, berths: dict[int, str]) -> int:
    """Give a ship the first free berth."""
    for number in sorted(berths):
        if not berths[number]:
            berths[number] = ship
            return number
    raise BerthTaken(ship)


def release_berth(number: int, berths: dict[int, str]) -> None:
    """Free a berth when its ship leaves."""
    berths[number] = ""
''',
    "harbour/tides.py": '''"""High and low water."""

PERIOD_MINUTES = 745


def next_high_water(minute: int) -> int:
    """The minute of the next high tide."""
    return minute + PERIOD_MINUTES - minute % PERIOD_MINUTES


def may_enter(draught: float, depth: float) -> bool:
    """Whether there is enough water under the keel of a ship."""
    return depth - draught > 0.5
''',
    "web/board.ts": "export interface Arrival { ship: string; berth: number }\n\n/** Sort arrivals for the departure board. */\n"
    "export function sortArrivals(list: Arrival[]): Arrival[] {\n  return [...list].sort((a, b) => a.berth - b.berth);\n}\n",
    "tests/test_berths.py": "from harbour.berths import assign_berth\n\n\ndef test_first_free_berth():\n"
    "    assert assign_berth('Aurora', {1: 'Vega', 2: ''}) == 2\n",
    ".gitignore": "ignored/\n",
    "ignored/assign_berth_old.py": "def assign_berth_old():\n    return None\n",
    ".env": "HARBOUR_TOKEN=assign_berth_secret\n",
}


class Tour:
    """The transcript, and the unexpected results."""

    def __init__(self, session: Session, root: Path) -> None:
        self.session, self.root = session, root
        self.wrong: list[str] = []
        self.tokens = 0
        self._step = ""

    def step(self, title: str) -> None:
        self._step = title
        say(f"\n== {title}")

    def expect(self, holds: bool, what: str) -> None:
        say(f"   {'ok   ' if holds else 'WRONG'} {what}")
        if not holds:
            self.wrong.append(f"{self._step}: {what}")

    def ask(self, method: str, params: dict[str, object] | None = None, shown: str = "") -> dict:
        """The result of a request, with what it cost."""
        say(f"-> {shown or method + (' ' + json.dumps(params) if params else '')}")
        start = time.perf_counter()
        result = self.session.request(method, params)
        text = "".join(
            part.get("text", "") for part in result.get("content") or result.get("contents") or ()
        )
        tokens = len(text or json.dumps(result, separators=(",", ":"))) // 4
        self.tokens += tokens
        say(f"<- {tokens} tokens, {(time.perf_counter() - start) * 1000:.0f} ms")
        return result

    def tool(self, name: str, **arguments: object) -> dict:
        """A tool's answer."""
        result = self.ask(
            "tools/call", {"name": name, "arguments": arguments}, f"{name} {json.dumps(arguments)}"
        )
        body = json.loads(result["content"][0]["text"])
        if result.get("isError"):
            self.expect(False, f"{name} answered {body}")
        return body

    def search(self, name: str = "search_code", **arguments: object) -> list[dict]:
        """A search's hits, the first of them shown."""
        hits = [place(hit) for hit in self.tool(name, **arguments)["results"]]
        for hit in hits[:SHOWN]:
            say(f"   {hit['file']}:{hit['startLine']}-{hit['endLine']}  {hit['relevance']}")
        return hits

    def resource(self, uri: str) -> dict:
        """A resource's JSON."""
        return json.loads(
            self.ask("resources/read", {"uri": uri}, f"read {uri}")["contents"][0]["text"]
        )

    def fails(self, code: str, name: str, **arguments: object) -> None:
        """Expect a tool to fail with this code and a suggestion."""
        result = self.ask(
            "tools/call", {"name": name, "arguments": arguments}, f"{name} {json.dumps(arguments)}"
        )
        text = result["content"][0]["text"]
        body = json.loads(text) if result.get("isError") else {}
        error = body.get("error", body)
        self.expect(
            error.get("code") == code, f"the error is {code}: {error.get('message', text[:200])}"
        )
        self.expect(
            bool(error.get("suggestions")),
            f"it says what to do: {' '.join(error.get('suggestions', ()))}",
        )

    def refused(self, number: int, method: str, params: dict[str, object]) -> None:
        """Expect a JSON-RPC error."""
        say(f"-> {method} {json.dumps(params)}")
        try:
            self.session.request(method, params)
            self.expect(False, f"refused with {number}")
        except RpcError as error:
            self.expect(error.code == number, f"refused with {number}: {error}")


def place(hit: dict) -> dict:
    """A hit with its lines beside its file."""
    return {**hit["chunk"], **hit}


def say(line: str) -> None:
    print(line, flush=True)


def greeting(tour: Tour) -> None:
    tour.step("Handshake and lists")
    hello = tour.session.greeting
    instructions = hello.get("instructions", "")
    say(
        f"   {hello['serverInfo']['name']} {hello['serverInfo']['version']}, revision {hello['protocolVersion']}"
    )
    tour.expect(
        0 < len(instructions.encode()) < 2048,
        f"instructions of {len(instructions) // 4} tokens, under 2 KB",
    )
    tools = tour.ask("tools/list")["tools"]
    names = {tool["name"] for tool in tools}
    wanted = {
        "search_code",
        "reindex_workspace",
        "update_config",
        "get_file_context",
        "find_similar_code",
    }
    tour.expect(names == wanted, f"the five code tools: {', '.join(sorted(names))}")
    hints = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
    tour.expect(
        all(hint in tool["annotations"] for tool in tools for hint in hints),
        "all four annotations on every tool",
    )
    listed = (
        tour.ask("resources/list")["resources"]
        + tour.ask("resources/templates/list")["resourceTemplates"]
    )
    addresses = " ".join(resource.get("uri") or resource["uriTemplate"] for resource in listed)
    for part in ("workspace/status", "workspace/stats", "search/", "file/"):
        tour.expect(f"codeindex://{part}" in addresses, f"a resource codeindex://{part}...")
    prompts = {prompt["name"] for prompt in tour.ask("prompts/list")["prompts"]}
    tour.expect(
        prompts == {"code-search", "workspace-overview"},
        f"the prompts {', '.join(sorted(prompts))}",
    )


def searching(tour: Tour) -> None:
    tour.step("A question")
    hits = tour.search(query="how does a ship get a free berth", maxResults=5)
    tour.expect(
        bool(hits) and hits[0]["file"] == "harbour/berths.py",
        "answered by harbour/berths.py, not by its test",
    )
    tour.step("A name")
    hits = tour.search(query="assign_berth", maxResults=5)
    first = hits[0] if hits else {"file": "", "startLine": 0, "endLine": 0}
    tour.expect(
        first["file"] == "harbour/berths.py" and first["startLine"] <= 8 <= first["endLine"],
        "its definition is first",
    )
    files = {hit["file"] for hit in hits}
    tour.expect(".env" not in files, "no secret is found")
    tour.expect(
        not any(file.startswith("ignored/") for file in files), "nothing that git ignores is found"
    )
    tour.step("Quoted text")
    hits = tour.search(query='"raise BerthTaken(ship)"')
    first = hits[0] if len(hits) == 1 else {"file": "", "startLine": 0, "endLine": 0}
    there = first["file"] == "harbour/berths.py" and first["startLine"] <= 14 <= first["endLine"]
    tour.expect(there, "the one place, line 14 with the lines around it")
    tour.step("A regular expression")
    hits = tour.search(query=r"/def (assign|release)_berth\(/")
    tour.expect(
        sorted({hit["file"] for hit in hits}) == ["harbour/berths.py"] and len(hits) == 2,
        "two definitions, one file",
    )
    tour.step("Only one kind of file, and a budget")
    hits = tour.search(query="berth", fileTypes=["ts"], budget=300)
    tour.expect({hit["file"] for hit in hits} == {"web/board.ts"}, "only TypeScript")
    body = tour.tool("search_code", query="berth", budget=200)
    tour.expect(
        len(json.dumps(body, ensure_ascii=False, separators=(",", ":"))) <= 800,
        "an answer within 200 tokens",
    )
    tour.expect(body["metadata"]["truncated"], "it says that text was left out")
    tour.step("Page by page")
    body = tour.tool("search_code", query="berth", maxResults=2)
    cursor = body["metadata"].get("cursor")
    tour.expect(len(body["results"]) == 2 and bool(cursor), "two results, and where to go on")
    rest = tour.search(query="berth", maxResults=2, cursor=cursor)
    seen = {(hit["file"], hit["startLine"]) for hit in map(place, body["results"])}
    again = seen & {(hit["file"], hit["startLine"]) for hit in rest}
    tour.expect(len(rest) == 2 and not again, "the next two, nothing twice")


def reading(tour: Tour) -> None:
    tour.step("Lines around a hit")
    body = tour.tool(
        "get_file_context",
        path="harbour/tides.py",
        lineRange={"start": 6, "end": 8},
        contextLines=1,
    )
    tour.expect(
        "next_high_water" in body["text"] and body["startLine"] == 5 and body["endLine"] == 9,
        "lines 5 to 9",
    )
    tour.expect(
        any(symbol["name"] == "next_high_water" for symbol in body["symbols"]),
        "with what is defined there",
    )
    tour.step("Code that looks alike")
    snippet = "def free_berth(number, berths):\n    berths[number] = ''\n"
    hits = tour.search("find_similar_code", code=snippet, language="python", maxResults=3)
    tour.expect(
        bool(hits) and hits[0]["file"] == "harbour/berths.py", "release_berth exists already"
    )


def saving(tour: Tour) -> None:
    tour.step("A saved file is found within a second")
    path = tour.root / "harbour" / "pilots.py"
    path.write_text(
        'def call_pilot(ship: str) -> str:\n    """Fetch the lodeman."""\n    return ship\n',
        encoding="utf-8",
    )
    found = lambda: any(hit["file"] == "harbour/pilots.py" for hit in quiet(tour, "lodeman"))  # noqa: E731
    until(tour, found, "found")
    path.rename(tour.root / "harbour" / "lodemen.py")
    until(
        tour,
        lambda: [hit["file"] for hit in quiet(tour, "lodeman")] == ["harbour/lodemen.py"],
        "renamed",
    )
    (tour.root / "harbour" / "lodemen.py").unlink()
    until(tour, lambda: not quiet(tour, "lodeman"), "gone when it is deleted")


def quiet(tour: Tour, query: str) -> list[dict]:
    """Hits, without a line in the transcript: it is asked over and over."""
    return tour.session.call("search_code", query=query, maxResults=3)["results"]


def until(tour: Tour, condition: Callable[[], bool], what: str) -> None:
    start = time.monotonic()
    while not (holds := condition()) and time.monotonic() - start < GIVE_UP_SECONDS:
        time.sleep(0.01)
    took = time.monotonic() - start
    late = "" if took < FRESH_SECONDS else ", later than it should be: is the machine busy?"
    tour.expect(holds, f"{what} after {took * 1000:.0f} ms{late}")


def changing(tour: Tour) -> None:
    tour.step("Reindexing")
    body = tour.tool("reindex_workspace")
    tour.expect(
        body["status"] == "completed" and body["unchanged"] == 6, "nothing to do: 6 files unchanged"
    )
    body = tour.tool("reindex_workspace", force=True)
    tour.expect(
        body["status"] == "completed" and body["added"] + body["changed"] == 6,
        "by force: all 6 files anew",
    )
    tour.fails("RATE_LIMITED", "reindex_workspace", force=True)
    body = tour.tool("reindex_workspace", path="harbour")
    tour.expect(body["status"] == "completed" and body["unchanged"] == 2, "one folder: its 2 files")
    tour.step("Configuration")
    body = tour.tool("update_config", settings={"chunkSize": 200}, restart=True)
    tour.expect(body["changed"].get("chunkSize", {}).get("new") == 200, "chunkSize is 200 now")
    tour.expect(
        body["reindexing"] and not body["restartNeeded"],
        "and the workspace is being indexed with it",
    )
    body = tour.tool("update_config", settings={"cacheSize": "10MB"})
    tour.expect(list(body["changed"]) == ["cacheSize"], "the cache has a new size")
    tour.session.wait_until_ready()


def addresses(tour: Tour) -> None:
    tour.step("Resources")
    status = tour.resource("codeindex://workspace/status")
    tour.expect(
        status["indexing"]["status"] == "ready" and status["indexing"]["indexedFiles"] == 6,
        "6 files, ready",
    )
    stats = tour.resource("codeindex://workspace/stats")
    tour.expect(stats["files"]["byLanguage"].get("python") == 3, "3 of them Python")
    found = tour.resource("codeindex://search/high%20water?maxResults=2&strategy=tfidf")
    tour.expect(0 < len(found["results"]) <= 2, "a search by address")
    chunks = tour.resource("codeindex://file/harbour/tides.py/chunks")
    tour.expect(chunks["file"] == "harbour/tides.py" and bool(chunks["chunks"]), "a file's chunks")
    tour.step("Prompts")
    arguments: dict[str, object] = {"intent": "change how berths are given", "language": "Python"}
    for name, given, word in (
        ("code-search", arguments, "change how berths are given"),
        ("workspace-overview", {"focus": "tides"}, "tides"),
    ):
        text = tour.ask("prompts/get", {"name": name, "arguments": given})["messages"][0][
            "content"
        ]["text"]
        tour.expect(word in text and "{{" not in text, f"{name} is filled in")


def failing(tour: Tour) -> None:
    tour.step("Errors that help")
    tour.fails("QUERY_EMPTY", "search_code", query="   ")
    tour.fails("REGEX_INVALID", "search_code", query="/(/")
    tour.fails("WORKSPACE_UNKNOWN", "search_code", query="berth", workspace="elsewhere")
    tour.fails("PATH_OUTSIDE", "get_file_context", path="../../etc/passwd")
    tour.fails("FILE_NOT_FOUND", "get_file_context", path="harbour/cranes.py")
    tour.fails("FILE_UNREADABLE", "get_file_context", path=".env")
    tour.fails("BUDGET_TOO_SMALL", "search_code", query="berth", budget=10)
    tour.fails("CURSOR_INVALID", "search_code", query="berth", cursor="nonsense")
    tour.refused(-32602, "tools/call", {"name": "search_code", "arguments": {}})
    tour.refused(
        -32602, "tools/call", {"name": "search_code", "arguments": {"query": "x", "maxResults": 0}}
    )
    tour.refused(-32602, "tools/call", {"name": "no_such_tool", "arguments": {}})
    tour.refused(-32601, "no/such/method", {})


def make_repository(root: Path) -> None:
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    if shutil.which("git"):
        subprocess.run(["git", "init", "-q", str(root)], check=True, timeout=60)


def sharing(tour: Tour, command: list[str], environment: dict[str, str]) -> None:
    """A second window: served by the same process, at once."""
    tour.step("Another window")
    say("$ cortex mcp code --workspace harbour-office &; cortex status")
    with Session(command, environment) as second:
        found = second.call("search_code", query="which berth is free", threshold=0)
        tour.expect(bool(found["results"]), "it has answers without indexing anything")
        clients = json.loads(run_cortex(environment, "status", "--json"))["clients"]
        tour.expect(len(clients) == 2, f"one cortexd serves {len(clients)} clients")


def run_cortex(environment: dict[str, str], *words: str) -> str:
    """The output of a command."""
    done = subprocess.run(
        [sys.executable, "-m", "cortex", *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout + done.stderr


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="cortex-tour-", ignore_cleanup_errors=True) as folder:
        root = Path(folder).resolve() / "harbour-office"
        make_repository(root)
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("CORTEX_", "CODEINDEX_"))
        }
        environment = kept | {"CORTEX_HOME": str(Path(folder).resolve() / "home")}
        command = [sys.executable, "-m", "cortex", "mcp", "code", "--workspace", str(root)]
        say("$ cortex mcp code --workspace harbour-office")
        try:
            with Session(command, environment) as session:
                tour = Tour(session, root)
                session.wait_until_ready()
                for part in (greeting, searching, reading, saving, changing, addresses, failing):
                    part(tour)
                sharing(tour, command, environment)
                tour.step("Goodbye")
                tour.expect(
                    session.close() == 0, "the front end ends with 0 when its input is closed"
                )
        finally:
            stopped = run_cortex(environment, "stop")
        tour.expect("ended" in stopped, "cortexd ends on request")
    say(
        f"\n{tour.tokens} tokens in all. "
        + ("Everything as expected." if not tour.wrong else "Not as expected:")
    )
    for line in tour.wrong:
        say(f"- {line}")
    return 1 if tour.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
