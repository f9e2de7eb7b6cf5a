"""What batches of columns store is what slices store one by one, over months and in every store."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amends_pipeline.flows import ingest
from amends_pipeline.flows.ingest import Worker
from amends_pipeline.inventory.refold import EVERY_DAY
from amends_pipeline.ports import Role
from amends_pipeline.store import keys
from amends_pipeline_tests.contracts.bench import Bench, provisioned
from amends_pipeline_tests.contracts.ledgers import MemoryLedger
from amends_pipeline_tests.tables import STOCK_KEYS, Line, configuration, document, encoded

NEVER = 10**9


@st.composite
def months(draw) -> list[Line]:
    """Transactions on three keys over a year: new ones, and corrections of any revision."""
    lines = []
    for _ in range(draw(st.integers(1, 30))):
        name, txn = draw(st.sampled_from("aabc")), draw(st.sampled_from("ABCDEFGH"))
        revision, month = draw(st.integers(1, 4)), draw(st.integers(1, 12))
        kind = draw(st.sampled_from(["NEW", "AMEND", "AMEND", "CANCEL"]))
        qty = 0 if kind == "CANCEL" else draw(st.sampled_from([-50, -20, 0, 20, 300]))
        valid = f"2026-{month:02d}-{draw(st.integers(1, 3)):02d}T12:00:00Z"
        lines.append(Line(encoded(document(STOCK_KEYS[name], txn, revision, kind, valid, qty))))
    return lines


def kept(bench: Bench):
    """Days and heads of all keys, as a load of everything tells them."""
    numbers = range(len(bench.config.keys))
    return dict(bench.store.keys(bench.unit(), dict.fromkeys(numbers, EVERY_DAY)))


def worked(bench: Bench, untils: list[int], commit_records: int) -> None:
    """Let one worker after the other go as far as each offset."""
    for until in untils:
        token = bench.claim(Role.WORKER)
        worker = Worker(bench.store, bench.source, token, bench.config, 1, commit_records)
        worker.run(until)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(months(), st.integers(0, 30), st.integers(1, 16))
def test_batches_store_what_slices_store(ledger, lines, pause, commit_records):
    number = len(ledger.store.namespaces())
    names = {"keys": "abc", "namespace": f"n-{number}", "source": f"s-{number}"}
    bench = provisioned(ledger, configuration(**names))
    model = provisioned(MemoryLedger(), configuration(**names))
    for each in (bench, model):
        each.append_lines(lines)
    untils = [min(pause, len(lines)), len(lines)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest, "BATCH_RECORDS", NEVER)
        worked(model, untils, 1)
        patch.setattr(ingest, "BATCH_RECORDS", 1)
        patch.setattr(keys, "MANY", 1)
        worked(bench, untils, commit_records)
    assert kept(bench) == kept(model)
    told, expected = (list(each.store.outbox(each.unit())) for each in (bench, model))
    assert told == expected


def test_the_first_days_of_the_calendar_are_stored(ledger):
    """They lie on a page that begins before them."""
    bench = provisioned(ledger, configuration(origin="0001-01-01T00:00:00Z"))
    days = ["0001-01-01", "0001-02-27", "0001-02-28"]
    bench.append_lines(
        Line(encoded(document(STOCK_KEYS["a"], f"T-{at}", 1, "NEW", f"{day}T00:00:00Z", -1)))
        for at, day in enumerate(days * 2)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest, "BATCH_RECORDS", 1)
        worked(bench, [3, 6], 1)
    assert kept(bench)[0].rows.closes == [98, 96, 94]
