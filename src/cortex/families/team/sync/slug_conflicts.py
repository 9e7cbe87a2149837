"""A subcortex whose slug the Core has already gets another one here, so that it and all that is
filed under it can be sent.

The slug means the Core's subcortex from then on: others name that by it. What was filed here names
its subcortex by its id, and stays there.
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


def give_another(library: Library, entry: OutboxEntry) -> bool:
    """Call the subcortex that an entry makes something else, here and in all that waits; false
    where that can't be done.

    Of several nobody knows which one it is; what was there before is sent in parts then. It may end
    between the two: the next time what waits gets the slug that is here.
    """
    new = [
        change for change in entry.changes if change.kind == "subcortex" and change.before is None
    ]
    if len(new) != 1 or rejections.is_divisible(entry):
        return False
    (made,) = new
    record = library.store.recorded.one(made.id)
    if record is None or not isinstance(made.after, Subcortex):
        return False
    slug = record.body.slug
    if slug == made.after.slug:
        slug = _free(library, record)
        if not slug:
            return False
        _call(library, record, slug)
    library.store.outbox.rename(record.id, made.after.slug, slug)
    return True


def _free(library: Library, record: Record[Subcortex]) -> str:
    """The next slug that nobody here has, "" where there is none."""
    first = next(iter(library.store.recorded.versions(record.id).values()), record).body.slug
    tried = {
        version.body.slug for version in library.store.recorded.versions(record.id).values()
    } | {record.body.slug}
    for number in range(2, MOST_TRIED):
        end = f"-{number}"
        slug = first[: MOST_CHARACTERS - len(end)] + end
        if (
            slug not in tried
            and SLUG.fullmatch(slug)
            and by_slug(library.store.recorded, slug) is None
        ):
            return slug
    return ""


def _call(library: Library, record: Record[Subcortex], slug: str) -> None:
    before = record.body.slug

    def work(step: RecordTransaction) -> str:
        now = step.get(record.id)
        assert now is not None
        step.put(replace(now, body=replace(now.body, slug=slug)))
        for one in drafts:
            draft = step.get(one)
            if draft is not None and isinstance(draft.body, Draft):
                step.put(replace(draft, body=replace(draft.body, target=record.id)))
        return record.id

    wanted = RecordFilter(kinds=("draft",), refs=(("target", before),))
    found = [one.id for one in library.store.recorded.select(wanted, MOST_DRAFTS)]
    known = library.store.outbox.known(found)
    drafts = [one for one in found if one not in known]
    alerts.tell_renamed(library, record, slug, work)
