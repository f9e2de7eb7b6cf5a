"""An export against the heads that are known: which continue it, which does it contradict."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from amends_pipeline.bank.codes import HeadCode
from amends_pipeline.bank.export import parse_context, parse_groups
from amends_pipeline.bank.heads import (
    KnownHead,
    Stream,
    empty_digest,
    judge_export,
    judge_head,
    prefixes,
)
from amends_pipeline_tests.bank.strategies import exports, millisecond_of, stamp

HOUR = 3_600_000


def head_of(export, count):
    """The head that was handed out after so many groups, in the moment of the last receipt."""
    part = export.prefix(count)
    head = parse_context(part.context()).head
    stream = Stream(head.stream_id, head.ledger_id, head.entity_id)
    digests = [each.digest for each in prefixes(stream, parse_groups(part.groups))]
    digest = digests[-1] if digests else empty_digest(stream)
    observed = head.observed_at if part.groups else stamp(0)
    return KnownHead(int(head.head_sequence), observed, head.receipt_ref, digest), head


def judged(export, known, groups=None):
    _, head = head_of(export, len(export.groups))
    stream = Stream(head.stream_id, head.ledger_id, head.entity_id)
    offered = parse_groups(export.groups if groups is None else groups)
    return judge_export(known, head, prefixes(stream, offered))


@given(exports(), st.data())
def test_an_export_continues_every_head_of_its_own_past(export, data):
    """Unless a later group has the receipt of the moment in which the head was observed."""
    count = len(export.groups)
    counts = data.draw(st.lists(st.integers(0, count), unique=True))
    known = [head_of(export, each)[0] for each in counts]
    late = [
        each
        for each in counts
        if 0 < each < count
        and export.groups[each]["available_at"] == export.groups[each - 1]["available_at"]
    ]
    late += [
        each
        for each in counts
        if each == 0 < count and export.groups[0]["available_at"] == stamp(0)
    ]
    rejection = judged(export, known)
    if late:
        assert rejection.code == HeadCode.FORKED_HEAD
    else:
        assert rejection is None


@given(exports(), st.data())
def test_a_shorter_export_is_stale(export, data):
    count = len(export.groups)
    assume(count)
    shorter = export.prefix(data.draw(st.integers(0, count - 1)))
    known = [head_of(export, count)[0]]
    assert judged(shorter, known).code == HeadCode.STALE_HEAD


@given(exports(), st.data())
def test_any_change_of_a_group_before_a_known_head_is_a_fork(export, data):
    count = len(export.groups)
    assume(count)
    at = data.draw(st.integers(0, count - 1))
    known = [head_of(export, data.draw(st.integers(at + 1, count)))[0]]
    groups = msgspec.json.decode(msgspec.json.encode(export.groups))
    command = groups[at]["journals"][0]["command"]
    command["business_operation_id"] = "changed"
    assert judged(export, known, groups).code == HeadCode.FORKED_HEAD


@given(exports(max_groups=5))
def test_a_later_receipt_at_an_observation_is_a_fork(export):
    assume(len(export.groups) > 1)
    first, _ = head_of(export, 1)
    last = export.groups[-1]["available_at"]
    known = [first._replace(observed_at=last)]
    refused = judged(export, known)
    assert refused.code == HeadCode.FORKED_HEAD
    assert refused.expected.startswith(f"available_at after {last}")


@pytest.mark.parametrize(
    ("sequence", "moved", "code"),
    [
        (5, 0, None),
        (6, 0, None),
        (6, HOUR, None),
        (4, HOUR, HeadCode.STALE_HEAD),
        (6, -1, HeadCode.STALE_HEAD),
    ],
)
def test_a_head_alone(sequence, moved, code):
    noon = "2025-10-20T12:00:00.000Z"
    known = [KnownHead(5, noon, "R", b""), KnownHead(3, noon, "Q", b"")]
    refused = judge_head(known, sequence, stamp(millisecond_of(noon) + moved))
    assert (refused and refused.code) == code
    assert judge_head([], sequence, noon) is None
