"""Any history, cut and delivered in any way, against the full computation."""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import suppress
from itertools import pairwise

from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from amends_pipeline.inventory.authority import CANCEL
from amends_pipeline_tests.driver import Run, deliver, drive, slices, source, suffix, whole
from amends_pipeline_tests.reference import compute, publish, walk
from amends_pipeline_tests.strategies import (
    brinks,
    configurations,
    cuts,
    histories,
    loadings,
)
from amends_pipeline_tests.tables import encoded, lines

SEARCH = settings(
    max_examples=5_000,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
"""How long to look for examples before saying that there is none."""


class Log:
    """A drawn log of one partition, and how it is cut."""

    def __init__(self, config, lines, partition, sizes, step) -> None:
        self.config = config
        self.lines = lines
        self.partition = partition
        self.sizes = sizes
        self.source = source(lines, step)

    def __repr__(self) -> str:
        values = "\n  ".join(repr(line) for line in self.lines)
        return f"{self.config}\n  {values}\n  partition {self.partition}, sizes {self.sizes}"

    @property
    def each(self) -> list[int]:
        """Sizes that make every record a slice, which gives outputs the most versions."""
        return [1] * len(self.lines)

    def drive(self, sizes=None, **how) -> Run:
        cut = self.sizes if sizes is None else sizes
        return drive(self.config, self.source, cut, partition=self.partition, **how)


@st.composite
def logs(draw, max_size: int = 14) -> Log:
    config = draw(configurations())
    drawn = draw(histories(config, max_size))
    partition = draw(st.sampled_from([0, 0, 0, 0, 0, 0, 0, 1]))
    return Log(config, drawn, partition, draw(cuts(len(drawn))), draw(st.integers(1, 3)))


@given(logs(), loadings)
def test_any_cut_shows_what_the_full_computation_shows(log, loading):
    run = log.drive(loading=loading)
    expected = compute(log.config, log.source, log.partition)
    assert run.excess is None
    assert expected.stop is None
    assert run.visible() == expected.visible
    assert run.conflicts() == expected.conflicts
    assert [(r.offset, str(r.code)) for r in run.shelf.rejections] == expected.rejections
    assert run.frontier == (log.source[-1][0] + 1 if log.source else 0)


@given(logs(), loadings)
def test_any_cut_publishes_exactly_the_bytes_of_the_full_computation(log, loading):
    run = log.drive(loading=loading)
    untils = [decision.until for decision in run.decisions]
    assert run.wire() == publish(log.config, log.source, untils, log.partition)


@given(logs())
def test_every_accepted_record_stands_once_in_the_evidence(log):
    run = log.drive()
    evidence = [authority.offset for authority in run.shelf.authorities.values()]
    evidence += [observation.offset for observation in run.shelf.observations]
    assert sorted(evidence) == compute(log.config, log.source, log.partition).accepted
    values = {offset: value for offset, _, value in log.source}
    assert all(rejected.value == values[rejected.offset] for rejected in run.shelf.rejections)


@given(logs())
def test_a_suffix_is_decided_as_the_whole_is(log):
    """The shelf also holds each decision to the rows that it says it changed."""
    of_suffix, of_whole = log.drive(loading=suffix), log.drive(loading=whole)
    assert of_suffix.wire() == of_whole.wire()
    assert of_suffix.shelf.days == of_whole.shelf.days
    assert of_suffix.shelf.authorities == of_whole.shelf.authorities
    for decision, other in zip(of_suffix.decisions, of_whole.decisions, strict=True):
        assert decision.observations == other.observations


@given(logs())
def test_versions_of_an_output_are_consecutive_and_each_says_something_new(log):
    payloads = defaultdict(list)
    for envelope in (json.loads(each) for decision in log.drive().wire() for each in decision):
        output = json.dumps(envelope["output_id"])
        payloads[output].append(envelope["payload"])
        assert envelope["version"] == len(payloads[output])
    for sayings in payloads.values():
        assert sayings[0]["present"]
        assert all(earlier != later for earlier, later in pairwise(sayings))


@given(logs(), st.data())
def test_records_that_are_delivered_again_change_nothing_that_is_visible(log, data):
    expected = log.drive().visible()
    again = []
    for at, line in enumerate(log.lines):
        repeats = data.draw(st.lists(st.integers(0, at), max_size=2))
        again += [line, *(log.lines[earlier] for earlier in repeats)]
    sizes = data.draw(cuts(len(again)))
    run = drive(log.config, source(again), sizes, partition=log.partition)
    assert run.visible() == expected


@given(logs())
def test_a_whole_log_delivered_again_publishes_nothing(log):
    lines = [*log.lines, *log.lines]
    run = drive(log.config, source(lines), [len(log.lines)], partition=log.partition)
    assert not any(len(decision.envelopes) for decision in run.decisions[1:])


@given(logs(), st.randoms(use_true_random=False))
def test_envelopes_delivered_in_any_order_and_number_show_the_same(log, random):
    run = log.drive(log.each)
    in_order = deliver(run.config, run.envelopes, log.partition)
    delivered = [each for each in run.envelopes for _ in range(random.randint(1, 3))]
    random.shuffle(delivered)
    assert deliver(run.config, delivered, log.partition) == in_order


@given(logs(), st.data())
def test_nothing_that_was_withdrawn_comes_back_by_redelivery(log, data):
    run = log.drive(log.each)
    rows = deliver(run.config, run.envelopes, log.partition)
    late = data.draw(st.lists(st.sampled_from(run.envelopes), max_size=8)) if rows else []
    assert deliver(run.config, late, log.partition, rows) == rows


@given(logs(), st.data())
def test_a_stale_revision_changes_nothing_that_is_visible(log, data):
    steps, _ = walk(log.config, log.source, log.partition)
    seen = [at for at, step in enumerate(steps) if step.revision > 1]
    if not seen:
        return
    line = log.lines[data.draw(st.sampled_from(seen))]
    record = json.loads(line.value)
    revision = data.draw(st.integers(1, record["revision"] - 1))
    late = record | {"revision": revision, "kind": "NEW", "qty": data.draw(st.integers(-9, 9))}
    lines = [*log.lines, line._replace(value=encoded(late))]
    run = drive(log.config, source(lines), [len(log.lines)], partition=log.partition)
    assert run.decisions[-1].accepted == 1
    assert not len(run.decisions[-1].envelopes)
    assert run.visible() == log.drive().visible()


@given(logs())
def test_a_cancelled_transaction_contributes_to_no_day(log):
    run = log.drive(log.each)
    active = defaultdict(int)
    for (key, _), authority in run.shelf.authorities.items():
        if not authority.conflicted and authority.candidate.kind != CANCEL:
            active[key, authority.candidate.day] += 1
    stored = {
        (key, row[0]): row[2] for key, days in run.shelf.days.items() for row in days.values()
    }
    assert {place: count for place, count in stored.items() if count} == active


@given(logs())
def test_equal_input_makes_equal_bytes(log):
    assert log.drive().wire() == log.drive().wire()
    assert log.drive().decisions == log.drive().decisions


@given(logs())
def test_slices_cover_the_log_without_gap_or_overlap(log):
    run = log.drive()
    starts = [decision.start for decision in run.decisions]
    untils = [decision.until for decision in run.decisions]
    assert starts == [0, *untils][: len(starts)]
    sequence = 0
    for decision in run.decisions:
        assert decision.base_sequence == sequence
        sequence = decision.next_sequence
    assert sequence == len(run.envelopes)
    assert len(run.decisions) == len(slices(log.source, log.sizes))


def reached_by_logs(log: Log) -> set[str]:
    """What the records of a drawn log do, in words."""
    steps, _ = walk(log.config, log.source, log.partition)
    did = {step.code for step in steps if step.code is not None}
    accepted = [step for step in steps if step.code is None]
    for step in accepted:
        reasons = step.shown["key-status",]["reasons"]
        did |= {"blocks"} if reasons else set()
        did |= {"blocks twice over"} if len(reasons) > 1 else set()
        did |= {"unblocks"} if step.every_day else set()
        did |= {"moves"} if len(step.changed) > 1 else set()
        did |= {"alerts"} if any(family == "alert" for family, *_ in step.shown) else set()
    for key in {step.stock_key for step in accepted}:
        for one, other in pairwise(step for step in accepted if step.stock_key == key):
            did |= {"empties a day"} if set(one.shown) - set(other.shown) else set()
            did |= (
                {"unblocks and empties"}
                if other.every_day and (set(one.shown) - set(other.shown))
                else set()
            )
            did |= {"changes nothing"} if not other.changed else set()
            did |= _reached_between(one.shown, other)
    did |= {"names two keys"} if len({step.stock_key for step in accepted}) > 1 else set()
    return did


def _reached_between(before: dict, step) -> set[str]:
    """What a record does to the rows that its key showed before it."""
    moved = [row for row in {**before, **step.shown} if before.get(row) != step.shown.get(row)]
    days = [row[1] for row in moved if row[0] == "balance" and row in before.keys() & step.shown]
    did = (
        {"withdraws an alert"}
        if any(row[0] == "alert" and row in before for row in moved)
        else set()
    )
    if step.changed and not step.every_day and sum(day > min(step.changed) for day in days) > 2:
        did.add("restates three later days")
    return did


WORDS = """
    MALFORMED; IDENTITY; REVISION; KIND; CANCEL_QUANTITY; VALID_TIME; UNKNOWN_KEY; KEY_MISMATCH
    ROUTING; blocks; blocks twice over; unblocks; moves; alerts; empties a day
    unblocks and empties; changes nothing; names two keys; withdraws an alert
    restates three later days
"""


def never_reached(drawn, reached, words) -> set[str]:
    """The words that no example reaches, of as many as a search draws; it ends at the last word."""
    missing = set(words)

    def was_the_last(example) -> bool:
        missing.difference_update(reached(example))
        return not missing

    with suppress(NoSuchExample):
        find(drawn, was_the_last, settings=SEARCH)
    return missing


def test_histories_reach_what_they_are_drawn_for():
    assert never_reached(logs(), reached_by_logs, lines(WORDS)) == set()


def reached_by_brinks(brink) -> set[str]:
    """How a drawn history at the brink ends, in a word."""
    config, lines = brink
    log = source(lines)
    run = drive(config, log, [1] * len(log))
    if run.excess is None:
        return {"fits" if len(run.decisions) == len(lines) else "comes back"}
    if run.excess.undecided:
        return {"undecided"}
    stock_key = run.config.keys[run.excess.record.key].stock_key
    steps, _ = walk(config, log[: run.frontier])
    before = [step.shown["key-status",] for step in steps if step.stock_key == stock_key]
    return {"unblocks out" if before and before[-1]["reasons"] else "decided"}


def test_brinks_reach_what_they_are_drawn_for():
    words = {"fits", "comes back", "undecided", "decided", "unblocks out"}
    assert never_reached(brinks(), reached_by_brinks, words) == set()
