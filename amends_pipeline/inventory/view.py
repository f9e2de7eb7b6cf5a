"""What an envelope does to the reader's rows.

The highest version of an output id wins, whatever the order and number of deliveries. A withdrawal
stays as a row that is not visible, so an older statement cannot bring the fact back.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.inventory.envelope import (
    FAMILY_OF,
    STATUS_DAY,
    VISIBLE,
    Envelope,
    Family,
    OutputId,
    Type,
)
from amends_pipeline.inventory.envelope_columns import Envelopes
from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.instants import MAX_DAY
from amends_pipeline.kernel.integers import MAX_INT64, MIN_INT64

ViewRows = Mapping[OutputId, Envelope]


class Fault(NamedTuple):
    """An envelope that breaks the protocol; it stops its partition."""

    position: int
    expected: str
    found: str


class Applied(NamedTuple):
    """What a run of consecutive envelopes does."""

    rows: dict[OutputId, Envelope]
    """The rows to store: the last effective envelope of each output id that moved on."""
    consumed: int
    """How many envelopes the frontier passes; all before the fault, if there is one."""
    duplicates: int
    outdated: int
    fault: Fault | None


def visible(envelope: Envelope) -> bool:
    """Whether readers see this row."""
    return envelope.type in VISIBLE


def apply(config: NamespaceConfig, partition: int, rows: ViewRows, batch: Envelopes) -> Applied:
    """Apply envelopes in order to `rows`, which holds what is stored of the ids in `batch`."""
    changed: dict[OutputId, Envelope] = {}
    duplicates = outdated = 0
    for position, envelope in enumerate(batch):
        defect = malformation(config, partition, envelope)
        if defect is not None:
            fault = Fault(position, *defect)
            return Applied(changed, position, duplicates, outdated, fault)
        output = envelope.output_id
        stored = changed.get(output) or rows.get(output)
        if stored is None or envelope.version > stored.version:
            changed[output] = envelope
        elif envelope.version < stored.version:
            outdated += 1
        elif envelope == stored:
            duplicates += 1
        else:
            expected = f"version {stored.version} as stored, caused by {stored.cause}"
            fault = Fault(position, expected, f"another one, caused by {envelope.cause}")
            return Applied(changed, position, duplicates, outdated, fault)
    return Applied(changed, len(batch), duplicates, outdated, None)


def malformation(
    config: NamespaceConfig, partition: int, envelope: Envelope
) -> tuple[str, str] | None:
    """What is wrong with an envelope by itself, as (expected, found), or None.

    Namespace, source and schema are checked where bytes are decoded; columns have no place for a
    wrong one.
    """
    if not 0 <= envelope.key < len(config.keys):
        return f"a key number below {len(config.keys)}", str(envelope.key)
    home = config.keys[envelope.key].partition
    if home != partition:
        return f"a key of partition {partition}", f"one of partition {home}"
    if envelope.type not in FAMILY_OF:
        return "a type from 1 to 6", str(envelope.type)
    if not 1 <= envelope.version <= MAX_INT64:
        return "a version from 1 to the largest 64-bit integer", str(envelope.version)
    return _day_defect(config, envelope) or _payload_defect(envelope) or _cause_defect(envelope)


def _day_defect(config: NamespaceConfig, envelope: Envelope) -> tuple[str, str] | None:
    if FAMILY_OF[Type(envelope.type)] is Family.KEY_STATUS:
        return None if envelope.day == STATUS_DAY else ("no day on a status", str(envelope.day))
    if not config.origin.day <= envelope.day <= MAX_DAY:
        return "a day from the origin to 9999-12-31", f"day number {envelope.day}"
    return None


def _payload_defect(envelope: Envelope) -> tuple[str, str] | None:
    if not MIN_INT64 <= envelope.close <= MAX_INT64:
        return "a close of 64 bits", str(envelope.close)
    stated = envelope.type in (Type.ALERT_RAISED, Type.BALANCE_STATED)
    if not stated and envelope.close != 0:
        return "no close", str(envelope.close)
    reasons = envelope.reasons
    if (envelope.type == Type.BLOCKED_STATED) != bool(reasons):
        return "reasons on BLOCKED and on nothing else", f"{len(reasons)} reasons"
    for txn_id, revision in reasons:
        if not _names_a_record(txn_id, revision):
            return "reasons with txn_id and revision", shown((txn_id, revision))
    # Code points sort as their UTF-8 bytes do.
    if any(one >= other for one, other in pairwise(reasons)):
        return "each reason once, by txn_id, then revision", shown(reasons)
    return None


def _cause_defect(envelope: Envelope) -> tuple[str, str] | None:
    offset, txn_id, revision = envelope.cause
    if not 0 <= offset <= MAX_INT64 or not _names_a_record(txn_id, revision):
        return "a cause with offset, txn_id and revision", shown(tuple(envelope.cause))
    return None


def _names_a_record(txn_id: str, revision: int) -> bool:
    # No record that was accepted can have U+0000 in its texts, and PostgreSQL could not store it.
    return bool(txn_id) and "\x00" not in txn_id and 1 <= revision <= MAX_INT64
