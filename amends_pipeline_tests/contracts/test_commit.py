from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amends_pipeline.inventory.assertions import (
    ObservationColumns,
    assertions,
    authority_columns,
)
from amends_pipeline.inventory.authority import Accepted, Authority, Candidate, Observation
from amends_pipeline.inventory.classify import Code
from amends_pipeline.inventory.envelope import Cause, Envelope, Type
from amends_pipeline.inventory.refold import EVERY_DAY, Status
from amends_pipeline.inventory.slice import Rejection
from amends_pipeline.kernel.errors import FrontierMoved
from amends_pipeline.kernel.instants import MAX_DAY, MIN_DAY
from amends_pipeline.ports import Quarantined
from amends_pipeline_tests.contracts.bench import (
    STORY,
    change,
    decision,
    provisioned,
    segments_of,
    state,
)
from amends_pipeline_tests.envelopes import LARGEST, SMALLEST, batch, envelopes
from amends_pipeline_tests.strategies import histories
from amends_pipeline_tests.tables import configuration

EVERY_BYTE = bytes(range(256))
TXN_IDS = ["A", "a", "Caf\u00e9", "Cafe\u0301", "\U0001f600", "\uff61", "'; --", "\\", "x" * 5_000]
LAST_NANOSECOND = 86_400 * 10**9 - 1


def keys():
    """Changes of two keys, with every extreme."""
    return {
        0: change(
            state(
                rows=[
                    (MIN_DAY, 2**70, 3, SMALLEST, True, True, LARGEST, 1),
                    (-1, -(2**90), 1, -1, True, False, 1, LARGEST),
                    (0, 0, 0, -1, False, False, 2, 0),
                    (MAX_DAY, -(2**63) * 10**6, 2**40, LARGEST, False, False, 0, 0),
                ],
                status=Status.BLOCKED,
                status_version=LARGEST,
                reasons=tuple((txn_id, LARGEST) for txn_id in sorted(TXN_IDS)),
                peak=2**63,
            )
        ),
        1: change(state(1, rows=[(5, -50, 1, 50, True, True, 1, 1)], status_version=3)),
    }


AUTHORITIES = {
    (0, txn_id): Authority(
        Candidate(at + 1, kind, day, nanosecond, qty), 10 + at, conflicted=at % 2 == 0
    )
    for at, (txn_id, kind, day, nanosecond, qty) in enumerate(
        zip(
            TXN_IDS,
            ["NEW", "AMEND", "CANCEL"] * 3,
            [MIN_DAY, MAX_DAY, 0, -1, 1, 5, 5, 5, 5],
            [0, LAST_NANOSECOND, 1, 2, 3, 4, 5, 6, 7],
            [SMALLEST, LARGEST, 0, -1, 1, 0, 5, 6, 7],
            strict=True,
        )
    )
} | {(1, "A"): Authority(Candidate(LARGEST, "NEW", 5, 0, -50), 1, conflicted=False)}
OBSERVATIONS = [
    Observation(0, "A", 30, Candidate(1, "NEW", MIN_DAY, 0, SMALLEST)),
    Observation(0, "A", 3, Candidate(LARGEST, "AMEND", MAX_DAY, LAST_NANOSECOND, LARGEST)),
    Observation(1, "A", 2, Candidate(1, "CANCEL", 0, 0, 0)),
    Observation(0, "\u0001", 31, Candidate(1, "NEW", 0, 0, 1)),
]
REJECTIONS = [
    Rejection(4, Code.MALFORMED, None, b""),
    Rejection(5, Code.KEY_MISMATCH, b"", EVERY_BYTE),
    Rejection(6, Code.SET_ASIDE, EVERY_BYTE, EVERY_BYTE * 5_000),
    *(Rejection(40 + at, code, b"\\x00", b"\\N") for at, code in enumerate(Code)),
]
ENVELOPES = [
    Envelope(0, Type.BALANCE_STATED, MIN_DAY, LARGEST, SMALLEST, Cause(0, "A", 1), ()),
    Envelope(0, Type.ALERT_RETRACTED, MAX_DAY, 1, 0, Cause(LARGEST, "\U0001f600", LARGEST), ()),
    *envelopes("a status v2 BLOCKED by A r1, B r2, by B r2 at 7\n b status v1 READY, by A r1 at 1"),
]


def everything():
    """A decision that holds the extremes of all that a decision can hold."""
    return decision(
        until=50,
        keys=keys(),
        authorities=dict(AUTHORITIES),
        observations=list(OBSERVATIONS),
        rejections=list(REJECTIONS),
        envelopes=batch(ENVELOPES),
        accepted=12,
    )


@pytest.fixture
def ancient(ledger):
    """A namespace that starts on the first day of all."""
    return provisioned(ledger, configuration(keys="abc", origin="0001-01-01T00:00:00Z"))


def in_columns(given, stood=()):
    """The same decision with its evidence as columns; some identities stood before."""
    authorities = authority_columns(given.authorities)
    authorities.stood[:] = [each in stood for each in given.authorities]
    rows = [
        Accepted(seen.key, seen.txn_id, seen.offset, seen.candidate) for seen in given.observations
    ]
    return replace(
        given, authorities=authorities, observations=ObservationColumns(assertions(rows))
    )


def assert_everything(bench):
    store, unit = bench.store, bench.unit()
    progress = bench.progress()
    assert (progress.next_offset, progress.next_sequence, progress.acknowledged) == (50, 4, 0)
    assert progress.pending == 4
    assert store.keys(unit, {0: EVERY_DAY, 1: EVERY_DAY}) == {
        key: changed.state for key, changed in keys().items()
    }
    assert store.authorities(unit, AUTHORITIES) == AUTHORITIES
    for key in (0, 1, 2):
        evidence = store.evidence(unit, key)
        assert list(evidence.authorities) == sorted(
            ((txn_id, each) for (number, txn_id), each in AUTHORITIES.items() if number == key),
            key=lambda pair: pair[0].encode(),
        )
        assert list(evidence.observations) == sorted(
            (each for each in OBSERVATIONS if each.key == key), key=lambda each: each.offset
        )
    assert list(store.outbox(unit)) == [(i, False, each) for i, each in enumerate(ENVELOPES)]
    assert segments_of(store.pending(unit, 100)) == list(enumerate(ENVELOPES))
    with store.snapshot("main") as snapshot:
        assert list(snapshot.quarantine()) == [Quarantined(0, each) for each in REJECTIONS]


def test_everything_that_a_decision_holds_comes_back(ancient):
    ancient.store.commit(ancient.claim(), [everything()])
    assert_everything(ancient)


@pytest.mark.parametrize("long", [True, False], ids=["long texts", "short texts"])
def test_what_a_decision_holds_as_columns_comes_back(ancient, monkeypatch, long):
    if not long:
        short = {(key, txn_id[:9]): each for (key, txn_id), each in AUTHORITIES.items()}
        monkeypatch.setattr("amends_pipeline_tests.contracts.test_commit.AUTHORITIES", short)
    ancient.store.commit(ancient.claim(), [in_columns(everything())])
    assert_everything(ancient)


def test_what_is_in_force_is_found_as_columns(ancient):
    ancient.store.commit(ancient.claim(), [everything()])
    asked = [(2, "A"), *AUTHORITIES, (0, "B"), (0, ""), (1, "a")]
    keys = np.array([key for key, _ in asked])
    txn_ids = pa.array([txn_id for _, txn_id in asked], pa.string())
    found = ancient.store.in_force(ancient.unit(), keys, txn_ids)
    assert [asked[at] for at in found.at] == list(found.authorities)
    assert dict(found.authorities.items()) == AUTHORITIES
    assert found.authorities.stood.all()
    nothing = ancient.store.in_force(ancient.unit(), keys[:1], txn_ids[:1])
    assert (len(nothing.at), len(nothing.authorities)) == (0, 0)


def test_it_comes_back_for_another_process(ancient):
    ancient.store.commit(ancient.claim(), [everything()])
    assert_everything(type(ancient)(ancient.ledger.reopened(), ancient.config))


def test_nothing_of_a_decision_is_shared(ancient):
    given = everything()
    ancient.store.commit(ancient.claim(), [given])
    for changed in given.keys.values():
        for column in changed.state.rows:
            column.clear()
    given.keys.clear()
    given.authorities.clear()
    given.observations.clear()
    given.rejections.clear()
    given.envelopes.versions[0] = 99
    given.envelopes.reasons.clear()
    assert_everything(ancient)


def test_nothing_that_is_read_is_shared(ancient):
    store, unit = ancient.store, ancient.unit()
    store.commit(ancient.claim(), [everything()])
    for loaded in store.keys(unit, {0: EVERY_DAY}).values():
        for column in loaded.rows:
            column.clear()
    for segment in store.pending(unit, 100):
        segment.envelopes.versions[0] = 99
        segment.envelopes.reasons.clear()
    for found in (store.authorities(unit, AUTHORITIES), store.progress(unit).epochs):
        if isinstance(found, dict):
            found.clear()
    for listed in (store.evidence(unit, 0).authorities, store.evidence(unit, 0).observations):
        if isinstance(listed, list):
            listed.clear()
    assert_everything(ancient)


def test_identities_that_were_never_seen_are_left_out(bench):
    bench.work("A r1 NEW day 1 -50\n b/B r1 NEW day 1 -50")
    asked = [(0, "A"), (0, "B"), (1, "A"), (1, "B"), (2, "A"), (0, "a"), (0, "")]
    assert set(bench.store.authorities(bench.unit(), asked)) == {(0, "A"), (1, "B")}
    assert bench.store.authorities(bench.unit(), []) == {}


@pytest.mark.parametrize("columns", [False, True])
def test_a_later_decision_replaces_an_authority_and_adds_evidence(bench, columns):
    one = Authority(Candidate(1, "NEW", 20_500, 0, -5), 0, conflicted=False)
    two = Authority(Candidate(2, "CANCEL", 20_501, 0, 0), 1, conflicted=False)
    seen = Observation(0, "A", 0, one.candidate)
    token = bench.claim()
    bench.store.commit(token, [decision(0, 1, authorities={(0, "A"): one})])
    later = decision(1, 2, authorities={(0, "A"): two}, observations=[seen])
    bench.store.commit(token, [in_columns(later, [(0, "A")]) if columns else later])
    evidence = bench.store.evidence(bench.unit(), 0)
    assert list(evidence.authorities) == [("A", two)]
    assert list(evidence.observations) == [seen]
    assert bench.store.authorities(bench.unit(), [(0, "A")]) == {(0, "A"): two}


# Frontiers


@pytest.mark.parametrize("start", [0, 9, 11, 20])
def test_a_decision_must_start_at_the_frontier(bench, start):
    bench.work(STORY)
    sequence = bench.progress().next_sequence
    token = bench.claim()
    with bench.unchanged(), pytest.raises(FrontierMoved):
        bench.store.commit(token, [decision(start, 21, sequence, rejections=REJECTIONS[:1])])


@pytest.mark.parametrize("away", [-1, 1, 100])
def test_a_decision_must_go_on_at_the_outbox_sequence(bench, away):
    bench.work(STORY)
    sequence = bench.progress().next_sequence
    token = bench.claim()
    with bench.unchanged(), pytest.raises(FrontierMoved):
        bench.store.commit(
            token, [decision(10, 11, sequence + away, envelopes=batch(ENVELOPES[2:]))]
        )


@pytest.mark.parametrize(
    ("second", "what"),
    [
        (decision(12, 13, 2), "a gap between decisions"),
        (decision(10, 13, 2), "an overlap"),
        (decision(11, 13, 1), "a sequence twice"),
        (decision(11, 13, 3), "a gap between sequences"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_when_a_later_decision_does_not_follow_nothing_of_the_first_is_kept(bench, second, what):
    bench.store.commit(bench.claim(), [decision(0, 10)])
    first = decision(
        10,
        11,
        keys={1: keys()[1]},
        authorities={(1, "A"): AUTHORITIES[1, "A"]},
        observations=OBSERVATIONS[2:3],
        rejections=REJECTIONS[:1],
        envelopes=batch(ENVELOPES[2:]),
    )
    token = bench.claim()
    with bench.unchanged(), pytest.raises(FrontierMoved):
        bench.store.commit(token, [first, second])
    bench.store.commit(token, [first, decision(11, 13, 2)])
    assert bench.progress()[:2] == (13, 2)


def test_a_decision_cannot_be_committed_twice(bench):
    bench.append(STORY)
    token, decisions = bench.claim(), bench.decide()
    bench.store.commit(token, decisions)
    with bench.unchanged(), pytest.raises(FrontierMoved):
        bench.store.commit(token, decisions)


def test_a_slice_without_records_moves_the_frontier_alone(bench):
    bench.work(STORY)
    sequence = bench.progress().next_sequence
    expected = bench.observed()
    bench.store.commit(bench.claim(), [decision(10, 15, sequence), decision(15, 15, sequence)])
    assert bench.progress().next_offset == 15
    found = bench.observed()
    for observed in (expected, found):
        del observed["main|p0"]["progress"], observed["snapshot"]["progress"]
    assert found == expected


def test_committing_no_decision_changes_nothing(bench):
    bench.work(STORY)
    token = bench.claim()
    with bench.unchanged():
        bench.store.commit(token, [])


@pytest.mark.parametrize("untils", [(10,), (5, 10), (1, 4, 9, 10), tuple(range(1, 11))], ids=str)
def test_decisions_committed_together_are_as_if_committed_one_by_one(ledger, untils):
    together = provisioned(ledger)
    single = provisioned(ledger, configuration(keys="abc", namespace="single"))
    together.append(STORY)
    decisions = together.decide(*untils)
    together.store.commit(together.claim(), decisions)
    token = single.claim()
    for each in decisions:
        single.store.commit(token, [each])
    assert _content(together) == _content(single)
    assert len(segments_of(together.store.pending(together.unit(), 100))) > 0


def _content(bench):
    observed = bench.observed()
    observed["unit"] = observed.pop(str(bench.unit()))
    del observed["unit"]["segments"]  # how rows lie together is the store's own business
    for member in ("info", "config"):
        del observed[member]
    del observed["snapshot"]["info"]
    return observed


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(st.data())
def test_every_accepted_record_stands_exactly_once_and_every_other_in_quarantine(ledger, data):
    number = len(ledger.store.namespaces())
    document = configuration(keys="abc", source=f"feed-{number}", namespace=f"n-{number}")
    bench = provisioned(ledger, document)
    bench.append_lines(data.draw(histories(document)))
    end = bench.source.extents()[0].end
    slice_ = bench.slice(0, end)
    bench.work(size=data.draw(st.integers(1, 6)))
    unit = bench.unit()
    stood = []
    for key in range(3):
        evidence = bench.store.evidence(unit, key)
        stood += [(key, txn, each.offset, each.candidate) for txn, each in evidence.authorities]
        stood += [
            (key, each.txn_id, each.offset, each.candidate)
            for each in evidence.observations
            if each.key == key
        ]
    assert sorted(stood) == sorted(
        (each.key, each.txn_id, each.offset, each.candidate) for each in slice_.accepted
    )
    with bench.store.snapshot(bench.config.namespace) as snapshot:
        assert [each.rejection for each in snapshot.quarantine()] == slice_.rejections
