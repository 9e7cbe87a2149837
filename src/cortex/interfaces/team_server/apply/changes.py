"""Apply the changes of one client action inside a write transaction.

Each change is merged with the current record and validated like a local write: permissions, field
rules, placement, state transitions. Effects that need the whole action (thread summaries, inherited
sensitivity, closed notifications, notifications for further recipients) are applied last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from cortex.base.actors import AGENT
from cortex.base.errors import InputError
from cortex.base.record_model import (
    FOUND_KINDS,
    SENSITIVE,
    TARGET_KINDS,
    Artifact,
    Comment,
    Draft,
    Link,
    Notification,
    Record,
    Thread,
)
from cortex.base.visibility import UNFILED, Viewer
from cortex.engine.store import RecordChange, RecordTransaction, kind_of_id
from cortex.families.team.notifications import OPEN, close_notices, notice_spoken
from cortex.families.team.permissions import TIERS, need
from cortex.families.team.references import check_open, resolved, target_of
from cortex.families.team.required_permissions import changed_fields, rights_of
from cortex.families.team.sync.upload import KEEPS_AUTHORS
from cortex.families.team.validation import check_first, check_move, check_value, checked, refusal
from cortex.families.team.wire.codec import is_id
from cortex.families.team.wire.identity import agent_of
from cortex.families.team.writes.drafts import EXPIRED, PENDING, PUBLISHED, risks_of
from cortex.families.team.writes.publish import check_outcome
from cortex.families.team.writes.update import check_kept, follow
from cortex.interfaces.team_server.access_policy import guard_of, not_found
from cortex.interfaces.team_server.apply.attribution import reviewed, without_bylines
from cortex.interfaces.team_server.apply.invariants import (
    check_became,
    check_decided,
    check_published,
    check_uploaded,
    settle_artifact,
    settle_link,
    settle_summary,
)
from cortex.interfaces.team_server.apply.notification_filter import is_due, titled
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
    VisibleRecords,
    placed,
    resolve_draft_target,
)
from cortex.interfaces.team_server.principals import is_from_elsewhere, may_be_called

# Lowest tier that may upload records of other principals again after this server lost them.
MIN_TIER_FOREIGN_ACTIONS = 4
# Clock skew up to which the ids of a client are accepted.
AHEAD_MS = 50 * 365 * 86_400_000
# The year 2000. An earlier time means that the clock of the client is wrong.
EARLIEST_MS = 946_684_800_000
B = TypeVar("B", bound=Any)

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


class ActionApplier:
    """Applies one action; create a new one for each."""

    def __init__(
        self,
        step: RecordTransaction,
        viewer: Viewer,
        known: frozenset[str] | None = None,
        *,
        again: bool = False,
    ) -> None:
        """Start an action in the transaction `step`.

        `known` are the names of the existing principals, for an upload of records from before the
        client joined; None for a recent action. `again` marks an upload after the ledger was
        restored from a backup: records it refers to may be uploaded again, too.
        """
        self._step = step
        self._viewer = viewer
        self._known, self._again = known, again
        self._upload = known is not None
        self._visible = VisibleRecords(step, viewer)
        self._guard = guard_of(viewer)
        # Ids of the records that the action changes, notifications not included.
        self._touched: set[str] = set()
        # Drafts by the id of the record that they were published as.
        self._published: dict[str, Record[Draft]] = {}
        # Ids of notifications that are not delivered.
        self._dropped: set[str] = set()
        # Recipients that the action itself notifies, by the id of the record concerned.
        self._recipients: dict[str, set[str]] = {}
        # True where the action consists of links only.
        self._links_only = False
        # Ids of the threads with a new comment or summary, in order.
        self._commented_threads: dict[str, None] = {}

    def take(self, changes: Sequence[RecordChange]) -> list[str]:
        """Apply all changes and return the ids of the records that they touched.

        Raises: InputError for an invalid id, field, placement or transition.
        """
        for change in changes:
            if (
                not is_id(change.id, change.kind)
                or _timestamp_of(change.id) > self._step.now + AHEAD_MS
            ):
                raise refusal(
                    "id", f"{change.id[:80]!r} is no id that a {change.kind[:20]} may have"
                )
        changes = [change for change in changes if not self._closes_unknown_notification(change)]
        self._collect_context(changes)
        for change in changes:
            current = self._step.get(change.id)
            if current is None:
                self._create(change)
            else:
                self._update(change, current)
        self._apply_effects()
        applied = (change.id for change in changes if change.id not in self._dropped)
        return list(dict.fromkeys((*applied, *self._commented_threads)))

    def _closes_unknown_notification(self, change: RecordChange) -> bool:
        """True for closing a notification that this server never had.

        Its subject was rejected, so closing it has no effect.
        """
        return (
            change.before is not None
            and isinstance(change.after, Notification)
            and self._step.get(change.id) is None
        )

    def _collect_context(self, changes: Sequence[RecordChange]) -> None:
        """Collect facts about the whole action that the single changes depend on."""
        for change in changes:
            if isinstance(change.after, Notification) and change.before is None:
                self._recipients.setdefault(change.after.about, set()).add(change.after.recipient)
        content = [change for change in changes if change.kind != "notification"]
        self._touched = {change.id for change in content} | {
            change.after.thread for change in content if isinstance(change.after, Comment)
        }
        self._links_only = all(change.kind == "link" for change in content)
        for change in content:
            if (
                isinstance(change.after, Draft)
                and change.after.state == PUBLISHED
                and change.after.published
            ):
                draft = self._visible.get(change.id)
                if draft is None and self._viewer.is_own(change.author):
                    draft = Record(change.id, change.after, change.author)
                if draft is not None:
                    self._published[change.after.published] = draft

    # -- new records

    def _create(self, change: RecordChange) -> None:
        if change.before is not None and not self._upload and not self._may_name(change.author):
            # The same error as for a record that the viewer may not see.
            raise not_found(change.id)
        body: Any = checked(change.after)
        if change.before is None and not self._upload:
            check_first(body)
        body = without_bylines(body, self._may_name)
        match body:
            case Notification():
                if (body := self._prepare_notification(body)) is None:
                    self._dropped.add(change.id)
                    return
            case Draft():
                body = self._prepare_draft(body, new=not self._upload and change.before is None)
            case Thread():
                body = (
                    unsummarized(body)
                    if change.before is None and not self._upload
                    else supplied_only(body)
                )
            case Comment():
                body = self._prepare_comment(body)
            case Link():
                body = self._prepare_link(body)
            case Artifact():
                owner, reviewed = (
                    body.owner or change.author,
                    min(body.last_reviewed, self._step.now),
                )
                body = replace(body, owner=owner, last_reviewed=reviewed)
                if not self._upload and owner != change.author and not self._viewer.is_own(owner):
                    need(self._step.actor, "edit")
        body = self._place_uploaded(body) if self._upload else resolved(self._visible, body)
        record = Record(change.id, body, change.author, self._created_at(change))
        self._check_author(change, record)
        if self._upload or change.before is not None:
            check_uploaded(self._step, record)
        for right in rights_of(None, body, alone=self._links_only and not self._upload):
            need(self._step.actor, right)
        self._guard(None, record, self._visible.raw)
        if isinstance(body, Notification) and body.state in OPEN:
            close_notices(
                self._step, body.about, body.type, body.recipient, action="replace_notification"
            )
        self._step.put(record)

    def _created_at(self, change: RecordChange) -> int:
        """Return the creation time given by the client, limited to the past.

        A time before the year 2000 is replaced by the current time.
        """
        return (
            min(change.created, self._step.now) if change.created >= EARLIEST_MS else self._step.now
        )

    def _place_uploaded(self, body: Any) -> Any:
        """Resolve the placement of an uploaded record.

        Only a principal who may upload an archived subcortex may add to it.
        """
        body = placed(body, self._visible)
        scope_id = getattr(body, "subcortex", "")
        scope = self._visible.get(scope_id) if scope_id else None
        if scope is not None and not self._may_name(scope.author):
            check_open(scope)
        return body

    def _prepare_notification(self, body: Notification) -> Notification | None:
        """Return a notification as sensitive as its subject; None where it isn't delivered."""
        # The permission of every principal who may write at all.
        need(self._step.actor, "observe")
        if body.type == "system_alert":
            raise refusal("type", "what a home tells its own person stays there")
        own = self._viewer.is_own(body.recipient)
        if self._upload and not own:
            # The recipients of old notifications have received them elsewhere, or need not.
            return None
        about = self._step.get(body.about)
        if about is None or not (body.about in self._touched or self._visible.shows(about)):
            raise not_found(body.about, "about")
        if not self._upload and body.about not in self._touched:
            raise refusal(
                "about",
                f"a notification comes with what was done, and nothing was done with {body.about}",
            )
        if not self._upload and not (own or self._was_changed(body.about)):
            return None
        if not self._upload and not is_due(body, about, self._viewer, self._speakers()):
            return None
        return _inherit_sensitivity(body if own else titled(body, about), about)

    def _was_changed(self, record_id: str) -> bool:
        """True where the action changed a record or commented on it.

        A change without effect doesn't count: every principal may send one.
        """
        return record_id in self._step.written or record_id in self._commented_threads

    def _prepare_draft(self, body: Draft, *, new: bool) -> Draft:
        if body.state == PENDING:
            body = replace(body, reviewed_by="", reviewed_at=0, review_notes="", published="")
        if new:
            check_outcome(body)
        target, body = body.target, resolve_draft_target(body, self._visible)
        # The client sends the draft again once its target was uploaded.
        lost = self._again and is_id(target, kind_of_id(target))
        if target and not body.target and (lost or not self._viewer.may_write(UNFILED)):
            raise not_found(target, "target")
        return self._with_risk_flags(self._with_target_sensitivity(body))

    def _with_target_sensitivity(self, body: Draft) -> Draft:
        """Return a draft that is as sensitive as its target."""
        return _inherit_sensitivity(body, self._visible.get(body.target) if body.target else None)

    def _with_risk_flags(self, body: Draft) -> Draft:
        """Add this server's risk flags to a draft that can still be approved."""
        if body.state not in (PENDING, EXPIRED):
            return body
        flags = dict.fromkeys((*risks_of(body, self._visible.get), *body.risk_flags))
        return replace(body, risk_flags=tuple(flags))

    def _check_summary(self, thread: str, body: Thread) -> None:
        """Check that a supplied summary cites a comment of its thread and has an allowed author.

        Raises: InputError RECORD_INVALID.
        """
        comment = self._visible.get(body.summary_sources[0])
        if (
            comment is None
            or not isinstance(comment.body, Comment)
            or comment.body.thread != thread
        ):
            raise refusal("summary_sources", "a summary comes with a comment of its thread")
        if comment.body.sensitivity == SENSITIVE != body.sensitivity:
            raise refusal(
                "summary",
                f"{thread} isn't sensitive: its summary can't come with a sensitive comment",
            )
        if body.summary_by not in self._speakers():
            raise refusal(
                "summary_by", f"a summary of {body.summary_by[:80]!r} comes from themselves"
            )
        drafted = {
            draft.body.summary
            for draft in self._published.values()
            if draft.author == body.summary_by
        }
        if body.summary_by != self._step.actor.name and body.summary not in drafted:
            raise refusal("summary", f"it isn't the summary that {body.summary_by} drafted")

    def _prepare_comment(self, body: Comment) -> Comment:
        thread = target_of(self._visible, body.thread, ("thread",), "thread")
        if thread.body.state == "archived" and not (self._upload and self._may_name(thread.author)):
            raise refusal("thread", f"{thread.id} is archived: nobody comments there any more")
        self._commented_threads[thread.id] = None
        return _inherit_sensitivity(replace(body, subcortex=thread.body.subcortex), thread)

    def _prepare_link(self, body: Link) -> Link:
        return _inherit_sensitivity(
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
        author, tier = record.author, self._step.actor.tier
        if author == self._step.actor.name:
            return
        if self._upload or change.before is not None:
            if self._may_name(author):
                return
        elif isinstance(record.body, Notification) and author in self._speakers():
            return
        elif (draft := self._published.get(record.id)) is not None and draft.author == author:
            check_published(self._step, draft, record.body)
            return
        raise InputError(
            "RIGHTS_MISSING",
            f"{self._step.actor.name} may not write in the name of {author[:80]}",
            context={"action": "author", "tier": tier, "needed": KEEPS_AUTHORS},
        )

    def _may_name(self, name: str) -> bool:
        """True where the actor may upload records by this author.

        Always for the actor and its agent; for others from tier KEEPS_AUTHORS on. Their names have
        to be valid names of a principal, here or at another Core, so that a lookalike of a name is
        rejected. Records of a principal of this Core come only from that principal, since a
        namesake in another team is a different person; except after this Core lost its data.
        """
        if name in (self._viewer.name, agent_of(self._viewer.name)):
            return True
        principal = name.removesuffix(f"/{AGENT}")
        if not self._upload or not (may_be_called(principal) or is_from_elsewhere(principal)):
            return False
        if principal in (self._known or ()):
            return self._again and self._step.actor.tier >= MIN_TIER_FOREIGN_ACTIONS
        return self._step.actor.tier >= KEEPS_AUTHORS

    def _speakers(self) -> set[str]:
        """Names in which this action may speak: its actor and the authors of published drafts."""
        return {self._step.actor.name, *(draft.author for draft in self._published.values())}

    # -- existing records

    def _update(self, change: RecordChange, current: Record[Any]) -> None:
        if not self._visible.shows(current):
            # It was visible once; closing it now has no effect.
            if isinstance(current.body, Notification):
                return
            raise not_found(change.id)
        if type(change.after) is not type(current.body):
            raise refusal("kind", f"{change.id} is a {current.kind} and stays one")
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
        follow(self._step, current.body, written, besides=self._recipients.get(written.id, ()))

    def _is_repeated_creation(self, change: RecordChange, current: Record[Any]) -> bool:
        """True where an author creates a record that already exists.

        Another client of the same author has sent it since, and later changes are sent as such. An
        upload doesn't count: it may contain changes that were never sent separately.
        """
        own = change.author == current.author and self._viewer.is_own(current.author)
        return change.before is None and not self._upload and own

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
                self._check_summary(current.id, body)
                self._commented_threads[current.id] = None
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
                body = _inherit_sensitivity(body, self._step.get(body.about))
        return resolved(self._visible, checked(body), current.body)

    def _check_update(self, current: Record[Any], body: Any) -> None:
        """Check that a change is valid and that the actor may make it.

        Raises: InputError.
        """
        check_move(current.body, body)
        if isinstance(body, Notification):
            self._check_notification_update(current, body)
        elif not isinstance(body, Artifact) or not _supersedes(current.body, body):
            check_kept(current.body, body)
        for right in rights_of(current.body, body, alone=self._links_only):
            need(self._step.actor, right)
        self._guard(current, replace(current, body=body), self._visible.raw)

    def _check_notification_update(self, current: Record[Notification], body: Notification) -> None:
        """Check that the actor may close a notification.

        Its recipient may, an editor may, and any action on its subject may.
        """
        if not changed_fields(current.body, body) <= {"state", "sensitivity"}:
            raise refusal("state", "of a notification only its state changes")
        if body.about in self._touched:
            return
        need(self._step.actor, "acknowledge")
        if (
            current.body.recipient != self._step.actor.name
            and self._step.actor.tier < TIERS["edit"]
        ):
            need(self._step.actor, "edit")

    # -- effects of the whole action

    def _apply_effects(self) -> None:
        """Check the invariants of the whole action and apply its effects."""
        for before, after in list(self._step.written.values()):
            if self._upload and before is None:
                # It may refer to a record that is uploaded later.
                continue
            match after.body:
                case Draft():
                    check_decided(self._step, before, after)
                case Artifact():
                    settle_artifact(self._step, self._visible, self._guard, before, after)
                case Link() if before is None:
                    settle_link(self._step, after)
        for record_id, draft in self._published.items():
            check_became(self._step, draft.id, record_id)
        for thread_id in self._commented_threads:
            authors = settle_summary(self._step, thread_id)
            for before, after in list(self._step.written.values()):
                if (
                    before is None
                    and not self._upload
                    and getattr(after.body, "thread", "") == thread_id
                ):
                    self._notify_thread_authors(after, authors)

    def _notify_thread_authors(self, comment: Record[Any], authors: Sequence[str]) -> None:
        """Notify commenters of a thread that the client didn't notify itself."""
        thread = self._step.get(comment.body.thread)
        if isinstance(comment.body, Comment) and thread is not None:
            notified = self._recipients.get(comment.id, set()) | self._recipients.get(
                thread.id, set()
            )
            notice_spoken(self._step, comment, thread, authors, besides=notified)


def _inherit_sensitivity(body: B, *parents: Record[Any] | None) -> B:
    """Mark a body as sensitive where any of its parents is."""
    private = any(parent is not None and parent.body.sensitivity == SENSITIVE for parent in parents)
    return replace(body, sensitivity=SENSITIVE) if private else body


def _supersedes(before: Artifact, after: Artifact) -> bool:
    """True where this change supersedes the artifact, or makes it supersede another."""
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
