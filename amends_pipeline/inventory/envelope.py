"""Identity and wire form of what is published, and the two equalities.

An envelope's bytes are a pure function of its columns, the namespace's configuration and the
partition. `ENCODER_VERSION` names that function; golden files pin it, so columns may be stored in
place of bytes.

Two equalities: payloads are compared to decide whether something must be published again
(`diff.py`); whole envelopes, cause included, are compared when a version is seen twice
(`view.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.kernel.canonical import compact_json
from amends_pipeline.kernel.instants import MIN_DAY, day_text

ENCODER_VERSION = 1
ENVELOPE_SCHEMA_VERSION = 1

STATUS_DAY = MIN_DAY - 1
"""Stands in the day column of a key status, which has no day."""


class Family(IntEnum):
    """Families of outputs, numbered in the order of their names."""

    ALERT = 1
    BALANCE = 2
    KEY_STATUS = 3


class Type(IntEnum):
    """What an envelope says. READY and BLOCKED are two payloads of one wire type."""

    ALERT_RAISED = 1
    ALERT_RETRACTED = 2
    BALANCE_STATED = 3
    BALANCE_RETRACTED = 4
    READY_STATED = 5
    BLOCKED_STATED = 6


FAMILY_OF = {
    Type.ALERT_RAISED: Family.ALERT,
    Type.ALERT_RETRACTED: Family.ALERT,
    Type.BALANCE_STATED: Family.BALANCE,
    Type.BALANCE_RETRACTED: Family.BALANCE,
    Type.READY_STATED: Family.KEY_STATUS,
    Type.BLOCKED_STATED: Family.KEY_STATUS,
}
FAMILY_NAMES = {Family.ALERT: "alert", Family.BALANCE: "balance", Family.KEY_STATUS: "key-status"}
TYPE_NAMES = {
    Type.ALERT_RAISED: "AlertRaised",
    Type.ALERT_RETRACTED: "AlertRetracted",
    Type.BALANCE_STATED: "BalanceStated",
    Type.BALANCE_RETRACTED: "BalanceRetracted",
    Type.READY_STATED: "KeyStatusStated",
    Type.BLOCKED_STATED: "KeyStatusStated",
}
VISIBLE = frozenset(
    {Type.ALERT_RAISED, Type.BALANCE_STATED, Type.READY_STATED, Type.BLOCKED_STATED}
)


class Cause(NamedTuple):
    """The source record that triggered an envelope; its source and partition are the unit's."""

    offset: int
    txn_id: str
    revision: int


Reasons = tuple[tuple[str, int], ...]


class OutputId(NamedTuple):
    """Identity of an output within one namespace. Sorts like its encoded id, given one family."""

    family: int
    key: int
    day: int


class Envelope(NamedTuple):
    """One publication as a value. Equality of all members is equality of envelopes."""

    key: int
    type: int
    day: int
    version: int
    close: int
    """Close of a stated balance or raised alert; 0 elsewhere."""
    cause: Cause
    reasons: Reasons

    @property
    def output_id(self) -> OutputId:
        """What this envelope is a version of."""
        return OutputId(FAMILY_OF[Type(self.type)], self.key, self.day)


@dataclass(slots=True)
class EnvelopeBatch:
    """Envelopes in order, as columns of equal length; causes are shared and indexed.

    `reasons` holds the reasons of BLOCKED statuses by position. Where there are many envelopes,
    `envelope_columns.py` has the same as arrays.
    """

    keys: list[int] = field(default_factory=list)
    types: list[int] = field(default_factory=list)
    days: list[int] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    closes: list[int] = field(default_factory=list)
    cause_index: list[int] = field(default_factory=list)
    causes: list[Cause] = field(default_factory=list)
    reasons: dict[int, Reasons] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.types)

    def __iter__(self) -> Iterator[Envelope]:
        return (self.at(i) for i in range(len(self)))

    def listed(self) -> EnvelopeBatch:
        """The batch itself: its columns are lists."""
        return self

    def at(self, i: int) -> Envelope:
        """The envelope at position `i`."""
        return Envelope(
            self.keys[i],
            self.types[i],
            self.days[i],
            self.versions[i],
            self.closes[i],
            self.causes[self.cause_index[i]],
            self.reasons.get(i, ()),
        )

    def add(self, envelope: Envelope) -> None:
        """Append one envelope; its cause is stored anew unless the last one is the same."""
        if not self.causes or self.causes[-1] != envelope.cause:
            self.causes.append(envelope.cause)
        if envelope.reasons:
            self.reasons[len(self.types)] = envelope.reasons
        self.keys.append(envelope.key)
        self.types.append(envelope.type)
        self.days.append(envelope.day)
        self.versions.append(envelope.version)
        self.closes.append(envelope.close)
        self.cause_index.append(len(self.causes) - 1)

    def slice(self, start: int, stop: int) -> EnvelopeBatch:
        """Positions `start` to `stop` as a batch of their own; causes are shared."""
        return EnvelopeBatch(
            self.keys[start:stop],
            self.types[start:stop],
            self.days[start:stop],
            self.versions[start:stop],
            self.closes[start:stop],
            self.cause_index[start:stop],
            self.causes,
            {i - start: r for i, r in self.reasons.items() if start <= i < stop},
        )


def joined(batches: Sequence[EnvelopeBatch]) -> EnvelopeBatch:
    """The envelopes of `batches`, in order, as one batch."""
    if len(batches) == 1:
        return batches[0]
    whole = EnvelopeBatch()
    for batch in batches:
        at, first_cause = len(whole), len(whole.causes)
        whole.keys += batch.keys
        whole.types += batch.types
        whole.days += batch.days
        whole.versions += batch.versions
        whole.closes += batch.closes
        whole.cause_index += [first_cause + i for i in batch.cause_index]
        whole.causes += batch.causes
        whole.reasons.update({at + i: reasons for i, reasons in batch.reasons.items()})
    return whole


class Encoder:
    """Renders the envelopes of one namespace and partition to their canonical bytes."""

    def __init__(self, config: NamespaceConfig, partition: int) -> None:
        self._config = config
        # A cache of its own: a shared one would keep encoders that are done.
        self._stock_key = lru_cache(maxsize=65_536)(self._stock_key_text)
        self._id = f'{{"schema_version":1,"output_id":{{"namespace":"{config.namespace}","family":'
        self._cause = f',"cause":{{"source":"{config.source}","partition":{partition},"offset":'

    def _stock_key_text(self, key: int) -> str:
        item, location = self._config.keys[key].stock_key
        return f'"stock_key":{{"item":{compact_json(item)},"location":{compact_json(location)}}}'

    def _payload(self, envelope: Envelope) -> str:
        match envelope.type:
            case Type.BALANCE_STATED:
                return f'{{"present":true,"close":{envelope.close}}}'
            case Type.ALERT_RAISED:
                threshold = self._config.keys[envelope.key].reorder_threshold
                return f'{{"present":true,"threshold":{threshold},"close":{envelope.close}}}'
            case Type.READY_STATED:
                return '{"present":true,"status":"READY","reasons":[]}'
            case Type.BLOCKED_STATED:
                stock_key = self._stock_key(envelope.key)
                reasons = ",".join(
                    f'{{{stock_key},"txn_id":{compact_json(txn_id)},"revision":{revision}}}'
                    for txn_id, revision in envelope.reasons
                )
                return f'{{"present":true,"status":"BLOCKED","reasons":[{reasons}]}}'
            case _:
                return '{"present":false}'

    def text(self, envelope: Envelope) -> str:
        """The canonical JSON text of `envelope`."""
        kind = Type(envelope.type)
        family = FAMILY_OF[kind]
        day = "" if family is Family.KEY_STATUS else f',"day":"{day_text(envelope.day)}"'
        offset, txn_id, revision = envelope.cause
        return (
            f'{self._id}"{FAMILY_NAMES[family]}",{self._stock_key(envelope.key)}{day}}}'
            f',"version":{envelope.version},"type":"{TYPE_NAMES[kind]}"'
            f',"payload":{self._payload(envelope)}'
            f'{self._cause}{offset},"txn_id":{compact_json(txn_id)},"revision":{revision}}}}}'
        )

    def encode(self, envelope: Envelope) -> bytes:
        """The canonical bytes of `envelope`, UTF-8."""
        return self.text(envelope).encode()


def encoded_id(config: NamespaceConfig, output: OutputId) -> str:
    """The compact JSON array that identifies an output: four elements for a status, else five."""
    item, location = config.keys[output.key].stock_key
    family = Family(output.family)
    parts = [config.namespace, FAMILY_NAMES[family], item, location]
    if family is not Family.KEY_STATUS:
        parts.append(day_text(output.day))
    return compact_json(parts)
