"""The worked correction, drained stage by stage: envelopes and frontiers that were worked out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from amends_pipeline.flows import ingest
from amends_pipeline.flows.append import Line, append
from amends_pipeline.flows.drain import Options, drain_unit
from amends_pipeline.flows.provision import provision
from amends_pipeline.inventory import batch
from amends_pipeline.inventory.config import load_configuration
from amends_pipeline.inventory.envelope import Encoder
from amends_pipeline.ports import Unit

SEED = Path(__file__).parents[2] / "fixtures/inventory/seed"
STAGES = json.loads((SEED / "days.json").read_bytes())["stages"]
MAIN = Unit("main", 0)


@pytest.fixture(params=["slices", "columns"])
def decided(request, monkeypatch):
    """How records are decided; the calls that decided them as columns."""
    calls = []
    as_columns = batch.decide_batch

    def counted(*arguments):
        calls.append(arguments)
        return as_columns(*arguments)

    if request.param == "columns":
        monkeypatch.setattr(ingest, "BATCH_RECORDS", 1)
        monkeypatch.setattr(batch, "decide_batch", counted)
    yield
    assert len(calls) >= (len(STAGES) if request.param == "columns" else 0)


@pytest.mark.parametrize(
    ("slice_records", "file"),
    [(1, "envelopes-slice-1.jsonl"), (ingest.SLICE_RECORDS, "envelopes-default.jsonl")],
)
def test_each_stage_publishes_and_applies_what_was_worked_out(ledger, decided, slice_records, file):
    expected = (SEED / file).read_bytes().splitlines()
    config = load_configuration(SEED / "config.json")
    provision(ledger, config)
    encoder = Encoder(config, 0)
    frontiers = []
    for stage in STAGES:
        lines = (SEED / stage["file"]).read_bytes().splitlines()
        append(ledger, "main", [Line(stage["file"], at, each) for at, each in enumerate(lines, 1)])
        end = ledger.source(config.source).extents()[0].end
        drain_unit(ledger, MAIN, end, Options("test", slice_records=slice_records))
        progress = ledger.store.progress(MAIN)
        frontiers.append((progress.next_offset, progress.view_next))
        outbox = [encoder.encode(each) for _, _, each in ledger.store.outbox(MAIN)]
        assert outbox == expected[: progress.next_sequence]
        assert progress.next_sequence == progress.acknowledged == progress.view_next
    assert frontiers == [(3, 5), (4, 10), (5, 11)]
