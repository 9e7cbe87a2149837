"""Search among records: the kinds of hits, their order and their texts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from cortex.base.actors import person
from cortex.base.errors import CortexError, InputError
from cortex.base.record_model import (
    SENSITIVE,
    Artifact,
    Body,
    CodeLink,
    Comment,
    Observation,
    Record,
    Subcortex,
    Task,
    Term,
    Thread,
)
from cortex.base.settings import Settings, load
from cortex.base.types import Cancel, Mode, Query
from cortex.engine.embedders.circuit_breaker import Embedders
from cortex.engine.library import Library
from cortex.engine.search import retrieval
from cortex.engine.store import RecordTransaction
from cortex.families.team import search
from cortex.families.team.ids import fresh_key
from cortex.families.team.search import RecordQuery, RecordResults, find, page_of
from cortex.families.team.writes.transactions import perform
from cortex.toolkit.pagination import MAX_OFFSET
from families.team import kept_records

DAY = 86_400_000
NOW = int(time.time() * 1000)


keep = partial(kept_records.keep, at=NOW)


def change(library: Library, record: Record[Any], **parts: object) -> None:
    def work(step: RecordTransaction) -> str:
        kept = step.get(record.id)
        assert kept is not None
        return step.put(replace(kept, body=replace(kept.body, **parts))).id

    perform(library, work, actor=person(), key=fresh_key(), action="test", payload="")


def ask(library: Library, query: str = "", **more: object) -> RecordResults:
    return find(library, RecordQuery(query, mode=Mode.WORDS, **more))  # type: ignore[arg-type]


def titles(found: RecordResults) -> list[str]:
    return [hit.record.body.title for hit in found.hits]


# -- paraphrased queries
# --------------------------------------------------------------------------------------------

KEPT: tuple[tuple[Body, str], ...] = (
    (
        Subcortex("payments", "Payments", "Everything about invoices, refunds and the providers that move money."),
        "who looks after refunding customers and invoices",
    ),
    (
        Subcortex("search", "Search", "Ranking, indexing and the query language.", glossary=(Term("shard", "a part of the index on one machine"),)),
        "what does shard mean in our index",
    ),
    (
        Thread("Checkout times out at the end of the month", "Locks on the ledger table pile up while reports run.", "incident"),
        "why do customers get a timeout when they check out at month's end",
    ),
    (
        Thread("Which queue do we use for mails?", "Candidates are RabbitMQ and a table in Postgres.", "decision", "resolved", resolution="A table in Postgres, because nobody wants to run a broker."),
        "did we choose a message broker for sending mail",
    ),
    (
        Thread("Retrospective of the spring release", "The freeze was too short and the notes were written in a hurry.", "retrospective"),
        "lessons from the last release in spring",
    ),
    (
        Comment("thread_00000000000000000000000000", "The vacuum job is what holds the lock; moving it to 3 a.m. solved it in staging."),
        "when should the vacuum job run so that it holds no lock",
    ),
    (
        Comment("thread_00000000000000000000000001", "I tried zstd level 19: twice as slow to write and only 4 % smaller than level 3."),
        "compression level of zstd, size against speed",
    ),
    (
        Observation("Load test of the gateway: 1,200 requests per second", "p99 was 340 ms with 64 connections; above that the pool starves.", "test_result", ("gateway", "load")),
        "how many requests can the gateway bear under load",
    ),
    (
        Observation("Flaky: test_reconnect fails one run in thirty", "It waits for a socket that the kernel has already closed.", "test_result"),
        "flaky reconnect test and its socket",
    ),
    (
        Observation("The importer skips rows with a byte order mark", "Files from Excel begin with one; strip it before parsing.", "research_note", code_links=(CodeLink("src/importer/rows.py", symbol="read_rows"),)),
        "spreadsheet files lose rows on import",
    ),
    (
        Observation("Upgrade to Python 3.13 breaks the wheel of lxml", "No binary for musl yet; the build needs libxml2 headers.", "tool_output"),
        "lxml does not build on musl with the new python",
    ),
    (
        Artifact("ADR 12: Sessions live in signed cookies", "No session table; rotating the key logs everybody out.", "Sessions are kept in signed cookies, not in the database.", "adr", "accepted"),
        "where is the user's session stored",
    ),
    (
        Artifact("Runbook: restoring a backup", "Stop the workers, fetch the last base backup, replay the log, then check the row counts.", "How to bring the database back.", "runbook", "accepted"),
        "steps to restore the database from a backup",
    ),
    (
        Artifact("Naming of metrics", "Metrics are called service_noun_unit, counters end in _total.", "", "spec", "proposed"),
        "what should a counter metric be named",
    ),
    (
        Artifact("Postmortem: certificates expired on a Sunday", "The renewal hook had no permission to reload nginx.", "", "postmortem", "accepted"),
        "why did the TLS certificates expire",
    ),
    (
        Artifact("ADR 7: Feature flags are environment variables", "A flag is read once at start.", "", "adr", "superseded"),
        "how are feature flags read",
    ),
    (
        Task("Rotate the signing key of the package repository", "The old one ends in March.", "in_progress", "high"),
        "rotating the key that packages are signed with",
    ),
    (
        Task("Make the mobile menu usable with a screen reader", "Focus leaves the dialog.", "inbox", tags=("accessibility",)),
        "accessibility of the menu on phones",
    ),
    (
        Task("Delete accounts after two years without a login", "Legal wants it by summer.", "blocked", blocked_reason="waiting for the lawyers' text"),
        "removing inactive accounts",
    ),
    (
        Task("Cache thumbnails at the edge", "Images are half of the traffic.", "done"),
        "serving image thumbnails from a CDN cache",
    ),
)  # fmt: skip


@pytest.fixture(scope="module")
def twenty(tmp_path_factory) -> Iterator[tuple[Library, list[Record[Any]]]]:
    home = tmp_path_factory.mktemp("twenty")
    settings = load(
        None, environment={"CORTEX_HOME": str(home)}, flags={"indexing.workers": 1}, user_home=home
    )
    with Library(settings, embedders=Embedders(None)) as library:
        yield library, keep(library, *(body for body, _ in KEPT))


def test_paraphrased_query_finds_the_right_record_first(twenty):
    library, records = twenty
    first = [ask(library, question).hits[:1] for _, question in KEPT]
    wrong = [
        KEPT[at][1]
        for at, hits in enumerate(first)
        if not hits or hits[0].record.id != records[at].id
    ]
    assert len(wrong) <= 3, wrong


def test_hit_has_the_best_sentence_and_its_matched_terms(twenty):
    library, _ = twenty
    hit = ask(library, "how many requests can the gateway bear under load").hits[0]
    assert hit.why == "words: requests, gateway, load" and "64 connections" in hit.snippet
    assert 0 < hit.relevance <= 1
    filed = ask(library, "read_rows in src/importer/rows.py").hits[0]
    assert filed.snippet == "Files from Excel begin with one; strip it before parsing."


def test_comment_ranks_before_its_thread_only_if_it_matches(library):
    said = "Crusts were pale last week, and nobody knows why that was so on those days."
    (thread,) = keep(library, Thread("How hot should sourdough bake?", said))
    (rule,) = keep(
        library,
        Artifact(
            "Sourdough baking temperature", "Sourdough bakes at 230 degrees.", state="accepted"
        ),
    )
    begin, more, answer = keep(
        library,
        Comment(thread.id, "I begin."),
        Comment(thread.id, "+1"),
        Comment(thread.id, "Preheat for 45 minutes with steam."),
    )
    asked = [hit.record.id for hit in ask(library, "how hot should sourdough bake").hits]
    assert asked[0] == thread.id and asked.index(rule.id) < min(
        map(asked.index, (begin.id, more.id))
    )
    assert ask(library, "preheat minutes steam").hits[0].record.id == answer.id


def test_types_select_the_kinds_of_hits(twenty):
    library, _ = twenty
    found = ask(library, "key session flags", types=("artifact",), limit=20)
    assert {hit.record.kind for hit in found.hits} == {"artifact"}
    both = ask(library, "lock", types=("comment", "thread"), limit=20)
    assert {hit.record.kind for hit in both.hits} == {"comment", "thread"}


def test_unknown_type_is_refused_with_the_known_ones(twenty):
    with pytest.raises(InputError, match="subcortex, thread, comment") as caught:
        ask(twenty[0], "x", types=("drafts",))
    assert caught.value.code == "ARGUMENT_INVALID"


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"state": "accepted"}, {"artifact"}),
        ({"state": ("in_progress", "blocked")}, {"task"}),
        ({"tags": ("Load", "gateway")}, {"observation"}),
        ({"tags": ("gateway", "accessibility")}, set()),
        ({"sensitivity": SENSITIVE}, set()),
        ({"since": NOW + DAY}, set()),
        ({"until": NOW - DAY}, set()),
    ],
)
def test_filters_apply_with_and_without_a_query(twenty, filters, expected):
    library, _ = twenty
    asked = "key backup load certificates session accounts requests"
    for found in (ask(library, asked, limit=50, **filters), ask(library, limit=50, **filters)):
        assert {hit.record.kind for hit in found.hits} == expected
        assert found.total == len(found.hits)


@pytest.mark.parametrize("most", [0, 4_000])
def test_broad_filter_gives_the_same_hits_as_a_narrow_one(twenty, monkeypatch, most):
    library, _ = twenty
    monkeypatch.setattr(search, "MOST_DOCS", most)
    found = ask(
        library, "restore the database, then renew expired certificates", state="accepted", limit=3
    )
    assert titles(found)[:2] == [
        "Postmortem: certificates expired on a Sunday",
        "Runbook: restoring a backup",
    ]
    assert found.total == len(found.hits)


def test_pages_join_without_gap_or_repetition(twenty):
    library, _ = twenty
    question = "the key of a test that is read at the end of a release"
    whole = [hit.record.id for hit in ask(library, question, limit=12).hits]
    parts = [
        hit.record.id
        for at in range(0, 12, 4)
        for hit in ask(library, question, limit=4, offset=at).hits
    ]
    assert parts == whole and len(set(whole)) == len(whole)


def test_invalid_query_is_refused(twenty):
    with pytest.raises(InputError) as caught:
        ask(twenty[0], "x" * 30_000)
    assert caught.value.code == "QUERY_INVALID"


# -- order
# -------------------------------------------------------------------------------------------------


def test_successor_ranks_before_the_superseded_artifact(library):
    old = Artifact(
        "Deploys go through the blue cluster", "We deploy by hand.", "", "adr", "superseded"
    )
    new = Artifact(
        "Deploys go through the green cluster", "We deploy by hand.", "", "adr", "accepted"
    )
    keep(library, old)
    keep(library, new)
    found = ask(library, "deploys go through which cluster by hand")
    assert titles(found) == [new.title, old.title]
    assert found.hits[0].relevance > found.hits[1].relevance


def test_pinned_then_newer_records_win_among_equals(library):
    keep(
        library, Observation("Cold start takes nine seconds", "first measured"), at=NOW - 300 * DAY
    )
    (pinned,) = keep(
        library,
        Artifact("Cold start takes nine seconds", "second measured", state="proposed"),
        at=NOW - 400 * DAY,
    )
    keep(library, Observation("Cold start takes nine seconds", "third measured"), at=NOW - DAY)
    keep(library, Subcortex("startup", "Startup", pinned_artifacts=(pinned.id,)))
    found = ask(library, "cold start seconds measured")
    assert [hit.snippet for hit in found.hits] == [
        "second measured",
        "third measured",
        "first measured",
    ]


def test_old_record_is_still_found(library):
    (old,) = keep(
        library, Observation("The parser drops umlauts in file names"), at=NOW - 4_000 * DAY
    )
    keep(
        library, *(Observation(f"Parser run {number} of the nightly build") for number in range(30))
    )
    assert ask(library, "umlauts in file names").hits[0].record.id == old.id


def test_long_discussion_hides_neither_its_thread_nor_other_records(library):
    (thread,) = keep(library, Thread("Rename the billing tables", "Plural or singular?"))
    keep(library, *(Comment(thread.id, f"Plural, please ({number}).") for number in range(20)))
    keep(library, Task("Rename the billing tables in the reports", "After the migration."))
    kinds = [hit.record.kind for hit in ask(library, "rename the billing tables", limit=6).hits]
    assert kinds[0] == "thread" and "task" in kinds


def test_long_record_is_one_hit_with_its_best_part(library):
    parts = "\n\n".join(
        f"## Part {number}\n\n" + "The scheduler wakes a worker. " * 80 for number in range(6)
    )
    keep(
        library,
        Artifact(
            "Handbook of the scheduler",
            parts + "\n\n## Leases\n\nA lease ends after forty seconds.",
        ),
    )
    found = ask(library, "scheduler lease ends seconds")
    assert len(found.hits) == 1 and found.hits[0].snippet == "A lease ends after forty seconds."


# -- changes
# ------------------------------------------------------------------------------------------------------


def test_empty_query_lists_the_last_changed_first(library):
    first, *_ = keep(library, Task("One"), Task("Two"), Task("Three"), at=NOW - DAY)
    change(library, first, state="review")
    found = ask(library, limit=2)
    assert titles(found) == ["One", "Three"] and found.total == 3
    assert titles(ask(library, limit=2, offset=2)) == ["Two"]


def test_changed_record_is_found_by_its_new_text_at_once(library):
    (task,) = keep(library, Task("Measure the walrus"))
    assert ask(library, "walrus").hits
    change(library, task, title="Measure the dolphin")
    assert not ask(library, "walrus").hits and ask(library, "dolphin", state="inbox").hits


def test_subcortex_filter_takes_a_slug_or_id_and_refuses_unknown_ones(library):
    (scope,) = keep(library, Subcortex("harbour", "Harbour"))
    keep(library, Thread("Cranes stand still", subcortex=scope.id), Thread("Cranes are painted"))
    for name in ("harbour", "HARBOUR", scope.id):
        assert titles(ask(library, "cranes", subcortex=name)) == ["Cranes stand still"]
    with pytest.raises(InputError) as caught:
        ask(library, "cranes", subcortex="harbor")
    assert caught.value.code == "SCOPE_NOT_FOUND" and "harbour" in caught.value.message


def test_sensitive_records_are_found_by_words_and_can_be_excluded(library):
    keep(
        library,
        Observation("Salaries of the kitchen", sensitivity=SENSITIVE),
        Observation("Rota of the kitchen"),
    )
    assert len(ask(library, "kitchen").hits) == 2
    assert titles(ask(library, "kitchen", sensitivity="normal")) == ["Rota of the kitchen"]
    assert titles(ask(library, "kitchen", sensitivity=SENSITIVE)) == ["Salaries of the kitchen"]


def test_search_in_an_empty_store_finds_nothing(library):
    assert ask(library, "anything") == RecordResults((), 0, mode=Mode.WORDS)
    assert ask(library, "anything", state="open").hits == ask(library).hits == ()


def test_read_only_library_finds_new_records(library):
    keep(library, Task("Feed the otter"))
    assert titles(find(library.reader, RecordQuery("otter"))) == ["Feed the otter"]


# -- combined search
# ------------------------------------------------------------------------------------------------


def test_combined_search_has_one_hit_with_text_per_record(twenty):
    library, records = twenty
    page = page_of(
        library,
        RecordQuery(types=("artifact",)),
        Query("restore backup", mode=Mode.WORDS, limit=3),
        Cancel(),
    )
    assert page.hits[0].path == records[12].id and "replay the log" in page.hits[0].text
    assert len({hit.path for hit in page.hits}) == len(page.hits) <= 3
    narrowed = page_of(
        library, RecordQuery(state="proposed"), Query("counter", mode=Mode.WORDS, limit=3), Cancel()
    )
    assert [hit.path for hit in narrowed.hits] == [records[13].id] and narrowed.total == 1


def test_semantic_search_skips_sensitive_records(settings: Settings):
    with Library(settings) as library:
        keep(
            library,
            Observation("Payroll of the orchestra", sensitivity=SENSITIVE),
            Observation("Concert in the park"),
        )
        found = find(library, RecordQuery("wages of musicians", mode=Mode.MEANING))
        assert titles(found) in ([], ["Concert in the park"])


@pytest.mark.parametrize("depth", [4, 150])
def test_filtering_semantic_hits_equals_searching_the_allowed_ones(
    settings: Settings, monkeypatch, depth
):
    with Library(settings) as library:
        keep(library, *(body for body, _ in KEPT))
        kinds = ("thread", "observation", "artifact", "task", "subcortex")
        monkeypatch.setattr(retrieval, "DEPTH", depth)
        answers = []
        for longer in (5, 0):
            monkeypatch.setattr(retrieval, "LONGER", longer)
            asked = [
                RecordQuery(question, types=kinds, mode=Mode.MEANING, limit=4)
                for _, question in KEPT
            ]
            answers.append(
                [
                    [(hit.record.id, hit.relevance) for hit in find(library, query).hits]
                    for query in asked
                ]
            )
            keep(
                library, Task("Something else, so that nothing is answered from an earlier answer")
            )
        assert answers[0] == answers[1] and any(answers[0])


def test_cancelled_search_ends(library):
    keep(library, Task("Water the plants"))
    cancel = Cancel()
    cancel.cancel()
    with pytest.raises(CortexError) as caught:
        find(library, RecordQuery("plants", mode=Mode.WORDS), cancel)
    assert caught.value.code == "CANCELLED"


def test_changed_state_is_filtered_at_once(library: Library) -> None:
    (task,) = keep(library, Task("Rotate the certificate", "Of the gateway."))
    assert not find(library, RecordQuery("certificate", state="done")).hits
    change(library, task, state="done")
    assert [
        hit.record.id for hit in find(library, RecordQuery("certificate", state="done")).hits
    ] == [task.id]
    assert not find(library, RecordQuery("certificate", state="inbox")).hits


def test_paging_lists_every_record_once(library: Library) -> None:
    texts = [f"The certificate {'of the gateway ' * (number % 5)}{number}" for number in range(60)]
    kept = keep(
        library,
        *(Observation(text, "certificate " * (number % 7)) for number, text in enumerate(texts)),
    )
    for record in keep(
        library, *(Artifact(f"Certificate {number}", state="accepted") for number in range(10))
    ):
        kept.append(record)
    seen: list[str] = []
    for offset in range(0, 80, 5):
        page = page_of(
            library, RecordQuery(), Query("certificate", limit=5, offset=offset), Cancel()
        )
        seen += [hit.path for hit in page.hits]
    assert len(seen) == len(set(seen)) and set(seen) == {record.id for record in kept}


@pytest.mark.parametrize("offset", [1_000, 20_000_000, MAX_OFFSET - 1])
def test_offset_beyond_the_last_hit_finds_nothing_and_ranks_nothing(library, offset):
    keep(library, Task("Rotate the certificate"), Task("Renew the certificate"))
    query = Query("certificate", mode=Mode.WORDS, limit=5, offset=offset, snippets=(320, 160))
    assert search.sizes_of(query, offset + 5) == (320, *(160,) * (search.MOST_CUT - 1), 0)
    page = page_of(library, RecordQuery(), query, Cancel())
    assert (page.hits, page.total) == ((), 2)
    # Among several stores the first hits are asked for, as many as that.
    assert (
        len(
            page_of(
                library, RecordQuery(), replace(query, offset=0, limit=offset + 5), Cancel()
            ).hits
        )
        == 2
    )
    for text in ("certificate", ""):
        found = find(library, RecordQuery(text, mode=Mode.WORDS, limit=5, offset=offset))
        assert (found.hits, found.total) == ((), 2)


def test_snippets_are_cut_for_requested_hits_only():
    query = Query("certificate", snippets=(320, 320, 160))
    assert search.sizes_of(query, 2) == (320, 320, 160, 160, 0)
    assert search.sizes_of(replace(query, snippets=()), 2) == ()


@pytest.mark.parametrize("heading", ["# limit", "## limit", "######"])
def test_text_of_headings_only_is_chunked_by_lines(library, heading):
    """Otherwise each heading is a chunk and a symbol for the next search to look at."""
    text = f"{heading}\n" * (50_000 // (len(heading) + 1))
    headed, _ = keep(
        library,
        Artifact("Lighthouse", "", f"{text}the lamp\n"),
        Artifact("Limit", "", "of the lamp"),
    )
    lookup, sources = (
        library.store.content,
        [source.id for source in library.store.records.sources(("artifact",))],
    )
    doc = lookup.doc(sources[0], headed.id)
    assert doc is not None
    chunks = [chunk for _, chunk in lookup.chunks(doc.blob)]
    assert len(chunks) < 50 and {chunk.qualified for chunk in chunks} == {"Lighthouse"}
    assert [symbol.name for symbol in lookup.symbols(doc.blob)] == ["Lighthouse"]
    assert titles(ask(library, "limit"))[0] == "Limit"
    assert set(titles(ask(library, "lamp"))) == {"Lighthouse", "Limit"}


def test_long_text_is_chunked_by_its_headings(library):
    sections = "".join(
        f"## Term {number}\n\nWhat it means, in a sentence or two.\n\n" for number in range(400)
    )
    (record,) = keep(library, Artifact("Glossary", "", sections))
    (source,) = library.store.records.sources(("artifact",))
    doc = library.store.content.doc(source.id, record.id)
    assert doc is not None and len(library.store.content.symbols(doc.blob)) == 401
