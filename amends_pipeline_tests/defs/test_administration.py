"""The jobs that make and remove namespaces, and a rebuild from its beginning to its end."""

from __future__ import annotations

import json

import pytest

from amends_pipeline.defs.partitions import NAMESPACE
from amends_pipeline.ports import Role, Unit
from amends_pipeline_tests.defs.conftest import on_both
from amends_pipeline_tests.tables import configuration

ROLL_UP = "every_unit_is_verified"
NEW = {"from_namespace": "main", "new_namespace": "new"}


def partitions(office) -> list[str]:
    return sorted(office.instance.get_dynamic_partitions(NAMESPACE))


def namespaces(office) -> dict[str, bool]:
    """All of them, and whether they follow."""
    return {info.namespace: info.follows for info in office.ledger.store.namespaces()}


@on_both
def test_a_backfill_of_all_units_rebuilds_a_namespace_which_follows_once_it_is_verified(office):
    document = configuration(partitions=2)
    document["keys"][1]["partition"] = 1
    office.provision(document)
    office.append("A r1 NEW day 1 -50; b/B r1 NEW day 1 -30; A r2 AMEND day 1 -30")
    for unit in ("main|p0", "main|p1"):
        office.backfill(unit)
    assert office.administer("provision_namespace", **NEW).success
    assert partitions(office) == ["main", "new"]
    assert namespaces(office) == {"main": True, "new": False}

    first = office.backfill("new|p0")
    assert first.check().passed
    assert namespaces(office)["new"] is False
    office.append("b/C r1 NEW day 2 -5")  # it comes for all namespaces, before the last unit
    second = office.backfill("new|p1")
    assert second.check().passed
    assert namespaces(office) == {"main": True, "new": True}
    assert second.check(ROLL_UP).metadata["counted_units"].value == 4
    assert office.ledger.operations.current("depot-feed-1") == "main"
    seen = []
    office.refold("main|p1")
    for name in ("main", "new"):
        with office.ledger.store.snapshot(name) as snapshot:
            seen.append([(row.key, row.type, row.day, row.close) for row in snapshot.visible()])
    assert seen[0] == seen[1]


def test_a_unit_that_drifted_keeps_a_rebuilt_namespace_from_following(main):
    main.append("A r1 NEW day 1 -50; malformed")
    main.administer("provision_namespace", **NEW)
    assert not main.backfill("new|p0").check().passed  # exclusions that nobody accepted
    assert namespaces(main)["new"] is False
    manifest = {"rejections": [{"partition": 0, "offset": 1, "code": "MALFORMED"}]}
    main.ledger.operations.store_manifest("new", json.dumps(manifest))
    assert main.verify("new|p0").check().passed
    assert namespaces(main)["new"] is True


def test_a_rebuild_may_have_another_configuration_by_document_or_by_file(main, tmp_path):
    document = configuration(keys="abc", opening=7)
    (tmp_path / "config.json").write_text(json.dumps(document))
    path = str(tmp_path / "config.json")
    assert main.administer("provision_namespace", **NEW, configuration=document).success
    by_file = {"from_namespace": "main", "new_namespace": "newer", "configuration_path": path}
    assert main.administer("provision_namespace", **by_file).success
    for name in ("new", "newer"):
        assert {key.opening_balance for key in main.ledger.store.config(name).keys} == {7}
    both = main.administer(
        "provision_namespace", **NEW, configuration=document, configuration_path=path
    )
    assert both.failure("provision")[0] == (
        "configuration, configuration_path: expected one of them or none, found both"
    )


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ({"from_namespace": "ghost", "new_namespace": "new"}, "UnknownNamespace"),
        ({"from_namespace": "main", "new_namespace": "a|b"}, "ConfigurationError"),
        ({"from_namespace": "main", "new_namespace": "\u202enew\x1b"}, "ConfigurationError"),
        ({**NEW, "configuration": {"keys": "none"}}, "ConfigurationError"),
        ({**NEW, "configuration": configuration(partitions=3)}, "ConfigurationError"),
        ({**NEW, "configuration_path": "/nowhere/config.json"}, "ConfigurationError"),
    ],
)
def test_what_cannot_be_made_fails_clearly_and_leaves_nothing(main, config, error):
    run = main.administer("provision_namespace", **config)
    description, parts = run.failure("provision")
    assert parts["error"] == error
    assert description.isprintable()
    assert partitions(main) == ["main"]
    assert namespaces(main) == {"main": True}


def test_a_job_that_was_killed_may_be_run_again(main, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("amends_pipeline.defs.inventory.administration.register", killed)
        assert not main.administer("provision_namespace", **NEW).success
    assert (namespaces(main), partitions(main)) == ({"main": True, "new": False}, ["main"])
    assert main.administer("provision_namespace", **NEW).success
    assert partitions(main) == ["main", "new"]

    removing = {"namespace": "new", "repeat_namespace": "new"}
    with monkeypatch.context() as patched:
        patched.setattr("amends_pipeline.defs.inventory.administration.forget", killed)
        assert not main.administer("remove_namespace", **removing).success
    assert (namespaces(main), partitions(main)) == ({"main": True}, ["main", "new"])
    assert main.administer("remove_namespace", **removing).success
    assert partitions(main) == ["main"]


def killed(*_):
    raise KeyboardInterrupt


@on_both
def test_a_removed_namespace_is_gone_from_the_ledger_and_from_dagster(main):
    main.append("A r1 NEW day 1 -50")
    main.administer("provision_namespace", **NEW)
    main.backfill("new|p0")
    main.backfill("main|p0")
    run = main.administer("remove_namespace", namespace="new", repeat_namespace="new")
    assert run.success
    assert (namespaces(main), partitions(main)) == ({"main": True}, ["main"])
    assert [each.unit for each in main.ledger.operations.verdicts()] == [Unit("main", 0)]
    assert main.verify().check(ROLL_UP).metadata["counted_units"].value == 1


@pytest.mark.parametrize(
    ("namespace", "again", "error", "words"),
    [
        ("new", "", "InputError", 'repeat_namespace: expected "new", found ""'),
        ("new", "main", "InputError", 'expected "new", found "main"'),
        ("main", "main", "InputError", "expected one that is not current"),
        ("ghost", "ghost", "UnknownNamespace", '"ghost"'),
        ("\u202e", "\u202e", "UnknownNamespace", "\\u202e"),
    ],
)
def test_what_must_not_be_removed_stays(main, namespace, again, error, words):
    main.administer("provision_namespace", **NEW)
    run = main.administer("remove_namespace", namespace=namespace, repeat_namespace=again)
    description, parts = run.failure("remove")
    assert parts["error"] == error
    assert words in description
    assert (set(namespaces(main)), partitions(main)) == ({"main", "new"}, ["main", "new"])


@on_both
def test_a_namespace_that_somebody_works_on_is_not_removed(main):
    main.administer("provision_namespace", **NEW)
    with main.ledger.store.hold(Unit("new", 0), Role.VIEW, holder="Dagster run 7"):
        run = main.administer("remove_namespace", namespace="new", repeat_namespace="new")
    description, parts = run.failure("remove")
    assert parts["error"] == "Held"
    assert "Dagster run 7" in description
    assert partitions(main) == ["main", "new"]
