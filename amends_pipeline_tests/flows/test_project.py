"""The view, batch by batch: what `view.apply` makes of the whole log, and where it stops."""

from __future__ import annotations

from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.flows import project as flow
from amends_pipeline.flows.project import project, reproject
from amends_pipeline.inventory.view import apply
from amends_pipeline.kernel.errors import Fenced, ProtocolStop
from amends_pipeline.ports import Role
from amends_pipeline_tests.contracts.bench import Bench, provisioned
from amends_pipeline_tests.contracts.ledgers import MemoryLedger
from amends_pipeline_tests.envelopes import batch, envelopes
from amends_pipeline_tests.inventory.test_view_batch import streams

PATIENCE_SECONDS = 30
ROWS = envelopes(
    """
    a day 1 balance v1 50, by A r1 at 0
    a day 2 balance v1 30, by B r1 at 1
    a day 1 balance v2 60, by A r2 at 2
    a day 2 balance v2 40, by A r2 at 2
    b day 1 balance v1 70, by C r1 at 3
    a day 1 balance v3 61, by A r3 at 4
    """
)


def published(bench, *segments):
    for rows in segments:
        bench.ledger.outputs.append(bench.unit(), batch(rows))


def projected(bench, rows_at_once=2, rows_of_part=9, *, run=project):
    """(what was done, what was told on the way), in batches and parts of about so many rows."""
    told = []
    token = bench.claim(Role.VIEW)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flow, "VIEW_ROWS", rows_at_once)
        patch.setattr(flow, "PART_ROWS", rows_of_part)
        done = run(bench.store, bench.ledger.outputs, token, bench.config, told.append)
    return done, told


def stored(bench, rows):
    return dict(bench.store.view_rows(bench.unit(), {row.output_id for row in rows}))


@given(streams(), streams(), st.integers(1, 9), st.integers(1, 3), st.booleans())
def test_batches_do_what_the_whole_log_does(one, other, rows_at_once, rows_of_part, spoilt):
    bench = provisioned(MemoryLedger())
    log = [*one[0].values(), *one[1], *other[1]]
    published(bench, [*one[0].values(), *one[1]])
    if spoilt:
        bench.ledger.spoil(bench.unit())
    published(bench, other[1])
    readable = log[: len(log) - len(other[1])] if spoilt else log
    expected = apply(bench.config, 0, {}, batch(readable))
    if expected.fault is None and not spoilt:
        done, told = projected(bench, rows_at_once, rows_of_part)
        assert (done.consumed, done.duplicates, done.outdated) == expected[1:4]
        assert sum(told) == done.consumed
        assert bench.progress().view_stop is None
    else:
        with pytest.raises(ProtocolStop, match=f"output offset {expected.consumed}: "):
            projected(bench, rows_at_once, rows_of_part)
        stop = bench.progress().view_stop
        assert stop is not None
        if expected.fault is not None:
            assert stop == f"expected {expected.fault.expected}, found {expected.fault.found}"
        with pytest.raises(ProtocolStop, match="expected no stop"):
            projected(bench, rows_at_once, rows_of_part)
        assert bench.progress().view_stop == stop
    assert stored(bench, log) == expected.rows
    assert bench.progress().view_next == expected.consumed


class Slowly:
    """A store whose rows are not written before the next ones were read."""

    def __init__(self, store, outputs) -> None:
        self._store, self._outputs = store, outputs
        self.reads = 0
        self.read_on = Event()

    def __getattr__(self, name):
        return getattr(self._store, name)

    def end(self, unit):
        return self._outputs.end(unit)

    def read(self, unit, start, limit):
        self.reads += 1
        if self.reads == 2:
            self.read_on.set()
        return self._outputs.read(unit, start, limit)

    def advance_view(self, token, start, until, moves):
        assert self.read_on.wait(PATIENCE_SECONDS)
        return self._store.advance_view(token, start, until, moves)


def test_the_next_batch_is_read_while_one_is_written():
    bench = provisioned(MemoryLedger())
    published(bench, ROWS)
    slow = Slowly(bench.store, bench.ledger.outputs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flow, "VIEW_ROWS", 2)
        done = project(slow, slow, bench.claim(Role.VIEW), bench.config)
    assert (done.consumed, done.rows) == (6, 6)
    assert stored(bench, ROWS) == {row.output_id: row for row in ROWS}


class Refusing(Slowly):
    """A store that lets the first batch pass and refuses the next one."""

    def advance_view(self, token, start, until, moves):
        if start:
            raise Fenced("view", expected="epoch 1", found="2")
        return super().advance_view(token, start, until, moves)


def test_what_comes_after_a_refused_batch_is_not_written():
    bench = provisioned(MemoryLedger())
    published(bench, ROWS)
    told = []
    refusing = Refusing(bench.store, bench.ledger.outputs)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Fenced):  # noqa: PT012 - the patch is part of it
        patch.setattr(flow, "VIEW_ROWS", 2)
        project(refusing, refusing, bench.claim(Role.VIEW), bench.config, told.append)
    assert told == [2]
    assert bench.progress().view_next == 2
    assert stored(bench, ROWS) == {row.output_id: row for row in ROWS[:2]}


def test_a_log_that_ends_early_is_no_place_to_go_on():
    bench = provisioned(MemoryLedger())
    published(bench, ROWS)
    outputs = Slowly(bench.store, bench.ledger.outputs)
    outputs.end = lambda _: 9
    outputs.read_on.set()
    with pytest.raises(ProtocolStop, match="output offset 6: expected rows up to offset 9"):
        project(bench.store, outputs, bench.claim(Role.VIEW), bench.config)
    assert bench.progress()[3:5] == (6, None)


def test_a_redelivery_changes_nothing(ledger):
    bench = provisioned(ledger)
    published(bench, ROWS[:4], ROWS[:4], ROWS[4:], ROWS[4:])
    done, told = projected(bench)
    assert (done.consumed, done.duplicates, done.outdated) == (12, 4, 2)
    assert sum(told) == 12
    assert stored(bench, ROWS) == {row.output_id: row for row in ROWS[3:]}


def test_what_was_withdrawn_stays_away_when_an_older_copy_comes_before_and_after_a_restart(ledger):
    bench = provisioned(ledger)
    older, withdrawn = envelopes(
        """
        a day 1 balance v6 50, by A r1 at 0
        a day 1 balance v7 withdrawn, by A r2 at 1
        """
    )
    published(bench, [older], [withdrawn])
    projected(bench)
    for _ in range(2):
        published(bench, [older])
        bench = Bench(ledger.reopened(), bench.config)
        done, _ = projected(bench)
        assert (done.consumed, done.outdated, done.rows) == (1, 1, 0)
        assert stored(bench, [older]) == {withdrawn.output_id: withdrawn}
        with bench.store.snapshot("main") as snapshot:
            assert list(snapshot.visible()) == []


def test_a_view_is_made_anew_from_the_beginning(ledger):
    bench = provisioned(ledger)
    published(bench, ROWS)
    assert projected(bench)[0].consumed == 6
    before = stored(bench, ROWS)
    done, told = projected(bench, run=reproject)
    assert (done.consumed, sum(told)) == (6, 6)
    assert ledger.outputs.end(bench.unit()) == 6
    assert stored(bench, ROWS) == before == {row.output_id: row for row in ROWS[3:]}
