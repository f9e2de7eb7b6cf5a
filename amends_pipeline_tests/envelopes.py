"""Envelopes as text: the lines that `tables.envelope_line` writes, read back as values.

    a day 1 balance v2 70, by A r2 at 3
    a day 1 alert v2 withdrawn, by A r2 at 3
    a status v1 READY, by A r1 at 0
    b status v2 BLOCKED by A r1, B r2, by B r2 at 7

Key a, b and c are key numbers 0, 1 and 2 of `tables.configuration(keys="abc")`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from hypothesis import strategies as st

from amends_pipeline.inventory.envelope import (
    STATUS_DAY,
    Cause,
    Envelope,
    EnvelopeBatch,
    Type,
)
from amends_pipeline_tests.tables import day, lines

SMALLEST, LARGEST = -(2**63), 2**63 - 1
_LINE = re.compile(
    r"(?P<key>[abc]) (?:status|day (?P<day>-?\d+) (?P<family>alert|balance)) v(?P<version>\d+)"
    r" (?P<said>.*), by (?P<txn>\S+) r(?P<revision>\d+) at (?P<offset>\d+)"
)
_SAYS = {
    ("alert", True): Type.ALERT_RAISED,
    ("alert", False): Type.ALERT_RETRACTED,
    ("balance", True): Type.BALANCE_STATED,
    ("balance", False): Type.BALANCE_RETRACTED,
}


def envelope(line: str) -> Envelope:
    """The envelope that a line tells."""
    match = _LINE.fullmatch(line)
    assert match is not None, line
    cause = Cause(int(match["offset"]), match["txn"], int(match["revision"]))
    key, version, said = "abc".index(match["key"]), int(match["version"]), match["said"]
    if match["family"] is None:
        reasons = (
            tuple(
                (txn_id, int(revision[1:]))
                for txn_id, revision in map(str.split, said.split(" by ")[1].split(", "))
            )
            if " by " in said
            else ()
        )
        kind = Type[f"{said.split()[0]}_STATED"]
        return Envelope(key, kind, STATUS_DAY, version, 0, cause, reasons)
    stated = said != "withdrawn"
    kind = _SAYS[match["family"], stated]
    close = int(said) if stated else 0
    return Envelope(key, kind, day(int(match["day"])), version, close, cause, ())


def envelopes(text: str) -> list[Envelope]:
    """The envelopes of a table."""
    return [envelope(line) for line in lines(text)]


def batch(each: Iterable[Envelope]) -> EnvelopeBatch:
    """Envelopes as columns."""
    columns = EnvelopeBatch()
    for one in each:
        columns.add(one)
    return columns


INT64 = st.integers(SMALLEST, LARGEST) | st.sampled_from([SMALLEST, -1, 0, 1, LARGEST])
POSITIVE = st.integers(1, 5) | st.sampled_from([1, LARGEST])
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1) | (
    st.sampled_from(["A", '"', "\\", "\u2028", "\x1f", "e\u0301", "\u00e9", "\U0001f600"])
)


@st.composite
def drawn(draw, keys: int, first_day: int, last_day: int) -> Envelope:
    """Any well-formed envelope of the first `keys` key numbers, with a day of the given ones."""
    kind = draw(st.sampled_from(Type))
    of_status = kind in (Type.READY_STATED, Type.BLOCKED_STATED)
    of_close = kind in (Type.BALANCE_STATED, Type.ALERT_RAISED)
    days = st.integers(first_day, last_day) | st.sampled_from([first_day, last_day])
    reasons = st.sets(st.tuples(TEXTS, POSITIVE), min_size=1, max_size=3)
    return Envelope(
        draw(st.integers(0, keys - 1)),
        kind,
        STATUS_DAY if of_status else draw(days),
        draw(POSITIVE),
        draw(INT64) if of_close else 0,
        Cause(draw(st.integers(0, LARGEST)), draw(TEXTS), draw(POSITIVE)),
        tuple(sorted(draw(reasons))) if kind is Type.BLOCKED_STATED else (),
    )
