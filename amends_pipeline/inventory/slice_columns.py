"""A run of records read and classified as columns: what `slice.read_slice` says, said of many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from amends_pipeline.inventory.assertions import (
    CANCEL_NUMBER,
    Assertions,
    Flags,
    Integers,
    Texts,
    joined,
    lengths,
)
from amends_pipeline.inventory.authority import KINDS
from amends_pipeline.inventory.classify import Code, classify
from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.inventory.revision_columns import RevisionColumns, decode_columns
from amends_pipeline.inventory.slice import Records, Rejection
from amends_pipeline.kernel.instants import MAX_DAY


@dataclass(frozen=True, slots=True)
class SliceColumns:
    """The records of `[start, until)`, each either accepted or rejected."""

    start: int
    until: int
    accepted: Assertions
    rejections: list[Rejection]


def read_columns(
    config: NamespaceConfig, partition: int, records: Records, set_aside: frozenset[int]
) -> SliceColumns:
    """Decode and classify `records`. Offsets in `set_aside` are quarantined unread."""
    revisions = decode_columns(records.values)
    offsets = np.array(records.offsets, dtype=np.int64)
    numbers = _key_numbers(config, revisions)
    kinds = _kind_numbers(revisions.kinds)
    plain = _plain(config, partition, revisions, numbers, kinds)
    plain &= _keyed_as_expected(config, records.keys, numbers)
    if set_aside:
        plain &= ~np.isin(offsets, np.array([*set_aside], dtype=np.int64))
    rejections: list[Rejection] = []
    for at in np.flatnonzero(~plain).tolist():
        # Nothing is refused but by the judge itself.
        offset, raw_key = records.offsets[at], records.keys[at]
        code = classify(config, partition, raw_key, revisions.at(at))
        if offset in set_aside:
            code = Code.SET_ASIDE
        if code is None:
            plain[at] = True
        else:
            rejections.append(Rejection(offset, code, raw_key, records.values[at]))
    whole = Assertions(
        numbers,
        revisions.txn_ids,
        offsets,
        revisions.revisions,
        kinds,
        revisions.valid_days,
        revisions.valid_nanoseconds,
        revisions.qtys,
    )
    accepted = whole.take(np.flatnonzero(plain)) if rejections else whole
    return SliceColumns(records.start, records.until, accepted, rejections)


def one_behind_the_other(parts: Sequence[SliceColumns]) -> SliceColumns:
    """Consecutive parts as one."""
    return SliceColumns(
        parts[0].start,
        parts[-1].until,
        joined([each.accepted for each in parts]),
        [rejection for each in parts for rejection in each.rejections],
    )


def _key_numbers(config: NamespaceConfig, revisions: RevisionColumns) -> Integers:
    """The number of each record's stock key; -1 where it is not configured."""
    items = revisions.items.dictionary_encode()
    locations = revisions.locations.dictionary_encode()
    width = len(locations.dictionary)
    pairs = items.indices.to_numpy().astype(np.int64) * width + locations.indices.to_numpy()
    distinct, pair_of = np.unique(pairs, return_inverse=True)
    item_texts, location_texts = items.dictionary.to_pylist(), locations.dictionary.to_pylist()
    number_of = config.numbers.get
    numbers = [
        number_of((item_texts[pair // width], location_texts[pair % width]), -1)
        for pair in distinct.tolist()
    ]
    found: Integers = np.array(numbers, dtype=np.int64)[pair_of]
    return found


def _kind_numbers(kinds: Texts) -> Integers:
    """The number of each record's kind; 0 where it is none of them."""
    encoded = kinds.dictionary_encode()
    numbers = [KINDS.index(text) if text in KINDS else 0 for text in encoded.dictionary.to_pylist()]
    found: Integers = np.array(numbers, dtype=np.int64)[encoded.indices.to_numpy()]
    return found


def _plain(
    config: NamespaceConfig,
    partition: int,
    revisions: RevisionColumns,
    numbers: Integers,
    kinds: Integers,
) -> Flags:
    """Which records are certainly accepted as far as their values tell."""
    # One member more, which the number of an unknown key finds.
    placements = np.array([*config.placements, -1], dtype=np.int64)
    plain: Flags = revisions.sound & (placements[numbers] == partition)
    plain &= (kinds > 0) & ((kinds != CANCEL_NUMBER) | (revisions.qtys == 0))
    days, origin = revisions.valid_days, config.origin
    since = (days == origin.day) & (revisions.valid_nanoseconds >= origin.nanosecond)
    plain &= (since | (days > origin.day)) & (days <= MAX_DAY)
    plain &= revisions.revisions > 0
    plain &= lengths(revisions.txn_ids) > 0
    return plain


def _keyed_as_expected(
    config: NamespaceConfig, raw_keys: Sequence[bytes | None], numbers: Integers
) -> Flags:
    """Which records have no transport key, or certainly the one of their stock key."""
    if list(raw_keys).count(None) == len(raw_keys):
        return np.ones(len(raw_keys), dtype=np.bool_)
    expected: dict[int, bytes | None] = {-1: None}
    for number in np.unique(numbers[numbers >= 0]).tolist():
        expected[number] = config.keys[number].stock_key.encoded.encode()
    same = (
        raw_key is None or raw_key == expected[number]
        for raw_key, number in zip(raw_keys, numbers.tolist(), strict=True)
    )
    return np.fromiter(same, np.bool_, len(raw_keys))
