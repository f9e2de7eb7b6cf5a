from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.defs.inventory.changes import Changes, Fact
from amends_pipeline.defs.inventory.metadata import fact_text
from amends_pipeline.inventory import view
from amends_pipeline.inventory.config import parse_configuration
from amends_pipeline.inventory.envelope import STATUS_DAY, Cause, Envelope, EnvelopeBatch, Type
from amends_pipeline.ports import Unit
from amends_pipeline_tests.tables import FIRST_DAY, configuration

UNIT = Unit("main", 0)


class View:
    """The rows of a view, and how often it was asked."""

    def __init__(self, *envelopes: Envelope) -> None:
        self.rows = {envelope.output_id: envelope for envelope in envelopes}

    def view_rows(self, unit, outputs):
        assert unit == UNIT
        return {output: self.rows[output] for output in outputs if output in self.rows}


def balance(day: int, version: int, close: int | None, *, key: int = 0, offset: int = 0):
    kind = Type.BALANCE_RETRACTED if close is None else Type.BALANCE_STATED
    return Envelope(key, kind, day, version, close or 0, Cause(offset, "A", 1), ())


def alert(day: int, version: int, close: int | None, *, key: int = 0, offset: int = 0):
    kind = Type.ALERT_RETRACTED if close is None else Type.ALERT_RAISED
    return Envelope(key, kind, day, version, close or 0, Cause(offset, "A", 1), ())


def status(version: int, *reasons: tuple[str, int], key: int = 0):
    kind = Type.BLOCKED_STATED if reasons else Type.READY_STATED
    return Envelope(key, kind, STATUS_DAY, version, 0, Cause(0, "A", 1), reasons)


def batch(*envelopes: Envelope) -> EnvelopeBatch:
    made = EnvelopeBatch()
    for envelope in envelopes:
        made.add(envelope)
    return made


def told(before: list[Envelope], *envelopes: Envelope, limit: int = 100) -> list[tuple]:
    changes = Changes(limit)
    changes.add(batch(*envelopes))
    return [
        (each.key, each.day, fact_text(each.was), fact_text(each.now))
        for each in changes.against(View(*before), UNIT)
    ]


@pytest.mark.parametrize(
    ("before", "envelopes", "expected"),
    [
        ([], [balance(1, 1, 50)], [(0, 1, "none", "50")]),
        ([], [alert(1, 1, 50), balance(1, 1, 50)], [(0, 1, "none", "50, alert")]),
        ([balance(1, 1, 50)], [balance(1, 2, 70)], [(0, 1, "50", "70")]),
        ([balance(1, 1, 50)], [balance(1, 2, None)], [(0, 1, "50", "none")]),
        (
            [balance(1, 1, 50), alert(1, 1, 50)],
            [alert(1, 2, None), balance(1, 2, 70)],
            [(0, 1, "50, alert", "70")],
        ),
        # Only the crossing moved: the close of the day stands in the view alone.
        ([balance(2, 1, 50)], [alert(2, 1, 50)], [(0, 2, "50", "50, alert")]),
        # Back to where it was within one run.
        ([balance(1, 1, 50)], [balance(1, 2, 70), balance(1, 3, 50)], []),
        # Redelivered, and older than what readers have.
        ([balance(1, 2, 70)], [balance(1, 2, 70)], []),
        ([balance(1, 3, 70)], [balance(1, 2, 50)], []),
        ([], [balance(1, 2, 70), balance(1, 1, 50)], [(0, 1, "none", "70")]),
        # A withdrawn day may come back.
        ([balance(1, 2, None)], [balance(1, 3, 10)], [(0, 1, "none", "10")]),
        # Every key's first status is READY: it tells nothing.
        ([], [status(1)], []),
        ([status(1)], [status(2, ("A", 2))], [(0, STATUS_DAY, "READY", "BLOCKED by A r2")]),
        ([], [status(1, ("A", 1))], [(0, STATUS_DAY, "none", "BLOCKED by A r1")]),
        ([status(1, ("A", 2))], [status(2)], [(0, STATUS_DAY, "BLOCKED by A r2", "READY")]),
    ],
)
def test_a_change_is_what_readers_saw_against_what_they_see_now(before, envelopes, expected):
    assert told(before, *envelopes) == expected


def test_statuses_lead_then_the_largest_move_of_what_readers_knew_then_new_days():
    before = [balance(1, 1, 100), balance(2, 1, 100), balance(3, 1, -7), status(1)]
    changed = told(
        before,
        balance(1, 2, 99),
        balance(2, 2, -100),
        balance(3, 2, None),
        balance(4, 1, 5_000),
        balance(5, 1, 6_000),
        status(2, ("A", 1)),
    )
    assert [day for _, day, _, _ in changed] == [STATUS_DAY, 2, 3, 1, 5, 4]


def test_equal_moves_stand_by_key_and_day():
    changed = told([], *(balance(day, 1, 5, key=key) for key in (1, 0) for day in (2, 1)))
    assert [place[:2] for place in changed] == [(0, 1), (0, 2), (1, 1), (1, 2)]


def test_the_cause_is_the_last_record_that_moved_the_day():
    changes = Changes()
    changes.add(batch(balance(1, 1, 50, offset=3), alert(1, 1, 50, offset=8)))
    changes.add(batch(balance(1, 2, 60, offset=5)))
    [change] = changes.against(View(), UNIT)
    assert change.cause.offset == 8


def test_past_the_limit_envelopes_are_counted_and_corrections_keep_their_place():
    before = [balance(day, 1, 10) for day in range(100, 103)]
    changes = Changes(limit=2)
    changes.add(batch(*(balance(day, 1, 5) for day in range(10))))
    changes.add(batch(*(balance(day, 2, 11) for day in range(100, 103))))
    changes.add(batch(balance(0, 2, 6)))  # looked at before: it goes on being looked at
    seen = {(each.day, each.now) for each in changes.against(View(*before), UNIT)}
    assert seen == {(0, Fact(6)), (1, Fact(5)), (100, Fact(11)), (101, Fact(11))}
    assert changes.left_out == 9
    assert changes.types.total() == 14
    assert changes.unseen(14) == 9


def test_many_reasons_are_counted():
    reasons = tuple((f"T{at:02}", 1) for at in range(12))
    assert fact_text(Fact(blocked_by=reasons)).endswith("T08 r1, T09 r1 and 2 more")


# --- against the view itself


@st.composite
def publications(draw) -> list[Envelope]:
    """Envelopes as an outbox may hold them: each output's versions are consecutive."""
    versions: dict = {}
    envelopes = []
    for offset in range(draw(st.integers(0, 25))):
        key, at = draw(st.integers(0, 1)), FIRST_DAY + draw(st.integers(0, 2))
        make = draw(st.sampled_from([balance, alert]))
        close = draw(st.none() | st.integers(-3, 3))
        envelope = make(at, 1, close, key=key, offset=offset)
        version = versions[envelope.output_id] = versions.get(envelope.output_id, 0) + 1
        envelopes.append(envelope._replace(version=version))
    return envelopes


def visible(rows: dict) -> dict[tuple[int, int], tuple]:
    """What readers see of each day: its close, and whether it is an alert."""
    seen: dict = {}
    for row in filter(view.visible, rows.values()):
        close, alerting = seen.get((row.key, row.day), (None, False))
        stated = row.type == Type.BALANCE_STATED
        seen[row.key, row.day] = (row.close, alerting) if stated else (close, True)
    return seen


@given(publications(), st.data())
def test_the_changes_of_a_run_are_the_difference_that_the_view_makes(envelopes, data):
    config = parse_configuration(configuration())
    applied_before = data.draw(st.integers(0, len(envelopes)))
    # Some of what was applied may be delivered again.
    again = data.draw(st.integers(0, applied_before))
    before = dict(view.apply(config, 0, {}, batch(*envelopes[:applied_before])).rows)
    delivered = batch(*envelopes[again:])
    after = before | view.apply(config, 0, before, delivered).rows

    changes = Changes()
    for at in range(0, len(delivered), 3):
        changes.add(delivered.slice(at, at + 3))
    told = {
        (each.key, each.day): ((each.was.close, each.was.alert), (each.now.close, each.now.alert))
        for each in changes.against(View(*before.values()), UNIT)
    }
    was, now = visible(before), visible(after)
    nothing = (None, False)
    assert told == {
        place: (was.get(place, nothing), now.get(place, nothing))
        for place in was.keys() | now.keys()
        if was.get(place, nothing) != now.get(place, nothing)
    }
