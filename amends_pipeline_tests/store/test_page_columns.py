"""Many pages together are the bytes, and the rows, of each one by itself."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends_pipeline.inventory.key_columns import RowColumns, changed_rows
from amends_pipeline.inventory.refold import EVERY_DAY, KeyChange, KeyState, Rows, Span, Status
from amends_pipeline.kernel.errors import InputError
from amends_pipeline.kernel.instants import MIN_DAY
from amends_pipeline.store import arrays, keys_together, page_columns, pages
from amends_pipeline_tests.columns import as_columns

INTEGERS = (
    st.integers(-3, 3)
    | st.integers(-300, 300)
    | st.integers(-(2**63), 2**63 - 1)
    | st.builds(lambda bits, step: 2**bits + step, st.sampled_from([7, 15, 31]), st.integers(-1, 0))
)
ROWS = st.tuples(
    INTEGERS, st.integers(0, 2**40), INTEGERS, st.booleans(), st.booleans(), INTEGERS, INTEGERS
)
PAGE = st.tuples(
    st.integers(-11_237, 45_826),
    INTEGERS,
    st.dictionaries(st.integers(0, 63), ROWS, min_size=1, max_size=5),
)


def rows_of(page: int, by_day) -> Rows:
    rows = [(page * 64 + day, *rest) for day, rest in sorted(by_day.items())]
    return Rows(*map(list, zip(*rows, strict=True)))


def columns(parts) -> tuple[np.ndarray, RowColumns]:
    """The rows of all parts, and where those of each begin and end."""
    whole = Rows(*(list(chain(*each)) for each in zip(*parts, strict=True)))
    kinds = [np.bool_ if at in (4, 5) else np.int64 for at in range(8)]
    bounds = np.cumsum([0, *(len(part.days) for part in parts)])
    return bounds, RowColumns(
        *(np.array(column, dtype=kind) for column, kind in zip(whole, kinds, strict=True))
    )


def read(numbers: list[int], bodies: list[bytes]) -> page_columns.Unpacked:
    starts = np.cumsum([0, *map(len, bodies[:-1])])
    data = np.frombuffer(b"".join(bodies), np.uint8)
    return page_columns.unpacked(np.array(numbers), data, starts)


@given(st.lists(PAGE, min_size=1, max_size=6))
def test_pages_together_are_packed_and_unpacked_as_each_one_is(drawn):
    numbers, before = [page for page, _, _ in drawn], [entering for _, entering, _ in drawn]
    parts = [rows_of(page, by_day) for page, _, by_day in drawn]
    bounds, rows = columns(parts)
    bodies = [pages.encode(*each) for each in zip(numbers, before, parts, strict=True)]
    packed = page_columns.packed(np.array(numbers), np.array(before), bounds, rows)
    assert bytes(packed) == bytes(arrays.blobs(bodies))
    unpacked = read(numbers, bodies)
    assert not unpacked.odd.any()
    assert unpacked.before.tolist() == before
    assert unpacked.bounds.tolist() == bounds.tolist()
    for column, expected in zip(unpacked.rows, rows, strict=True):
        assert column.dtype == expected.dtype
        assert column.tolist() == expected.tolist()


WIDE = pages.encode(1, 5, rows_of(1, {3: (2**63, 1, 5, True, False, 1, 0)}))
WIDELY_ENTERED = pages.encode(1, 2**63, rows_of(1, {3: (1, 1, 5, True, False, 1, 0)}))
PLAIN = pages.encode(1, 5, rows_of(1, {3: (1, 1, 5, True, False, 1, 0), 9: (2,) * 7}))
NEWER = b"\x02" + PLAIN[1:]
CUT = b"\x01\x3f\x7f\xff"


@pytest.mark.parametrize("odd", [WIDE, WIDELY_ENTERED, NEWER, CUT])
def test_pages_that_columns_do_not_hold_are_told_from_the_others(odd):
    """Wide numbers, another format, and bytes that lead beyond the last one."""
    unpacked = read([1, 1, 1], [PLAIN, PLAIN, odd])
    assert unpacked.odd.tolist() == [False, False, True]
    assert unpacked.bounds.tolist() == [0, 2, 4, 4]
    assert unpacked.rows.days.tolist() == [67, 73, 67, 73]
    unpacked = read([1, 1, 1], [odd, PLAIN, PLAIN])
    assert unpacked.odd[0]
    assert unpacked.rows.days.tolist() == [67, 73, 67, 73]


# --- what changes write

DAYS = st.dictionaries(st.integers(-300, 300), ROWS, max_size=12)


@st.composite
def changed(draw) -> dict[int, KeyChange]:
    changes = {}
    for key in sorted(draw(st.sets(st.integers(0, 9), max_size=4))):
        by_day = draw(DAYS)
        rows = [(day, *rest) for day, rest in sorted(by_day.items())]
        of_key = Rows(*map(list, zip(*rows, strict=True))) if rows else Rows.none()
        span = sorted(draw(st.tuples(*[st.integers(0, len(rows))] * 2)))
        state = KeyState(key, 7, 60, Status.READY, 1, (), 100, draw(INTEGERS), EVERY_DAY, of_key)
        changes[key] = KeyChange(state, Span(*span), draw(st.booleans()))
    return changes


@pytest.mark.parametrize("at_once", [1, 5, keys_together.ROWS_AT_ONCE])
@given(changed())
def test_changes_as_columns_write_the_pages_that_they_write_one_by_one(at_once, changes):
    together = as_columns(changes)
    assert dict(together) == changes
    rows = sum(stop - start for _, (start, stop), _ in changes.values())
    assert changed_rows(together) == changed_rows(changes) == rows
    expected = pages.writes({key: [change] for key, change in changes.items()})
    written = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys_together, "ROWS_AT_ONCE", at_once)
        for part in keys_together.runs(keys_together.touched_pages(together)):
            bodies = page_columns.packed(part.pages, part.before, part.bounds, part.rows)
            written.append((part.keys.tolist(), part.pages.tolist(), bytes(bodies)))
            assert len(part.keys) == 1 or part.bounds[-1] <= at_once
    assert [key for keys, _, _ in written for key in keys] == [key for key, _, _ in expected]
    assert [page for _, each, _ in written for page in each] == [page for _, page, _ in expected]
    bodies = [body for _, _, body in expected]
    for keys, _, packed in written:
        assert packed == bytes(arrays.blobs(bodies[: len(keys)]))
        bodies = bodies[len(keys) :]


def test_a_page_of_which_days_were_left_out_is_not_written():
    rows = rows_of(0, {9: (1, 1, 5, True, False, 1, 0)})
    part = KeyState(0, 7, 60, Status.READY, 1, (), 100, 7, 3, rows)
    with pytest.raises(InputError, match="all days of a page"):
        keys_together.touched_pages(as_columns({0: KeyChange(part, Span(0, 1))}))
    whole = part._replace(loaded_from=0)
    assert len(keys_together.touched_pages(as_columns({0: KeyChange(whole, Span(0, 1))})).keys) == 1


def test_the_page_on_which_the_calendar_begins_is_written():
    rows = Rows([MIN_DAY], [1], [1], [8], [True], [False], [1], [0])
    whole = KeyState(0, 7, 60, Status.READY, 1, (), 100, 7, EVERY_DAY, rows)
    pages_ = keys_together.touched_pages(as_columns({0: KeyChange(whole, Span(0, 1))}))
    assert pages_.pages.tolist() == [pages.page_of(MIN_DAY)]
    late = whole._replace(loaded_from=EVERY_DAY + 1)
    with pytest.raises(InputError, match="all days of a page"):
        keys_together.touched_pages(as_columns({0: KeyChange(late, Span(0, 1))}))


@given(changed())
def test_first_pages_are_those_of_the_first_days(changes):
    found = keys_together.first_pages(as_columns(changes).columns).tolist()
    expected = [
        pages.page_of(change.state.rows.days[0]) if change.state.rows.days else pages.NO_PAGE
        for change in changes.values()
    ]
    assert found == expected
