"""When a committed group was seen, and what a head may say.

A receipt is given after the COMMIT of its group, in a transaction of its own under the same lock. A
group without one, whose poster died between the two, gets it from whoever comes next.

Three moments of one stream must stay in order, whatever the clock of the server does:

    a receipt is not before the one before it, nor before the recording of any journal;
    a head's observation is not before any receipt that it covers;
    a receipt is strictly after every observation that was handed out.

The last one makes an old answer permanent. Who was told at K "this is all that was available by K"
must get the same answer for ever, so that what becomes available later must say a time after K.
Both receipts and observations are decided under the lock of the stream, so that "handed out"
and "later" have one meaning; where the clock does not move on, or moves back, the next
millisecond after the last observation stands for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from amends_pipeline.bank.heads import (
    KnownHead,
    Stream,
    extended,
    millisecond_after,
    receipt_ref,
)
from amends_pipeline.bank.values import Group

NO_RECEIPT: Final = ""
"""`available_at` of a group that has none yet; no export shows it."""


class Standing(NamedTuple):
    """Where a stream stands. All moments are None before the first."""

    stream: Stream
    last_sequence: int
    """Of the last committed journal; 0 before the first."""
    stamped_sequence: int
    """Of the last journal with a receipt."""
    recorded_at: str | None
    """The last recording."""
    available_at: str | None
    """The last receipt."""
    observed_at: str | None
    """The last observation that was handed out."""
    digest: bytes
    """Of the groups up to `stamped_sequence`."""


class Receipt(NamedTuple):
    """What a group gets after its commit."""

    last_sequence: int
    available_at: str
    digest: bytes
    """Of all groups up to this one, which says the receipt too."""


def with_receipt(group: Group, available_at: str) -> Group:
    """Return the group as an export shows it."""
    return msgspec.structs.replace(group, available_at=available_at)


def decide_receipts(standing: Standing, groups: Sequence[Group], clock: str) -> Sequence[Receipt]:
    """Give committed groups, in sequence order from `stamped_sequence` on, the same receipt."""
    moments = [clock, standing.recorded_at or "", standing.available_at or ""]
    if standing.observed_at is not None:
        moments.append(millisecond_after(standing.observed_at))
    available_at = max(moments)
    prefix, receipts = standing.digest, []
    for group in groups:
        prefix = extended(prefix, with_receipt(group, available_at))
        receipts.append(Receipt(int(group.journals[-1].sequence), available_at, prefix))
    return receipts


def stamped(standing: Standing, receipts: Sequence[Receipt]) -> Standing:
    """Return where the stream stands with these receipts."""
    if not receipts:
        return standing
    last = receipts[-1]
    return standing._replace(
        stamped_sequence=last.last_sequence, available_at=last.available_at, digest=last.digest
    )


def decide_head(standing: Standing, clock: str) -> KnownHead:
    """Observe everything that has a receipt."""
    observed_at = max(clock, standing.available_at or "", standing.observed_at or "")
    stream, sequence = standing.stream, standing.stamped_sequence
    reference = receipt_ref(stream.stream_id, sequence, standing.digest)
    return KnownHead(sequence, observed_at, reference, standing.digest)
