from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.kernel.sieve import Sieve

IDENTITIES = st.lists(st.tuples(st.integers(0, 5), st.text(max_size=3)), max_size=30, unique=True)


@given(st.lists(IDENTITIES, max_size=5))
def test_what_was_met_before_always_comes_through(rounds):
    sieve, met = Sieve(), set()
    for values in rounds:
        through = sieve.sift(values)
        assert [value for value in values if value in met] == [
            value for value in through if value in met
        ]
        assert set(through) <= set(values)
        met.update(values)


def test_nothing_comes_through_an_empty_one():
    assert Sieve().sift([(0, "A"), (1, "A")]) == []


def test_values_of_one_round_do_not_let_each_other_through():
    sieve = Sieve()
    assert sieve.sift([(0, f"T{number}") for number in range(100_000)]) == []


def test_few_of_a_million_new_values_come_through_by_mistake():
    sieve = Sieve()
    sieve.sift([(0, f"T{number}") for number in range(1_000_000)])
    mistakes = sieve.sift([(1, f"T{number}") for number in range(100_000)])
    assert len(mistakes) < 1_000
    assert len(sieve.sift([(0, f"T{number}") for number in range(100)])) == 100
