"""The resource that production uses: a server, found by the environment, opened when needed."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import psycopg
import pytest
from psycopg import sql

from amends_pipeline.bank.heads import Stream
from amends_pipeline.defs.resources import BankResource, LedgerResource
from amends_pipeline.flows.bank_open import open_stream
from amends_pipeline.flows.provision import provision
from amends_pipeline.inventory.config import parse_configuration
from amends_pipeline.kernel.errors import DatabaseUnavailable
from amends_pipeline.store.server import HOME_VARIABLE, URL_VARIABLE
from amends_pipeline_tests.defs.conftest import Office, resource_over
from amends_pipeline_tests.tables import configuration

PASSWORD = "hunter2-and-more"


@pytest.fixture
def resource(postgres_server):
    """A resource over a database of its own on the private server, dropped after the test."""
    name = "defs_resource"
    yield LedgerResource(database=name)
    with psycopg.connect(postgres_server.lease.url("postgres"), autocommit=True) as connection:
        drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
        connection.execute(drop.format(sql.Identifier(name)))


def test_the_ledger_is_opened_anew_and_keeps_what_was_committed(resource):
    config = parse_configuration(configuration())
    with resource.open() as ledger:
        provision(ledger, config)
    with resource.open() as ledger:
        assert ledger.store.info("main").digest == config.digest


def test_the_journal_of_the_bank_is_in_the_same_database(resource, tmp_path, monkeypatch):
    bank = BankResource(database=resource.database)
    with bank.open() as journal:
        open_stream(journal, Stream("CB-MAIN", "CB-GENERAL", "CB-A"), [])
    with resource.open() as ledger:
        assert [each.stream.stream_id for each in ledger.bank.streams()] == ["CB-MAIN"]
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    assert bank.folder("CB-MAIN") == tmp_path / "bank" / "CB-MAIN"
    assert BankResource(home="elsewhere").folder("X") == Path("elsewhere/bank/X").absolute()


def test_a_run_finds_the_ledger_by_itself(resource, instance, monkeypatch):
    with resource.open() as ledger:
        office = Office(ledger, instance)
        office.provision(configuration())
        office.append("A r1 NEW day 1 -50")
    monkeypatch.setattr("amends_pipeline_tests.defs.conftest.resource_over", lambda _: resource)
    assert office.backfill().check().passed


def test_a_server_that_does_not_answer_fails_the_run_without_the_password(
    main, monkeypatch, tmp_path
):
    url = f"postgresql://amends:{PASSWORD}@127.0.0.1:1/amends?connect_timeout=2"
    monkeypatch.setenv(URL_VARIABLE, url)
    with pytest.raises(DatabaseUnavailable), LedgerResource().open():
        pass
    monkeypatch.setattr(
        "amends_pipeline_tests.defs.conftest.resource_over", lambda _: LedgerResource()
    )
    run = main.refold()
    assert run.failure("worker")[1]["error"] == "DatabaseUnavailable"
    verdict = main.verify()
    assert verdict.check().metadata["status"].value == "ERROR"
    for each in (run, verdict):
        stored = main.instance.all_logs(each.result.run_id)
        assert len(stored) > 5
        assert PASSWORD not in "".join(map(str, stored))
        assert PASSWORD not in str(main.instance.get_run_by_id(each.result.run_id))


def test_a_ledger_that_is_open_already_is_handed_out_and_stays_open():
    class Ledger:
        closed = False

    ledger = Ledger()
    resource = resource_over(ledger)
    assert isinstance(resource, dg.ConfigurableResource)
    with resource.open() as first, resource.open() as second:
        assert first is second is ledger
