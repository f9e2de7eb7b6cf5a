"""Where a commit ends changes nothing: slices, envelopes and causes are those of the log alone."""

from __future__ import annotations

import pytest

from amends_pipeline.flows.append import Line, append
from amends_pipeline.flows.drain import Options, drain_unit
from amends_pipeline.flows.provision import provision
from amends_pipeline.inventory.config import parse_configuration
from amends_pipeline.kernel.errors import ConfigurationError
from amends_pipeline.ports import Unit
from amends_pipeline_tests.contracts.ledgers import MemoryLedger
from amends_pipeline_tests.tables import configuration, history

MAIN = Unit("main", 0)
STEADY = "\n".join(f"A{number} r1 NEW day 1 -1" for number in range(20))
# Key a opens at the upper end: it leaves the range for one record, at the end of a batch or not.
BRINK = "\n".join(
    [*(f"b/B{n} r1 NEW day 1 1" for n in range(9)), "A r1 NEW day 1 1", "C r1 NEW day 1 -1"]
    + [f"b/D{n} r1 NEW day 1 1" for n in range(9)]
)


def published(text, slice_records, commit_records):
    document = configuration()
    if text == BRINK:
        document["keys"][0]["opening_balance"] = 2**63 - 1
    ledger = MemoryLedger()
    provision(ledger, parse_configuration(document))
    lines = [Line("log", at, entry.value) for at, entry in enumerate(history(text), 1)]
    append(ledger, "main", lines)
    options = Options("test", slice_records=slice_records, commit_records=commit_records)
    done = drain_unit(ledger, MAIN, len(lines), options)
    return done.ingested.decisions, [row[2] for row in ledger.store.outbox(MAIN)]


@pytest.mark.parametrize("text", [STEADY, BRINK], ids=["steady", "brink"])
@pytest.mark.parametrize("slice_records", [1, 2, 3, 7])
def test_the_size_of_a_commit_never_changes_a_result(text, slice_records):
    one_commit = published(text, slice_records, 1_000)
    for commit_records in (1, 2, 5, 7, 10, 11, 20):
        assert published(text, slice_records, commit_records) == one_commit


def test_slices_hold_as_many_records_as_they_may():
    assert published(STEADY, 3, 7)[0] == 7
    assert published(BRINK, 1, 10)[0] == 19  # the two records of the excess are one decision


def test_a_refused_name_leaves_no_source_behind():
    ledger = MemoryLedger()
    provision(ledger, parse_configuration(configuration()))
    typo = configuration(source="fresh", partitions=3)
    with pytest.raises(ConfigurationError):
        provision(ledger, parse_configuration(typo))
    other = configuration(namespace="other", source="fresh", partitions=2)
    assert provision(ledger, parse_configuration(other)).created
