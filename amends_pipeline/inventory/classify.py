"""Why a record is not accepted: the first rejection code that holds.

This is the worker's judgement. The oracle decides the same again in its own SQL and must not import
this module.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from amends_pipeline.inventory.config import StockKey
from amends_pipeline.kernel.instants import MAX_DAY

if TYPE_CHECKING:
    from amends_pipeline.inventory.config import NamespaceConfig
    from amends_pipeline.inventory.revision import Revision


class Code(StrEnum):
    """Why a record stands in quarantine. The rejection codes are tried in this order."""

    MALFORMED = "MALFORMED"
    """The value does not decode."""
    IDENTITY = "IDENTITY"
    """The transaction id, item or location is empty."""
    REVISION = "REVISION"
    """The revision is not positive."""
    KIND = "KIND"
    """The kind is none of NEW, AMEND and CANCEL."""
    CANCEL_QUANTITY = "CANCEL_QUANTITY"
    """A cancellation carries a quantity."""
    VALID_TIME = "VALID_TIME"
    """The valid time lies before the origin or after year 9999."""
    UNKNOWN_KEY = "UNKNOWN_KEY"
    """The stock key is not configured."""
    KEY_MISMATCH = "KEY_MISMATCH"
    """The transport's key is not the encoded stock key."""
    ROUTING = "ROUTING"
    """The record lies on another partition than its stock key."""
    SET_ASIDE = "SET_ASIDE"
    """A person declared the record to be set aside. No rejection: `classify` never returns it."""


def classify(
    config: NamespaceConfig, partition: int, raw_key: bytes | None, revision: Revision | None
) -> Code | None:
    """Return the first code that holds for a decoded record, or None when it is accepted.

    `partition` is where the record lies and `raw_key` the transport's key, None where the transport
    has none. `revision` is what `revision.decode` made of the value, None for MALFORMED.
    """
    if revision is None:
        return Code.MALFORMED
    return _own_fault(config, revision) or _fault_of_key(config, partition, raw_key, revision)


def _own_fault(config: NamespaceConfig, revision: Revision) -> Code | None:
    if not (revision.txn_id and revision.item and revision.location):
        return Code.IDENTITY
    if revision.revision < 1:
        return Code.REVISION
    kind = revision.kind
    if kind == "CANCEL":
        if revision.qty != 0:
            return Code.CANCEL_QUANTITY
    elif kind not in {"NEW", "AMEND"}:
        return Code.KIND
    # The origin lies in the supported range, so that nothing at or after it lies below that range.
    day = revision.valid_day
    if day > MAX_DAY or (day, revision.valid_nanosecond) < config.origin:
        return Code.VALID_TIME
    return None


def _fault_of_key(
    config: NamespaceConfig, partition: int, raw_key: bytes | None, revision: Revision
) -> Code | None:
    number = config.numbers.get((revision.item, revision.location))
    if number is None:
        return Code.UNKNOWN_KEY
    if raw_key is not None:
        encoded = StockKey(revision.item, revision.location).encoded
        if raw_key != encoded.encode():
            return Code.KEY_MISMATCH
    if config.placements[number] != partition:
        return Code.ROUTING
    return None
