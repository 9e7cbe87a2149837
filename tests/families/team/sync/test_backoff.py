"""When the next sync is due: at intervals, after a write, with backoff while a Core is away."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from cortex.families.team.sync.backoff import FIRST_SECONDS, GAP_SECONDS, MOST_SECONDS, Pace
from cortex.families.team.sync.cycle import SyncOutcome

FAILED = SyncOutcome("offline", error="the Core can't be reached")


def test_first_sync_is_due_at_once():
    assert Pace(30).is_due(0, 0)


def test_successful_sync_is_due_again_after_the_interval():
    pace = Pace(30).after(SyncOutcome("ok"), 100, 0.5)
    assert not pace.is_due(129, 0) and pace.is_due(130, 0)


def test_sync_is_due_at_once_after_a_write():
    pace = Pace(30).after(SyncOutcome("ok"), 100, 0.5)
    assert not pace.is_due(100, 1) and pace.is_due(100 + GAP_SECONDS, 1)


def test_sync_is_due_at_once_after_a_write_during_a_sync():
    assert Pace(30).after(SyncOutcome("ok", waiting=1), 100, 0.5).is_due(100 + GAP_SECONDS, 1)


def test_refusal_causes_no_backoff():
    assert Pace(30).after(SyncOutcome("partial", refused=1), 100, 0.5).due == 130


def test_each_failure_doubles_the_backoff_up_to_ten_minutes():
    pace, now, waits = Pace(30), 0.0, []
    for _ in range(8):
        pace = pace.after(FAILED, now, 0.5)
        waits.append(pace.due - now)
        now = pace.due
    assert waits == [30, 60, 120, 240, 480, 600, 600, 600]
    assert pace.after(SyncOutcome("ok"), now, 0.5).due == now + 30
    assert pace.after(SyncOutcome("ok"), now, 0.5).after(FAILED, now, 0.5).due == now + 30


def test_write_shortens_the_backoff_while_the_core_is_away():
    pace = Pace(30)
    for _ in range(5):
        pace = pace.after(FAILED, 0, 0.5)
    assert (
        pace.due == 480 and not pace.is_due(29, 1) and pace.is_due(30, 1) and not pace.is_due(30, 0)
    )


def test_retry_after_of_a_core_delays_writes_too():
    pace = Pace(30).after(SyncOutcome("offline", error="busy", retry_after=90), 0, 0.5)
    assert pace.due == 90 and not pace.is_due(89, 5) and pace.is_due(90, 5)


def test_backoff_never_exceeds_ten_minutes():
    pace = Pace(30).after(
        SyncOutcome("offline", error="back on Monday", retry_after=3 * 86_400), 0, 0.5
    )
    assert pace.due == pace.soonest == MOST_SECONDS


def test_sync_is_never_due_without_an_interval():
    assert not Pace(0).is_due(10**9, 5)


@given(
    some.lists(some.tuples(some.booleans(), some.floats(0, 1), some.floats(0, 5_000)), max_size=30),
    some.floats(1, 86_400),
)
def test_backoff_keeps_its_limits(steps, every):
    pace, now = Pace(every), 0.0
    for fails, chance, asked in steps:
        outcome = (
            SyncOutcome("offline", error="away", retry_after=asked) if fails else SyncOutcome("ok")
        )
        pace = pace.after(outcome, now, chance)
        wait = pace.due - now
        if fails:
            assert (
                max(0.8 * FIRST_SECONDS, min(asked, MOST_SECONDS)) - 1e-6
                <= wait
                <= 1.2 * MOST_SECONDS + 1e-6
            )
        assert now <= pace.soonest <= pace.due or not fails
        now = pace.due
