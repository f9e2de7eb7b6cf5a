"""The sensor of the bank ledger: a stream whose head moved gets a run.

What it decides is in `flows.bank_follow`. How far the journal is, the journal says; how far the
balances are, their last materialization, whose data version begins with the head's sequence.
"""

import json
import re
from collections.abc import Collection, Mapping
from functools import partial

import dagster as dg

from amends_pipeline.defs.catalog import BANK_BALANCES
from amends_pipeline.defs.inventory.looking import (
    TICK_SECONDS,
    Looked,
    answer,
    clearly,
    decided,
)
from amends_pipeline.defs.inventory.runs import tags_of
from amends_pipeline.defs.jobs import FOLD_BANK, PARTITION_TAG
from amends_pipeline.defs.partitions import LEDGER_STREAM, STREAMS
from amends_pipeline.defs.resources import BankResource
from amends_pipeline.flows.automation import concerns, requests
from amends_pipeline.flows.bank_follow import Followed, plan_streams

VERSION_TAG = "dagster/data_version"
KEPT_REASONS = 50
"""Reasons that a cursor shows."""

_SEQUENCE = re.compile(r"(0|[1-9][0-9]*)/")


@dg.sensor(
    name="moved_heads",
    description=(
        "Asks, every 4 to 5 s, for a run of each ledger stream that has journals which its balances"
        " do not know, or no balances yet: one run of a stream at a time, a failed one again after"
        " 5, 10, 20 s and so on, at most 5 min. Makes new ledger streams partitions."
    ),
    job_name=FOLD_BANK.name,
    minimum_interval_seconds=TICK_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def moved_heads(context: dg.SensorEvaluationContext, bank: BankResource) -> Looked:
    """Compare last sequences with those that balances are of."""
    return clearly(context, partial(_look_at_heads, context, bank))


def _look_at_heads(context: dg.SensorEvaluationContext, bank: BankResource) -> Looked:
    with bank.open() as journal:
        last = {each.stream.stream_id: each.last_sequence for each in journal.streams()}
    made = _made_through(context.instance, last, _remembered(context.cursor))
    streams = [Followed(name, sequence, made.get(name)) for name, sequence in last.items()]
    decisions = decided(context.instance, streams, PARTITION_TAG, plan_streams)
    waiting = {each.subject: each.reason for each in concerns(decisions)[:KEPT_REASONS]}
    return answer(
        context,
        decisions,
        [
            dg.RunRequest(each.run_key, partition_key=each.subject, tags=tags_of(each))
            for each in requests(decisions)
        ],
        "The balances of every ledger stream are of its head."
        if streams
        else "There is no ledger stream.",
        cursor=json.dumps({"made_through": made, "waiting": waiting}),
        dynamic_partitions_requests=_new_partitions(context.instance, last),
    )


def _new_partitions(
    instance: dg.DagsterInstance, streams: Collection[str]
) -> list[dg.AddDynamicPartitionsRequest]:
    """Add streams that Dagster lacks. Others are left: people add those that are kept elsewhere."""
    there = set(instance.get_dynamic_partitions(LEDGER_STREAM))
    missing = [name for name in streams if name not in there and "..." not in name]
    return [STREAMS.build_add_request(missing)] if missing else []


def _made_through(
    instance: dg.DagsterInstance, last: Mapping[str, int], remembered: Mapping[str, int]
) -> dict[str, int]:
    """How far the balances of each stream are. Dagster is asked about those that seem behind."""
    known = {name: remembered[name] for name in last if name in remembered}
    behind = [name for name, sequence in last.items() if known.get(name, -1) < sequence]
    if behind:
        tags = instance.event_log_storage.get_latest_tags_by_partition(
            BANK_BALANCES.key,
            dg.DagsterEventType.ASSET_MATERIALIZATION,
            [VERSION_TAG],
            asset_partitions=behind,
        )
        for name in behind:
            found = _SEQUENCE.match(tags.get(name, {}).get(VERSION_TAG, ""))
            if found is not None:
                known[name] = int(found[1])
    return known


def _remembered(cursor: str | None) -> Mapping[str, int]:
    """What the cursor says was made. People may edit it: then Dagster is asked about all."""
    try:
        made = json.loads(cursor or "{}")["made_through"]
        return {str(name): int(sequence) for name, sequence in made.items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}
