from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.kernel.sieve import Sieve, hashes

IDENTITIES = st.lists(st.tuples(st.integers(0, 5), st.text(max_size=3)), max_size=30, unique=True)


def through(sieve, values):
    """Those of the values that come through."""
    numbers = np.array([number for number, _ in values], dtype=np.int64)
    met = sieve.sift(hashes(numbers, [text for _, text in values]))
    return [value for value, each in zip(values, met.tolist(), strict=True) if each]


@given(st.lists(IDENTITIES, max_size=5))
def test_what_was_met_before_always_comes_through(rounds):
    sieve, met = Sieve(), set()
    for values in rounds:
        came = through(sieve, values)
        assert [value for value in values if value in met] == [
            value for value in came if value in met
        ]
        assert set(came) <= set(values)
        met.update(values)


def test_nothing_comes_through_an_empty_one():
    assert through(Sieve(), [(0, "A"), (1, "A")]) == []


def test_values_of_one_round_do_not_let_each_other_through():
    sieve = Sieve()
    assert through(sieve, [(0, f"T{number}") for number in range(100_000)]) == []


def test_few_of_a_million_new_values_come_through_by_mistake():
    sieve = Sieve()
    through(sieve, [(0, f"T{number}") for number in range(1_000_000)])
    mistakes = through(sieve, [(1, f"T{number}") for number in range(100_000)])
    assert len(mistakes) < 1_000
    assert len(through(sieve, [(0, f"T{number}") for number in range(100)])) == 100
