from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.inventory.decision import decide
from amends_pipeline.inventory.slice import read_slice
from amends_pipeline_tests.driver import all_cuts, drive, records, source, suffix
from amends_pipeline_tests.reference import LARGEST, SMALLEST, Stop, compute
from amends_pipeline_tests.strategies import brinks, cuts, loadings
from amends_pipeline_tests.tables import configuration, day, history, visible_lines

# Key a opens at the largest integer, so that any receipt overflows. Mirrored, it opens at the
# smallest and issues overflow. Then: the offending offset and the day that does not fit.
OVERFLOWS = {
    "the log ends at the offending record": ("A r1 NEW day 1 1", 0, 1),
    "records before it stand": ("A r1 NEW day 1 -1; B r1 NEW day 2 2", 1, 2),
    "a later day falls out": (
        "A r1 NEW day 1 -9; B r1 NEW day 2 9; C r1 NEW day 1 1; D r1 NEW day 2 -1",
        2,
        2,
    ),
    "two days move at once": (
        "A r1 NEW day 1 -5; B r1 NEW day 2 5; A r2 AMEND day 3 -5; C r1 NEW day 2 -9",
        2,
        2,
    ),
    "one of two days that moved at once could bring it back": (
        "A r1 NEW day 1 -5; B r1 NEW day 2 5; A r2 AMEND day 3 -5; C r1 NEW day 1 -9",
        2,
        2,
    ),
    "a key that moves nothing comes first": ("b/X r1 CANCEL day 1; A r1 NEW day 1 1", 1, 1),
    "the next record is of another day": ("A r1 NEW day 1 1; B r1 NEW day 2 -1", 0, 1),
    "the next record is of another key": ("A r1 NEW day 1 1; b/B r1 NEW day 1 -1", 0, 1),
    "another key's stale record counts too": (
        "b/B r2 NEW day 1 -1; A r1 NEW day 1 1; b/B r1 NEW day 1 -1; A r2 CANCEL day 1",
        1,
        1,
    ),
    "the next record blocks the key": (
        "B r1 NEW day 1 -1; A r1 NEW day 1 2; B r1 NEW day 1 -2",
        1,
        1,
    ),
    "the day stays out": ("A r1 NEW day 1 1; B r1 NEW day 1 5; C r1 NEW day 1 -5", 0, 1),
    "the day came back and fell out again": (
        "A r1 NEW day 1 1; B r1 NEW day 1 -1; C r1 NEW day 1 7",
        2,
        1,
    ),
    "the key unblocks into an overflow": (
        "A r1 NEW day 1 -1; A r1 NEW day 1 -2; B r1 NEW day 2 1; A r2 CANCEL day 1",
        3,
        2,
    ),
    "unblocking is no intraday matter": (
        (
            "A r1 NEW day 1 0; A r1 NEW day 1 1; B r1 NEW day 1 1; A r2 CANCEL day 1"
            "; C r1 NEW day 1 -5"
        ),
        3,
        1,
    ),
}
# The log ends while the same day could still come back into range.
STILL_OPEN = {
    "the log ends at the offending record",
    "records before it stand",
    "a key that moves nothing comes first",
    "the day stays out",
    "the day came back and fell out again",
}
# Expected rows name closes by how far they lie from the opening.
FITS = {
    "the day comes back at once": (
        "A r1 NEW day 1 1; B r1 NEW day 1 -1",
        ["a READY", "a day 1: {0}"],
    ),
    "by the same transaction": ("A r1 NEW day 1 1; A r2 CANCEL day 1", ["a READY"]),
    "after more of the same day": (
        "A r1 NEW day 1 1; B r1 NEW day 1 9; C r1 NEW day 1 -4; D r1 NEW day 1 -8",
        ["a READY", "a day 1: {2}"],
    ),
    "what changes nothing lies between": (
        "A r1 NEW day 1 1; A r1 NEW day 1 1; malformed; B r1 CANCEL day 2; A r2 AMEND day 1 0",
        ["a READY", "a day 1: {0}"],
    ),
    "a later day comes back with it": (
        "A r1 NEW day 1 -9; B r1 NEW day 2 9; C r1 NEW day 1 1; D r1 NEW day 1 -1",
        ["a READY", "a day 1: {9}", "a day 2: {0}"],
    ),
    "a blocked key's sums may go anywhere": (
        (
            "A r1 NEW day 1 0; A r1 NEW day 1 1; B r1 NEW day 2 50; b/X r1 NEW day 1 -1"
            "; B r2 CANCEL day 2; A r2 AMEND day 3 0"
        ),
        ["a READY", "a day 3: {0}", "b READY", "b day 1: {1}"],
    ),
}


def mirrored(text: str, sign: int) -> tuple[dict, list]:
    """A namespace at the brink and the table's log, all quantities with `sign`."""
    config = configuration(opening=LARGEST if sign > 0 else SMALLEST, threshold=0)
    signed = re.sub(r"(?<=\d )-?\d+(?=;|$)", lambda found: str(sign * int(found[0])), text)
    return config, source(history(signed))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", OVERFLOWS)
def test_an_overflow_stops_at_the_same_record_however_the_log_is_cut(name, sign):
    text, offset, number = OVERFLOWS[name]
    config, log = mirrored(text, sign)
    expected = compute(config, log)
    assert expected.stop == Stop(offset, day(number))
    for sizes in all_cuts(len(log)):
        run = drive(config, log, sizes)
        assert run.excess is not None
        assert (run.excess.record.offset, run.excess.day) == expected.stop
        assert run.excess.undecided is (name in STILL_OPEN)
        assert run.frontier == offset
        assert run.visible() == expected.visible


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("text", "rows"), FITS.values(), ids=FITS)
def test_an_intraday_total_may_leave_the_range_on_its_way(text, rows, sign):
    config, log = mirrored(text, sign)
    opening = config["keys"][0]["opening_balance"]
    expected = [row.format(*(opening - sign * distance for distance in range(10))) for row in rows]
    for sizes in all_cuts(len(log)):
        run = drive(config, log, sizes)
        assert run.excess is None
        assert run.frontier == len(log)
        assert visible_lines(run.visible()) == expected


def test_a_record_that_was_set_aside_lets_the_rest_go_on():
    config, log = mirrored("A r1 NEW day 1 1; B r1 NEW day 2 -1; A r2 AMEND day 1 -1", 1)
    assert drive(config, log, [1]).frontier == 0
    run = drive(config, log, [1], aside=frozenset({0}))
    assert (run.frontier, run.excess) == (3, None)
    assert visible_lines(run.visible()) == [
        "a READY",
        f"a day 1: {LARGEST - 1}",
        f"a day 2: {LARGEST - 2}",
    ]


def test_a_stopped_log_stops_again_at_the_same_record_and_publishes_nothing_more():
    config, log = mirrored("B r1 NEW day 1 -1; A r1 NEW day 2 2; C r1 NEW day 3 0", 1)
    run = drive(config, log, [])
    slice_ = read_slice(run.config, 0, records(log[run.frontier :], run.frontier), frozenset())
    again = decide(run.shelf.known(slice_, suffix), slice_, 7)
    assert again.excess == run.excess
    assert (again.start, again.until, again.next_sequence) == (1, 1, 7)
    assert not again.keys
    assert not again.authorities


@given(brinks(), st.data())
def test_at_the_brink_every_cut_equals_the_full_computation(brink, data):
    config, lines = brink
    log = source(lines)
    expected = compute(config, log)
    run = drive(config, log, data.draw(cuts(len(log))), loading=data.draw(loadings))
    stop = run.excess and (run.excess.record.offset, run.excess.day)
    assert stop == expected.stop
    assert run.frontier == (len(log) if expected.stop is None else expected.stop.offset)
    assert run.visible() == expected.visible


@given(brinks(), st.data())
def test_a_record_of_another_day_decides_an_open_excess(brink, data):
    config, lines = brink
    log = source(lines)
    run = drive(config, log, data.draw(cuts(len(log))))
    if run.excess is None:
        return
    # One more record, of another day, decides it.
    more = [*lines, *history("Z r1 NEW day 9 0")]
    decided = drive(config, source(more), [])
    assert decided.excess is not None
    assert decided.excess == run.excess._replace(undecided=False)
