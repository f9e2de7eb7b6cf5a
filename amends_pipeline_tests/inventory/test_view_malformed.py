from __future__ import annotations

import pytest

from amends_pipeline.inventory.config import parse_configuration
from amends_pipeline.inventory.envelope import STATUS_DAY, Cause
from amends_pipeline.inventory.view import Fault, apply, malformation
from amends_pipeline.kernel.instants import MAX_DAY
from amends_pipeline_tests.envelopes import LARGEST, SMALLEST, batch, envelope
from amends_pipeline_tests.tables import FIRST_DAY, configuration

CONFIG = parse_configuration(configuration(keys="abc"))
AFTER = envelope("c day 1 balance v1 50, by C r1 at 9")
GOOD = envelope("a day 3 balance v2 70, by A r2 at 4")
READY = envelope("a status v1 READY, by A r1 at 0")
BLOCKED = envelope("a status v2 BLOCKED by A r1, B r2, by B r2 at 7")
GONE = envelope("a day 3 alert v2 withdrawn, by A r2 at 3")
CAUSE = GOOD.cause
MALFORMED = {
    "a key number below all": (GOOD._replace(key=-1), "a key number below 3", "-1"),
    "a key number above all": (GOOD._replace(key=3), "a key number below 3", "3"),
    "type 0": (GOOD._replace(type=0), "a type from 1 to 6", "0"),
    "type 7": (GOOD._replace(type=7), "a type from 1 to 6", "7"),
    "version 0": (GOOD._replace(version=0), "a version from 1", "0"),
    "a version of 65 bits": (
        GOOD._replace(version=LARGEST + 1),
        "a version from 1",
        str(LARGEST + 1),
    ),
    "the day before the origin": (
        GOOD._replace(day=FIRST_DAY - 1),
        "a day from the origin",
        f"day number {FIRST_DAY - 1}",
    ),
    "the day after the last": (GOOD._replace(day=MAX_DAY + 1), "a day from the origin", None),
    "a balance without a day": (GOOD._replace(day=STATUS_DAY), "a day from the origin", None),
    "a status with a day": (READY._replace(day=FIRST_DAY), "no day on a status", str(FIRST_DAY)),
    "a close over 64 bits": (
        GOOD._replace(close=LARGEST + 1),
        "a close of 64 bits",
        str(LARGEST + 1),
    ),
    "a close under 64 bits": (GOOD._replace(close=SMALLEST - 1), "a close of 64 bits", None),
    "a close on a withdrawal": (GONE._replace(close=1), "no close", "1"),
    "a close on a status": (READY._replace(close=-1), "no close", "-1"),
    "READY with a reason": (READY._replace(reasons=(("A", 1),)), "reasons on BLOCKED", "1 reasons"),
    "BLOCKED for nothing": (BLOCKED._replace(reasons=()), "reasons on BLOCKED", "0 reasons"),
    "a balance with a reason": (GOOD._replace(reasons=(("A", 1),)), "reasons on BLOCKED", None),
    "a reason without a name": (
        BLOCKED._replace(reasons=(("", 1),)),
        "reasons with txn_id",
        "('', 1)",
    ),
    "a reason of revision 0": (BLOCKED._replace(reasons=(("A", 0),)), "reasons with txn_id", None),
    "a reason with U+0000": (BLOCKED._replace(reasons=(("A\0", 1),)), "reasons with txn_id", None),
    "a reason twice": (BLOCKED._replace(reasons=(("A", 1),) * 2), "each reason once", None),
    "reasons out of order": (
        BLOCKED._replace(reasons=(("A", 10), ("A", 2))),
        *("each reason once", "(('A', 10), ('A', 2))"),
    ),
    "reasons in the order of UTF-16": (
        BLOCKED._replace(reasons=(("\U0001f600", 1), ("\uff61", 1))),
        *("each reason once", None),
    ),
    "an offset below 0": (GOOD._replace(cause=CAUSE._replace(offset=-1)), "a cause with", None),
    "an offset of 65 bits": (
        GOOD._replace(cause=CAUSE._replace(offset=LARGEST + 1)),
        *("a cause with", None),
    ),
    "a cause without a name": (
        GOOD._replace(cause=CAUSE._replace(txn_id="")),
        "a cause with",
        "(4, '', 2)",
    ),
    "a cause with U+0000": (GOOD._replace(cause=CAUSE._replace(txn_id="\0")), "a cause with", None),
    "a cause of revision 0": (
        GOOD._replace(cause=CAUSE._replace(revision=0)),
        "a cause with",
        None,
    ),
    "a cause of 65 bits": (
        GOOD._replace(cause=CAUSE._replace(revision=LARGEST + 1)),
        *("a cause with", None),
    ),
}


@pytest.mark.parametrize(("one", "expected", "found"), MALFORMED.values(), ids=MALFORMED)
def test_what_is_malformed_stops_the_partition_before_the_version_rule(one, expected, found):
    defect = malformation(CONFIG, 0, one)
    assert defect is not None
    assert defect[0].startswith(expected)
    assert defect[1] == found or found is None
    applied = apply(CONFIG, 0, {}, batch([READY, one, AFTER]))
    assert applied.fault == Fault(1, *defect)
    assert applied.rows == {READY.output_id: READY}
    assert applied.consumed == 1


def test_a_malformed_envelope_of_a_lower_version_is_a_fault_too():
    stored = GOOD._replace(version=9)
    applied = apply(
        CONFIG, 0, {stored.output_id: stored}, batch([GOOD._replace(close=LARGEST + 1)])
    )
    assert applied.fault is not None
    assert (applied.rows, applied.outdated) == ({}, 0)


def test_an_envelope_of_another_partition_stops_it():
    defect = malformation(CONFIG, 1, GOOD)
    assert defect == ("a key of partition 1", "one of partition 0")


@pytest.mark.parametrize(
    "one",
    [
        *(GOOD, READY, BLOCKED, GONE),
        GOOD._replace(day=FIRST_DAY, version=1, close=SMALLEST),
        GOOD._replace(day=MAX_DAY, version=LARGEST, close=LARGEST),
        GOOD._replace(cause=Cause(0, "\u2028", 1)),
        GOOD._replace(cause=Cause(LARGEST, "\U0010ffff", LARGEST)),
        BLOCKED._replace(reasons=(("\uff61", LARGEST), ("\U0001f600", 1))),
    ],
)
def test_what_lies_at_the_edge_is_well_formed(one):
    assert malformation(CONFIG, 0, one) is None
