from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.inventory.config import parse_configuration
from amends_pipeline.inventory.envelope import Encoder, Type
from amends_pipeline.inventory.view import Fault, apply, visible
from amends_pipeline_tests.envelopes import (
    batch,
    drawn,
    envelope,
    envelopes,
)
from amends_pipeline_tests.tables import FIRST_DAY, configuration, envelope_line, lines

CONFIG = parse_configuration(configuration(keys="abc"))


def line_of(one) -> str:
    return envelope_line(json.loads(Encoder(CONFIG, 0).encode(one)))


@dataclass
class Reader:
    """A reader's rows, and what became of the deliveries to them."""

    rows: dict
    consumed: int = 0
    duplicates: int = 0
    outdated: int = 0
    fault: Fault | None = None

    def deliver(self, delivered) -> Reader:
        """Apply a batch and store what it says is to be stored."""
        batched = batch(delivered)
        wanted = {one.output_id for one in delivered if one.type in set(Type)}
        stored = {output: row for output, row in self.rows.items() if output in wanted}
        applied = apply(CONFIG, 0, stored, batched)
        return Reader(
            self.rows | applied.rows,
            applied.consumed,
            applied.duplicates,
            applied.outdated,
            applied.fault,
        )

    def lines(self) -> list[str]:
        return [line_of(row) for _, row in sorted(self.rows.items())]


def delivered(*tables: str) -> Reader:
    """A reader after one batch per table."""
    reader = Reader({})
    for table in tables:
        reader = reader.deliver(envelopes(table))
    return reader


@dataclass
class Case:
    """Batches of deliveries, and the rows, withdrawals included, that are left."""

    batches: list[str]
    rows: str
    duplicates: int = 0
    outdated: int = 0


CASES = {
    "a first version": Case(
        ["a day 1 balance v1 50, by A r1 at 0"], "a day 1 balance v1 50, by A r1 at 0"
    ),
    "a first version that is not 1": Case(
        ["a day 1 balance v4 50, by A r1 at 0"], "a day 1 balance v4 50, by A r1 at 0"
    ),
    "a higher version replaces": Case(
        ["a day 1 balance v1 50, by A r1 at 0", "a day 1 balance v2 70, by A r2 at 3"],
        "a day 1 balance v2 70, by A r2 at 3",
    ),
    "a higher version replaces in one batch": Case(
        ["a day 1 balance v1 50, by A r1 at 0\n a day 1 balance v2 70, by A r2 at 3"],
        "a day 1 balance v2 70, by A r2 at 3",
    ),
    "a lower version is ignored": Case(
        ["a day 1 balance v2 70, by A r2 at 3", "a day 1 balance v1 50, by A r1 at 0"],
        "a day 1 balance v2 70, by A r2 at 3",
        outdated=1,
    ),
    "a lower version is ignored in one batch": Case(
        ["a day 1 balance v2 70, by A r2 at 3\n a day 1 balance v1 50, by A r1 at 0"],
        "a day 1 balance v2 70, by A r2 at 3",
        outdated=1,
    ),
    "an equal envelope is a duplicate": Case(
        ["a day 1 balance v2 70, by A r2 at 3"] * 2,
        "a day 1 balance v2 70, by A r2 at 3",
        duplicates=1,
    ),
    "an equal envelope is a duplicate in one batch": Case(
        ["a day 1 balance v2 70, by A r2 at 3\n" * 3],
        "a day 1 balance v2 70, by A r2 at 3",
        duplicates=2,
    ),
    "a duplicate withdrawal": Case(
        ["a day 1 alert v2 withdrawn, by A r2 at 3"] * 2,
        "a day 1 alert v2 withdrawn, by A r2 at 3",
        duplicates=1,
    ),
    "a withdrawal keeps its version": Case(
        ["a day 1 balance v6 50, by A r1 at 0", "a day 1 balance v7 withdrawn, by A r2 at 3"],
        "a day 1 balance v7 withdrawn, by A r2 at 3",
    ),
    "after a withdrawal an older statement does not come back": Case(
        ["a day 1 balance v7 withdrawn, by A r2 at 3", "a day 1 balance v6 50, by A r1 at 0"],
        "a day 1 balance v7 withdrawn, by A r2 at 3",
        outdated=1,
    ),
    "a withdrawal of something never seen": Case(
        ["a day 1 alert v2 withdrawn, by A r2 at 3", "a day 1 alert v1 50, by A r1 at 0"],
        "a day 1 alert v2 withdrawn, by A r2 at 3",
        outdated=1,
    ),
    "withdrawn and stated again in one batch": Case(
        [
            "a day 1 balance v2 50, by A r1 at 0",
            "a day 1 balance v3 withdrawn, by A r2 at 3\n a day 1 balance v4 20, by A r3 at 4",
        ],
        "a day 1 balance v4 20, by A r3 at 4",
    ),
    "the same with the batch in the other order": Case(
        [
            "a day 1 balance v2 50, by A r1 at 0",
            "a day 1 balance v4 20, by A r3 at 4\n a day 1 balance v3 withdrawn, by A r2 at 3",
        ],
        "a day 1 balance v4 20, by A r3 at 4",
        outdated=1,
    ),
    "alert and balance of one day are two outputs": Case(
        ["a day 1 balance v5 50, by A r1 at 0\n a day 1 alert v1 50, by A r1 at 0"],
        "a day 1 alert v1 50, by A r1 at 0\n a day 1 balance v5 50, by A r1 at 0",
    ),
    "days are outputs of their own": Case(
        ["a day 2 balance v5 50, by A r1 at 0\n a day 1 balance v1 70, by A r1 at 0"],
        "a day 1 balance v1 70, by A r1 at 0\n a day 2 balance v5 50, by A r1 at 0",
    ),
    "keys are outputs of their own": Case(
        ["b day 1 balance v5 50, by A r1 at 0\n a day 1 balance v1 70, by A r1 at 1"],
        "a day 1 balance v1 70, by A r1 at 1\n b day 1 balance v5 50, by A r1 at 0",
    ),
    "a status blocks and is ready again": Case(
        [
            "a status v1 READY, by A r1 at 0",
            "a status v2 BLOCKED by A r1, by A r1 at 1",
            "a status v3 READY, by A r2 at 2\n a status v2 BLOCKED by A r1, by A r1 at 1",
        ],
        "a status v3 READY, by A r2 at 2",
        outdated=1,
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_highest_version_stands(case):
    reader = delivered(*case.batches)
    assert reader.lines() == lines(case.rows)
    assert reader.fault is None
    assert reader.consumed == len(lines(case.batches[-1]))
    assert (reader.duplicates, reader.outdated) == (case.duplicates, case.outdated)


def test_a_withdrawal_holds_after_the_reader_is_started_again():
    late = envelopes("a day 1 balance v6 50, by A r1 at 0")
    gone = delivered(
        "a day 1 balance v6 50, by A r1 at 0", "a day 1 balance v7 withdrawn, by A r2 at 3"
    )
    once = gone.deliver(late)
    again = Reader(dict(once.rows)).deliver(late)
    for reader in (once, again):
        assert reader.lines() == ["a day 1 balance v7 withdrawn, by A r2 at 3"]
        assert reader.outdated == 1
        assert not any(map(visible, reader.rows.values()))


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("a day 1 balance v1 50, by A r1 at 0", True),
        ("a day 1 balance v1 withdrawn, by A r1 at 0", False),
        ("a day 1 alert v1 50, by A r1 at 0", True),
        ("a day 1 alert v1 withdrawn, by A r1 at 0", False),
        ("a status v1 READY, by A r1 at 0", True),
        ("a status v1 BLOCKED by A r1, by A r1 at 0", True),
    ],
)
def test_readers_see_statements_and_no_withdrawals(line, seen):
    assert visible(envelope(line)) is seen


# Faults

STORED = "a day 1 balance v2 70, by A r2 at 3"
OTHERS = {
    "another offset": "a day 1 balance v2 70, by A r2 at 4",
    "another transaction": "a day 1 balance v2 70, by B r2 at 3",
    "another revision": "a day 1 balance v2 70, by A r3 at 3",
    "another close": "a day 1 balance v2 71, by A r2 at 3",
    "a withdrawal": "a day 1 balance v2 withdrawn, by A r2 at 3",
}
BEFORE = "b day 1 balance v1 50, by C r1 at 0\n a day 2 balance v1 50, by A r1 at 0"
AFTER = "c day 1 balance v1 50, by C r1 at 9"


@pytest.mark.parametrize("line", OTHERS.values(), ids=OTHERS)
def test_another_envelope_of_an_equal_version_is_a_fault_and_what_precedes_it_stands(line):
    reader = delivered(STORED, f"{BEFORE}\n{line}\n{AFTER}")
    assert reader.fault is not None
    assert reader.fault.position == reader.consumed == 2
    assert "version 2" in reader.fault.expected
    assert reader.lines() == [
        STORED,
        "a day 2 balance v1 50, by A r1 at 0",
        "b day 1 balance v1 50, by C r1 at 0",
    ]


@pytest.mark.parametrize("line", OTHERS.values(), ids=OTHERS)
def test_the_same_fault_inside_one_batch(line):
    late = "a day 1 balance v1 50, by A r1 at 0"
    reader = delivered(f"{STORED}\n{STORED}\n{late}\n{line}\n{AFTER}")
    assert reader.fault is not None
    assert reader.fault.position == reader.consumed == 3
    assert reader.lines() == [STORED]
    assert (reader.duplicates, reader.outdated) == (1, 1)


def test_other_reasons_of_an_equal_version_are_a_fault():
    reader = delivered(
        "a status v2 BLOCKED by A r1, by A r1 at 1",
        "a status v2 BLOCKED by A r1, B r1, by A r1 at 1",
    )
    assert reader.fault is not None
    assert reader.lines() == ["a status v2 BLOCKED by A r1, by A r1 at 1"]


def test_a_lower_version_with_other_content_is_only_late():
    reader = delivered(STORED, "a day 1 balance v1 99, by Z r9 at 2")
    assert (reader.fault, reader.outdated) == (None, 1)


# Laws


@st.composite
def published(draw):
    """Well-formed envelopes, one for each version of an output; outputs and versions are few."""
    few = drawn(1, FIRST_DAY, FIRST_DAY + 1).map(
        lambda one: one._replace(version=one.version % 5 + 1)
    )
    drawn_envelopes = draw(st.lists(few, min_size=1, max_size=10))
    return list({(one.output_id, one.version): one for one in drawn_envelopes}.values())


@st.composite
def deliveries(draw):
    """Envelopes, and batches that deliver each of them at least once, in any order."""
    once = draw(published())
    again = draw(st.lists(st.sampled_from(once), max_size=8))
    order = draw(st.permutations(once + again))
    cuts = sorted(draw(st.sets(st.integers(1, len(order)), max_size=3)))
    return once, [order[i:j] for i, j in zip([0, *cuts], [*cuts, len(order)], strict=True)]


@given(deliveries())
def test_any_delivery_that_holds_each_envelope_gives_the_same_rows(drawn_deliveries):
    once, batches = drawn_deliveries
    reader = Reader({})
    passed_over = 0
    for each in batches:
        reader = reader.deliver(each)
        assert reader.fault is None
        assert reader.consumed == len(each)
        passed_over += reader.duplicates + reader.outdated
    highest = {}
    for one in sorted(once, key=lambda one: one.version):
        highest[one.output_id] = one
    assert reader.rows == highest
    taken = sum(map(len, batches)) - passed_over
    assert len(highest) <= taken <= len(once)


@given(deliveries())
def test_cutting_deliveries_into_batches_changes_nothing(drawn_deliveries):
    _, batches = drawn_deliveries
    order = [one for each in batches for one in each]
    by_one = Reader({})
    for one in order:
        by_one = by_one.deliver([one])
    at_once = Reader({}).deliver(order)
    in_batches = Reader({})
    for each in batches:
        in_batches = in_batches.deliver(each)
    assert by_one.rows == at_once.rows == in_batches.rows


@given(published())
def test_rows_that_are_handed_in_are_not_changed(once):
    stored = Reader({}).deliver(once).rows
    copy = dict(stored)
    apply(CONFIG, 0, stored, batch([one._replace(version=9) for one in once[:1]]))
    assert stored == copy
