"""A commit that begins when the evidence is known, and waits for the rest of the decision."""

from __future__ import annotations

from dataclasses import replace

import pytest

from amends_pipeline.kernel.errors import Fenced, FrontierMoved
from amends_pipeline_tests.contracts.test_commit import (
    AUTHORITIES,
    ancient,
    assert_everything,
    everything,
    in_columns,
)
from amends_pipeline_tests.envelopes import batch

__all__ = ["ancient"]  # a fixture is found by its name


def begun(given):
    """The evidence of a decision, without what follows from it."""
    return replace(given, keys={}, envelopes=batch([]))


@pytest.mark.parametrize("shaped", [lambda each: each, in_columns], ids=["values", "columns"])
def test_what_was_begun_comes_back_as_a_whole(ancient, shaped):
    whole = shaped(everything())
    ancient.store.commit_begun(ancient.claim(), begun(whole), lambda: whole)
    assert_everything(ancient)


@pytest.mark.parametrize("shaped", [lambda each: each, in_columns], ids=["values", "columns"])
def test_of_what_was_begun_in_vain_nothing_stays(ancient, shaped):
    def in_vain():
        raise LookupError

    token, whole = ancient.claim(), shaped(everything())
    with pytest.raises(LookupError):
        ancient.store.commit_begun(token, begun(whole), in_vain)
    assert ancient.progress().next_offset == 0
    assert dict(ancient.store.authorities(ancient.unit(), AUTHORITIES)) == {}
    ancient.store.commit_begun(token, begun(whole), lambda: whole)
    assert_everything(ancient)


def test_nothing_is_begun_where_it_could_not_end(ancient):
    def never():
        pytest.fail("nobody may wait for this")

    token, whole = ancient.claim(), in_columns(everything())
    later = replace(begun(whole), start=1)
    with pytest.raises(FrontierMoved):
        ancient.store.commit_begun(token, later, never)
    ancient.claim()
    with pytest.raises(Fenced):
        ancient.store.commit_begun(token, begun(whole), never)
