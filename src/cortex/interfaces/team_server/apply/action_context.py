"""Facts about a whole action that its single changes depend on.

It has the names in which the action may write, the records it changes and publishes, and the people
that it notifies itself. The changes are applied in `changes`.
"""

from __future__ import annotations

from collections.abc import Sequence

from cortex.base.actors import AGENT
from cortex.base.record_model import Comment, Draft, Notification, Record
from cortex.base.visibility import Viewer
from cortex.engine.store import RecordChange, RecordTransaction
from cortex.families.team.sync.upload import KEEPS_AUTHORS
from cortex.families.team.wire.identity import agent_of
from cortex.families.team.writes.drafts import PUBLISHED
from cortex.interfaces.team_server.apply.visible_records import VisibleRecords
from cortex.interfaces.team_server.principals import is_from_elsewhere, may_be_called

# Lowest tier that may upload records of other principals again after this server lost them.
MIN_TIER_FOREIGN_ACTIONS = 4


class ActionContext:
    """The transaction, the viewer and the purpose of one action."""

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
        self.step, self.viewer = step, viewer
        self.visible = VisibleRecords(step, viewer)
        self.upload, self.again = known is not None, again
        self._known = known or frozenset[str]()
        # Ids of the records that the action changes, notifications not included.
        self.touched: set[str] = set()
        # Drafts by the id of the record that they were published as.
        self.published: dict[str, Record[Draft]] = {}
        # Recipients that the action itself notifies, by the id of the record concerned.
        self._recipients: dict[str, set[str]] = {}
        # True if the action consists of links only.
        self.links_only = False
        # Ids of the threads with a new comment or summary, in order.
        self.commented_threads: dict[str, None] = {}

    def collect(self, changes: Sequence[RecordChange]) -> None:
        """Collect the facts about the changes."""
        for change in changes:
            if isinstance(change.after, Notification) and change.before is None:
                self._recipients.setdefault(change.after.about, set()).add(change.after.recipient)
        content = [change for change in changes if change.kind != "notification"]
        self.touched = {change.id for change in content} | {
            change.after.thread for change in content if isinstance(change.after, Comment)
        }
        self.links_only = all(change.kind == "link" for change in content)
        for change in content:
            after = change.after
            if isinstance(after, Draft) and after.state == PUBLISHED and after.published:
                draft = self.visible.get(change.id)
                if draft is None and self.viewer.is_own(change.author):
                    draft = Record(change.id, after, change.author)
                if draft is not None:
                    self.published[after.published] = draft

    def may_name(self, name: str) -> bool:
        """True if the actor may upload records by this author.

        Always for the actor and its agent; for others from tier KEEPS_AUTHORS on. Their names have
        to be valid names of a principal, here or at another Core, so that a lookalike of a name is
        rejected. Records of a principal of this Core come only from that principal, since a
        namesake in another team is a different person; except after this Core lost its data.
        """
        if name in (self.viewer.name, agent_of(self.viewer.name)):
            return True
        principal = name.removesuffix(f"/{AGENT}")
        if not self.upload or not (may_be_called(principal) or is_from_elsewhere(principal)):
            return False
        if principal in self._known:
            return self.again and self.step.actor.tier >= MIN_TIER_FOREIGN_ACTIONS
        return self.step.actor.tier >= KEEPS_AUTHORS

    def speakers(self) -> set[str]:
        """Names in which this action may speak: its actor and the authors of published drafts."""
        return {self.step.actor.name, *(draft.author for draft in self.published.values())}

    def notified(self, *record_ids: str) -> set[str]:
        """Recipients that the action itself notifies of these records."""
        return set[str]().union(*(self._recipients.get(id, ()) for id in record_ids))

    def was_changed(self, record_id: str) -> bool:
        """True if the action changed a record or commented on it.

        A change without effect doesn't count: every principal may send one.
        """
        return record_id in self.step.written or record_id in self.commented_threads
