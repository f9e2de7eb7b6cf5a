"""`tower`: sensors over a ledger without a namespace; `main`: over one record that waits."""

from __future__ import annotations

import time

import pytest

from amends_pipeline.defs.inventory import looking, refreshing
from amends_pipeline_tests.defs.sensors.tower import A, Tower
from amends_pipeline_tests.tables import configuration


@pytest.fixture
def tower(ledger, instance, monkeypatch):
    """A tower over a ledger without a namespace; its clock begins now."""
    tower = Tower(ledger, instance, time.time())
    for module in (looking, refreshing):
        monkeypatch.setattr(module, "seconds_now", lambda: int(tower.now))
    return tower


@pytest.fixture
def main(tower):
    """A tower over namespace `main`, one partition, one record waiting."""
    tower.provision(configuration())
    tower.append(A)
    return tower
