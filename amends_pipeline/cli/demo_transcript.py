"""The inventory's part of the demo as people read it, and as programs do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from amends_pipeline.cli.demo_stages import Day, Stage
from amends_pipeline.cli.demo_writing import (
    BAD,
    FAINT,
    GOOD,
    HEAD,
    count,
    here,
    part,
    program,
    table,
    written,
)
from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.kernel.display import escape_terminal


def opening(config: NamespaceConfig, folder: Path, database: str) -> bytes:
    """Say what is going to happen."""
    (item, location), balance, threshold, _ = config.keys[0]
    key = escape_terminal(f"{item} at {location}")
    return written(
        Text(
            f"One stock key, {key}, opens with {balance} units and alerts below {threshold}. Each"
            " stage appends records, and a Dagster run decides, publishes, applies and verifies"
            " them."
        ),
        Text(f"records {here(folder)}, database {database} of the private server", FAINT),
        Text(),
    )


def stage(number: int, told: Stage) -> bytes:
    """Tell one stage."""
    return written(
        Rule(Text(f"{number}. {told.title}", HEAD), align="left", style=FAINT),
        Text(f"{count(told.records, 'record')} of {told.file}, Dagster run {told.run_id}", FAINT),
        part("What readers see", _days(told)),
        part("Alerts", *_alerts(told)),
        part("Envelopes", _envelopes(told)),
        part("Frontiers", Text(_frontiers(told))),
        part("Verdict", _verdict(told)),
        Text(),
    )


def closing(folder: Path, elapsed_milliseconds: int, *, accepted: bool) -> bytes:
    """Say how it ended, and what to try next."""
    seconds, tenths = divmod(round(elapsed_milliseconds / 100), 10)
    ended = (
        Text("Every verdict is positive", GOOD) if accepted else Text("A verdict is negative", BAD)
    )
    config = here(folder / "config.json")
    return written(
        Rule(style=FAINT),
        ended.append(f" ({seconds}.{tenths} s).", "default"),
        Text("Next, the same by hand, in a ledger of your own:"),
        Text(),
        Text(f"    {program()} inventory provision {config}"),
    )


def document(told: Stage) -> dict[str, Any]:
    """One stage for `--json`."""
    return {
        "title": told.title,
        "file": told.file,
        "records": told.records,
        "run_id": told.run_id,
        "days": [
            {
                "stock_key": {"item": each.item, "location": each.location},
                "day": each.day,
                "was": each.was._asdict(),
                "now": each.now._asdict(),
            }
            for each in told.days
        ],
        "raised_alerts": [_place(each) for each in told.envelopes if _is(each, "AlertRaised")],
        "withdrawn_alerts": [
            _place(each) for each in told.envelopes if _is(each, "AlertRetracted")
        ],
        "envelopes": [
            {"sequence": sequence, "envelope": envelope}
            for sequence, envelope in enumerate(told.envelopes, told.first_sequence)
        ],
        "frontiers": {
            "source_end": told.source_end,
            "worker_next": told.worker_next,
            "output_end": told.output_end,
            "view_next": told.view_next,
        },
        "verdict": told.verdict._asdict(),
    }


# --- parts of a stage


def _days(told: Stage) -> Table:
    rows = table("day", "was", "now")
    for each in told.days:
        style = FAINT if each.was == each.now else ""
        rows.add_row(
            Text(each.day, style), Text(_day(each.was), style), Text(_day(each.now), style)
        )
    return rows


def _day(day: Day) -> str:
    seen = [] if day.close is None else [str(day.close)]
    return ", ".join([*seen, *(["alert"] if day.alert else [])]) or "none"


def _alerts(told: Stage) -> Iterable[Text]:
    withdrawn = [each for each in told.envelopes if _is(each, "AlertRetracted")]
    raised = [each for each in told.envelopes if _is(each, "AlertRaised")]
    for each in withdrawn:
        yield Text(f"withdrawn on {each['output_id']['day']}")
    for each in raised:
        payload = each["payload"]
        yield Text(
            f"raised on {each['output_id']['day']}: {payload['close']} is below"
            f" {payload['threshold']}"
        )
    if not withdrawn and not raised:
        yield Text("none raised, none withdrawn", FAINT)


def _envelopes(told: Stage) -> Table:
    rows = table("sequence", "type", "day", "version", "says", "cause")
    for sequence, each in enumerate(told.envelopes, told.first_sequence):
        cause = each["cause"]
        rows.add_row(
            str(sequence),
            each["type"],
            each["output_id"].get("day", ""),
            str(each["version"]),
            _says(each["payload"]),
            Text(
                escape_terminal(
                    f"{cause['txn_id']} r{cause['revision']} at offset {cause['offset']}"
                )
            ),
        )
    return rows


def _says(payload: Mapping[str, Any]) -> str:
    if not payload["present"]:
        return "withdrawn"
    return str(payload.get("close", payload.get("status")))


def _frontiers(told: Stage) -> str:
    return (
        f"source {told.worker_next} of {told.source_end} decided,"
        f" output {told.view_next} of {told.output_end} applied"
    )


def _verdict(told: Stage) -> Text:
    status, accepted, says = told.verdict
    text = Text(status, GOOD if accepted else BAD)
    return text.append(escape_terminal(says.removeprefix(status)), "default")


def _is(envelope: Mapping[str, Any], kind: str) -> bool:
    return bool(envelope["type"] == kind)


def _place(envelope: Mapping[str, Any]) -> dict[str, Any]:
    output = envelope["output_id"]
    return {"stock_key": output["stock_key"], "day": output["day"]}
