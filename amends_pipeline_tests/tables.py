"""Histories and what comes of them, as text that reads like the domain.

A history is one record a line (or up to a `;`):

    A r1 NEW day 2 -50                  transaction A, revision 1, of key a, on 2026-01-02 at noon
    b/A r2 CANCEL day 2                 the same transaction id under key b
    A r1 NEW day 2 at 23:59:59.5 -50    another time of that day, UTC
    malformed                           a value that is no record

What readers see is one line a day, after one line for the key's status:

    a READY
    a day 1: 50, alert
    b BLOCKED by A r1, B r2

What was published is one line an envelope:

    a day 1 alert v2 withdrawn, by A r2 at 3
    a day 1 balance v2 70, by A r2 at 3
    a status v1 READY, by A r1 at 0
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from amends_pipeline.kernel.instants import day_text, parse_day

FIRST_DAY = parse_day("2026-01-01")
STOCK_KEYS = {letter: ("DEMO-PART", f"DEPOT-{letter.upper()}") for letter in "abc"}
_LETTERS = {stock_key: letter for letter, stock_key in STOCK_KEYS.items()}

_LINE = re.compile(
    r"(?:(?P<key>[abc])/)?(?P<txn>\S+) r(?P<revision>\d+) (?P<kind>[A-Z]+) day (?P<day>-?\d+)"
    r"(?: at (?P<time>[\d:.]+))?(?: (?P<qty>[+-]?\d+))?"
)


class Line(NamedTuple):
    """One record as a transport hands it over."""

    value: bytes
    raw_key: bytes | None = None


def day(number: int) -> int:
    """Day `number` of the tables as days since 1970; day 1 is 2026-01-01."""
    return FIRST_DAY + number - 1


def configuration(opening: int = 100, threshold: int = 60, keys: str = "ab", **members) -> dict:
    """The document of a namespace whose keys are letters, all with one opening and threshold."""
    return {
        "schema_version": 1,
        "namespace": "main",
        "source": "depot-feed-1",
        "partitions": 1,
        "origin": "2026-01-01T00:00:00Z",
        "keys": [
            {
                "stock_key": dict(zip(("item", "location"), STOCK_KEYS[letter], strict=True)),
                "opening_balance": opening,
                "reorder_threshold": threshold,
                "partition": 0,
            }
            for letter in keys
        ],
        **members,
    }


def document(  # noqa: PLR0917 - in the order in which a record is read aloud
    stock_key: tuple[str, str], txn_id: str, revision: int, kind: str, valid_time: str, qty: int
) -> dict:
    """The document of a source record."""
    return {
        "txn_id": txn_id,
        "revision": revision,
        "kind": kind,
        "stock_key": {"item": stock_key[0], "location": stock_key[1]},
        "valid_time": valid_time,
        "qty": qty,
        "source_time": "2026-02-01T00:00:00Z",
    }


def encoded(record: dict) -> bytes:
    """The value of a source record."""
    return json.dumps(record, ensure_ascii=False).encode()


def history(text: str) -> list[Line]:
    """The records of a table."""
    return [_record(line) for line in lines(text)]


def lines(text: str) -> list[str]:
    """The lines of a table, which end at a line's end or at `;`, without blank ones."""
    stripped = (line.strip() for line in re.split("[\n;]", text))
    return [line for line in stripped if line]


def _record(line: str) -> Line:
    if line == "malformed":
        return Line(b"{")
    match = _LINE.fullmatch(line)
    assert match is not None, line
    stock_key = STOCK_KEYS[match["key"] or "a"]
    valid_time = f"{day_text(day(int(match['day'])))}T{match['time'] or '12:00:00'}Z"
    qty = int(match["qty"] or 0)
    revision = int(match["revision"])
    record = document(stock_key, match["txn"], revision, match["kind"], valid_time, qty)
    return Line(encoded(record))


def visible_lines(pairs: dict[str, dict]) -> list[str]:
    """What readers see, from visible payloads by encoded output id."""
    statuses: dict[str, str] = {}
    closes: dict[tuple[str, str], str] = {}
    alerts: set[tuple[str, str]] = set()
    for output_id, payload in pairs.items():
        _, family, item, location, *days = json.loads(output_id)
        letter = _LETTERS[item, location]
        if family == "key-status":
            statuses[letter] = _status(payload)
        elif family == "balance":
            closes[letter, days[0]] = payload["close"]
        else:
            alerts.add((letter, days[0]))
    assert alerts <= closes.keys()
    told = [(letter, "", f"{letter} {status}") for letter, status in statuses.items()]
    told += [
        (letter, when, f"{letter} {_day(when)}: {close}" + ", alert" * ((letter, when) in alerts))
        for (letter, when), close in closes.items()
    ]
    return [line for _, _, line in sorted(told)]


def envelope_line(envelope: dict) -> str:
    """One envelope of the wire."""
    output, payload, cause = envelope["output_id"], envelope["payload"], envelope["cause"]
    letter = _LETTERS[output["stock_key"]["item"], output["stock_key"]["location"]]
    family = output["family"]
    what = "status" if family == "key-status" else f"{_day(output['day'])} {family}"
    if not payload["present"]:
        said = "withdrawn"
    else:
        said = _status(payload) if family == "key-status" else str(payload["close"])
    because = f"{cause['txn_id']} r{cause['revision']} at {cause['offset']}"
    return f"{letter} {what} v{envelope['version']} {said}, by {because}"


def _status(payload: dict) -> str:
    reasons = ", ".join(f"{r['txn_id']} r{r['revision']}" for r in payload["reasons"])
    return payload["status"] + (f" by {reasons}" if reasons else "")


def _day(text: str) -> str:
    return f"day {parse_day(text) - FIRST_DAY + 1}"
