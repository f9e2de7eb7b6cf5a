"""Transactions of a batch are numbered as they appear, and found in another by hash and text."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amends_pipeline.inventory import identities as module
from amends_pipeline.inventory.assertions import assertions
from amends_pipeline.inventory.authority import Accepted, Authority, Candidate
from amends_pipeline.inventory.identities import Identities, found_among

PAIRS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["A", "B", "C", "", "\u00e9"])))
SAID = Candidate(1, "NEW", 5, 0, 1)


def batch(pairs):
    return Identities(assertions([Accepted(*pair, at, SAID) for at, pair in enumerate(pairs)]))


def named(identities, at=None):
    at = np.arange(len(identities)) if at is None else at
    return list(zip(identities.keys[at].tolist(), identities.texts(at).to_pylist(), strict=True))


def poor(numbers, texts):
    """A hash that does not tell keys from each other, nor most texts."""
    return np.fromiter((len(text) for text in texts), np.uint64, len(numbers))


@pytest.mark.parametrize("hashed", [module.hashes, poor])
@given(pairs=PAIRS)
@example(pairs=[(0, "A"), (1, "A"), (0, "A")])
@example(pairs=[(0, "A"), (0, "B"), (0, "A")])
def test_they_are_numbered_in_the_order_in_which_they_first_appear(pairs, hashed):
    distinct = list(dict.fromkeys(pairs))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "hashes", hashed)
        identities = batch(pairs)
    assert sorted(identities.hashes.tolist()) == identities.hashes[identities.by_hash].tolist()
    assert named(identities) == distinct
    assert identities.of.tolist() == [distinct.index(pair) for pair in pairs]
    assert identities.firsts.tolist() == [pairs.index(pair) for pair in distinct]


@given(PAIRS, PAIRS, st.data())
def test_those_of_another_batch_are_found(pairs, others, data):
    here, there = batch(pairs), batch(others)
    wanted = np.array(sorted(data.draw(st.sets(st.integers(0, max(len(here) - 1, 0))))), dtype=int)
    wanted = wanted[: len(here)]
    found_here, found_there = here.among(there, wanted)
    expected = [pair for pair in named(here, wanted) if pair in others]
    assert named(here, found_here) == expected
    assert named(there, found_there) == expected


@pytest.mark.parametrize("others", [[(0, "B")], [(1, "A")], [(0, "B"), (0, "A")]])
def test_equal_hashes_prove_nothing(monkeypatch, others):
    def same(numbers, _):
        return np.zeros(len(numbers), dtype=np.uint64)

    monkeypatch.setattr(module, "hashes", same)
    here = batch([(0, "A")])
    assert here.among(batch([(0, "A")]), np.array([0])) is not None
    assert here.among(batch(others), np.array([0])) is None


def test_what_is_known_stands_at_the_position_where_it_was_asked_for():
    def stands(txn_id, *, conflicted=False):
        return Authority(Candidate(1, "NEW", 5, 0, ord(txn_id)), ord(txn_id), conflicted=conflicted)

    known = {(1, "C"): stands("C", conflicted=True), (0, "A"): stands("A"), (9, "Z"): stands("Z")}
    found = found_among([(0, "C"), (0, "A"), (1, "A"), (1, "C")], known)
    assert found.at.tolist() == [1, 3]
    assert list(found.authorities.items()) == [
        ((0, "A"), stands("A")),
        ((1, "C"), stands("C", conflicted=True)),
    ]
    (last,) = found.authorities.take(np.array([1])).items()
    assert last == ((1, "C"), stands("C", conflicted=True))
