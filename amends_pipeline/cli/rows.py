"""Envelopes and quarantined records as lines: exact JSON, or cells of a table."""

from __future__ import annotations

import base64
from collections.abc import Iterable

from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.inventory.envelope import (
    FAMILY_NAMES,
    STATUS_DAY,
    TYPE_NAMES,
    Encoder,
    Envelope,
    Family,
    Type,
)
from amends_pipeline.inventory.slice import Rejection
from amends_pipeline.kernel.instants import day_text
from amends_pipeline.ports import Quarantined

QUARANTINED_BYTES = 120
"""Bytes of a quarantined value that a table shows. `--json` has them all."""

VIEW = "family, item, location, day, value, #version, #cause offset"
OUTBOX = (
    "#partition, #sequence, acknowledged, type, item, location, day, #version, value,"
    "#cause offset, cause txn_id, #revision"
)
QUARANTINE = "#partition, #offset, code, value"


def encoders(config: NamespaceConfig) -> list[Encoder]:
    """One for each partition."""
    return [Encoder(config, number) for number in range(config.partitions)]


def view_cells(config: NamespaceConfig, row: Envelope) -> tuple[object, ...]:
    """A row of the view for the columns `VIEW`."""
    family = FAMILY_NAMES[Family(row.output_id.family)]
    item, location = config.keys[row.key].stock_key
    return family, item, location, _day(row), _value(row), row.version, row.cause.offset


def outbox_cells(
    config: NamespaceConfig, partition: int, sequence: int, envelope: Envelope, *, known: bool
) -> tuple[object, ...]:
    """A row of the outbox for the columns `OUTBOX`; `known` says that it was acknowledged."""
    return (
        partition,
        sequence,
        "yes" if known else "no",
        TYPE_NAMES[Type(envelope.type)],
        *config.keys[envelope.key].stock_key,
        _day(envelope),
        envelope.version,
        _value(envelope),
        *envelope.cause,
    )


def outbox_line(partition: int, sequence: int, envelope: str, *, known: bool) -> bytes:
    """A row of the outbox as a line of JSON that holds the envelope as it stands."""
    acknowledged = "true" if known else "false"
    head = f'{{"partition":{partition},"sequence":{sequence},"acknowledged":{acknowledged}'
    return f'{head},"envelope":{envelope}}}\n'.encode()


def quarantine_cells(partition: int, rejection: Rejection) -> tuple[object, ...]:
    """A rejected record for the columns `QUARANTINE`."""
    value = rejection.value[:QUARANTINED_BYTES].decode("utf-8", "backslashreplace")
    if len(rejection.value) > QUARANTINED_BYTES:
        value = f"{value}... ({len(rejection.value)} bytes)"
    return partition, rejection.offset, rejection.code, value


def quarantine_document(each: Quarantined) -> dict[str, object]:
    """A rejected record as a JSON document, bytes in base64."""
    rejection = each.rejection
    return {
        "partition": each.partition,
        "offset": rejection.offset,
        "code": str(rejection.code),
        "key": None if rejection.raw_key is None else _base64(rejection.raw_key),
        "value": _base64(rejection.value),
    }


def reasons_text(reasons: Iterable[tuple[str, int]]) -> str:
    """Conflicts that block a key, for people."""
    return ", ".join(f"{txn_id} revision {revision}" for txn_id, revision in reasons)


def _day(envelope: Envelope) -> str | None:
    return None if envelope.day == STATUS_DAY else day_text(envelope.day)


def _value(envelope: Envelope) -> object:
    """What an envelope says."""
    match envelope.type:
        case Type.BALANCE_STATED | Type.ALERT_RAISED:
            return envelope.close
        case Type.READY_STATED:
            return "READY"
        case Type.BLOCKED_STATED:
            return f"BLOCKED by {reasons_text(envelope.reasons)}"
        case _:
            return None


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
