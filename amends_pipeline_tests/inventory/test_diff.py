from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.inventory.diff import Causes, Change, reconcile
from amends_pipeline.inventory.envelope import Type
from amends_pipeline.inventory.refold import EVERY_DAY, Rows, Span

NOTHING = (0, False, False)


def rows(*days: tuple[int, bool, bool], versions: list[int] | None = None) -> Rows:
    """Rows of days 1, 2, 3 … from (close, present, alerting)."""
    closes, present, alerting = map(list, zip(*days, strict=True))
    count = len(days)
    held = versions or [0] * count
    numbers = list(range(1, count + 1))
    return Rows(numbers, [0] * count, [0] * count, closes, present, alerting, held, list(held))


def told(publications) -> list[str]:
    return [
        f"{Type(p.type).name} day {p.day} v{p.version} {p.close}" for p in publications.one_by_one()
    ]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (NOTHING, NOTHING, []),
        (NOTHING, (50, True, False), ["BALANCE_STATED day 1 v5 50"]),
        (
            NOTHING,
            (50, True, True),
            ["ALERT_RAISED day 1 v5 50", "BALANCE_STATED day 1 v5 50"],
        ),
        ((50, True, False), (50, True, False), []),
        ((50, True, True), (50, True, True), []),
        ((50, True, False), (70, True, False), ["BALANCE_STATED day 1 v5 70"]),
        (
            (50, True, True),
            (55, True, True),
            ["ALERT_RAISED day 1 v5 55", "BALANCE_STATED day 1 v5 55"],
        ),
        ((50, True, False), (50, True, True), ["ALERT_RAISED day 1 v5 50"]),
        ((50, True, True), (50, True, False), ["ALERT_RETRACTED day 1 v5 0"]),
        (
            (50, True, True),
            (70, True, False),
            ["ALERT_RETRACTED day 1 v5 0", "BALANCE_STATED day 1 v5 70"],
        ),
        ((50, True, False), (50, False, False), ["BALANCE_RETRACTED day 1 v5 0"]),
        (
            (50, True, True),
            (100, False, False),
            ["ALERT_RETRACTED day 1 v5 0", "BALANCE_RETRACTED day 1 v5 0"],
        ),
        ((50, False, False), (70, False, False), []),  # a carried balance is not published
    ],
)
def test_only_what_differs_is_published_under_the_next_version(old, new, expected):
    versioned, published = reconcile(rows(old, versions=[4]), rows(new, versions=[4]), Span(0, 1))
    assert told(published) == expected
    families = {line.split("_")[0] for line in expected}
    assert versioned.alert_versions == [5 if "ALERT" in families else 4]
    assert versioned.balance_versions == [5 if "BALANCE" in families else 4]


def test_alerts_come_before_balances_and_each_by_day():
    old = rows((50, True, True), (30, True, False), (80, True, False))
    new = rows((70, True, False), (50, True, True), (100, True, False))
    versioned, published = reconcile(old, new, Span(0, 3))
    assert told(published) == [
        "ALERT_RETRACTED day 1 v1 0",
        "ALERT_RAISED day 2 v1 50",
        "BALANCE_STATED day 1 v1 70",
        "BALANCE_STATED day 2 v1 50",
        "BALANCE_STATED day 3 v1 100",
    ]
    assert versioned.alert_versions == [1, 1, 0]
    assert versioned.balance_versions == [1, 1, 1]
    assert new.balance_versions == [0, 0, 0]  # what was handed in stays as it was


def test_rows_outside_the_span_are_not_looked_at():
    old, new = rows(NOTHING, NOTHING, NOTHING), rows(*[(1, True, False)] * 3)
    versioned, published = reconcile(old, new, Span(1, 2))
    assert told(published) == ["BALANCE_STATED day 2 v1 1"]
    assert versioned.balance_versions == [0, 1, 0]


outputs = st.tuples(st.integers(-2, 2), st.booleans(), st.booleans())


def looked_at(old: tuple, new: tuple, day: int, version: int) -> list[tuple[int, str]]:
    """What one row publishes, as (0 for an alert, 1 for a balance; the publication)."""
    found = []
    for family, name, said, unsaid, stated in (
        (0, "ALERT", "RAISED", "RETRACTED", 2),
        (1, "BALANCE", "STATED", "RETRACTED", 1),
    ):
        if new[stated] and (not old[stated] or old[0] != new[0]):
            found.append((family, f"{name}_{said} day {day} v{version} {new[0]}"))
        if old[stated] and not new[stated]:
            found.append((family, f"{name}_{unsaid} day {day} v{version} 0"))
    return found


@given(st.lists(st.tuples(outputs, outputs, st.integers(0, 3)), min_size=1), st.data())
def test_columns_publish_what_a_look_at_each_row_does(pairs, draw):
    old, new, versions = map(list, zip(*pairs, strict=True))
    start = draw.draw(st.integers(0, len(pairs)))
    span = Span(start, draw.draw(st.integers(start, len(pairs))))
    versioned, published = reconcile(
        rows(*old, versions=versions), rows(*new, versions=versions), span
    )
    expected = [
        each
        for i in range(*span)
        for each in looked_at(old[i], new[i], day=i + 1, version=versions[i] + 1)
    ]
    assert told(published) == [text for _, text in sorted(expected, key=lambda each: each[0])]
    for family, found in ((0, versioned.alert_versions), (1, versioned.balance_versions)):
        moved = {int(text.split()[2]) for which, text in expected if which == family}
        assert found == [version + (i in moved) for i, version in enumerate(versions, start=1)]


@pytest.mark.parametrize(
    ("changes", "causes"),
    [
        # causes of days 1, 2, 3, 4; None: nothing on or before that day changed
        ([(1, 0)], [0, 0, 0, 0]),
        ([(3, 0)], [None, None, 0, 0]),
        ([(3, 0), (1, 1)], [1, 1, 1, 1]),  # the later record is the cause of all after it
        ([(1, 0), (3, 1)], [0, 0, 1, 1]),
        ([(2, 0), (2, 4), (1, 2)], [2, 4, 4, 4]),
        ([(1, 5), (2, 3), (4, 7)], [5, 5, 5, 7]),
        ([(EVERY_DAY, 2), (3, 6)], [2, 2, 6, 6]),
    ],
)
def test_the_cause_is_the_last_record_that_changed_that_day_or_an_earlier_one(changes, causes):
    found = Causes([Change(*change) for change in changes])
    assert [
        found.of(day) if cause is not None else None for day, cause in enumerate(causes, start=1)
    ] == causes


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 9)), min_size=1),
    st.integers(1, 6),
)
def test_causes_equal_a_look_at_every_change(changes, day):
    earlier = [record for changed, record in changes if changed <= day]
    if earlier:
        found = Causes([Change(*change) for change in changes])
        assert found.of(day) == max(earlier)
        assert found.of_each([day, 6]) == [max(earlier), max(record for _, record in changes)]
