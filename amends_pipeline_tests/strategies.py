"""What Hypothesis draws: configurations, histories, and ways of cutting them.

Keys, transactions, revisions, days and quantities are few, so that records meet: later revisions,
stale ones, duplicates, conflicts, their resolution, days that empty and fill again. Every other
history is calm: seldom does a key block, so that corrections reach many later days.
"""

from __future__ import annotations

import json

from hypothesis import strategies as st

from amends_pipeline.kernel.instants import day_text
from amends_pipeline_tests.driver import suffix, whole
from amends_pipeline_tests.reference import LARGEST, SMALLEST
from amends_pipeline_tests.tables import STOCK_KEYS, Line, configuration, day, document, encoded

AWKWARD_KEYS = [
    ("a/b", "Café"),
    ("a", "b/Café"),
    ("Cafe\u0301", 'quo"te'),
    ("back\\slash", "tab\there"),
    ("\u007f\u2028", "emoji 😀"),
    ("\uffff", "x" * 200),
    ("\U00010000", "[1]"),
]
TIMES = ["T12:00:00Z", "T12:00:00.000000001Z", "T13:00:00+01:00", "T23:59:59.999999999Z"]
MALFORMED = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"\xff",
    b"\xef\xbb\xbf{}",
    encoded(document(STOCK_KEYS["a"], "A", 1, "NEW", "2026-01-01T12:00:60Z", -1)),
    encoded(document(STOCK_KEYS["a"], "A", 1, "NEW", "2026-01-01T12:00:00Z", 1.0)),
    encoded(document(STOCK_KEYS["a"], "A", 1, "NEW", "2026-01-01T12:00:00Z", LARGEST + 1)),
    encoded(document(STOCK_KEYS["a"], "A", 1, "NEW", "2026-01-01T12:00:00Z", None)),
    encoded(document(STOCK_KEYS["a"], "\0", 1, "NEW", "2026-01-01T12:00:00Z", 1)),
    encoded(document(STOCK_KEYS["a"], "A", 1, "NEW", "2026-01-01T12:00:00Z", 1)) + b"{}",
    encoded(document(STOCK_KEYS["a"], "A", 1, "NEW", "2026-01-01T12:00:00Z", 1) | {"more": 1}),
    encoded(document(STOCK_KEYS["a"], "A", 1, "NEW", "2026-01-01T12:00:00Z", 1)).replace(
        b'"qty"', b'"revision"'
    ),
]
STRANGE = [
    document(STOCK_KEYS["a"], "", 1, "NEW", "2026-01-01T12:00:00Z", -1),
    document(STOCK_KEYS["a"], "A", 0, "NEW", "2026-01-01T12:00:00Z", -1),
    document(STOCK_KEYS["a"], "A", 9, "new", "2026-01-01T12:00:00Z", -1),
    document(STOCK_KEYS["a"], "A", 9, "CANCEL", "2026-01-01T12:00:00Z", -1),
    document(STOCK_KEYS["a"], "A", 9, "NEW", "2025-12-31T23:59:59.999999999Z", -1),
    document(STOCK_KEYS["a"], "A", 9, "NEW", "9999-12-31T23:00:00-01:00", -1),
    document(("DEMO-PART", "depot-a"), "A", 9, "NEW", "2026-01-01T12:00:00Z", -1),
]


@st.composite
def configurations(draw, partitions: int = 2) -> dict:
    """One to three keys, plain ones first; small openings and thresholds."""
    stock_keys = [STOCK_KEYS["a"]]
    stock_keys += draw(
        st.lists(st.sampled_from([STOCK_KEYS["b"], *AWKWARD_KEYS]), max_size=2, unique=True)
    )
    keys = [
        {
            "stock_key": {"item": item, "location": location},
            "opening_balance": draw(st.sampled_from([100, 60, 0, -5])),
            "reorder_threshold": draw(st.sampled_from([60, 0, -10])),
        }
        for item, location in stock_keys
    ]
    for key in keys[1:]:
        if draw(st.booleans()):
            key["partition"] = draw(st.integers(0, partitions - 1))
    keys[0]["partition"] = 0
    return configuration(partitions=partitions) | {"keys": keys}


def _stock_keys(config: dict) -> list[tuple[str, str]]:
    return [(key["stock_key"]["item"], key["stock_key"]["location"]) for key in config["keys"]]


@st.composite
def assertions(
    draw, stock_keys: list[tuple[str, str]], quantities: list[int], days: int, seen: list[dict]
) -> dict:
    """A record that decodes and names one of the keys, mostly the first.

    One in three amends or contradicts a record of `seen`.
    """
    kind = draw(st.sampled_from(["NEW", "AMEND", "AMEND", "CANCEL"]))
    when = day_text(day(draw(st.integers(1, days)))) + draw(st.sampled_from(TIMES))
    record = document(
        draw(st.sampled_from([stock_keys[0], stock_keys[0], *stock_keys])),
        draw(st.sampled_from(["A", "A", "A", "B", "B", "é", "😀"])),
        draw(st.integers(1, 3)),
        kind,
        when,
        0 if kind == "CANCEL" else draw(st.sampled_from(quantities)),
    )
    if seen and draw(st.integers(0, 2)) == 2:
        earlier = draw(st.sampled_from(seen))
        record["stock_key"], record["txn_id"] = earlier["stock_key"], earlier["txn_id"]
        record["revision"] = earlier["revision"] + draw(st.integers(0, 1))
    seen.append(record)
    return record


@st.composite
def corrections(draw, stock_keys: list[tuple[str, str]], highest: dict) -> dict:
    """A record of a calm history, of which `highest` tells the revisions: mostly the next one."""
    stock_key = draw(st.sampled_from([stock_keys[0], stock_keys[0], *stock_keys]))
    txn_id = draw(st.sampled_from("ABCDEF"))
    last = highest.get((stock_key, txn_id), 0)
    revision = max(1, last + draw(st.sampled_from([1] * 10 + [2, 0, -1])))
    highest[stock_key, txn_id] = max(last, revision)
    kind = draw(st.sampled_from(["AMEND", "AMEND", "CANCEL"])) if last else "NEW"
    when = day_text(day(draw(st.integers(1, 6)))) + draw(st.sampled_from(TIMES))
    qty = 0 if kind == "CANCEL" else draw(st.sampled_from([-50, -20, 0, 30, 50]))
    return document(stock_key, txn_id, revision, kind, when, qty)


@st.composite
def histories(draw, config: dict, max_size: int = 14) -> list[Line]:
    """Records of a few keys; in twenty, some two come again, one has a key, two are rejected."""
    stock_keys = _stock_keys(config)
    if draw(st.booleans()):
        drawn = corrections(stock_keys, {})
    else:
        drawn = assertions(stock_keys, [-50, -20, 0, 30, 50], days=4, seen=[])
    accepted = drawn.map(encoded)
    raw_key = st.sampled_from([_raw_key(stock_key) for stock_key in stock_keys])
    lines: list[Line] = []
    for _ in range(draw(st.integers(0, max_size))):
        match draw(st.integers(0, 19)):
            case 19:
                lines.append(Line(draw(st.sampled_from(MALFORMED))))
            case 18:
                lines.append(Line(draw(st.sampled_from(STRANGE).map(encoded))))
            case 17:
                lines.append(Line(draw(accepted), draw(raw_key)))
            case 15 | 16 if lines:
                lines.append(draw(st.sampled_from(lines)))
            case _:
                lines.append(Line(draw(accepted)))
    return lines


def _raw_key(stock_key: tuple[str, str]) -> bytes:
    return json.dumps(stock_key, ensure_ascii=False, separators=(",", ":")).encode()


@st.composite
def brinks(draw) -> tuple[dict, list[Line]]:
    """A namespace at the brink of 64 bits, and a history that may fall over it.

    One in three begins with a conflict, behind which sums may go anywhere until it is resolved.
    """
    opening = draw(st.sampled_from([LARGEST, LARGEST - 5, SMALLEST, SMALLEST + 5, 0]))
    config = configuration(opening=opening, threshold=0, keys="ab")
    quantities = [LARGEST, SMALLEST, 1, -1] if opening == 0 else [-5, -1, 1, 5]
    stock_keys = _stock_keys(config)[: draw(st.integers(1, 2))]
    seen: list[dict] = []
    if draw(st.integers(0, 2)) == 2:
        seen += [
            document(STOCK_KEYS["a"], "A", 1, "NEW", f"2026-01-01{time}", 0) for time in TIMES[:2]
        ]
    lines = [Line(encoded(record)) for record in seen]
    accepted = assertions(stock_keys, quantities, days=2, seen=seen).map(encoded).map(Line)
    line = st.integers(0, 9).flatmap(lambda ten: st.just(Line(b"{")) if ten == 9 else accepted)
    return config, lines + [draw(line) for _ in range(draw(st.integers(0, 8)))]


def cuts(count: int) -> st.SearchStrategy[list[int]]:
    """Sizes of slices for `count` records; what they leave over is one more slice."""
    return st.lists(st.integers(1, 5), max_size=count)


loadings = st.sampled_from([suffix, whole])
"""How much of a key a slice finds loaded."""
