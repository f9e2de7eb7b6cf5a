"""`amends inventory accept`, `rebuild` and `remove`, and what `verify` keeps."""

from __future__ import annotations

import json

import pytest

from amends_pipeline.ports import Role, Unit
from amends_pipeline_tests.tables import configuration

MALFORMED = {"partition": 0, "offset": 1, "code": "MALFORMED"}
EXCLUDING = "A r1 NEW day 1 -50\nmalformed"


def manifest(amends, *rejections, name: str = "manifest.json"):
    path = amends.folder / name
    path.write_text(json.dumps({"rejections": list(rejections), "conflicts": []}))
    return path


def namespaces(amends) -> dict[str, bool]:
    return {info.namespace: info.follows for info in amends.ledger.store.namespaces()}


# --- accept


def test_what_was_accepted_counts_for_every_later_verification(amends):
    amends.drained(EXCLUDING)
    assert amends.on("verify").status == 1
    accepted = amends.on("accept", manifest(amends, MALFORMED))
    assert (accepted.status, accepted.text) == (
        0,
        "namespace main: 1 rejected record and 0 conflicting revisions are accepted\n",
    )
    assert amends.on("verify").status == 0
    assert amends.on("verify", "--accept", manifest(amends, name="none.json")).status == 1
    assert [each.accepted for each in amends.ledger.operations.verdicts()] == [True]
    assert amends.on("accept", manifest(amends)).status == 0
    assert amends.on("verify").status == 1


def test_accepting_prints_all_that_is_accepted_as_json(bare):
    bare.provision(configuration(partitions=2))
    other = {"partition": 1, "offset": 7, "code": "KIND"}
    bare.on("accept", manifest(bare, MALFORMED))
    result = bare.on("accept", manifest(bare, other), "--partition", 1, "--json")
    assert result.document == {
        "namespace": "main",
        "rejections": [MALFORMED, other],
        "conflicts": [],
    }


def test_who_excludes_what_nobody_accepted_is_told_how_to_accept_it(amends):
    amends.drained(EXCLUDING)
    step = (
        "next step: Save rejections and conflicts of amends inventory verify --namespace main"
        " --json as manifest.json, then: amends inventory accept manifest.json --namespace main"
    )
    assert amends.on("verify").rows[:2] == ["PASS_WITH_EXCLUSIONS, not accepted", step]
    amends.on("accept", manifest(amends, MALFORMED))
    assert "next step" not in amends.on("verify").text
    amends.append("B r1 NEW day 1 -1")
    assert amends.on("verify").rows[2] == (
        "next step: Bring the stages there: amends inventory drain --namespace main, then:"
        " amends inventory verify --namespace main."
    )


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        ("{", [], "manifest.json"),
        ('{"rejections":[{"partition":3,"offset":0,"code":"KIND"}]}', [], "partition 3"),
        ("{}", ["--partition", 1], "expected a partition from 0 to 0, found 1"),
        ("{}", ["--partition", -1], "--partition"),
    ],
)
def test_a_manifest_that_is_none_is_refused_and_the_old_one_stays(amends, text, arguments, words):
    amends.on("accept", manifest(amends, MALFORMED))
    path = amends.folder / "manifest.json"
    path.write_text(text)
    result = amends.on("accept", path, *arguments)
    assert (result.status, result.out) == (2, b"")
    assert words in result.err
    assert "MALFORMED" in amends.ledger.operations.manifest("main")


def test_a_manifest_for_nobody_is_refused(amends):
    result = amends("accept", manifest(amends), "--namespace", "\u202enobody")
    assert (result.status, result.out) == (2, b"")
    assert "\\u202enobody" in result.err


# --- verify


def test_a_verification_keeps_its_verdict_and_who_judged(amends):
    amends.drained("A r1 NEW day 1 -50")
    amends.on("verify")
    [verdict] = amends.ledger.operations.verdicts()
    assert (verdict.unit, verdict.status, verdict.accepted) == (Unit("main", 0), "PASS", True)
    assert verdict.judged_by.startswith("amends inventory verify, process ")


# --- rebuild


def test_a_rebuilt_namespace_follows_once_it_is_drained_and_verified(amends):
    amends.drained("A r1 NEW day 1 -50")
    made = amends("rebuild", "new", "--from", "main")
    assert made.rows == [
        "namespace new: made, 1 partition",
        "it does not follow source depot-feed-1 until every unit is verified and accepted",
        "Dagster has its partitions in a few seconds; a dialog that is open must be reloaded",
    ]
    assert namespaces(amends) == {"main": True, "new": False}
    assert amends("verify", "--namespace", "new").status == 1
    assert amends("drain", "--namespace", "new").status == 0
    verified = amends("verify", "--namespace", "new")
    assert verified.status == 0
    assert "every unit of new is verified and accepted: it follows its source" in verified.err
    assert namespaces(amends) == {"main": True, "new": True}
    again = amends("rebuild", "new", "--from", "main")
    assert again.rows == ["namespace new: there already, with the same configuration, 1 partition"]


def test_a_rebuild_prints_what_it_made_as_json(amends):
    path = amends.folder / "other.json"
    path.write_text(json.dumps(configuration(keys="abc", namespace="whatever")))
    result = amends("rebuild", "new", "--from", "main", "--config", path, "--json")
    assert result.document == {
        "namespace": "new",
        "from": "main",
        "created": True,
        "digest": amends.ledger.store.info("new").digest,
        "source": "depot-feed-1",
        "partitions": 1,
        "follows": False,
    }
    assert len(amends.ledger.store.config("new").keys) == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["new", "--from", "nobody"], '"nobody"'),
        (["A B", "--from", "main"], "namespace"),
        (["\x1b[31m", "--from", "main"], "\\x1b[31m"),
        (["new"], "--from"),
        (["new", "--from", "main", "--config", "nowhere.json"], "nowhere.json"),
    ],
)
def test_a_rebuild_that_cannot_be_is_refused(amends, arguments, words):
    result = amends("rebuild", *arguments)
    assert (result.status, result.out) == (2, b"")
    assert words in result.err
    assert namespaces(amends) == {"main": True}


# --- remove


@pytest.fixture
def two(amends):
    """A ledger with `main` and a rebuild of it, `new`."""
    amends.drained("A r1 NEW day 1 -50")
    amends("rebuild", "new", "--from", "main")
    return amends


def test_a_namespace_is_removed_when_its_name_is_typed_again(two):
    result = two("remove", "new", given=b"new\n")
    assert result.text == "namespace new is gone; the log of its source stays\n"
    assert result.err == "This forgets everything made for new. Type its name: new\n"
    assert namespaces(two) == {"main": True}
    assert two.on("status", "--json").document["partitions"][0]["source_end"] == 1


def test_without_a_person_the_name_is_given_again(two):
    assert two("remove", "new", "--yes", "new", "--json").document == {
        "namespace": "new",
        "removed": True,
    }
    assert namespaces(two) == {"main": True}


@pytest.mark.parametrize(
    ("arguments", "given", "status", "words"),
    [
        (["new"], b"", 2, 'expected "new", typed or with --yes, found none'),
        (["new"], b"main\n", 2, 'expected "new", found "main"'),
        (["new"], b"\x1b[31m\n", 2, "\\x1b[31m"),
        (["new", "--yes", "yes"], None, 2, 'expected "new", found "yes"'),
        (["main", "--yes", "main"], None, 2, "expected one that is not current"),
        (["ghost", "--yes", "ghost"], None, 2, '"ghost"'),
        (["ghost"], None, 2, '"ghost"'),
    ],
)
def test_what_must_not_be_removed_stays(two, arguments, given, status, words):
    result = two("remove", *arguments, given=given)
    assert (result.status, result.out) == (status, b"")
    assert words in result.err
    assert set(namespaces(two)) == {"main", "new"}


def test_a_namespace_that_somebody_works_on_is_not_removed(two):
    with two.ledger.store.hold(Unit("new", 0), Role.WORKER, holder="Dagster run 7"):
        result = two("remove", "new", "--yes", "new")
    assert (result.status, result.out) == (3, b"")
    assert "Dagster run 7" in result.err
    assert set(namespaces(two)) == {"main", "new"}


def test_the_commands_say_what_they_do(amends):
    text = amends.call("inventory", "--help").text
    for command in ("accept", "rebuild", "remove"):
        assert f"\n  {command} " in text
        assert "--json" in amends.call("inventory", command, "--help").text
