from __future__ import annotations

import pytest

from amends_pipeline.kernel.remembered import Remembered


def test_a_result_is_worked_out_once():
    calls = []
    double = Remembered(lambda number: calls.append(number) or number * 2, limit=10)
    assert [double[3], double[4], double[3]] == [6, 8, 6]
    assert calls == [3, 4]


def test_no_more_results_than_the_limit_are_kept():
    double = Remembered(lambda number: number * 2, limit=3)
    for number in range(10):
        assert double[number] == number * 2
        assert len(double) <= 3
    assert double[0] == 0


def test_what_the_function_raises_is_not_kept():
    inverse = Remembered(lambda number: 12 // number, limit=3)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            inverse[0]
    assert len(inverse) == 0
