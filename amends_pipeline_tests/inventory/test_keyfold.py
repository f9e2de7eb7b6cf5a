from __future__ import annotations

import pytest

from amends_pipeline.inventory.authority import Authority, first, rule
from amends_pipeline.inventory.config import parse_configuration
from amends_pipeline.inventory.keyfold import Folded, KeyFold, NeedsWholeKey
from amends_pipeline.inventory.refold import EVERY_DAY, KeyState, Rows, Status, untouched
from amends_pipeline.inventory.slice import read_slice
from amends_pipeline_tests.driver import records, source
from amends_pipeline_tests.tables import FIRST_DAY, configuration, day, history

CONFIG = parse_configuration(configuration())


class Story:
    """One key through slices: `tell` is a slice, its observed days in `seen`."""

    def __init__(self, state: KeyState | None = None) -> None:
        self.state = state or untouched(0, 100, 60)
        self.authorities: dict[str, Authority] = {}
        self.seen: list[list[int]] = []
        self.fold = KeyFold(self.state)

    def tell(self, text: str) -> Folded:
        self.fold = KeyFold(self.state)
        self.seen = []
        slice_ = read_slice(CONFIG, 0, records(source(history(text))), frozenset())
        assert not slice_.rejections
        for at, record in enumerate(slice_.accepted):
            old = self.authorities.get(record.txn_id)
            new = first(record) if old is None else rule(old, record).authority
            self.authorities[record.txn_id] = new
            changed = self.fold.observe(at, record, old, new)
            self.seen.append(sorted(_number(each) for each in changed))
        folded = self.fold.finish()
        self.state = folded.state
        return folded


EVERY = 0  # stands for every day of a key


def _number(each: int) -> int:
    return EVERY if each == EVERY_DAY else each - FIRST_DAY + 1


def told(rows: Rows) -> list[str]:
    """Rows as text: day, movement (number of transactions), close if the day is shown."""
    return [
        f"{_number(at)}: {moved:+} ({count}){f' {close}' * shown}{' alert' * alert}"
        for at, moved, count, close, shown, alert, _, _ in zip(*rows, strict=True)
    ]


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("B r1 NEW day 5 1", [[5]]),
        ("B r1 NEW day 5 0", [[5]]),  # activity without movement
        ("B r1 NEW day 1 0", [[]]),  # the day is active already and its total stays
        ("A r1 NEW day 1 -50", [[]]),  # said before
        ("A r2 AMEND day 1 -50", [[]]),  # nothing but the revision is new
        ("A r2 AMEND day 1 at 13:00:00 -50", [[]]),  # another time of the same day
        ("A r2 AMEND day 1 -30", [[1]]),
        ("A r2 AMEND day 4 -50", [[1, 4]]),
        ("A r2 CANCEL day 9", [[1]]),  # a cancellation's own day means nothing
        ("A r2 CANCEL day 9\nA r1 NEW day 1 -50", [[1], []]),  # a late NEW brings nothing back
        ("A r2 CANCEL day 9\nA r3 AMEND day 2 -5", [[1], [2]]),
        ("B r1 CANCEL day 1", [[]]),
        ("A r1 NEW day 1 -51", [[1]]),  # in conflict it contributes nothing any more
        ("A r1 NEW day 1 -51\nA r1 NEW day 1 -52", [[1], []]),
        ("A r1 NEW day 1 -51\nA r2 AMEND day 2 -1", [[1], [EVERY, 2]]),
        ("A r1 NEW day 1 -51\nB r1 NEW day 3 7", [[1], [3]]),
    ],
)
def test_a_record_changes_the_days_whose_total_or_activity_it_changes(text, days):
    story = Story()
    story.tell("A r1 NEW day 1 -50")
    story.tell(text)
    assert story.seen == days


@pytest.mark.parametrize(
    ("text", "headed"),
    [
        ("B r1 NEW day 3 -5", False),
        ("B r1 NEW day 1 -5", True),  # an earlier first day
        ("B r1 NEW day 3 51", True),  # further from 0 than ever before: 101
        ("B r1 NEW day 3 50", False),
        ("A r2 AMEND day 2 -60", False),
        ("A r2 AMEND day 3 -60", False),  # day 2 keeps its row
        ("A r1 NEW day 2 -50", False),  # said before
        ("A r1 NEW day 2 -60", True),  # in conflict
        ("A r1 NEW day 2 -60\nA r2 AMEND day 2 -50", False),  # in conflict and out of it
    ],
)
def test_a_change_tells_whether_more_than_rows_differ(text, headed):
    story = Story()
    story.tell("A r1 NEW day 2 -50")
    before = story.state
    folded = story.tell(text)
    assert folded.headed is headed
    if not headed:
        assert story.state._replace(rows=before.rows) == before
        assert story.state.rows.days[0] == before.rows.days[0]


def test_the_rows_of_a_blocked_key_stand_while_its_sums_go_on():
    story = Story()
    story.tell("A r1 NEW day 1 -50\nB r1 NEW day 2 -20")
    before = "1: -50 (1) 50 alert", "2: -20 (1) 30"
    assert told(story.state.rows) == [*before]
    story.tell("B r1 NEW day 2 -5")
    assert (story.state.status, story.state.reasons) == (Status.BLOCKED, (("B", 1),))
    assert told(story.state.rows) == [before[0], "2: +0 (0) 30"]
    folded = story.tell("C r1 NEW day 3 -10\nA r2 CANCEL day 1")
    assert told(story.state.rows) == ["1: +0 (0) 50 alert", "2: +0 (0) 30", "3: -10 (1)"]
    assert list(folded.published.one_by_one()) == []
    folded = story.tell("B r2 AMEND day 2 -7")
    assert told(story.state.rows) == ["1: +0 (0)", "2: -7 (1) 93", "3: -10 (1) 83"]
    published = folded.published.one_by_one()
    assert [(p.type.name, _number(p.day), p.version, p.close) for p in published] == [
        ("ALERT_RETRACTED", 1, 2, 0),
        ("BALANCE_RETRACTED", 1, 2, 0),
        ("BALANCE_STATED", 2, 2, 93),
        ("BALANCE_STATED", 3, 1, 83),
    ]


@pytest.mark.parametrize("slices", [1, 2, 3, 6])
def test_what_stood_before_the_conflict_is_frozen_wherever_the_slice_begins(slices):
    lines = """
        A r1 NEW day 1 -50
        B r1 NEW day 2 -20
        A r2 AMEND day 1 -30
        B r1 NEW day 2 -5
        A r3 AMEND day 1 -1
        C r1 NEW day 1 -1
    """.strip().splitlines()
    story = Story()
    size = len(lines) // slices
    for at in range(0, len(lines), size):
        story.tell("\n".join(lines[at : at + size]))
    assert told(story.state.rows) == ["1: -2 (2) 70", "2: +0 (0) 50 alert"]


def test_a_key_that_unblocks_and_blocks_again_freezes_what_it_had_in_between():
    story = Story()
    story.tell("A r1 NEW day 1 -50\nA r1 NEW day 1 -40")
    folded = story.tell("A r2 AMEND day 2 -10\nB r1 NEW day 3 -1\nB r1 NEW day 3 -2")
    assert (story.state.status, story.state.reasons) == (Status.BLOCKED, (("B", 1),))
    assert told(story.state.rows) == ["1: +0 (0)", "2: -10 (1) 90", "3: +0 (0) 89"]
    assert folded.status_cause == 2
    assert [folded.causes.of(day(number)) for number in (1, 2, 3)] == [0, 0, 1]


def test_only_a_key_that_is_loaded_whole_can_unblock():
    story = Story()
    story.tell("A r1 NEW day 1 -50\nB r1 NEW day 4 -1\nB r1 NEW day 4 -2")
    rows = Rows(*(column[1:] for column in story.state.rows))
    story.state = story.state._replace(before=50, loaded_from=day(4), rows=rows)
    with pytest.raises(NeedsWholeKey) as needs:
        story.tell("B r2 AMEND day 5 -3")
    assert needs.value.key == 0


def test_a_day_before_the_loaded_suffix_asks_for_the_whole_key():
    story = Story()
    story.tell("A r1 NEW day 1 -50\nB r1 NEW day 4 -1")
    rows = Rows(*(column[1:] for column in story.state.rows))
    story.state = story.state._replace(before=50, loaded_from=day(4), rows=rows)
    with pytest.raises(NeedsWholeKey):
        story.tell("C r1 NEW day 3 -2")
    story.tell("D r1 NEW day 4 -2")
    assert told(story.state.rows) == ["4: -3 (2) 47"]


def test_a_suffix_that_blocks_freezes_its_days_only():
    story = Story()
    story.tell("A r1 NEW day 1 -50\nB r1 NEW day 4 -1")
    rows = Rows(*(column[1:] for column in story.state.rows))
    story.state = story.state._replace(before=50, loaded_from=day(4), rows=rows)
    folded = story.tell("C r1 NEW day 5 -1\nB r1 NEW day 4 -2")
    assert folded.state.status is Status.BLOCKED
    assert told(folded.state.rows) == ["4: +0 (0) 49", "5: -1 (1) 48"]


@pytest.mark.parametrize(
    ("texts", "changed"),
    [
        (["A r1 NEW day 1 5\nB r1 NEW day 2 5", "C r1 NEW day 3 5"], [3]),
        (["A r1 NEW day 1 5\nB r1 NEW day 2 5", "A r2 AMEND day 1 6"], [1, 2]),
        (["A r1 NEW day 1 5\nB r1 NEW day 2 5", "A r1 NEW day 1 5"], []),
        # Day 1 takes what day 2 gives: day 3 is not written again.
        (
            [
                "A r1 NEW day 1 5\nB r1 NEW day 2 5\nC r1 NEW day 3 5",
                "A r2 AMEND day 1 6\nB r2 AMEND day 2 4",
            ],
            [1, 2],
        ),
        # A day that comes and goes within the slice leaves no row.
        (["A r1 NEW day 1 5", "B r1 NEW day 2 5\nB r2 CANCEL day 2"], []),
        (["A r1 NEW day 1 5", "B r1 NEW day 2 5\nB r2 AMEND day 3 5"], [3]),
    ],
)
def test_the_changed_span_names_the_rows_to_write(texts, changed):
    story = Story()
    for text in texts:
        folded = story.tell(text)
    assert [_number(at) for at in folded.state.rows.days[slice(*folded.changed)]] == changed


def test_a_day_that_moved_only_while_blocked_keeps_its_stored_row():
    story = Story()
    story.tell("A r1 NEW day 1 5\nA r1 NEW day 1 6\nB r1 NEW day 2 5")
    assert told(story.state.rows) == ["1: +0 (0) 105", "2: +5 (1)"]
    folded = story.tell("B r2 CANCEL day 2")
    assert told(folded.state.rows) == ["1: +0 (0) 105", "2: +0 (0)"]
    assert [_number(at) for at in folded.state.rows.days[slice(*folded.changed)]] == [2]


@pytest.mark.parametrize(
    ("texts", "cause", "version"),
    [
        # The cause of a status is the last record that changed its payload, by position.
        (["B r1 NEW day 1 1\nA r1 NEW day 1 1"], 0, 1),
        (["A r1 NEW day 1 1\nB r1 NEW day 1 1\nB r1 NEW day 1 2"], 2, 1),
        (["A r1 NEW day 1 1\nA r1 NEW day 1 2\nA r1 NEW day 1 3"], 1, 1),
        (["A r1 NEW day 1 1", "B r1 NEW day 1 1"], None, 1),
        (["A r1 NEW day 1 1", "A r1 NEW day 1 2\nB r1 NEW day 1 1"], 0, 2),
        (["A r1 NEW day 1 1", "A r1 NEW day 1 2\nA r2 NEW day 1 2"], None, 1),  # as committed
        (["A r1 NEW day 1 1\nA r1 NEW day 1 2", "A r2 AMEND day 1 2\nB r1 NEW day 1 1"], 0, 2),
        (["A r1 NEW day 1 1\nA r1 NEW day 1 2", "B r1 NEW day 1 1\nB r1 NEW day 1 2"], 1, 2),
        (
            [
                "A r1 NEW day 1 1\nA r1 NEW day 1 2",
                "A r2 AMEND day 1 2\nA r2 AMEND day 1 3\nA r3 AMEND day 1 4",
            ],
            2,
            2,
        ),
    ],
)
def test_a_status_is_restated_only_when_its_payload_differs(texts, cause, version):
    story = Story()
    for text in texts:
        folded = story.tell(text)
    assert (folded.status_cause, folded.state.status_version) == (cause, version)


def test_reasons_stand_in_the_order_of_their_bytes():
    story = Story()
    names = ["\U00010000", "\uffff", "é", "z", "Z", "a"]
    story.tell("\n".join(f"{name} r2 NEW day 1 1\n{name} r2 NEW day 1 2" for name in names))
    assert [name for name, _ in story.state.reasons] == ["Z", "a", "z", "é", "\uffff", "\U00010000"]


def test_the_reach_bounds_every_close_of_the_slice():
    story = Story()
    folded = story.tell("A r1 NEW day 1 -500\nA r2 AMEND day 1 -20\nB r1 NEW day 2 30")
    assert story.fold.reach == 100 + 500 + 480 + 30
    assert folded.state.peak == 110
    # While blocked, day 1 gains 4000 unseen; the record that unblocks shows it.
    story.tell("B r1 NEW day 2 31")
    story.tell("C r1 NEW day 1 4000")
    assert story.state.peak == 110
    story.tell("B r2 AMEND day 2 1\nD r1 NEW day 2 5")
    assert story.fold.reach == 4081 + 1 + 5
    assert story.state.peak == 4086
