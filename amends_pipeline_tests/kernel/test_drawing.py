"""Parts of a picture: numbers are placed exactly, and labels are round."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.kernel.drawing import (
    Legend,
    Ruler,
    Signs,
    cut,
    px,
    round_numbers,
    ruler,
    width,
)


@pytest.mark.parametrize(
    ("numbers", "labels"),
    [
        ([0, 100], [0, 20, 40, 60, 80, 100]),
        ([97_350, 100_000], [97_000, 98_000, 99_000, 100_000]),
        ([5], [4, 5, 6]),
        ([-7, 7], [-10, -5, 0, 5, 10]),
        ([0, 10**30], [each * 2 * 10**29 for each in range(6)]),
    ],
)
def test_labels_are_round_and_around_all_numbers(numbers, labels):
    assert list(ruler(numbers).labels) == labels


@given(st.lists(st.integers(-(10**40), 10**40), min_size=1))
def test_a_ruler_holds_all_numbers_and_has_few_labels(numbers):
    found = ruler(numbers)
    assert found.bottom <= min(numbers) <= max(numbers) <= found.top
    assert 2 <= len(found.labels) <= 7
    assert found.labels[-1] == found.top


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        (Ruler(0, 5, 1), (1, "units")),
        (Ruler(0, 5_000_000, 1_000_000), (10**6, "million units")),
        (Ruler(0, 5 * 10**9, 10**9), (10**9, "billion units")),
    ],
)
def test_large_labels_are_written_in_a_larger_unit(labels, told):
    assert labels.scale("units") == told


def test_round_numbers_go_on():
    assert list(islice(round_numbers(), 7)) == [1, 2, 5, 10, 20, 50, 100]


@pytest.mark.parametrize(("tenths", "pixels"), [(125, "12.5"), (120, "12"), (-5, "-0.5"), (0, "0")])
def test_tenths_of_a_pixel(tenths, pixels):
    assert px(tenths) == pixels


@given(st.text(), st.integers(20, 400))
def test_a_cut_text_fits_and_is_printable(content, room):
    kept = cut(content, 11, room)
    assert kept.isprintable()
    assert width(kept, 11) <= room


def test_a_legend_begins_a_new_row_where_the_last_one_is_full():
    legend = Legend(Signs({"line": "stroke='x'"}, {"dot": "fill='x'"}), 200)
    legend.add("line", "a line")
    first = legend.bottom
    legend.add("dot", "a dot with many words")
    legend.add("dot", "and another")
    assert legend.bottom > first
    assert len(legend.parts) == 6
