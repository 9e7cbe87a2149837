"""The changes of one action, taken one after the other inside a step.

Each is merged with what the record says now, and then asked everything that a deed of `records`
would be: who may, what a body may say, where it belongs, which state may follow which. What follows
from it (summaries, what becomes sensitive with it, what nobody needs to be reminded of, and who
else should hear of it) is made here, where all of it is known.
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
from cortex.families.team.field_rules import TARGET_KINDS
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
    differing,
    merged,
    supplied_only,
    supplies,
    unsummarized,
)
from cortex.interfaces.team_server.apply.visible_records import VisibleRecords, aimed, placed
from cortex.interfaces.team_server.principals import is_from_elsewhere, may_be_called

# The tier from which what this Core has lost may come back with what other principals said
IS_ANYBODY = 4
AHEAD_MS = 50 * 365 * 86_400_000  # that the clock of a home may be wrong, and its ids still count
# The year 2000: a home whose clock says less doesn't know when something was made
EARLIEST_MS = 946_684_800_000
B = TypeVar("B", bound=Any)

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


class ActionApplier:
    """One action under way."""

    def __init__(
        self,
        step: RecordTransaction,
        viewer: Viewer,
        known: frozenset[str] | None = None,
        *,
        again: bool = False,
    ) -> None:
        """`known` are the principals that there are, for an upload of what was there before; None
        for what was just done.

        What comes `again` was taken before the ledger was put back: what it names may come again,
        too.
        """
        self._step = step
        self._viewer = viewer
        self._known, self._again = known, again
        self._upload = known is not None
        self._sight = VisibleRecords(step, viewer)
        self._guard = guard_of(viewer)
        self._touched: set[str] = set()  # what the action is about, but for notifications
        self._published: dict[str, Record[Draft]] = {}  # drafts by what they become
        self._left_out: set[str] = set()  # notifications that aren't passed on
        self._told: dict[str, set[str]] = {}  # who hears of a record by this action itself
        self._alone = False
        self._spoken: dict[str, None] = {}  # threads in which something was said

    def take(self, changes: Sequence[RecordChange]) -> list[str]:
        """Take all of them; gives the ids of the records that are touched. Raises: InputError."""
        for change in changes:
            if (
                not is_id(change.id, change.kind)
                or _moment_of(change.id) > self._step.now + AHEAD_MS
            ):
                raise refusal(
                    "id", f"{change.id[:80]!r} is no id that a {change.kind[:20]} may have"
                )
        changes = [one for one in changes if not self._is_nowhere(one)]
        self._look(changes)
        for one in changes:
            current = self._step.get(one.id)
            if current is None:
                self._make(one)
            else:
                self._change(one, current)
        self._settle()
        taken = (one.id for one in changes if one.id not in self._left_out)
        return list(dict.fromkeys((*taken, *self._spoken)))

    def _is_nowhere(self, one: RecordChange) -> bool:
        """Whether a notification is closed that was never here: what it told of was refused, and
        closing it matters to nobody.
        """
        return (
            one.before is not None
            and isinstance(one.after, Notification)
            and self._step.get(one.id) is None
        )

    def _look(self, changes: Sequence[RecordChange]) -> None:
        """What the action is about, as far as it matters for each of its changes."""
        for change in changes:
            if isinstance(change.after, Notification) and change.before is None:
                self._told.setdefault(change.after.about, set()).add(change.after.recipient)
        told = [one for one in changes if one.kind != "notification"]
        self._touched = {one.id for one in told} | {
            one.after.thread for one in told if isinstance(one.after, Comment)
        }
        self._alone = all(one.kind == "link" for one in told)
        for one in told:
            if (
                isinstance(one.after, Draft)
                and one.after.state == PUBLISHED
                and one.after.published
            ):
                draft = self._sight.get(one.id)
                if draft is None and self._viewer.is_own(one.author):
                    draft = Record(one.id, one.after, one.author)
                if draft is not None:
                    self._published[one.after.published] = draft

    # -- what is new
    # ---------------------------------------------------------------------------------------------------

    def _make(self, one: RecordChange) -> None:
        if one.before is not None and not self._upload and not self._may_name(one.author):
            raise not_found(one.id)  # as of one that may not be seen
        body: Any = checked(one.after)
        if one.before is None and not self._upload:
            check_first(body)
        body = without_bylines(body, self._may_name)
        match body:
            case Notification():
                if (body := self._notification(body)) is None:
                    self._left_out.add(one.id)
                    return
            case Draft():
                body = self._draft(body, new=not self._upload and one.before is None)
            case Thread():
                body = (
                    unsummarized(body)
                    if one.before is None and not self._upload
                    else supplied_only(body)
                )
            case Comment():
                body = self._comment(body)
            case Link():
                body = self._link(body)
            case Artifact():
                owner, reviewed = body.owner or one.author, min(body.last_reviewed, self._step.now)
                body = replace(body, owner=owner, last_reviewed=reviewed)
                if not self._upload and owner != one.author and not self._viewer.is_own(owner):
                    need(self._step.actor, "edit")
        body = self._placed(body) if self._upload else resolved(self._sight, body)
        record = Record(one.id, body, one.author, self._made_at(one))
        self._check_author(one, record)
        if self._upload or one.before is not None:
            check_uploaded(self._step, record)
        for right in rights_of(None, body, alone=self._alone and not self._upload):
            need(self._step.actor, right)
        self._guard(None, record, self._sight.raw)
        if isinstance(body, Notification) and body.state in OPEN:
            close_notices(
                self._step, body.about, body.type, body.recipient, action="replace_notification"
            )
        self._step.put(record)

    def _made_at(self, one: RecordChange) -> int:
        """When something was made: as its home says, but neither later than now nor before there
        was anything to say it.
        """
        return min(one.created, self._step.now) if one.created >= EARLIEST_MS else self._step.now

    def _placed(self, body: Any) -> Any:
        """What was there before, in its place.

        What was archived there is added to by those alone who may have brought it.
        """
        body = placed(body, self._sight)
        number = getattr(body, "subcortex", "")
        scope = self._sight.get(number) if number else None
        if scope is not None and not self._may_name(scope.author):
            check_open(scope)
        return body

    def _notification(self, body: Notification) -> Notification | None:
        """A notification comes with what it is about, and is as sensitive as that; None where it
        isn't passed on.
        """
        need(self._step.actor, "observe")  # whoever may do anything
        if body.type == "system_alert":
            raise refusal("type", "what a home tells its own person stays there")
        own = self._viewer.is_own(body.recipient)
        if self._upload and not own:
            return None  # of what was done before, others have heard or don't need to
        about = self._step.get(body.about)
        if about is None or not (body.about in self._touched or self._sight.shows(about)):
            raise not_found(body.about, "about")
        if not self._upload and body.about not in self._touched:
            raise refusal(
                "about",
                f"a notification comes with what was done, and nothing was done with {body.about}",
            )
        if not self._upload and not (own or self._is_done(body.about)):
            return None
        if not self._upload and not is_due(body, about, self._viewer, self._names()):
            return None
        return _as_private(body if own else titled(body, about), about)

    def _is_done(self, number: str) -> bool:
        """Whether something was done with a record, or said there; that it stays as it is, anybody
        may send.
        """
        return number in self._step.written or number in self._spoken

    def _draft(self, body: Draft, *, new: bool) -> Draft:
        if body.state == PENDING:
            body = replace(body, reviewed_by="", reviewed_at=0, review_notes="", published="")
        if new:
            check_outcome(body)
        told, body = body.target, aimed(body, self._sight)
        # It is sent once more when that has come
        lost = self._again and is_id(told, kind_of_id(told))
        if told and not body.target and (lost or not self._viewer.may_write(UNFILED)):
            raise not_found(told, "target")
        return self._flagged(self._as_target(body))

    def _as_target(self, body: Draft) -> Draft:
        """A draft that is as sensitive as what it is for."""
        return _as_private(body, self._sight.get(body.target) if body.target else None)

    def _flagged(self, body: Draft) -> Draft:
        """A draft with what whoever approves it should look at twice, while somebody may, whatever
        its home says of that.
        """
        if body.state not in (PENDING, EXPIRED):
            return body
        flags = dict.fromkeys((*risks_of(body, self._sight.get), *body.risk_flags))
        return replace(body, risk_flags=tuple(flags))

    def _check_summary(self, thread: str, body: Thread) -> None:
        """A summary that somebody wrote comes with what they say in the thread.

        Raises: InputError RECORD_INVALID.
        """
        said = self._sight.get(body.summary_sources[0])
        if said is None or not isinstance(said.body, Comment) or said.body.thread != thread:
            raise refusal("summary_sources", "a summary comes with a comment of its thread")
        if said.body.sensitivity == SENSITIVE != body.sensitivity:
            raise refusal(
                "summary",
                f"{thread} isn't sensitive: its summary can't come with a sensitive comment",
            )
        if body.summary_by not in self._names():
            raise refusal(
                "summary_by", f"a summary of {body.summary_by[:80]!r} comes from themselves"
            )
        drafted = {
            one.body.summary for one in self._published.values() if one.author == body.summary_by
        }
        if body.summary_by != self._step.actor.name and body.summary not in drafted:
            raise refusal("summary", f"it isn't the summary that {body.summary_by} drafted")

    def _comment(self, body: Comment) -> Comment:
        thread = target_of(self._sight, body.thread, ("thread",), "thread")
        if thread.body.state == "archived" and not (self._upload and self._may_name(thread.author)):
            raise refusal("thread", f"{thread.id} is archived: nobody comments there any more")
        self._spoken[thread.id] = None
        return _as_private(replace(body, subcortex=thread.body.subcortex), thread)

    def _link(self, body: Link) -> Link:
        return _as_private(
            body,
            *(
                target_of(self._sight, getattr(body, end), FOUND_KINDS, end)
                for end in ("source", "target")
            ),
        )

    def _check_author(self, one: RecordChange, record: Record[Any]) -> None:
        """What is new is by who does it, by who drafted it, or is known to be by somebody else: in
        an upload.
        """
        author, tier = record.author, self._step.actor.tier
        if author == self._step.actor.name:
            return
        if self._upload or one.before is not None:
            if self._may_name(author):
                return
        elif isinstance(record.body, Notification) and author in self._names():
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
        """Whether what comes as it was may be by somebody: by who tells it, or, where their tier
        allows that, by others.

        Those are called as somebody at a Core may be, also at another one: names that only look
        like another's are nobody's. A principal of this Core speaks for themselves, since a
        namesake of another team is somebody else; but for what this Core had and has lost.
        """
        if name in (self._viewer.name, agent_of(self._viewer.name)):
            return True
        who = name.removesuffix(f"/{AGENT}")
        if not self._upload or not (may_be_called(who) or is_from_elsewhere(who)):
            return False
        if who in (self._known or ()):
            return self._again and self._step.actor.tier >= IS_ANYBODY
        return self._step.actor.tier >= KEEPS_AUTHORS

    def _names(self) -> set[str]:
        """In whose names this action may speak: of who does it, and of who drafted what is
        published with it.
        """
        return {self._step.actor.name, *(draft.author for draft in self._published.values())}

    # -- what is changed
    # -----------------------------------------------------------------------------------------------

    def _change(self, one: RecordChange, current: Record[Any]) -> None:
        told = isinstance(current.body, Notification)
        if not self._sight.shows(current):
            if told:  # it was shown once, and closing it matters to nobody
                return
            raise not_found(one.id)
        if type(one.after) is not type(current.body):
            raise refusal("kind", f"{one.id} is a {current.kind} and stays one")
        if self._is_made(one, current):
            return
        after, before = self._aimed(checked(one.after)), self._aimed(one.before)
        result = (
            differing(after, current.body)
            if before is None
            else merged(before, after, current.body)
        )
        if isinstance(result, Conflict):
            raise conflict_error(one.id, result)
        body = self._changed(current, result)
        if body == current.body:
            return
        self._check_change(current, body)
        written = self._step.put(replace(current, body=body))
        if isinstance(body, Draft) and body.state != current.body.state:
            close_notices(self._step, written.id)
        follow(self._step, current.body, written, besides=self._told.get(written.id, ()))

    def _is_made(self, one: RecordChange, current: Record[Any]) -> bool:
        """Whether something is made once more by who made it: another home of theirs has brought it
        as it is since, and all that changed it is told for itself. What is uploaded may hold
        changes that nobody tells.
        """
        own = one.author == current.author and self._viewer.is_own(current.author)
        return one.before is None and not self._upload and own

    def _aimed(self, body: Any) -> Any:
        if not isinstance(body, Draft):
            return body
        check_value("target_kind", body.target_kind, TARGET_KINDS)
        return aimed(body, self._sight)

    def _changed(self, current: Record[Any], body: Any) -> Any:
        """What a record says after a change, in order and in its place."""
        now = self._step.now
        match body:
            case Thread() if supplies(current.body, body):
                self._check_summary(current.id, body)
                self._spoken[current.id] = None
            case Comment() if (thread := self._step.get(current.body.thread)) is not None:
                body = replace(body, subcortex=thread.body.subcortex)
            case Artifact():
                body = replace(body, last_reviewed=min(body.last_reviewed, now))
            case Draft():
                body = self._as_target(reviewed(current.body, body, self._step.actor.name, now))
                body = self._flagged(body) if body != current.body else body
            case Link():
                body = self._link(body)
            case Notification():
                body = _as_private(body, self._step.get(body.about))
        return resolved(self._sight, checked(body), current.body)

    def _check_change(self, current: Record[Any], body: Any) -> None:
        """Raises: InputError, where the change isn't allowed: to anybody, or to who makes it."""
        check_move(current.body, body)
        if isinstance(body, Notification):
            self._check_notice(current, body)
        elif not isinstance(body, Artifact) or not _supersedes(current.body, body):
            check_kept(current.body, body)
        for right in rights_of(current.body, body, alone=self._alone):
            need(self._step.actor, right)
        self._guard(current, replace(current, body=body), self._sight.raw)

    def _check_notice(self, current: Record[Notification], body: Notification) -> None:
        """A notification is done with by whoever it is for, by whoever may edit, or by what was
        done.
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

    # -- at the end
    # ----------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """What has to hold of all changes together, and what follows from them."""
        for before, after in list(self._step.written.values()):
            if self._upload and before is None:
                continue  # it may name what is still to come
            match after.body:
                case Draft():
                    check_decided(self._step, before, after)
                case Artifact():
                    settle_artifact(self._step, self._sight, self._guard, before, after)
                case Link() if before is None:
                    settle_link(self._step, after)
        for number, draft in self._published.items():
            check_became(self._step, draft.id, number)
        for number in self._spoken:
            authors = settle_summary(self._step, number)
            for before, after in list(self._step.written.values()):
                if (
                    before is None
                    and not self._upload
                    and getattr(after.body, "thread", "") == number
                ):
                    self._tell_of(after, authors)

    def _tell_of(self, said: Record[Any], authors: Sequence[str]) -> None:
        """Tell of a comment those who spoke in its thread and whom its home didn't know of."""
        thread = self._step.get(said.body.thread)
        if isinstance(said.body, Comment) and thread is not None:
            told = self._told.get(said.id, set()) | self._told.get(thread.id, set())
            notice_spoken(self._step, said, thread, authors, besides=told)


def _as_private(body: B, *above: Record[Any] | None) -> B:
    """A body that is sensitive where anything is that it belongs to."""
    private = any(one is not None and one.body.sensitivity == SENSITIVE for one in above)
    return replace(body, sensitivity=SENSITIVE) if private else body


def _supersedes(before: Artifact, after: Artifact) -> bool:
    """Whether an artifact is superseded, or supersedes another one, by this change."""
    gone = (
        after.state == "superseded" != before.state
        and bool(after.superseded_by)
        and not before.superseded_by
    )
    takes = after.state == "accepted" and after.supersedes != before.supersedes
    return gone or (takes and after.superseded_by == before.superseded_by)


def _moment_of(number: str) -> int:
    """The time in an id, in milliseconds."""
    moment = 0
    for character in number[-26:-16]:
        moment = moment << 5 | _ALPHABET.index(character)
    return moment
