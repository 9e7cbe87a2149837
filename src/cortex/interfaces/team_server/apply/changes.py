"""Apply the changes of one client action inside a write transaction.

Each change is merged with the current record and validated like a local write: permissions, field
rules, placement, state transitions. Effects that need the whole action (thread summaries, inherited
sensitivity, closed notifications, notifications for further recipients) are applied last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cortex.base.errors import InputError
from cortex.base.record_model import (
    FOUND_KINDS,
    TARGET_KINDS,
    Artifact,
    Comment,
    Draft,
    Link,
    Notification,
    Record,
    Thread,
)
from cortex.base.visibility import UNFILED
from cortex.engine.store import RecordChange, kind_of_id
from cortex.families.team.notifications import OPEN, close_notices, notice_spoken
from cortex.families.team.permissions import need
from cortex.families.team.references import check_open, resolved, target_of
from cortex.families.team.required_permissions import rights_of
from cortex.families.team.sync.upload import KEEPS_AUTHORS
from cortex.families.team.validation import check_first, check_move, check_value, checked, refusal
from cortex.families.team.wire.codec import is_id
from cortex.families.team.writes.drafts import EXPIRED, PENDING, risks_of
from cortex.families.team.writes.publish import check_outcome
from cortex.families.team.writes.update import check_kept, follow
from cortex.interfaces.team_server.access_policy import guard_of, not_found
from cortex.interfaces.team_server.apply.action_context import ActionContext
from cortex.interfaces.team_server.apply.attribution import reviewed, without_bylines
from cortex.interfaces.team_server.apply.invariants import (
    check_became,
    check_decided,
    check_published,
    check_summary,
    check_uploaded,
    settle_artifact,
    settle_link,
    settle_summary,
)
from cortex.interfaces.team_server.apply.notification_filter import check_closed, delivered
from cortex.interfaces.team_server.apply.three_way_merge import (
    Conflict,
    conflict_error,
    merge_without_base,
    merged,
    supplied_only,
    supplies,
    unsummarized,
)
from cortex.interfaces.team_server.apply.visible_records import (
    inherit_sensitivity,
    placed,
    resolve_draft_target,
)

# How far in the future the timestamp in a client's id may be: for clocks that are wrong by years.
MAX_AHEAD_MS = 50 * 365 * 86_400_000
# The year 2000. An earlier time means that the clock of the client is wrong.
EARLIEST_MS = 946_684_800_000
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


class ActionApplier:
    """Applies one action; create a new one for each."""

    def __init__(self, context: ActionContext) -> None:
        self._context = context
        self._step, self._visible = context.step, context.visible
        self._guard = guard_of(context.viewer)
        # Ids of notifications that are not delivered.
        self._dropped: set[str] = set()

    def apply(self, changes: Sequence[RecordChange]) -> list[str]:
        """Apply all changes and return the ids of the records that they touched.

        Raises: InputError for an invalid id, field, placement or transition.
        """
        for change in changes:
            if (
                not is_id(change.id, change.kind)
                or _timestamp_of(change.id) > self._step.now + MAX_AHEAD_MS
            ):
                raise refusal("id", f"{change.id[:80]!r} is not a valid {change.kind[:20]} id")
        changes = [change for change in changes if not self._closes_unknown_notification(change)]
        self._context.collect(changes)
        for change in changes:
            current = self._step.get(change.id)
            if current is None:
                self._create(change)
            else:
                self._update(change, current)
        self._apply_effects()
        applied = (change.id for change in changes if change.id not in self._dropped)
        return list(dict.fromkeys((*applied, *self._context.commented_threads)))

    def _closes_unknown_notification(self, change: RecordChange) -> bool:
        """True for a change that closes a notification which this server never had.

        Its subject was rejected, so closing it has no effect.
        """
        return (
            change.before is not None
            and isinstance(change.after, Notification)
            and self._step.get(change.id) is None
        )

    # -- new records

    def _create(self, change: RecordChange) -> None:
        context = self._context
        if change.before is not None and not context.upload and not context.may_name(change.author):
            # The same error as for a record that the viewer may not see.
            raise not_found(change.id)
        # Otherwise it was written earlier: for another server, or before this one lost it.
        is_new = change.before is None and not context.upload
        body: Any = checked(change.after)
        if is_new:
            check_first(body)
        body = without_bylines(body, context.may_name)
        body = self._prepare_new(body, change.author, is_new=is_new)
        if body is None:
            self._dropped.add(change.id)
            return
        body = self._place_uploaded(body) if context.upload else resolved(self._visible, body)
        record = Record(change.id, body, change.author, self._created_at(change))
        self._check_author(change, record)
        if not is_new:
            check_uploaded(self._step, record)
        for right in rights_of(None, body, alone=context.links_only and not context.upload):
            need(self._step.actor, right)
        self._guard(None, record, self._visible.raw)
        if isinstance(body, Notification) and body.state in OPEN:
            close_notices(
                self._step, body.about, body.type, body.recipient, action="replace_notification"
            )
        self._step.put(record)

    def _prepare_new(self, body: Any, author: str, *, is_new: bool) -> Any:
        """Return the normalized body of a record; None for a notification without effect."""
        match body:
            case Notification():
                return delivered(body, self._context)
            case Draft():
                return self._prepare_draft(body, is_new=is_new)
            case Thread():
                return unsummarized(body) if is_new else supplied_only(body)
            case Comment():
                return self._prepare_comment(body)
            case Link():
                return self._prepare_link(body)
            case Artifact():
                return self._prepare_artifact(body, author)
        return body

    def _created_at(self, change: RecordChange) -> int:
        """Return the creation time given by the client, limited to the past.

        A time before the year 2000 is replaced by the current time.
        """
        return (
            min(change.created, self._step.now) if change.created >= EARLIEST_MS else self._step.now
        )

    def _place_uploaded(self, body: Any) -> Any:
        """Resolve the placement of an uploaded record.

        Only a principal who may upload in the name of an archived subcortex's author may add to it.
        """
        body = placed(body, self._visible)
        scope_id = getattr(body, "subcortex", "")
        scope = self._visible.get(scope_id) if scope_id else None
        if scope is not None and not self._context.may_name(scope.author):
            check_open(scope)
        return body

    def _prepare_artifact(self, body: Artifact, author: str) -> Artifact:
        owner = body.owner or author
        if not self._context.upload and owner != author and not self._context.viewer.is_own(owner):
            need(self._step.actor, "edit")
        return replace(body, owner=owner, last_reviewed=min(body.last_reviewed, self._step.now))

    def _prepare_draft(self, body: Draft, *, is_new: bool) -> Draft:
        if body.state == PENDING:
            body = replace(body, reviewed_by="", reviewed_at=0, review_notes="", published="")
        if is_new:
            check_outcome(body)
        target, body = body.target, resolve_draft_target(body, self._visible)
        # The client sends the draft again once its target was uploaded.
        lost = self._context.again and is_id(target, kind_of_id(target))
        if target and not body.target and (lost or not self._context.viewer.may_write(UNFILED)):
            raise not_found(target, "target")
        return self._with_risk_flags(self._with_target_sensitivity(body))

    def _with_target_sensitivity(self, body: Draft) -> Draft:
        """Return a draft that is as sensitive as its target."""
        return inherit_sensitivity(body, self._visible.get(body.target) if body.target else None)

    def _with_risk_flags(self, body: Draft) -> Draft:
        """Add this server's risk flags to a draft that can still be approved."""
        if body.state not in (PENDING, EXPIRED):
            return body
        flags = dict.fromkeys((*risks_of(body, self._visible.get), *body.risk_flags))
        return replace(body, risk_flags=tuple(flags))

    def _prepare_comment(self, body: Comment) -> Comment:
        thread = target_of(self._visible, body.thread, ("thread",), "thread")
        may_upload = self._context.upload and self._context.may_name(thread.author)
        if thread.body.state == "archived" and not may_upload:
            raise refusal("thread", f"{thread.id} is archived: it takes no more comments")
        self._context.commented_threads[thread.id] = None
        return inherit_sensitivity(replace(body, subcortex=thread.body.subcortex), thread)

    def _prepare_link(self, body: Link) -> Link:
        return inherit_sensitivity(
            body,
            *(
                target_of(self._visible, getattr(body, end), FOUND_KINDS, end)
                for end in ("source", "target")
            ),
        )

    def _check_author(self, change: RecordChange, record: Record[Any]) -> None:
        """Check that the actor may write a new record in the name of its author.

        Allowed are the actor, the author of a published draft and, in an upload, authors that the
        actor may name.

        Raises: InputError RIGHTS_MISSING.
        """
        context, author, tier = self._context, record.author, self._step.actor.tier
        if author == self._step.actor.name:
            return
        if context.upload or change.before is not None:
            if context.may_name(author):
                return
        elif isinstance(record.body, Notification) and author in context.speakers():
            return
        elif (draft := context.published.get(record.id)) is not None and draft.author == author:
            check_published(self._step, draft, record.body)
            return
        raise InputError(
            "RIGHTS_MISSING",
            f"{self._step.actor.name} may not write in the name of {author[:80]}",
            context={"action": "author", "tier": tier, "needed": KEEPS_AUTHORS},
        )

    # -- existing records

    def _update(self, change: RecordChange, current: Record[Any]) -> None:
        if not self._visible.shows(current):
            # It was visible once; closing it now has no effect.
            if isinstance(current.body, Notification):
                return
            raise not_found(change.id)
        if type(change.after) is not type(current.body):
            raise refusal("kind", f"{change.id} is a {current.kind}; the kind can't be changed")
        if self._is_repeated_creation(change, current):
            return
        after, before = (
            self._resolve_draft_target(checked(change.after)),
            self._resolve_draft_target(change.before),
        )
        result = (
            merge_without_base(after, current.body)
            if before is None
            else merged(before, after, current.body)
        )
        if isinstance(result, Conflict):
            raise conflict_error(change.id, result)
        body = self._prepare_update(current, result)
        if body == current.body:
            return
        self._check_update(current, body)
        written = self._step.put(replace(current, body=body))
        if isinstance(body, Draft) and body.state != current.body.state:
            close_notices(self._step, written.id)
        follow(self._step, current.body, written, besides=self._context.notified(written.id))

    def _is_repeated_creation(self, change: RecordChange, current: Record[Any]) -> bool:
        """True if an author creates a record that another client of theirs has created already.

        Later changes of the record are sent separately. An upload doesn't count, because it may
        contain changes that were never sent.
        """
        own = change.author == current.author and self._context.viewer.is_own(current.author)
        return change.before is None and not self._context.upload and own

    def _resolve_draft_target(self, body: Any) -> Any:
        if not isinstance(body, Draft):
            return body
        check_value("target_kind", body.target_kind, TARGET_KINDS)
        return resolve_draft_target(body, self._visible)

    def _prepare_update(self, current: Record[Any], body: Any) -> Any:
        """Return the normalized and resolved body of a record after a change."""
        now = self._step.now
        match body:
            case Thread() if supplies(current.body, body):
                check_summary(self._context, current.id, body)
                self._context.commented_threads[current.id] = None
            case Comment() if (thread := self._step.get(current.body.thread)) is not None:
                body = replace(body, subcortex=thread.body.subcortex)
            case Artifact():
                body = replace(body, last_reviewed=min(body.last_reviewed, now))
            case Draft():
                body = self._with_target_sensitivity(
                    reviewed(current.body, body, self._step.actor.name, now)
                )
                body = self._with_risk_flags(body) if body != current.body else body
            case Link():
                body = self._prepare_link(body)
            case Notification():
                body = inherit_sensitivity(body, self._step.get(body.about))
        return resolved(self._visible, checked(body), current.body)

    def _check_update(self, current: Record[Any], body: Any) -> None:
        """Check that a change is valid and that the actor may make it.

        Raises: InputError.
        """
        check_move(current.body, body)
        if isinstance(body, Notification):
            check_closed(self._context, current, body)
        elif not isinstance(body, Artifact) or not _supersedes(current.body, body):
            check_kept(current.body, body)
        for right in rights_of(current.body, body, alone=self._context.links_only):
            need(self._step.actor, right)
        self._guard(current, replace(current, body=body), self._visible.raw)

    # -- effects of the whole action

    def _apply_effects(self) -> None:
        """Check the invariants of the whole action and apply its effects."""
        for before, after in list(self._step.written.values()):
            if self._context.upload and before is None:
                # An uploaded record may refer to one that is uploaded later.
                continue
            match after.body:
                case Draft():
                    check_decided(self._step, before, after)
                case Artifact():
                    settle_artifact(self._step, self._visible, self._guard, before, after)
                case Link() if before is None:
                    settle_link(self._step, after)
        for record_id, draft in self._context.published.items():
            check_became(self._step, draft.id, record_id)
        for thread_id in self._context.commented_threads:
            authors = settle_summary(self._step, thread_id)
            for before, after in list(self._step.written.values()):
                if (
                    before is None
                    and not self._context.upload
                    and getattr(after.body, "thread", "") == thread_id
                ):
                    self._notify_thread_authors(after, authors)

    def _notify_thread_authors(self, comment: Record[Any], authors: Sequence[str]) -> None:
        """Notify those commenters of a thread that the client's action doesn't notify."""
        thread = self._step.get(comment.body.thread)
        if isinstance(comment.body, Comment) and thread is not None:
            notified = self._context.notified(comment.id, thread.id)
            notice_spoken(self._step, comment, thread, authors, besides=notified)


def _supersedes(before: Artifact, after: Artifact) -> bool:
    """True if this change supersedes the artifact, or makes it supersede another one."""
    gone = (
        after.state == "superseded" != before.state
        and bool(after.superseded_by)
        and not before.superseded_by
    )
    takes = after.state == "accepted" and after.supersedes != before.supersedes
    return gone or (takes and after.superseded_by == before.superseded_by)


def _timestamp_of(record_id: str) -> int:
    """Decode the timestamp in an id, in milliseconds."""
    timestamp = 0
    for character in record_id[-26:-16]:
        timestamp = timestamp << 5 | _ALPHABET.index(character)
    return timestamp
