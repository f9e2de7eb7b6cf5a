"""Bytes of an envelope, read back as strictly as they are written.

An envelope has exactly one spelling. Whatever else stands in an output log, other JSON, another
namespace, a member too many, a blank, is a breach of the protocol and is told in words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.inventory.envelope import (
    ENVELOPE_SCHEMA_VERSION,
    FAMILY_NAMES,
    FAMILY_OF,
    STATUS_DAY,
    TYPE_NAMES,
    Cause,
    Encoder,
    Envelope,
    Family,
    Reasons,
    Type,
)
from amends_pipeline.inventory.view import malformation
from amends_pipeline.kernel import strict_json
from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import ProtocolStop, StrictJsonError
from amends_pipeline.kernel.instants import InstantSyntaxError, parse_day
from amends_pipeline.kernel.integers import MAX_INT64, MIN_INT64

_MEMBERS: Final = ("schema_version", "output_id", "version", "type", "payload", "cause")
_STATUS_ID: Final = ("namespace", "family", "stock_key")
_DAY_ID: Final = (*_STATUS_ID, "day")
_STATED: Final = {"READY": Type.READY_STATED, "BLOCKED": Type.BLOCKED_STATED}
_FAMILIES: Final = {name: family for family, name in FAMILY_NAMES.items()}
_TYPES: Final = {
    name: kind for kind, name in TYPE_NAMES.items() if FAMILY_OF[kind] is not Family.KEY_STATUS
}
_STATUS_TYPE: Final = TYPE_NAMES[Type.READY_STATED]


def decode(config: NamespaceConfig, partition: int, raw: bytes) -> Envelope:
    """Decode one envelope of a namespace and partition. Raises as `Decoder.decode`."""
    return Decoder(config, partition).decode(raw)


class Decoder:
    """Reads the envelopes of one namespace and partition from their canonical bytes."""

    def __init__(self, config: NamespaceConfig, partition: int) -> None:
        self._config = config
        self._partition = partition
        self._encoder = Encoder(config, partition)

    def decode(self, raw: bytes) -> Envelope:
        """Decode one envelope.

        Raises ProtocolStop that names the member at fault, or the bytes when they are not the
        canonical ones of what they say.
        """
        try:
            document = strict_json.loads(raw, where="envelope")
        except StrictJsonError as error:
            raise ProtocolStop(error.where, expected=error.expected, found=error.found) from None
        envelope = self._envelope(document)
        defect = malformation(self._config, self._partition, envelope)
        if defect is not None:
            expected, found = defect
            raise ProtocolStop("envelope", expected=expected, found=found)
        canonical = self._encoder.encode(envelope)
        if raw != canonical:
            pairs = zip(canonical, raw, strict=False)
            same = (i for i, (one, other) in enumerate(pairs) if one != other)
            at = next(same, min(len(canonical), len(raw)))
            raise ProtocolStop(
                f"envelope, byte {at}",
                expected=f"{shown(canonical[at : at + 24])}, the canonical bytes",
                found=shown(raw[at : at + 24]),
            )
        return envelope

    def _envelope(self, document: object) -> Envelope:
        members = _members(document, "envelope", _MEMBERS)
        _constant(members["schema_version"], "envelope.schema_version", ENVELOPE_SCHEMA_VERSION)
        family, key, day = self._output_id(members["output_id"])
        version = _integer(members["version"], "envelope.version", 1)
        kind, close, reasons = self._content(members["type"], family, key, members["payload"])
        cause = self._cause(members["cause"])
        return Envelope(key, kind, day, version, close, cause, reasons)

    def _output_id(self, value: object) -> tuple[Family, int, int]:
        where = "envelope.output_id"
        named = value.get("family") if isinstance(value, dict) else None
        family = _FAMILIES.get(named) if isinstance(named, str) else None
        members = _members(value, where, _STATUS_ID if family is Family.KEY_STATUS else _DAY_ID)
        _constant(members["namespace"], f"{where}.namespace", self._config.namespace)
        if family is None:
            raise _stop(f"{where}.family", " or ".join(_FAMILIES), members["family"])
        stock_key = _stock_key(members["stock_key"], f"{where}.stock_key")
        key = self._config.number_of(stock_key)
        if key is None:
            raise _stop(f"{where}.stock_key", "a configured stock key", list(stock_key))
        day = STATUS_DAY if family is Family.KEY_STATUS else _day(members["day"], f"{where}.day")
        return family, key, day

    def _content(
        self, named: object, family: Family, key: int, payload: object
    ) -> tuple[Type, int, Reasons]:
        """Type, close and reasons; the wire type and its payload say the type together."""
        if family is Family.KEY_STATUS:
            _constant(named, "envelope.type", _STATUS_TYPE)
            return self._status(key, payload)
        kind = _TYPES.get(named) if isinstance(named, str) else None
        if kind is None or FAMILY_OF[kind] is not family:
            names = (name for name, each in _TYPES.items() if FAMILY_OF[each] is family)
            raise _stop("envelope.type", " or ".join(names), named)
        where = "envelope.payload"
        match kind:
            case Type.BALANCE_STATED:
                members = _members(payload, where, ("present", "close"))
            case Type.ALERT_RAISED:
                members = _members(payload, where, ("present", "threshold", "close"))
                threshold = self._config.keys[key].reorder_threshold
                _constant(members["threshold"], f"{where}.threshold", threshold)
            case _:
                members = _members(payload, where, ("present",))
                _constant(members["present"], f"{where}.present", expected=False)
                return kind, 0, ()
        _constant(members["present"], f"{where}.present", expected=True)
        return kind, _integer(members["close"], f"{where}.close", MIN_INT64), ()

    def _status(self, key: int, payload: object) -> tuple[Type, int, Reasons]:
        where = "envelope.payload"
        members = _members(payload, where, ("present", "status", "reasons"))
        _constant(members["present"], f"{where}.present", expected=True)
        status = members["status"]
        kind = _STATED.get(status) if isinstance(status, str) else None
        if kind is None:
            raise _stop(f"{where}.status", " or ".join(_STATED), status)
        reasons = members["reasons"]
        if not isinstance(reasons, list):
            raise _stop(f"{where}.reasons", "an array", reasons)
        return kind, 0, tuple(self._reason(key, i, each) for i, each in enumerate(reasons))

    def _reason(self, key: int, position: int, value: object) -> tuple[str, int]:
        where = f"envelope.payload.reasons[{position}]"
        members = _members(value, where, ("stock_key", "txn_id", "revision"))
        stock_key = _stock_key(members["stock_key"], f"{where}.stock_key")
        if stock_key != self._config.keys[key].stock_key:
            raise _stop(f"{where}.stock_key", "the envelope's own", list(stock_key))
        txn_id = _text(members["txn_id"], f"{where}.txn_id")
        return txn_id, _integer(members["revision"], f"{where}.revision", 1)

    def _cause(self, value: object) -> Cause:
        where = "envelope.cause"
        members = _members(value, where, ("source", "partition", "offset", "txn_id", "revision"))
        _constant(members["source"], f"{where}.source", self._config.source)
        _constant(members["partition"], f"{where}.partition", self._partition)
        return Cause(
            _integer(members["offset"], f"{where}.offset", 0),
            _text(members["txn_id"], f"{where}.txn_id"),
            _integer(members["revision"], f"{where}.revision", 1),
        )


def _stop(where: str, expected: str, value: object) -> ProtocolStop:
    return ProtocolStop(where, expected=expected, found=shown(value))


def _members(value: object, where: str, names: tuple[str, ...]) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise _stop(where, "an object", value)
    if value.keys() != set(names):
        found = ", ".join(map(shown, value)) or "none"
        raise ProtocolStop(where, expected=f"the members {', '.join(names)}", found=found)
    return value


def _constant(value: object, where: str, expected: object) -> None:
    # 1 equals True to Python, and the two are different JSON.
    if type(value) is not type(expected) or value != expected:
        raise _stop(where, shown(expected), value)


def _integer(value: object, where: str, low: int) -> int:
    if type(value) is not int or not low <= value <= MAX_INT64:
        raise _stop(where, f"an integer from {low} to {MAX_INT64}", value)
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise _stop(where, "text", value)
    return value


def _stock_key(value: object, where: str) -> tuple[str, str]:
    members = _members(value, where, ("item", "location"))
    item = _text(members["item"], f"{where}.item")
    return item, _text(members["location"], f"{where}.location")


def _day(value: object, where: str) -> int:
    text = _text(value, where)
    try:
        return parse_day(text)
    except InstantSyntaxError:
        raise _stop(where, "a day such as 2026-01-03", text) from None
