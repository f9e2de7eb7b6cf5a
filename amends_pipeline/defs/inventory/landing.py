"""The job that appends what landed in the folder of a source."""

import os
from pathlib import Path

import dagster as dg
from pydantic import Field

from amends_pipeline.defs.catalog import SOURCE_LOG
from amends_pipeline.defs.inventory.failure import failing_clearly
from amends_pipeline.defs.inventory.metadata import cell, table
from amends_pipeline.defs.resources import LedgerResource
from amends_pipeline.flows.landing import FOLDER, Fate, Outcome, land
from amends_pipeline.kernel.display import shown
from amends_pipeline.store.server import DEFAULT_HOME, HOME_VARIABLE

SOURCE_TAG = "amends/landing"
"""Names the source of a run, so that one run empties a folder at a time."""
LANDING_SECONDS = 600
"""No file is begun later than that; the next run takes it."""
LONGEST_RUN_SECONDS = 6 * 3600
"""Then the run counts as lost. A single large file may take its time."""
SHOWN_FILES = 200

_COLUMNS = {
    "file": "Name in the landing folder.",
    "fate": "What became of it.",
    "records": "Records appended to the source log.",
    "digest": "SHA-256 of its bytes.",
    "note": "Why it was set aside, or could not be moved.",
}


def landing_root(ledger: LedgerResource) -> Path:
    """The folder that holds the landing folders of all sources, below AMENDS_HOME."""
    return Path(ledger.home or os.environ.get(HOME_VARIABLE) or DEFAULT_HOME) / FOLDER


class LandingFolder(dg.Config):
    """Which folder is emptied."""

    source: str = Field(description="Name of the source, which is the name of its folder.")


@dg.op(
    name="land",
    description="Append each whole file of a landing folder in one transaction, then move it away.",
    out=dg.Out(dg.Nothing),
)
def land_op(context: dg.OpExecutionContext, config: LandingFolder, ledger: LedgerResource) -> None:
    """What happened to each file is told in the log, and all together at the source log's asset."""
    outcomes: list[Outcome] = []
    with failing_clearly(), ledger.open() as opened:
        root = landing_root(ledger)
        for outcome in land(opened, root, config.source, seconds=LANDING_SECONDS):
            outcomes.append(outcome)
            log = context.log.info if outcome.fate is Fate.APPENDED else context.log.warning
            note = f": {outcome.note}" if outcome.note else ""
            log(f"{shown(outcome.name)} was {outcome.fate}, {outcome.records} records{note}")
    context.log_event(
        dg.AssetObservation(
            SOURCE_LOG.key,
            description=f"Files from the landing folder of source {config.source}.",
            metadata={
                "source": config.source,
                "appended_files": sum(each.fate is Fate.APPENDED for each in outcomes),
                "appended_records": sum(each.records for each in outcomes),
                "set_aside_files": sum(each.fate is Fate.SET_ASIDE for each in outcomes),
                "files": table(_COLUMNS, [_row(each) for each in outcomes[:SHOWN_FILES]]),
            },
        )
    )


def _row(outcome: Outcome) -> dict[str, str]:
    return {
        "file": cell(outcome.name),
        "fate": str(outcome.fate),
        "records": str(outcome.records),
        "digest": outcome.digest,
        "note": cell(outcome.note),
    }


@dg.job(
    name="land_files",
    description=(
        "Append the files that lie in a source's landing folder to its log, each once, and move"
        " them to its folder done; what cannot be read as records goes to set-aside with its error."
    ),
    executor_def=dg.in_process_executor,
    tags={"dagster/max_runtime": str(LONGEST_RUN_SECONDS)},
)
def land_files() -> None:
    """One step."""
    land_op()
