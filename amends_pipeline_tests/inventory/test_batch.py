"""Slices decided together say what slices decided one by one say."""

from __future__ import annotations

import json
from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.inventory import frame, known_keys, weighing
from amends_pipeline.inventory.assertions import authority_columns
from amends_pipeline.inventory.authority import Authority, Candidate, Observation
from amends_pipeline.inventory.batch import decide_batch
from amends_pipeline.inventory.config import parse_configuration
from amends_pipeline.inventory.decision import Known, decide
from amends_pipeline.inventory.envelope import joined
from amends_pipeline.inventory.identities import Found, Identities
from amends_pipeline.inventory.key_columns import changed_rows
from amends_pipeline.inventory.keyfold import NeedsWholeKey
from amends_pipeline.inventory.known_keys import KnownKeys
from amends_pipeline.inventory.refold import KeyChange, Rows, Span, Status, untouched
from amends_pipeline.inventory.slice import Records, read_slice
from amends_pipeline.inventory.slice_columns import read_columns
from amends_pipeline.inventory.weighing import Standing
from amends_pipeline_tests.driver import Shelf, all_cuts, deliver, shown, suffix, whole
from amends_pipeline_tests.inventory.test_histories import expected_pairs, shared_cases
from amends_pipeline_tests.strategies import brinks, configurations, histories
from amends_pipeline_tests.tables import (
    STOCK_KEYS,
    Line,
    configuration,
    day,
    document,
    encoded,
    history,
)


@st.composite
def busy(draw) -> list[Line]:
    """Many transactions on three keys over twelve days; most are corrected, few contradicted."""
    revisions: dict[tuple[str, str], int] = {}
    lines = []
    for _ in range(draw(st.integers(0, 40))):
        name, txn = draw(st.sampled_from("aab")), draw(st.sampled_from("ABCDEFGHIJKL"))
        revision = revisions.get((name, txn), 0) + draw(st.sampled_from([1, 1, 1, 1, 1, 1, 0, -1]))
        revision = max(revision, 1)
        revisions[name, txn] = max(revision, revisions.get((name, txn), 0))
        kind = draw(st.sampled_from(["NEW", "AMEND", "AMEND", "CANCEL"]))
        valid = f"2026-01-{draw(st.integers(1, 12)):02d}T12:00:00Z"
        qty = 0 if kind == "CANCEL" else draw(st.sampled_from([-50, -20, 0, 0, 20, 50]))
        record = document(STOCK_KEYS[name], txn, revision, kind, valid, qty)
        lines.append(Line(encoded(record)))
    return lines


@st.composite
def batches(draw):
    """A configuration, a history before, the batch itself, and where its slices end."""
    if draw(st.booleans()):
        config = configuration(keys="ab")
        lines = draw(busy())
    else:
        config = draw(configurations())
        lines = draw(histories(config, 20))
    before = draw(st.integers(0, len(lines)))
    ends = sorted(draw(st.sets(st.integers(before + 1, len(lines) + 1), max_size=9)))
    return parse_configuration(config), lines, before, ends


def cut(lines, start, until) -> Records:
    part = list(lines[start:until])
    offsets = range(start, start + len(part))
    keys, values = [line.raw_key for line in part], [line.value for line in part]
    return Records(start, until, offsets, keys, values)


def sliced(config, lines, start, until):
    return read_slice(config, 0, cut(lines, start, until), frozenset())


def together(config, lines, span, known, ends):
    """What is decided of the same records as columns, from the same state."""
    whole = read_columns(config, 0, cut(lines, *span), frozenset())
    identities = Identities(whole.accepted)
    standing = Standing(identities)
    numbers = {each: at for at, each in enumerate(pairs_of(identities))}
    seen = {each: known.authorities[each] for each in numbers if each in known.authorities}
    at = np.array([numbers[each] for each in seen], dtype=np.int64)
    standing.take_over(Found(at, authority_columns(seen)))
    return decide_batch(known.keys, whole, standing, ends, 7)


def pairs_of(identities):
    texts = identities.texts(np.arange(len(identities)))
    return zip(identities.keys.tolist(), texts.to_pylist(), strict=True)


def committed(config, lines, before) -> Shelf:
    """What stands committed once the first records are decided."""
    shelf = Shelf(config)
    if before:
        slice_ = sliced(config, lines, 0, before)
        shelf.commit(decide(shelf.known(slice_, whole), slice_, 0))
    return shelf


def one_by_one(known, slice_, ends):
    """The decisions of the slices, up to one that stops at an excess."""
    decisions, sequence = [], 7
    for part in slice_.cut(ends):
        decision = decide(known, part, sequence)
        known.install(decision)
        sequence = decision.next_sequence
        decisions.append(decision)
        if decision.excess:
            break
    return decisions


@pytest.mark.parametrize("pairs", [1, 7, frame.PAIRS_AT_ONCE])
@given(drawn=batches(), loading=st.sampled_from([suffix, whole]), days=st.sampled_from([1, 4, 64]))
def test_together_they_say_what_they_say_one_by_one(pairs, drawn, loading, days):
    config, lines, before, ends = drawn
    until = max(len(lines), before + 1, *ends)
    ends = [*(end for end in ends if end < until), until]
    slice_ = sliced(config, lines, before, until)
    shelf = committed(config, lines, before)
    known = shelf.known(slice_, loading)
    expected = Known(KnownKeys(known.keys), dict(known.authorities))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frame, "PAIRS_AT_ONCE", pairs)
        patch.setattr(known_keys, "SUFFIX_DAYS", days)
        patch.setattr(weighing, "MOST_ROUNDS", 64)
        try:
            decision = together(config, lines, (before, until), known, ends)
        except NeedsWholeKey:
            with pytest.raises(NeedsWholeKey):
                one_by_one(expected, slice_, ends)
            return
    decisions = one_by_one(expected, slice_, ends)
    assert decision is not None
    assert decisions[-1].excess is None
    wanted = joined([each.envelopes for each in decisions])
    assert list(decision.envelopes) == list(wanted)
    assert decision.envelopes.causes == sorted(set(wanted.causes))
    assert list(decision.observations) == [seen for each in decisions for seen in each.observations]
    assert decision.rejections == slice_.rejections
    assert (decision.start, decision.until) == (before, until)
    assert (decision.base_sequence, decision.next_sequence) == (7, decisions[-1].next_sequence)
    assert (decision.accepted, decision.slices) == (len(slice_.accepted), len(ends))
    stood = decision.authorities.stood.tolist()
    assert stood == [each in known.authorities for each in decision.authorities]
    known.install(decision)
    assert known.authorities == expected.authorities
    assert known.keys == expected.keys
    shelf.commit(decision)


@pytest.mark.parametrize("case", shared_cases())
def test_a_shared_case_decided_as_batches_holds_for_every_way_of_cutting_it(case):
    """Every cut into slices, and every place where the second of two batches begins."""
    config = parse_configuration(case["config"])
    lines = [Line(json.dumps(record).encode()) for record in case["records"]]
    expected = expected_pairs(case["config"], case)
    near = max(abs(record["qty"]) for record in case["records"]) >= 2**61
    near |= any(abs(key.opening_balance) >= 2**61 for key in config.keys)
    for sizes in all_cuts(len(lines)):
        ends = list(accumulate(sizes))
        for begin in [0, *ends[:-1]]:
            shelf, published = Shelf(config), []
            for start, until in pairwise(sorted({0, begin, len(lines)})):
                known = shelf.known(sliced(config, lines, start, until), whole)
                within = [end for end in ends if start < end <= until]
                decision = together(config, lines, (start, until), known, within)
                if decision is None:
                    break
                shelf.commit(decision)
                published += decision.envelopes
            assert (decision is None) == near
            if decision is not None:
                assert shown(config, deliver(config, published)) == expected


def test_a_key_of_which_a_moved_day_was_left_out_is_needed_whole():
    config = parse_configuration(configuration())
    lines = [Line(each.value) for each in history("A r1 NEW day 3 -50")]
    part = untouched(0, 100, 60)._replace(status=Status.READY, status_version=1)
    known = KnownKeys({0: part._replace(loaded_from=day(4))})
    with pytest.raises(NeedsWholeKey) as needs:
        together(config, lines, (0, 1), Known(known, {}), [1])
    assert needs.value.key == 0


def test_what_adds_nothing_to_a_day_with_activity_is_not_its_cause():
    config = parse_configuration(configuration())
    log = "A r1 NEW day 1 -50\nA r2 AMEND day 1 -30\nB r1 NEW day 1 0\nC r1 NEW day 1 0"
    lines = [Line(each.value) for each in history(log)]
    known = committed(config, lines, 1).known(sliced(config, lines, 1, 4), whole)
    decision = together(config, lines, (1, 4), known, [4])
    assert {each.cause.offset for each in decision.envelopes} == {1}


def test_a_cancellation_makes_its_key_ready_and_moves_no_day():
    config = parse_configuration(configuration())
    lines = [Line(each.value) for each in history("A r1 CANCEL day 3")]
    new = untouched(0, 100, 60)
    decision = together(config, lines, (0, 1), Known(KnownKeys({0: new}), {}), [1])
    ready = new._replace(status=Status.READY, status_version=1)
    assert dict(decision.keys) == {0: KeyChange(ready, Span(0, 0))}
    assert changed_rows(decision.keys) == 0


def test_numbers_stay_pythons_own():
    config = parse_configuration(configuration())
    lines = [Line(each.value) for each in history("A r1 NEW day 1 -50\nB r1 NEW day 2 -1")]
    known = Known(KnownKeys({0: untouched(0, 100, 60)}), {})
    decision = together(config, lines, (0, 2), known, [1, 2])
    rows = decision.keys[0].state.rows
    told = decision.envelopes.listed()
    columns = [*rows, told.keys, told.types, told.days, told.versions, told.closes]
    assert {type(each) for column in columns for each in column} == {int, bool}
    assert {type(each) for each in decision.keys[0].changed} == {int}


@given(brinks(), st.sets(st.integers(1, 12), max_size=4))
def test_what_comes_near_64_bits_is_decided_slice_by_slice(drawn, ends):
    config, lines = drawn
    config = parse_configuration(config)
    until = max(len(lines), 1)
    ends = [*sorted(end for end in ends if end < until), until]
    slice_ = sliced(config, lines, 0, until)
    known = Shelf(config).known(slice_, whole)
    decision = together(config, lines, (0, until), known, ends)
    decisions = one_by_one(known, slice_, ends)
    if decisions[-1].excess:
        assert decision is None
    if decision is not None:
        assert list(decision.envelopes) == list(joined([each.envelopes for each in decisions]))


@pytest.mark.parametrize(
    ("qty", "within"), [(2**60, True), (2**61 - 101, True), (2**61, False), (-(2**63), False)]
)
def test_only_what_is_plainly_within_reach_is_decided_together(qty, within):
    config = parse_configuration(configuration(opening=100))
    lines = [Line(each.value) for each in history(f"A r1 NEW day 1 {qty}")]
    known = Known(KnownKeys({0: untouched(0, 100, 60)}), {})
    decision = together(config, lines, (0, 1), known, [1])
    assert (decision is not None) == within


def test_what_is_taken_back_must_be_within_reach_too():
    config = parse_configuration(configuration(opening=0))
    log = f"A r1 NEW day 1 {-(2**63)}\nB r1 NEW day 1 {2**62}\nC r1 NEW day 1 {2**62}\n"
    lines = [Line(each.value) for each in history(log + "A r2 CANCEL day 1")]
    slice_ = sliced(config, lines, 3, 4)
    known = committed(config, lines, 3).known(slice_, whole)
    assert together(config, lines, (3, 4), known, [4]) is None
    assert decide(known, slice_, 7).excess.day == day(1)


def test_sums_that_moved_behind_a_conflict_are_looked_at_when_it_is_resolved():
    config = parse_configuration(configuration(opening=0))
    log = "A r1 NEW day 1 0\nA r1 NEW day 1 1\nB r1 NEW day 2 {0}\nC r1 NEW day 2 {0}\n"
    log = log.format(2**62)
    lines = [Line(each.value) for each in history(log + "A r2 AMEND day 1 5")]
    slice_ = sliced(config, lines, 4, 5)
    known = committed(config, lines, 4).known(slice_, whole)
    assert together(config, lines, (4, 5), known, [5]) is None
    assert decide(known, slice_, 7).excess.day == day(2)


@pytest.mark.parametrize(("times", "within"), [(32, True), (33, False)])
def test_a_transaction_that_is_spoken_of_very_often_goes_slice_by_slice(times, within):
    config = parse_configuration(configuration())
    log = "\n".join(f"A r{revision + 1} AMEND day 1 {revision}" for revision in range(times))
    lines = [Line(each.value) for each in history(log)]
    known = Known(KnownKeys({0: untouched(0, 100, 60)}), {})
    decision = together(config, lines, (0, times), known, [times])
    assert (decision is not None) == within


@pytest.mark.parametrize(
    ("qtys", "within"),
    [([2**59, -(2**59), 1, 1], True), ([2**60, -(2**60), 1, 1], False), ([2**60] * 4, False)],
)
def test_a_few_large_numbers_are_added_up_before_they_are_refused(qtys, within):
    config = parse_configuration(configuration(opening=100))
    log = "\n".join(f"A{at} r1 NEW day 1 {qty}" for at, qty in enumerate(qtys))
    lines = [Line(each.value) for each in history(log)]
    known = Known(KnownKeys({0: untouched(0, 100, 60)}), {})
    decision = together(config, lines, (0, 4), known, [4])
    assert (decision is not None) == within


@pytest.mark.parametrize(("version", "within"), [(2**62 - 1, True), (2**62, False)])
def test_versions_that_come_near_64_bits_are_counted_slice_by_slice(version, within):
    config = parse_configuration(configuration())
    rows = Rows([day(1)], [-50], [1], [50], [True], [True], [version], [1])
    state = untouched(0, 100, 60)._replace(status=Status.READY, status_version=1, rows=rows)
    lines = [Line(each.value) for each in history("A r1 NEW day 1 -1")]
    decision = together(config, lines, (0, 1), Known(KnownKeys({0: state}), {}), [1])
    assert (decision is not None) == within
    if within:
        assert max(decision.envelopes.versions) == 2**62


def test_evidence_as_columns_reads_as_the_values_it_stands_for():
    config = parse_configuration(configuration())
    lines = [Line(each.value) for each in history("A r1 NEW day 1 -5\nA r1 NEW day 1 -5\n" * 2)]
    decision = together(
        config, lines, (0, 4), Known(KnownKeys({0: untouched(0, 100, 60)}), {}), [4]
    )
    said = Candidate(1, "NEW", day(1), 12 * 3600 * 10**9, -5)
    seen = [Observation(0, "A", offset, said) for offset in (1, 2, 3)]
    assert decision.observations[0] == seen[0]
    assert decision.observations[-1] == seen[2]
    assert list(decision.observations[1:]) == seen[1:]
    assert decision.authorities[0, "A"] == Authority(said, 0, conflicted=False)
    assert (0, "B") not in decision.authorities
