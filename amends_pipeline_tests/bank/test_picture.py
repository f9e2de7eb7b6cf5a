"""The picture of an account over both of its times: where things stand, whatever moved it."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.bank.export import parse_accounts, parse_groups
from amends_pipeline.bank.movements import Movement, movements
from amends_pipeline.bank.picture import HEIGHT, MARKED_CORRECTIONS, WIDTH, Story, draw
from amends_pipeline_tests.bank.situations import genesis

ADA = parse_accounts(genesis().accounts)["ADA"]
MOVED = list(movements(parse_groups(genesis().groups), ADA))
BEFORE = "2025-10-21T10:00:00.999Z"


def parsed(picture):
    return ET.fromstring(picture)  # noqa: S314 - we drew it


def told(story):
    """The texts of a picture, and its paths by class."""
    root = parsed(draw(story))
    texts = [each.text for each in root.iter() if each.tag.endswith("text")]
    paths = {}
    for each in root.iter():
        if each.tag.endswith("path") and each.get("class"):
            paths.setdefault(each.get("class"), []).append(each.get("d"))
    return texts, paths


def heights(path):
    """How far down the line goes, step by step, in pixels."""
    first, *rest = re.findall(r"(?:M[0-9.]+ |V)([0-9.]+)", path)
    return [float(first), *map(float, rest)]


def movement(sequence, effective, available, amount, kind="posting"):
    names = (f"G-{sequence}", f"J-{sequence}", kind)
    place = (available, "2026-01", sequence, sequence, None, None)
    return Movement(sequence, *names, effective, available, amount, *place)


def test_the_canonical_story_stands_where_a_ruler_puts_it():
    texts, paths = told(Story("ADA", "USD", MOVED, BEFORE))
    assert texts[:4] == [
        "ADA, USD, in minor units",
        f"as known at {BEFORE}",
        "as known now",
        "a correction became known",
    ]
    assert {"100,000", "99,000", "98,000", "97,000"} <= set(texts)
    assert {"2025-10-04", "2025-10-19"} <= set(texts)
    [then], [now, learnt] = paths["then"], paths["now"]

    def pixels(path, *balances):
        """From 100,000 at the top: the first balance, and how far down the others are from it."""
        top, *lower = heights(path)
        scale = (heights(now)[1] - heights(now)[0]) / 2_400 if path is not learnt else None
        scale = scale or (heights(learnt)[1] - heights(learnt)[0]) / 2_500
        assert lower == pytest.approx(
            [top + scale * (100_000 - each) for each in balances], abs=0.15
        )

    pixels(then, 97_500)
    pixels(now, 97_600, 97_350)
    pixels(learnt, 97_500, 97_600, 97_350)


def test_the_correction_is_marked_where_it_became_known():
    root = parsed(draw(Story("ADA", "USD", MOVED, BEFORE)))
    [dot] = [each for each in root.iter() if each.get("class") == "correction"]
    [_, learnt] = told(Story("ADA", "USD", MOVED, BEFORE))[1]["now"]
    assert f"H{dot.get('cx')}V{dot.get('cy')}" in learnt


def test_of_many_corrections_the_last_one_is_marked():
    moved = [
        movement(n, f"2025-10-01T00:00:00.{n:03}Z", f"2025-10-01T00:00:00.{n:03}Z", n, "reversal")
        for n in range(1, MARKED_CORRECTIONS + 2)
    ]
    for story, marks in ((moved[1:], MARKED_CORRECTIONS), (moved, 1)):
        root = parsed(draw(Story("ADA", "USD", story, None)))
        assert len([each for each in root.iter() if each.get("class") == "correction"]) == marks
    texts, _ = told(Story("ADA", "USD", moved, None))
    assert "the last of 31 corrections became known" in texts


def test_without_a_correction_there_is_one_line_and_no_mark():
    texts, paths = told(Story("ADA", "USD", MOVED[:2], None))
    assert texts[1:2] == ["as known now"]
    assert set(paths) == {"now"}


def test_nothing_moved_is_said():
    texts, _ = told(Story("ADA", "USD", [], None))
    assert "by economic time: no movement" in texts


def test_balances_close_to_zero_begin_at_zero_and_far_ones_do_not_look_flat():
    near, _ = told(Story("A", "USD", [movement(1, *["2025-10-01T00:00:00.000Z"] * 2, 5)], None))
    assert "0" in near
    far, _ = told(Story("ADA", "USD", MOVED, None))
    assert "0" not in far


@pytest.mark.parametrize(
    ("last", "label"),
    [
        ("2025-10-01T09:00:00.040Z", "09:00:00.020"),
        ("2025-10-01T09:00:40.000Z", "09:00:10"),
        ("2025-10-01T09:40:00.000Z", "10-01 09:10"),
        ("2025-10-02T09:40:00.000Z", "10-01 12:00"),
        ("2026-10-02T09:40:00.000Z", "2026-"),
        ("9999-12-31T23:59:59.999Z", "3338-12-15"),
    ],
)
def test_labels_are_as_exact_as_the_times_need(last, label):
    first = "2025-10-01T09:00:00.000Z"
    moved = [movement(1, first, first, 1), movement(2, last, last, 1)]
    texts, _ = told(Story("A", "USD", moved, None))
    assert any(text.startswith(label) for text in texts), texts


TIMES = st.sampled_from(
    [
        "0001-01-01T00:00:00.000Z",
        "1969-12-31T23:59:59.999Z",
        "2025-10-01T09:00:00.000Z",
        "2025-10-01T09:00:00.001Z",
        "2025-10-02T00:00:00.000Z",
        "9999-12-31T23:59:59.999Z",
    ]
)
AMOUNTS = st.integers(-(10**30), 10**30)


@given(
    st.lists(
        st.tuples(TIMES, TIMES, AMOUNTS, st.sampled_from(["posting", "reversal"])), max_size=6
    ),
    st.one_of(st.none(), TIMES),
    st.text(max_size=64),
)
def test_every_picture_is_well_formed_and_inside_its_frame(drawn, then, name):
    drawn.sort(key=lambda each: each[1])  # receipts never go back
    moved = [
        movement(number, effective, available, amount, kind)
        for number, (effective, available, amount, kind) in enumerate(drawn, 1)
    ]
    story = Story(name, "USD", moved, then)
    picture = draw(story)
    assert picture == draw(story)
    root = parsed(picture)
    assert (root.get("width"), root.get("height")) == (str(WIDTH), str(HEIGHT))
    for each in root.iter():
        for attribute, most in (("x", WIDTH), ("y", HEIGHT), ("cx", WIDTH), ("cy", HEIGHT)):
            if each.get(attribute):
                assert 0 <= float(each.get(attribute)) <= most
        for x in re.findall(r"H([0-9.]+)", each.get("d") or ""):
            assert 0 <= float(x) <= WIDTH
        for y in re.findall(r"V(-?[0-9.]+)", each.get("d") or ""):
            assert 0 <= float(y) <= HEIGHT
