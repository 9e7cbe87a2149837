"""Rename a local subcortex if the Core already uses its slug, so that it can be sent.

From then on the slug means the Core's subcortex, as it does for other users. Records in the local
subcortex refer to it by id and stay in it.
"""

from __future__ import annotations

from dataclasses import replace

from cortex.base.record_model import Draft, Record, RecordFilter, Subcortex
from cortex.engine.library import Library
from cortex.engine.store import OutboxEntry, RecordTransaction
from cortex.families.team.references import by_slug
from cortex.families.team.sync import alerts, rejections
from cortex.families.team.validation import SLUG

MOST_TRIED = 50
MOST_CHARACTERS = 50
MOST_DRAFTS = 1_000


def rename_conflicting(library: Library, entry: OutboxEntry) -> bool:
    """Rename the subcortex that an entry creates, here and in the outbox; false if impossible.

    With several subcortexes in one entry it is unclear which one conflicts; an upload is then sent
    in parts. After a crash between the two renames, the next sync gives the outbox the local slug.
    """
    new = [
        change for change in entry.changes if change.kind == "subcortex" and change.before is None
    ]
    if len(new) != 1 or rejections.is_divisible(entry):
        return False
    (change,) = new
    record = library.store.records.one(change.id)
    if record is None or not isinstance(change.after, Subcortex):
        return False
    slug = record.body.slug
    if slug == change.after.slug:
        slug = _unused_slug(library, record)
        if not slug:
            return False
        _rename(library, record, slug)
    library.store.outbox.rename(record.id, change.after.slug, slug)
    return True


def _unused_slug(library: Library, record: Record[Subcortex]) -> str:
    """Return the next unused slug, "" if there is none."""
    first = next(iter(library.store.records.versions(record.id).values()), record).body.slug
    tried = {
        version.body.slug for version in library.store.records.versions(record.id).values()
    } | {record.body.slug}
    for index in range(2, MOST_TRIED):
        suffix = f"-{index}"
        slug = first[: MOST_CHARACTERS - len(suffix)] + suffix
        if (
            slug not in tried
            and SLUG.fullmatch(slug)
            and by_slug(library.store.records, slug) is None
        ):
            return slug
    return ""


def _rename(library: Library, record: Record[Subcortex], slug: str) -> None:
    before = record.body.slug

    def work(step: RecordTransaction) -> str:
        now = step.get(record.id)
        assert now is not None
        step.put(replace(now, body=replace(now.body, slug=slug)))
        for draft_id in drafts:
            draft = step.get(draft_id)
            if draft is not None and isinstance(draft.body, Draft):
                step.put(replace(draft, body=replace(draft.body, target=record.id)))
        return record.id

    wanted = RecordFilter(kinds=("draft",), refs=(("target", before),))
    draft_ids = [draft.id for draft in library.store.records.select(wanted, MOST_DRAFTS)]
    known = library.store.outbox.known(draft_ids)
    drafts = [draft_id for draft_id in draft_ids if draft_id not in known]
    alerts.alert_renamed(library, record, slug, work)
