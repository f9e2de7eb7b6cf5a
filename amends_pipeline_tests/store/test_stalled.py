"""Somebody stalls before his commit: nobody reads past him, nor waits when he is gone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import psycopg
import pytest

from amends_pipeline.flows.drain import Options, drain_unit, project_unit, relay_unit
from amends_pipeline.kernel.errors import DatabaseUnavailable, InputError, OutcomeUnknown
from amends_pipeline.ports import Extent, SourceRecord
from amends_pipeline.sources import table
from amends_pipeline_tests.contracts.bench import Bench, segments_of
from amends_pipeline_tests.store.test_fencing import await_waiting
from amends_pipeline_tests.tables import history

PATIENCE_SECONDS = 20
NEXT = Options(holder="next")
STALLED = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE wait_event_type = 'Lock' AND datname = current_database()
"""


@pytest.fixture
def pool():
    with ThreadPoolExecutor() as executor:
        yield executor


@pytest.mark.parametrize("fails", [False, True])
def test_no_reader_passes_an_append_that_is_not_committed(bench, tables, pool, monkeypatch, fails):
    monkeypatch.setattr(table, "BUFFERED_BYTES", 1)
    monkeypatch.setattr(table, "SEGMENT_RECORDS", 1)
    stalls, goes_on = Event(), Event()
    first, second = history("X r1 NEW day 1 -1; Y r1 NEW day 1 -2")

    def stalling():
        yield from [SourceRecord(0, None, first.value)] * 3
        stalls.set()
        assert goes_on.wait(PATIENCE_SECONDS)
        if fails:
            raise InputError("line 4", expected="a line", found="none")

    append = pool.submit(bench.source.append, stalling())
    assert stalls.wait(PATIENCE_SECONDS)
    with tables.reopened() as other:
        behind = Bench(other, bench.config)
        later = pool.submit(behind.source.append, [SourceRecord(0, None, second.value)])
        await_waiting(tables)
        assert list(bench.source.extents()) == [Extent(0, 0)]
        assert list(bench.source.read(0, 0, 9, 9).offsets) == []
        assert drain_unit(tables, bench.unit(), 0, NEXT).ingested.records == 0
        goes_on.set()
        if fails:
            with pytest.raises(InputError, match="line 4"):
                append.result()
        assert later.result() == ([1] if fails else [4])
    assert drain_unit(tables, bench.unit(), 1 if fails else 4, NEXT).projected.consumed == 2
    [close] = tables.sql("SELECT close FROM amends.balance")
    assert close == ((98,) if fails else (97,))


@pytest.mark.parametrize("killed", [False, True])
def test_no_relay_passes_a_decision_that_is_not_committed(busy, tables, pool, killed):
    bench = busy
    relay_unit(tables, bench.unit(), NEXT)
    before = bench.progress()
    decisions = bench.decide()
    with psycopg.connect(tables.url) as session:
        session.execute("LOCK TABLE amends.outbox_segment IN SHARE MODE")
        stalled = pool.submit(bench.store.commit, bench.claim(), decisions)
        await_waiting(tables)
        assert relay_unit(tables, bench.unit(), NEXT) == 0
        assert bench.progress().next_sequence == before.next_sequence
        if killed:
            tables.sql(STALLED)
            with pytest.raises(OutcomeUnknown):
                stalled.result()
    if killed:
        assert relay_unit(tables, bench.unit(), NEXT) == 0
        bench.store.commit(bench.claim(), bench.decide())
    else:
        stalled.result()
    count = len(decisions[0].envelopes)
    assert relay_unit(tables, bench.unit(), NEXT) == count > 0
    outbox = [(sequence, done) for sequence, done, _ in bench.store.outbox(bench.unit())]
    assert outbox == [(sequence, True) for sequence in range(before.next_sequence + count)]


@pytest.mark.parametrize("killed", [False, True])
def test_no_view_passes_a_publication_that_is_not_committed(busy, tables, pool, killed):
    bench, outputs = busy, tables.outputs
    start = bench.progress().view_next
    assert outputs.end(bench.unit()) == start
    [first, *_] = bench.store.pending(bench.unit(), 1)
    with psycopg.connect(tables.url) as session, tables.reopened() as other:
        session.execute("LOCK TABLE amends.output_segment IN SHARE MODE")
        stalled = pool.submit(outputs.append, bench.unit(), first.envelopes)
        await_waiting(tables)
        later = pool.submit(other.outputs.append, bench.unit(), first.envelopes)
        await_waiting(tables, 2)
        assert outputs.end(bench.unit()) == start
        assert project_unit(tables, bench.unit(), NEXT).consumed == 0
        if killed:
            tables.sql(STALLED)
            for append in (stalled, later):
                with pytest.raises(DatabaseUnavailable):
                    append.result()
        else:
            session.commit()
            assert [stalled.result(), later.result()] == [start, start + len(first.envelopes)]
    copies = 0 if killed else 2
    published = relay_unit(tables, bench.unit(), NEXT)
    logged = segments_of(outputs.read(bench.unit(), 0, 1_000))
    assert [offset for offset, _ in logged] == list(range(len(logged)))
    assert len(logged) == start + copies * len(first.envelopes) + published
    done = project_unit(tables, bench.unit(), NEXT)
    assert done.consumed == len(logged) - start
    assert done.duplicates == copies * len(first.envelopes)
