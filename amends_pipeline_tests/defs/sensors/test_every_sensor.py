"""What holds for all sensors: that they run, and what they do without a database."""

from __future__ import annotations

from contextlib import contextmanager

import dagster as dg
import pytest

from amends_pipeline.definitions import defs
from amends_pipeline.defs.inventory import sensors
from amends_pipeline.defs.inventory.refreshing import moved_views
from amends_pipeline.defs.resources import LedgerResource
from amends_pipeline.kernel.errors import DatabaseUnavailable


def test_all_sensors_run_by_themselves_and_at_an_interval_that_the_daemon_keeps():
    assert {each.name for each in defs.sensors} == {
        "new_records",
        "stale_verdicts",
        "landed_files",
        "moved_views",
        "moved_heads",
    }
    for sensor in defs.sensors:
        assert sensor.default_status is dg.DefaultSensorStatus.RUNNING
        # The daemon looks every 5 s: an interval of exactly that would miss every other turn.
        assert sensor.minimum_interval_seconds % 5 == 4
        # What the UI shows is what the description says.
        low = sensor.minimum_interval_seconds
        assert f", every {low} to {low + 1} s, " in sensor.description


class Broken(LedgerResource):
    """A ledger that nobody can open."""

    @contextmanager
    def open(self):
        raise DatabaseUnavailable(
            "AMENDS_POSTGRES_URL", expected="a server", found="postgresql://x:secret@host/"
        )
        yield


@pytest.mark.parametrize("sensor", [sensors.new_records, sensors.stale_verdicts, moved_views])
def test_without_a_database_a_sensor_says_so(main, sensor):
    result = main.tick(sensor, Broken())
    assert result.skip_reason.skip_message == (
        "AMENDS_POSTGRES_URL: expected a server, found postgresql://x:***@host/"
    )


class Faulty(LedgerResource):
    """A ledger with a defect."""

    @contextmanager
    def open(self):
        raise ZeroDivisionError("postgresql://x:secret@host/")
        yield


def test_a_defect_fails_the_tick_without_a_password(main):
    with pytest.raises(dg.Failure) as caught:
        main.tick(resource=Faulty())
    assert caught.value.description == "ZeroDivisionError: postgresql://x:***@host/"
