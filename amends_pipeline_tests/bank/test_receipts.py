"""Receipts and observations stay in order under every clock; references follow from content."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.bank.export import parse_group
from amends_pipeline.bank.grammar import is_identifier, is_timestamp
from amends_pipeline.bank.heads import (
    Stream,
    empty_digest,
    extended,
    millisecond_after,
    prefixes,
    receipt_ref,
    trusted,
)
from amends_pipeline.bank.receipts import (
    NO_RECEIPT,
    Standing,
    decide_head,
    decide_receipts,
    stamped,
    with_receipt,
)
from amends_pipeline.kernel.errors import CounterExhausted
from amends_pipeline_tests.bank.strategies import MAX_MILLISECOND, exports, millisecond_of, stamp

STREAM = Stream("S", "L", "E")
NEW = Standing(STREAM, 0, 0, None, None, None, empty_digest(STREAM))


@pytest.mark.parametrize(
    ("timestamp", "after"),
    [
        ("2025-12-31T23:59:59.999Z", "2026-01-01T00:00:00.000Z"),
        ("0001-01-01T00:00:00.000Z", "0001-01-01T00:00:00.001Z"),
        ("2024-02-28T23:59:59.999Z", "2024-02-29T00:00:00.000Z"),
        ("9999-12-31T23:59:59.998Z", "9999-12-31T23:59:59.999Z"),
    ],
)
def test_the_next_millisecond(timestamp, after):
    assert millisecond_after(timestamp) == after


def test_there_is_no_moment_after_the_last():
    with pytest.raises(
        CounterExhausted, match="expected a later moment, found 9999-12-31T23:59:59"
    ):
        millisecond_after("9999-12-31T23:59:59.999Z")


@given(st.integers(0, MAX_MILLISECOND - 1))
def test_every_moment_but_the_last_has_a_next_one(millisecond):
    after = millisecond_after(stamp(millisecond))
    assert millisecond_of(after) == millisecond + 1
    assert is_timestamp(after)


clocks = st.integers(0, MAX_MILLISECOND - 1_000).map(stamp)


@given(exports(max_groups=6), st.data())
def test_receipts_and_observations_stay_in_order_whatever_the_clock_says(export, data):
    """Groups become committed, stamped and observed in any rhythm, by a clock that jumps."""
    waiting = [with_receipt(parse_group(each), NO_RECEIPT) for each in export.groups]
    if waiting and waiting[-1].journals[-1].recorded_at > stamp(MAX_MILLISECOND - 1_000):
        return
    standing, shown, pending, observations = NEW, [], [], []
    while waiting or pending:
        for _ in range(data.draw(st.integers(0, len(waiting)))):
            pending.append(waiting.pop(0))
            last = pending[-1].journals[-1]
            standing = standing._replace(
                last_sequence=int(last.sequence), recorded_at=last.recorded_at
            )
        receipts = decide_receipts(standing, pending, data.draw(clocks))
        shown += [with_receipt(*pair) for pair in zip(pending, receipts_of(receipts), strict=True)]
        standing, pending = stamped(standing, receipts), []
        if data.draw(st.booleans()):
            head = decide_head(standing, data.draw(clocks))
            observations.append((head, len(shown)))
            standing = standing._replace(observed_at=head.observed_at)

    moments = [group.available_at for group in shown]
    assert moments == sorted(moments)
    assert all(group.journals[-1].recorded_at <= group.available_at for group in shown)
    assert [head.observed_at for head, _ in observations] == sorted(
        head.observed_at for head, _ in observations
    )
    chain = [empty_digest(STREAM), *(each.digest for each in prefixes(STREAM, shown))]
    for head, count in observations:
        assert all(moment <= head.observed_at for moment in moments[:count])
        assert all(moment > head.observed_at for moment in moments[count:])
        assert head.digest == chain[count]


def receipts_of(receipts):
    return [receipt.available_at for receipt in receipts]


def test_nothing_to_stamp_changes_nothing():
    assert decide_receipts(NEW, [], stamp(0)) == []
    assert stamped(NEW, []) == NEW
    assert NO_RECEIPT == ""


# --- references


def test_a_reference_is_an_identifier_that_names_stream_sequence_and_content():
    references = {
        receipt_ref(stream_id, sequence, digest)
        for stream_id in ("S", "T", "x" * 64)
        for sequence in (0, 1, 10**30 - 1)
        for digest in (bytes(32), bytes([1] * 32))
    }
    assert len(references) == 18
    assert all(is_identifier(reference) for reference in references)


def test_the_digest_of_nothing_names_the_stream_and_its_scope():
    names = [Stream(*letters) for letters in ("SLE", "TLE", "SXE", "SLX")]
    assert len({empty_digest(stream) for stream in names}) == 4


@given(exports(max_groups=4))
def test_a_head_is_shown_as_the_trusted_context_has_it(export):
    groups = [parse_group(each) for each in export.groups]
    digest, known = empty_digest(STREAM), NEW
    for group in groups:
        digest = extended(digest, group)
        known = known._replace(
            stamped_sequence=int(group.journals[-1].sequence),
            available_at=group.available_at,
            digest=digest,
        )
    head = trusted(STREAM, decide_head(known, stamp(0)))
    assert (head.stream_id, head.ledger_id, head.entity_id) == STREAM
    assert head.head_sequence == str(known.stamped_sequence)
    assert head.observed_at == (groups[-1].available_at if groups else stamp(0))
    assert head.receipt_ref == receipt_ref("S", known.stamped_sequence, digest)
