"""Homes for private servers; the session's own server is in the root's conftest."""

from __future__ import annotations

import shutil

import pytest

from amends_pipeline.store.embedded import Lease
from amends_pipeline_tests.conftest import SETTINGS, make_home, remove_home
from amends_pipeline_tests.store.embedded.programs import is_gone, tell


@pytest.fixture
def home():
    """An empty home."""
    folder = make_home()
    yield folder
    remove_home(folder)


@pytest.fixture(scope="module")
def lived_in():
    """A home with data, whose server starts in a tenth of a second."""
    folder = make_home()
    with Lease(folder, 0.0, SETTINGS) as lease:
        tell(lease, "create table kept as select 7 as number")
    assert is_gone(folder)
    yield folder
    remove_home(folder)


@pytest.fixture
def furnish(lived_in):
    """Copy the data into another home, which is quicker than to make data there."""

    def copy(home):
        shutil.copytree(lived_in / "postgres" / "data", home / "postgres" / "data")
        (home / "postgres").chmod(0o711)
        return home

    return copy


@pytest.fixture
def lease(lived_in):
    with Lease(lived_in, 0.0, SETTINGS) as lease:
        yield lease
    assert is_gone(lived_in)
