"""Cost of finding and redacting secrets, false alarms on real files, missed passwords."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import statistics
import string
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from bench.common.figures import Section, Setup
from bench.common.process_cost import run
from cortex.base.secret_scanner import find_leaks, find_leaks_by_line
from cortex.base.settings import load
from cortex.base.types import Query, UnreadableFile
from cortex.engine.engine import Engine
from cortex.engine.readers import read

ROOTS = (
    Path(sys.prefix),
    Path(sys.base_prefix),
    Path("/usr/lib"),
    Path("/usr/share"),
    Path("/usr/include"),
    Path("/etc"),
)
ENDINGS = frozenset(
    ".py .js .mjs .cjs .ts .md .txt .json .yml .yaml .c .h .cpp .html .css .sh .rst .toml .cfg .ini .xml .conf .go .java "
    ".rb .pl .pm .properties .sql .lua .php".split()
)
MAX_BYTES = 1_500_000
PACKAGE_DEPTH = 9  # parts of a path that name a package
# Of one package: the manual of a cloud's commands has thousands of pages about credentials
PACKAGE_FILES = 200
ALARMS_IN_THOUSAND = 1.0
MISSED = 2.0  # percent of random passwords
SHARE = 5.0  # percent of indexing, and of an answer
NAMES = (
    "password", "passwd", "pwd", "DB_PASSWORD", "dbPassword", "secret", "client_secret", "app_secret", "api_key", "apiKey", "API_TOKEN",
    "access_token", "auth_token", "secret_key", "admin_password",
)  # fmt: skip
STYLES = (
    "{}={}", '{} = "{}"', "{}: '{}'", "{}: {}", '"{}": "{}"', "{} = '{}',", "export {}={}", '{} => "{}"', "--{} {}", "<{}>{}</x>",
    'getenv("{}", "{}")',
)  # fmt: skip
SIZES = (12, 13, 14, 15, 16)
QUESTIONS = (
    "where are files opened",
    "parse arguments",
    "timeout of a connection",
    "decode text",
    "test that fails",
)


def measure(setup: Setup) -> Section:
    """Measure alarms on real files, missed passwords, and the cost of finding and redacting."""
    section = Section("redaction", "Secrets")
    wanted = 1_000 if setup.quick else 10_000
    files, megabytes, alarms, seconds = _look_at(wanted, setup.seed, PACKAGE_FILES)
    of_any, _, alarms_of_any, _ = _look_at(wanted, setup.seed, wanted)
    missed, made = _missed(10 if setup.quick else 100, setup.seed)
    section.text = (
        f"{files:,} different text files of this machine ({megabytes:.0f} MB: what Python, its packages and the system "
        "installed, at most 200 of a package), of which none is known to hold a live secret: each file with a finding counts as a false alarm, though "
        "most have keys that programs ship, or examples in the form of a real key; the rules for examples were written with these files in view. "
        "Random passwords are "
        f"{made:,} of 12 to 16 letters and digits, beside {len(NAMES)} names in {len(STYLES)} ways to write them. "
        "Indexing is as installed, with vectors."
    )
    section.add(
        "files with a finding, in 1,000", "", 1_000 * alarms / max(1, files), ALARMS_IN_THOUSAND
    )
    section.add(
        "the same, any number of a package",
        "",
        1_000 * alarms_of_any / max(1, of_any),
        ALARMS_IN_THOUSAND,
    )
    section.add("random passwords missed", "%", 100 * missed / made, MISSED)
    section.add("finding, text in a second of CPU", "MB", megabytes / seconds)
    folder = setup.repository(setup.small)
    costs = []
    for _ in range(setup.repeat):
        shutil.rmtree(folder / ".cortex", ignore_errors=True)
        costs.append(
            run([*setup.cortex, "index", str(folder)], _as_installed(setup), setup.bare_kb).cpu
        )
    finding = _seconds_for(folder)
    section.add(f"indexing {setup.small:,} files, CPU", "s", costs)
    section.add("of that, finding secrets", "%", [100 * finding / cost for cost in costs], SHARE)
    redacted, plain = _answers(folder, setup)
    section.add("an answer, median", "ms", 1_000 * redacted)
    section.add("of that, redacting", "%", max(0.0, 100 * (redacted - plain) / redacted), SHARE)
    return section


def _as_installed(setup: Setup) -> dict[str, str]:
    return setup.environment("local")


def _missed(repeat: int, seed: int) -> tuple[int, int]:
    """The number of random passwords beside a name that weren't found whole, and of all."""
    chance = random.Random(seed)
    texts = []
    for name, style, _ in itertools.product(NAMES, STYLES, range(repeat)):
        secret = "".join(
            chance.choices(string.ascii_letters + string.digits, k=chance.choice(SIZES))
        )
        texts.append((secret, style.format(name, secret)))
    missed = sum(
        all(text[leak.start : leak.end] != secret for leak in find_leaks(text))
        for secret, text in texts
    )
    return missed, len(texts)


def _look_at(wanted: int, seed: int, of_package: int) -> tuple[int, float, int, float]:
    """Number of scanned files, their megabytes, the files with findings, and the seconds."""
    paths = sorted({path for root in ROOTS for path in _files(root)})
    random.Random(seed).shuffle(paths)
    seen: set[int] = set()
    packages: Counter[str] = Counter()
    megabytes, alarms, seconds = 0.0, 0, 0.0
    for path in paths:
        if len(seen) >= wanted:
            break
        raw = Path(path).read_bytes()
        text = read(raw, path)
        package = path.split(os.sep)[:PACKAGE_DEPTH][-1]
        if isinstance(text, UnreadableFile) or hash(raw) in seen or packages[package] >= of_package:
            continue
        packages[package] += 1
        seen.add(hash(raw))
        megabytes += len(text) / 1e6
        started = time.process_time()
        alarms += bool(find_leaks(text))
        seconds += time.process_time() - started
    return len(seen), megabytes, alarms, seconds


def _files(root: Path) -> Iterator[str]:
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.splitext(name)[1].lower() not in ENDINGS or os.path.islink(path):
                continue
            if 0 < os.path.getsize(path) <= MAX_BYTES and os.access(path, os.R_OK):
                yield path


def _seconds_for(folder: Path) -> float:
    """The CPU that finding takes on the files of a repository."""
    paths = [
        path
        for path in folder.rglob("*")
        if path.is_file() and not {".git", ".cortex"} & set(path.parts)
    ]
    texts = [text for path in paths if isinstance(text := read(path.read_bytes(), path.name), str)]
    started = time.process_time()
    for text in texts:
        find_leaks_by_line(text)
    return time.process_time() - started


def _answers(folder: Path, setup: Setup) -> tuple[float, float]:
    """Seconds of an answer with redaction and without it, in turns."""
    taken: dict[bool, list[float]] = {True: [], False: []}
    environment = {**_as_installed(setup), "CORTEX_SEARCH_ENABLE_CACHING": "false"}
    with Engine(folder, load(folder, environment=environment)) as engine:
        engine.index()
        for number in range(10 if setup.quick else 100):
            for redacts in (True, False):
                engine.store.content.redacts(redacts)
                # What changed the setting forgot what was read: the first answer fetches it again.
                for query in QUESTIONS:
                    engine.search(Query(query, limit=10))
                started = time.perf_counter()
                engine.search(Query(QUESTIONS[number % len(QUESTIONS)], limit=10))
                taken[redacts].append(time.perf_counter() - started)
    return statistics.median(taken[True]), statistics.median(taken[False])
