from __future__ import annotations

import json

import pytest

from amends_pipeline.inventory.config import parse_configuration
from amends_pipeline.inventory.decision import decide
from amends_pipeline.inventory.envelope import encoded_id
from amends_pipeline.inventory.refold import Rows
from amends_pipeline.inventory.slice import read_slice
from amends_pipeline.kernel.errors import CounterExhausted
from amends_pipeline.kernel.integers import MAX_INT64
from amends_pipeline_tests.driver import Shelf, drive, records, source, whole
from amends_pipeline_tests.strategies import AWKWARD_KEYS
from amends_pipeline_tests.tables import (
    STOCK_KEYS,
    Line,
    configuration,
    document,
    encoded,
    envelope_line,
    history,
    lines,
)

BEFORE = """
    ISSUE-001 r1 NEW day 1 -50
    ISSUE-002 r1 NEW day 2 -20
    RECEIPT-003 r1 NEW day 3 50
"""


def published(*slices: str) -> list[list[str]]:
    """What each slice publishes, as text."""
    sizes = [len(lines(text)) for text in slices]
    run = drive(configuration(), source(history("\n".join(slices))), sizes)
    assert run.excess is None
    told = [[envelope_line(json.loads(each)) for each in decision] for decision in run.wire()]
    assert len(told) == len(slices)
    return told


@pytest.mark.parametrize(
    ("slices", "expected"),
    [
        (
            [BEFORE],
            """
            a day 1 alert v1 50, by ISSUE-001 r1 at 0
            a day 1 balance v1 50, by ISSUE-001 r1 at 0
            a day 2 balance v1 30, by ISSUE-002 r1 at 1
            a day 3 balance v1 80, by RECEIPT-003 r1 at 2
            a status v1 READY, by ISSUE-001 r1 at 0
            """,
        ),
        (
            [BEFORE, "ISSUE-001 r2 AMEND day 1 -30"],
            """
            a day 1 alert v2 withdrawn, by ISSUE-001 r2 at 3
            a day 2 alert v1 50, by ISSUE-001 r2 at 3
            a day 1 balance v2 70, by ISSUE-001 r2 at 3
            a day 2 balance v2 50, by ISSUE-001 r2 at 3
            a day 3 balance v2 100, by ISSUE-001 r2 at 3
            """,
        ),
        (  # all in one: only the net is published, and each day has the last record that moved it
            [BEFORE + "ISSUE-001 r2 AMEND day 1 -30\nRECEIPT-003 r2 CANCEL day 3"],
            """
            a day 2 alert v1 50, by ISSUE-001 r2 at 3
            a day 1 balance v1 70, by ISSUE-001 r2 at 3
            a day 2 balance v1 50, by ISSUE-001 r2 at 3
            a status v1 READY, by ISSUE-001 r1 at 0
            """,
        ),
        (  # a record of an earlier day is the cause of all later days, when it came later
            ["C r1 NEW day 3 -1\nB r1 NEW day 2 -1\nA r1 NEW day 1 -1"],
            """
            a day 1 balance v1 99, by A r1 at 2
            a day 2 balance v1 98, by A r1 at 2
            a day 3 balance v1 97, by A r1 at 2
            a status v1 READY, by C r1 at 0
            """,
        ),
        (  # a duplicate, a stale revision and a rejected record cause nothing
            ["A r2 NEW day 1 -1\nmalformed\nA r1 NEW day 1 -9\nA r2 NEW day 1 -1"],
            """
            a day 1 balance v1 99, by A r2 at 0
            a status v1 READY, by A r2 at 0
            """,
        ),
        (  # nor does a higher revision that says the same of the day
            ["A r1 NEW day 1 -1\nA r2 AMEND day 1 at 13:00:00 -1"],
            """
            a day 1 balance v1 99, by A r1 at 0
            a status v1 READY, by A r1 at 0
            """,
        ),
        (  # a movement of 0 on a day that is active already changes neither total nor activity
            ["A r1 NEW day 1 -1\nB r1 NEW day 1 0\nC r1 NEW day 2 0\nD r1 NEW day 2 0"],
            """
            a day 1 balance v1 99, by A r1 at 0
            a day 2 balance v1 99, by C r1 at 2
            a status v1 READY, by A r1 at 0
            """,
        ),
        (  # a record that is taken back within the slice changed the day, and then did again
            ["A r1 NEW day 1 -1", "B r1 NEW day 1 -5\nC r1 NEW day 2 -2\nB r2 CANCEL day 1"],
            """
            a day 2 balance v1 97, by B r2 at 3
            """,
        ),
        (  # a move leaves one day and enters another: cause of both
            ["A r1 NEW day 2 -60\nB r1 NEW day 3 -1", "A r2 AMEND day 4 -60"],
            """
            a day 2 alert v2 withdrawn, by A r2 at 2
            a day 4 alert v1 39, by A r2 at 2
            a day 2 balance v2 withdrawn, by A r2 at 2
            a day 3 balance v2 99, by A r2 at 2
            a day 4 balance v1 39, by A r2 at 2
            """,
        ),
        (  # a slice that blocks: what came before the conflict is published, with its own causes
            ["A r1 NEW day 1 -1\nB r1 NEW day 2 -1\nA r1 NEW day 1 -2\nC r1 NEW day 1 -7"],
            """
            a day 1 balance v1 99, by A r1 at 0
            a day 2 balance v1 98, by B r1 at 1
            a status v1 BLOCKED by A r1, by A r1 at 2
            """,
        ),
        (  # the same where the slice amends an early day first: the whole suffix has moved
            [BEFORE, "ISSUE-001 r2 AMEND day 1 -30; ISSUE-001 r2 AMEND day 1 -31"],
            """
            a day 1 alert v2 withdrawn, by ISSUE-001 r2 at 3
            a day 2 alert v1 50, by ISSUE-001 r2 at 3
            a day 1 balance v2 70, by ISSUE-001 r2 at 3
            a day 2 balance v2 50, by ISSUE-001 r2 at 3
            a day 3 balance v2 100, by ISSUE-001 r2 at 3
            a status v2 BLOCKED by ISSUE-001 r2, by ISSUE-001 r2 at 4
            """,
        ),
        (  # the record that unblocks changes every day, days before its own too
            [
                "A r1 NEW day 1 -1\nB r1 NEW day 3 -1\nB r1 NEW day 3 -2\nC r1 NEW day 2 -50",
                "A r2 AMEND day 1 -5\nB r2 AMEND day 3 0\nD r1 NEW day 3 -4",
            ],
            """
            a day 2 alert v1 45, by B r2 at 5
            a day 1 balance v2 95, by B r2 at 5
            a day 2 balance v1 45, by B r2 at 5
            a day 3 balance v2 41, by D r1 at 6
            a status v2 READY, by B r2 at 5
            """,
        ),
        (  # blocked and unblocked within one slice: no status, all days by the one that unblocked
            [
                "A r1 NEW day 1 -1",
                "C r1 NEW day 2 -3\nA r1 NEW day 1 -2\nA r2 AMEND day 3 -2",
            ],
            """
            a day 1 balance v2 withdrawn, by A r2 at 3
            a day 2 balance v1 97, by A r2 at 3
            a day 3 balance v1 95, by A r2 at 3
            """,
        ),
        (  # two reasons, one resolved, in one slice: the status is caused by the last change of it
            [
                "A r1 NEW day 1 -1\nB r1 NEW day 1 -1",
                "A r1 NEW day 1 -2\nB r1 NEW day 1 -2\nA r2 AMEND day 1 -3\nC r1 NEW day 1 -1",
            ],
            """
            a status v2 BLOCKED by B r1, by A r2 at 4
            """,
        ),
        (  # a further conflict restates the reasons, and no row
            ["A r1 NEW day 1 -1\nA r1 NEW day 1 -2", "B r3 NEW day 2 1\nB r3 NEW day 2 2"],
            """
            a status v2 BLOCKED by A r1, B r3, by B r3 at 3
            """,
        ),
        (["A r1 NEW day 1 -1", "A r1 NEW day 1 -1\nmalformed\nA r2 AMEND day 1 -1"], ""),
        (  # keys in order, each with its status last
            ["b/A r1 NEW day 2 -50\nA r1 NEW day 1 -50\nb/B r1 NEW day 1 -1"],
            """
            a day 1 alert v1 50, by A r1 at 1
            a day 1 balance v1 50, by A r1 at 1
            a status v1 READY, by A r1 at 1
            b day 2 alert v1 49, by B r1 at 2
            b day 1 balance v1 99, by B r1 at 2
            b day 2 balance v1 49, by B r1 at 2
            b status v1 READY, by A r1 at 0
            """,
        ),
    ],
)
def test_a_slice_publishes_its_net_change_with_the_record_that_caused_it(slices, expected):
    assert published(*slices)[-1] == lines(expected)


def test_a_version_counts_the_payloads_of_its_output_only():
    told = published(
        "A r1 NEW day 1 -50",
        "A r2 CANCEL day 1",
        "A r3 AMEND day 1 -50",
        "A r4 AMEND day 2 -50",
        "A r5 AMEND day 1 -10",
    )
    assert [line for slice_ in told for line in slice_ if " by A r" in line] == lines("""
        a day 1 alert v1 50, by A r1 at 0
        a day 1 balance v1 50, by A r1 at 0
        a status v1 READY, by A r1 at 0
        a day 1 alert v2 withdrawn, by A r2 at 1
        a day 1 balance v2 withdrawn, by A r2 at 1
        a day 1 alert v3 50, by A r3 at 2
        a day 1 balance v3 50, by A r3 at 2
        a day 1 alert v4 withdrawn, by A r4 at 3
        a day 2 alert v1 50, by A r4 at 3
        a day 1 balance v4 withdrawn, by A r4 at 3
        a day 2 balance v1 50, by A r4 at 3
        a day 2 alert v2 withdrawn, by A r5 at 4
        a day 1 balance v5 90, by A r5 at 4
        a day 2 balance v2 withdrawn, by A r5 at 4
    """)


def test_envelopes_stand_in_the_order_of_encoded_keys_then_ids_as_bytes_the_status_last():
    keys = [*AWKWARD_KEYS, *STOCK_KEYS.values()]
    config = configuration(
        keys="a",
    ) | {
        "keys": [
            {
                "stock_key": {"item": item, "location": location},
                "opening_balance": 100,
                "reorder_threshold": 60,
                "partition": 0,
            }
            for item, location in keys
        ]
    }
    moves = [
        Line(encoded(document(key, "A", 1, "NEW", f"{day}T12:00:00Z", -60)))
        for key in keys
        for day in ("2026-01-02", "2026-01-10")
    ] + [
        Line(encoded(document(key, "B", 1, "NEW", f"{day}T12:00:00Z", qty)))
        for key in keys
        for day, qty in (("9999-12-31", 60), ("2026-10-01", 60))
    ]
    moves = moves[::-2] + moves[::2]
    run = drive(config, source(moves), [])
    told = [json.loads(each) for each in run.wire()[0]]
    places = []
    for envelope in told:
        output = envelope["output_id"]
        key = [output["stock_key"]["item"], output["stock_key"]["location"]]
        family = output["family"]
        identifier = ["main", family, *key, *([output["day"]] if "day" in output else [])]
        places.append(
            (
                json.dumps(key, ensure_ascii=False, separators=(",", ":")).encode(),
                family == "key-status",
                json.dumps(identifier, ensure_ascii=False, separators=(",", ":")).encode(),
            )
        )
    assert places == sorted(places)
    assert len({key for key, _, _ in places}) == len(keys)
    assert [encoded_id(run.config, each.output_id).encode() for each in run.envelopes] == [
        identifier for _, _, identifier in places
    ]


def test_envelopes_take_consecutive_sequences_and_the_frontier_covers_the_slice():
    config = parse_configuration(configuration())
    shelf = Shelf(config)
    log = source(history(BEFORE + "malformed"), step=3)
    slice_ = read_slice(config, 0, records(log, start=0, until=50), frozenset())
    decision = decide(shelf.known(slice_, whole), slice_, base_sequence=17)
    assert (decision.start, decision.until) == (0, 50)
    assert (decision.base_sequence, decision.next_sequence) == (17, 22)
    assert (decision.accepted, [each.offset for each in decision.rejections]) == (3, [9])
    assert decision.excess is None


def test_a_slice_without_records_moves_the_frontier_alone():
    config = parse_configuration(configuration())
    slice_ = read_slice(config, 0, records([], start=4, until=9), frozenset())
    decision = decide(Shelf(config).known(slice_, whole), slice_, base_sequence=3)
    assert (decision.start, decision.until, decision.next_sequence) == (4, 9, 3)
    assert (decision.keys, decision.authorities, decision.observations) == ({}, {}, [])


def test_accepted_records_stand_in_exactly_one_kind_of_evidence():
    run = drive(
        configuration(),
        source(
            history("""
            A r1 NEW day 1 5
            A r1 NEW day 1 5
            A r3 AMEND day 1 5
            A r2 AMEND day 1 6
            A r2 AMEND day 1 7
            A r3 AMEND day 1 8
            b/A r1 NEW day 1 5
        """)
        ),
        [],
    )
    assert {key: (a.offset, a.conflicted) for key, a in run.shelf.authorities.items()} == {
        (0, "A"): (2, True),
        (1, "A"): (6, False),
    }
    assert sorted(each.offset for each in run.shelf.observations) == [0, 1, 3, 4, 5]
    assert run.conflicts() == {(*STOCK_KEYS["a"], "A", 2), (*STOCK_KEYS["a"], "A", 3)}


@pytest.mark.parametrize(
    ("versions", "sequence", "text", "found"),
    [
        (MAX_INT64 - 1, 0, "A r2 AMEND day 1 -2", None),
        (MAX_INT64, 0, "A r2 AMEND day 1 -2", f"version {MAX_INT64 + 1}"),
        (MAX_INT64, 0, "A r1 NEW day 1 -1", None),
        (1, MAX_INT64 - 1, "A r2 AMEND day 1 -2", None),
        (1, MAX_INT64, "A r2 AMEND day 1 -2", f"sequence {MAX_INT64 + 1}"),
        (1, MAX_INT64, "A r1 NEW day 1 -1", None),
    ],
)
def test_a_counter_that_would_leave_64_bits_is_an_error(versions, sequence, text, found):
    run = drive(configuration(), source(history("A r1 NEW day 1 -1")), [])
    slice_ = read_slice(run.config, 0, records(source(history(text))), frozenset())
    known = run.shelf.known(slice_, whole)
    rows: Rows = known.keys[0].rows
    known.keys[0] = known.keys[0]._replace(rows=rows._replace(balance_versions=[versions]))
    if found is None:
        assert decide(known, slice_, sequence).accepted == 1
    else:
        with pytest.raises(CounterExhausted, match=found) as stop:
            decide(known, slice_, sequence)
        assert stop.value.where == "output versions and outbox sequence"
        assert stop.value.expected == "at most 64 bits signed"


def test_a_decision_holds_what_is_new_and_no_more():
    run = drive(configuration(), source(history(BEFORE)), [])
    text = "ISSUE-001 r1 NEW day 1 -50; ISSUE-002 r2 AMEND day 2 -20; b/X r1 CANCEL day 1"
    slice_ = read_slice(run.config, 0, records(source(history(text))), frozenset())
    decision = decide(run.shelf.known(slice_, whole), slice_, 5)
    assert sorted(decision.authorities) == [(0, "ISSUE-002"), (1, "X")]
    assert {key: change.headed for key, change in decision.keys.items()} == {0: False, 1: True}
    assert len(decision.envelopes) == len(decision.envelopes.causes) == 1
    assert [(each.txn_id, each.offset) for each in decision.observations] == [
        ("ISSUE-001", 0),
        ("ISSUE-002", 1),
    ]


def test_envelopes_of_one_record_share_its_cause():
    text = BEFORE + "ISSUE-001 r2 AMEND day 1 -30"
    repair = drive(configuration(), source(history(text)), [3]).decisions[1].envelopes
    assert (len(repair), len(repair.causes)) == (5, 1)


def test_a_decision_changes_nothing_that_it_was_given():
    run = drive(configuration(), source(history(BEFORE)), [])
    slice_ = read_slice(
        run.config, 0, records(source(history("ISSUE-001 r2 AMEND day 1 -30"))), frozenset()
    )
    known = run.shelf.known(slice_, whole)
    first, second = decide(known, slice_, 5), decide(known, slice_, 5)
    assert first == second
    assert known == run.shelf.known(slice_, whole)


def test_installing_a_decision_makes_the_state_that_the_next_one_starts_from():
    run = drive(configuration(), source(history(BEFORE)), [])
    slices = [
        read_slice(run.config, 0, records(source(history(text)), at), frozenset())
        for at, text in [(0, "ISSUE-001 r2 AMEND day 1 -30"), (1, "RECEIPT-003 r2 CANCEL day 3")]
    ]
    known = run.shelf.known(slices[0].joined(slices[1]), whole)
    for slice_ in slices:
        decision = decide(known, slice_, 5)
        run.shelf.commit(decision)
        known.install(decision)
    assert known == run.shelf.known(slices[0].joined(slices[1]), whole)
