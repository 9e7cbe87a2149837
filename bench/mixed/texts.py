"""Texts that the questions of questions.py are about, and texts that are near to them.

Records and memories of a team that makes a search program.

Each has a key, by which a question names it, or which only keeps it apart; a comment names its
thread by that thread's key. Nothing here is said in the handbook or in the code. What is around all
this, so that there is something to be lost in, is made by mixed_made.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from cortex.base.record_model import (
    Artifact,
    Body,
    Comment,
    Evidence,
    Observation,
    Subcortex,
    Task,
    Thread,
)
from cortex.base.types import Memory

_SEEN = (Evidence("url", "https://tracker.example/minutes"),)

SUBCORTEXES: Mapping[str, Subcortex] = {
    "accessibility": Subcortex(
        "accessibility",
        "Accessibility",
        "Terminals, colours and web pages that everybody can use.",
        "We look after people who work with a screen reader, without a mouse, or who don't tell red from green. Tables are read "
        "out cell by cell, so every table has a plain form. No meaning by colour alone. Steward: Amara.",
        stewards=("Amara",),
    ),
    "releases": Subcortex(
        "releases",
        "Builds and releases",
        "Wheels, containers, signatures, the changelog.",
        "What we ship can be rebuilt from its tag by anybody. Whoever tags a release stays reachable until the next morning.",
        stewards=("Ines",),
    ),
    "indexing": Subcortex(
        "indexing", "Indexing", "From files to chunks.", "A bad file costs itself and nothing else. Speed is CPU seconds, not wall time."
    ),
    "quality": Subcortex(
        "search-quality", "Search quality", "Ranking, relevance and how they are measured.", "No change of ranking without a table."
    ),
    "clients": Subcortex("clients", "Clients", "Editors and agents that talk to us.", "We keep their files as they were, to the byte."),
    "storage": Subcortex("storage", "Storage", "What lies on disk.", "Acknowledged means there, whatever is pulled out of the wall."),
    "support": Subcortex(
        "support", "Support", "People who ask for something.", "An answer on the same day, even if it is that we don't know yet."
    ),
    "infrastructure": Subcortex(
        "infrastructure", "Infrastructure", "Machines of our own: runners, the demo server, dashboards.", "Everything has an owner."
    ),
    "writing": Subcortex("writing", "Writing", "The handbook and what we say in public.", "Short sentences. Examples that run."),
}  # fmt: skip

RECORDS: Mapping[str, Body] = {
    "withdraw": Artifact(
        "Runbook: pulling back a bad release",
        "1. Yank the wheel, don't delete it: pinned installs must go on to work.\n2. Move the `latest` tag of the container back by "
        "one.\n3. Open an incident thread and say in its first line which version is affected.\n4. Publish the fix as a patch "
        "version, never under the same number.\n5. Tell the packagers' list within two hours.",
        "What to do in the first two hours when a published version is broken.",
        "runbook",
        "accepted",
        subcortex="releases",
        evidence=_SEEN,
        tags=("release", "rollback"),
    ),
    "cut": Artifact(
        "Runbook: cutting a release",
        "Freeze on Monday, tag on Wednesday. The tag is signed; wheels are built twice and compared byte by byte. The changelog is "
        "read aloud by somebody who did not write it.",
        "From the freeze to the announcement.",
        "runbook",
        "accepted",
        subcortex="releases",
        evidence=_SEEN,
    ),
    "interpreters": Artifact(
        "ADR 7: which Python versions we support",
        "We support an interpreter as long as the long-term releases of Debian and Ubuntu ship it, and drop it in the first minor "
        "release after that. 3.10 was dropped because `ExceptionGroup` and the faster start of 3.11 were worth more than the two "
        "customers on it. The next one to go is 3.11, not before May 2028.",
        "Until the distributions drop it.",
        "adr",
        "accepted",
        subcortex="releases",
        evidence=_SEEN,
        tags=("python",),
    ),
    "licences": Artifact(
        "ADR 9: licences that a dependency may have",
        "MIT, BSD, Apache and MPL are taken; GPL is not, LGPL only where it is loaded dynamically. Somebody looks at every new one.",
        type="adr",
        state="accepted",
        subcortex="releases",
        evidence=_SEEN,
    ),
    "metrics": Artifact(
        "ADR 11: what a latency figure means with us",
        "p95 of 200 calls in a fresh process, cache off, on the runner with two cores. A figure without its commit is not quoted.",
        type="adr",
        state="accepted",
        subcortex="quality",
        evidence=_SEEN,
    ),
    "onboarding": Artifact(
        "First week of a new colleague",
        "Day one: build, run the tests, break something on purpose and find out how it is told. Day three: answer a support question.",
        type="other",
        state="proposed",
        subcortex="support",
    ),
    "outage-report": Artifact(
        "Postmortem: runners were idle for a weekend",
        "The token of the runners had a life of 90 days and nobody owned it. It has an owner and a calendar entry now.",
        type="postmortem",
        state="accepted",
        subcortex="infrastructure",
        evidence=_SEEN,
    ),
    "windows-arm": Thread(
        "Should nightly builds be published for Windows on ARM?",
        "Three people with Surface devices asked. tree-sitter has wheels for it, tantivy would have to be built by us; emulation "
        "works but indexes at a third of the speed.",
        "decision",
        subcortex="releases",
        tags=("windows", "arm64"),
    ),
    "windows-arm-comment": Comment("windows-arm", "Cross compiling the index library took 50 minutes on our runner. Let's do it weekly and not every night."),
    "musl": Thread("Alpine and musl wheels", "The container people would like an image half as large. What breaks is the memory allocator: 30 % slower.", "proposal", subcortex="releases"),
    "musl-comment": Comment("musl", "With mimalloc preloaded the difference is gone, but then we ship an allocator."),
    "demo-disk": Thread(
        "Incident: demo server stopped answering, volume was full",
        "On 3 October from 14:10 to 15:45 the public demo gave errors. The word index could not merge because the 20 GB volume was "
        "full of core dumps of a GPU driver. Dumps are capped now and an alarm rings at 80 %.",
        "incident",
        subcortex="infrastructure",
        tags=("demo",),
    ),
    "demo-disk-comment": Comment("demo-disk", "Nothing was lost: after space was freed the index caught up by itself in four minutes."),
    "demo-cert": Thread("Incident: demo server showed a browser warning", "Its web certificate had expired at midnight; the renewal job ran on the machine that we had switched off.", "incident", subcortex="infrastructure"),
    "nfs": Thread("Slow start on network homes", "Two universities report 40 seconds before the first answer. Local disks are fine.", "question", subcortex="support"),
    "nfs-comment": Comment("nfs", "strace shows 4,100 stat calls, each a round trip of 9 ms to the file server. With the store in /var/tmp it takes three seconds."),
    "nfs-comment-2": Comment("nfs", "Locking works there since NFSv4; with version 3 two writers were possible, so we refuse it."),
    "colours": Thread("Do we need a theme without red and green?", "The status line says ready and failed by colour only. One in twelve men can't tell.", "proposal", subcortex="accessibility"),
    "colours-comment": Comment("colours", "A word beside the colour costs six characters and helps in logs as well."),
    "pricing": Thread("What a hosted index would have to cost", "Storage is a third, support is most of it. Nobody wants to be on call.", "research", subcortex="support"),
    "retro": Thread("Retrospective of the autumn release", "Good: the freeze. Bad: three people waited for one review. To try: reviews before lunch.", "retrospective", subcortex="releases"),
    "emoji": Thread("Emoji and CJK in identifiers", "Swift allows both. Our word index takes emoji apart into nothing.", "question", subcortex="quality"),
    "fuzz-notebooks": Observation(
        "Twelve hours of fuzzing against the reader of Jupyter notebooks",
        "No crash and no hang in 41 million inputs. Two inputs took more than a second: deeply nested outputs, and a cell of 8 MB in one line.",
        "test_result",
        ("fuzzing", "notebooks"),
        subcortex="indexing",
    ),
    "fuzz-pdf": Observation("Fuzzing of the PDF reader", "One hang after three hours, in the cross-reference table; the time limit of the worker ended it as it should.", "test_result", ("fuzzing",), subcortex="indexing"),
    "power": Observation(
        "Battery drain while 10,000 files are embedded",
        "ThinkPad X1, on battery: 28 W for 40 seconds instead of 6 W idle, so about a quarter of a watt-hour. The fan starts after 25 seconds. By words only it stays at 15 W.",
        "research_note",
        ("energy", "vectors"),
        subcortex="indexing",
    ),
    "phone": Observation("Indexing on a phone", "Termux on a Pixel 8: 1,000 files in 21 seconds, throttled after two minutes.", "research_note", ("arm64",), subcortex="indexing"),
    "runner-slow": Observation("Runners of the new pool are 18 % slower", "Same commit, five runs each. They share a socket with somebody who compiles.", "test_result", ("ci",), subcortex="infrastructure"),
    "customer-size": Observation("Largest repository seen so far", "A customer's monorepo: 410,000 files, 61 GB with assets, 9 GB of it text. Memory stayed below 400 MB.", "research_note", subcortex="support"),
    "survey": Observation("Survey among 64 users", "Half of them never open the handbook. Most wanted: search over chat logs, then tickets.", "research_note", subcortex="writing"),
    "typo-rate": Observation("One query in nine has a typo", "Counted by hand in 300 queries of the usability sessions.", "research_note", subcortex="quality"),
    "coffee": Observation("Tests on the train", "Without a network four tests failed that should not need one; all of them looked up the host's own name.", "test_result", ("offline",), subcortex="indexing"),
    "certificate": Task(
        "Renew the certificate that signs our Windows installers",
        "It ends on 14 March. The authority wants a notarised letter since last year, which takes three weeks.",
        "in_progress",
        "high",
        ("Tomasz",),
        subcortex="releases",
    ),
    "sbom": Task("Bill of materials with each wheel", "CycloneDX, made in the build and signed with it.", "inbox", "normal", subcortex="releases"),
    "japanese": Task(
        "Translate the handbook into Japanese",
        "Chapters one to four are done, by two volunteers.",
        "blocked",
        "normal",
        subcortex="writing",
        blocked_reason="The glossary has no owner: three words for chunk are in use.",
    ),
    "screenshots": Task("New screenshots for the web page", "Those that are there show the old status line.", "inbox", "low", subcortex="writing"),
    "voice": Task("Read all error messages aloud with NVDA and VoiceOver", "Those with paths are unbearable; shorten what can be shortened.", "assigned", "normal", ("Amara",), subcortex="accessibility"),
    "alarm": Task("Alarm when a runner has been idle for a day", "", "done", "normal", ("Jun",), subcortex="infrastructure"),
    "quota": Task("Quota of the container registry", "We keep images of 400 commits; 60 would do.", "inbox", "normal", subcortex="infrastructure"),
    "interview": Task("Talk to the two universities about shared homes", "Ask how many people search at once and which file server it is.", "assigned", "normal", ("Ines",), subcortex="support"),
}  # fmt: skip


def _memory(
    title: str,
    text: str,
    kind: str = "discovery",
    project: str = "cortex",
    concepts: tuple[str, ...] = (),
) -> Memory:
    return Memory("", title, text=text, kind=kind, project=project, concepts=concepts)


MEMORIES: Mapping[str, Memory] = {
    "proxy": _memory("Office proxy cuts connections after 60 seconds", "Model files and container layers above 200 MB never arrive at the desk in Utrecht. Fetch them from the runner and copy with rsync.", "gotcha"),
    "vpn": _memory("VPN drops on Tuesdays at noon", "The gateway reboots for its updates. Long ssh sessions belong in tmux.", "gotcha"),
    "clock": _memory("arm-02 has a clock that runs nine minutes fast", "chrony is blocked by the firewall there. Certificates look not yet valid and file times are in the future; don't compare mtimes across runners.", "gotcha"),
    "arm-01": _memory("arm-01 has only 4 GB of swap", "Linking the index library there needs `-j1`, or it is killed."),
    "breakpoints": _memory("Breakpoints under pytest need --no-cov and -n0", "Coverage replaces the trace function and xdist runs tests elsewhere: pdb and the editor's debugger are passed by in silence.", "gotcha"),
    "slow-tests": _memory("pytest --durations=20 before complaining", "Nine of the ten slowest tests waited for a subprocess that could have been a function call."),
    "reviews": _memory("Ines reviews in small pieces", "One commit for one reason, moves apart from edits, tests in the same commit. She sends back anything above 400 lines.", "decision"),
    "jun-reviews": _memory("Jun reads the tests first", "If they don't tell the story he asks for a description.", "decision"),
    "apfs": _memory("Flaky rename test came from case-insensitive APFS", "On macOS the rename of `Readme` to `README` gives one event or two, depending on timing. The watcher test now waits for the name and not for the count.", "bugfix"),
    "inotify": _memory("Linux CI had 8,192 inotify watches", "Large fixtures used them up; raised by sysctl in the runner's image.", "bugfix"),
    "grafana": _memory("Dashboards moved to port 3100", "The old bookmark still opens a Grafana that gets no new data since the move in August, so the graphs look flat. Ask for metrics.int:3100.", "change"),
    "prometheus": _memory("Prometheus keeps 15 days only", "For anything older there are the weekly CSV dumps in the bucket.", "discovery"),
    "replica": _memory("Never migrate the replica between 03:00 and 04:30", "The nightly snapshot holds a lock on all tables then; an ALTER TABLE waits for it and blocks every reader behind it.", "gotcha"),
    "backup": _memory("Backups are restored every first Monday", "Into a scratch database, by the cron job restore-check; it mails only when it fails.", "discovery"),
    "docker": _memory("COPY pyproject.toml before src in the Dockerfile", "Dependencies are a layer of their own then: a build of the image takes 25 seconds and not four minutes.", "feature"),
    "buildx": _memory("buildx forgets its cache on a new builder", "Name the builder, or every pipeline begins from nothing.", "gotcha"),
    "font": _memory("The slides' font may not be redistributed", "Its licence covers print and screen of our own only. Convert the text to outlines or take Inter.", "decision"),
    "logo": _memory("Logo in one colour exists as SVG", "In the brand folder; the PNG on the wiki is the old one."),
    "semicolons": _memory("Heron GmbH reads CSV with semicolons", "Their German Excel takes a comma for the decimal sign. Exports for them go through `--delimiter ';'`; everybody else gets commas.", "discovery"),
    "kestrel": _memory("Kestrel wants dates as day.month.year", "Only in reports for people, never in JSON.", "decision"),
    "keyboard": _memory("Tomasz is on a Dvorak layout", "Don't type on his machine in demos.", "discovery", "people"),
    "standup": _memory("Stand-up is at 09:40 since the summer", "Because of the school run.", "change", "people"),
    "room": _memory("Meeting room B has no HDMI", "USB-C only; the adapter is in the drawer of room A.", "gotcha", "people"),
    "sqlite-shell": _memory("Use `.mode box` in the sqlite shell", "And `.timer on`; EXPLAIN QUERY PLAN before any new index.", "discovery"),
    "git-bisect": _memory("git bisect run with a script that exits 125", "For commits that don't build; found the slow start in nine steps.", "discovery"),
    "regex": _memory("Possessive quantifiers saved the log parser", "`[^\"]*+` instead of `[^\"]*`: from 9 seconds to 0.2 on a bad line.", "refactor"),
    "tz": _memory("Cron on the metrics box runs in UTC", "The report for Lisbon comes at seven in winter and at eight in summer.", "gotcha"),
    "fsync": _memory("fsync on the consumer SSD takes 4 ms", "On the server's drives it is 0.1: don't judge write rates on the laptop.", "discovery"),
    "numpy-pin": _memory("numpy 2.3.1 was yanked", "Locks that name it fail; go to 2.3.2.", "bugfix"),
    "rust-toolchain": _memory("Rust 1.85 is needed for the index library", "rustup on the runners was at 1.79 until June.", "change"),
}  # fmt: skip
