"""Namespaces that are made to be rebuilt, and when they begin to follow."""

from __future__ import annotations

import json

import pytest

from amends_pipeline.flows.accept import accept
from amends_pipeline.flows.catch_up import catch_up
from amends_pipeline.flows.drain import Options
from amends_pipeline.flows.judge import judge_namespace, judge_unit
from amends_pipeline.flows.rebuild import follow_when_verified, rebuild, verified_namespaces
from amends_pipeline.flows.set_aside import set_aside
from amends_pipeline.inventory.config import parse_configuration
from amends_pipeline.inventory.envelope import Encoder, Type
from amends_pipeline.kernel.errors import ConfigurationError, InputError, UnknownNamespace
from amends_pipeline.ports import Extent, Progress, Unit, UnitStanding, Verdict
from amends_pipeline_tests.contracts.bench import Bench, provisioned
from amends_pipeline_tests.contracts.ledgers import MemoryLedger
from amends_pipeline_tests.inventory.moments import manifest
from amends_pipeline_tests.tables import FIRST_DAY, STOCK_KEYS, configuration

MAIN, NEW = Unit("main", 0), Unit("new", 0)
OVERFLOW = f"A r1 NEW day 1 {2**63 - 101}\nB r1 NEW day 1 100"


@pytest.fixture
def main() -> Bench:
    return provisioned(MemoryLedger(), configuration(keys="ab"))


def drain(main: Bench, namespace: str, text: str = "") -> None:
    main.append(text)
    catch_up(main.ledger, namespace, Options(holder="test"))


def shown(main: Bench, namespace: str) -> list:
    with main.store.snapshot(namespace) as snapshot:
        return list(snapshot.visible())


# --- what is made


def test_a_rebuilt_namespace_shows_what_the_old_one_shows_and_then_follows(main):
    drain(main, "main", "A r1 NEW day 1 -50\nA r2 AMEND day 1 -30\nb/B r1 NEW day 2 -1")
    made = rebuild(main.ledger, "new", "main")
    assert made.created
    assert not main.store.info("new").follows
    assert follow_when_verified(main.ledger) == []
    drain(main, "new")
    assert follow_when_verified(main.ledger) == []
    judge_unit(main.ledger, NEW, "backfill")
    assert follow_when_verified(main.ledger) == ["new"]
    assert main.store.info("new").follows
    assert follow_when_verified(main.ledger) == []
    closes = [[row[:5] for row in shown(main, name)] for name in ("main", "new")]
    assert [row[:3] + row[4:] for row in closes[0]] == [row[:3] + row[4:] for row in closes[1]]
    assert main.ledger.operations.current("depot-feed-1") == "main"


def test_a_rebuild_raises_no_alert_of_the_old_namespace_again(main):
    drain(
        main,
        "main",
        "; ".join(
            f"T{day} r1 NEW day {day} -45; U{day} r1 NEW day {day + 1} 45" for day in (1, 3, 5)
        ),
    )
    published = main.observed()["main|p0"]
    rebuild(main.ledger, "new", "main")
    drain(main, "new")
    assert main.observed()["main|p0"] == published
    new = Bench(main.ledger, main.store.config("new"))
    alerts = [each for each in shown(main, "new") if each.type == Type.ALERT_RAISED]
    assert [(each.day - FIRST_DAY + 1, each.version) for each in alerts] == [(1, 1), (3, 1), (5, 1)]
    told = [json.loads(Encoder(new.config, 0).encode(each))["output_id"] for each in alerts]
    assert {each["namespace"] for each in told} == {"new"}


def test_a_new_configuration_may_have_more_keys_and_other_openings(main):
    changed = parse_configuration(configuration(keys="abc", opening=7, namespace="whatever"))
    rebuild(main.ledger, "new", "main", changed)
    config = main.store.config("new")
    assert config.namespace == "new"
    assert [key.stock_key for key in config.keys] == list(STOCK_KEYS.values())
    assert {key.opening_balance for key in config.keys} == {7}
    assert len(main.store.config("main").keys) == 2


@pytest.mark.parametrize(
    ("document", "error", "message"),
    [
        ({"source": "depot-feed-2"}, InputError, "expected source depot-feed-1"),
        ({"partitions": 2}, ConfigurationError, "partitions"),
    ],
)
def test_a_configuration_that_disagrees_with_the_source_makes_nothing(
    main, document, error, message
):
    config = parse_configuration(configuration(**document))
    with pytest.raises(error, match=message):
        rebuild(main.ledger, "new", "main", config)
    assert [info.namespace for info in main.store.namespaces()] == ["main"]


@pytest.mark.parametrize("name", ["", "Main", "a|b", "a b", "-x", "x" * 64, "\u202e", "a\x00"])
def test_a_name_that_no_namespace_can_have_makes_nothing(main, name):
    with pytest.raises(ConfigurationError, match="namespace"):
        rebuild(main.ledger, name, "main")
    assert [info.namespace for info in main.store.namespaces()] == ["main"]


def test_a_name_that_lives_with_another_configuration_is_refused(main):
    rebuild(main.ledger, "new", "main")
    with pytest.raises(ConfigurationError):
        rebuild(main.ledger, "new", "main", parse_configuration(configuration(opening=1)))
    with pytest.raises(UnknownNamespace):
        rebuild(main.ledger, "newer", "nobody")


def test_set_asides_and_accepted_exclusions_are_carried_over(main):
    main.append(OVERFLOW)
    set_aside(main.ledger, MAIN, 1, "it overflows")
    drain(main, "main", "malformed")
    known = [
        {"partition": 0, "offset": 1, "code": "SET_ASIDE"},
        {"partition": 0, "offset": 2, "code": "MALFORMED"},
    ]
    accept(main.ledger, "main", manifest({"rejections": known}))
    rebuild(main.ledger, "new", "main")
    rebuild(main.ledger, "new", "main")
    drain(main, "new")
    assert main.store.progress(NEW).next_offset == 3
    assert judge_namespace(main.ledger, "new", "backfill").accepted
    assert follow_when_verified(main.ledger) == ["new"]


def test_exclusions_that_only_the_new_configuration_makes_are_not_accepted(main):
    drain(main, "main", "malformed\nb/B r1 NEW day 1 -1")
    known = {"rejections": [{"partition": 0, "offset": 0, "code": "MALFORMED"}]}
    accept(main.ledger, "main", manifest(known))
    rebuild(main.ledger, "new", "main", parse_configuration(configuration(keys="a")))
    drain(main, "new")
    assert not judge_namespace(main.ledger, "new", "backfill").accepted
    assert follow_when_verified(main.ledger) == []


# --- when it follows


def standing(unit=NEW, **members) -> UnitStanding:
    """A unit that was backfilled to the source end 10."""
    plain = UnitStanding(
        unit,
        source="feed",
        follows=False,
        bound=True,
        extent=Extent(0, 10),
        first_offset=0,
        progress=Progress(10, 20, 20, 20, None, {}),
        output_end=20,
        holder=None,
    )
    return plain._replace(**members)


def verdict(unit=NEW, **members) -> Verdict:
    """The verdict that it got at that boundary."""
    accepted = True
    plain = Verdict(unit, "PASS", accepted, 10, 20, 0, "2026-01-01T00:00:00Z", "run", "{}")
    return plain._replace(**members)


AT_5 = Progress(5, 20, 20, 20, None, {})
UNTOUCHED = Progress(0, 0, 0, 0, None, {})

READINESS = {
    "verified and accepted where it stands": (standing(), verdict(), True),
    "records came since": (standing(extent=Extent(0, 99)), verdict(), True),
    "exclusions, accepted": (standing(), verdict(status="PASS_WITH_EXCLUSIONS"), True),
    "never judged": (standing(), None, False),
    "not accepted": (standing(), verdict(accepted=False), False),
    "judged before it went on": (standing(), verdict(source_end=9), False),
    "judged before it published more": (standing(), verdict(output_end=19), False),
    "an empty source": (
        standing(extent=Extent(0, 0), progress=UNTOUCHED, output_end=0),
        verdict(source_end=0, output_end=0),
        True,
    ),
    "not backfilled, though it agrees with no records": (
        standing(progress=UNTOUCHED, output_end=0),
        verdict(source_end=0, output_end=0),
        False,
    ),
    "another log of the name": (standing(bound=False), verdict(), False),
    "no log": (standing(extent=None), verdict(), False),
}


@pytest.mark.parametrize(("unit", "judged", "ready"), READINESS.values(), ids=READINESS)
def test_a_unit_is_ready_to_follow(unit, judged, ready):
    verdicts = {} if judged is None else {NEW: judged}
    assert verified_namespaces([unit], verdicts) == (["new"] if ready else [])


def test_all_units_of_a_namespace_have_to_be_ready():
    units = [Unit(name, partition) for name in ("a", "b") for partition in range(3)]
    standings = [standing(unit) for unit in units]
    verdicts = {unit: verdict(unit) for unit in units}
    assert verified_namespaces(standings, verdicts) == ["a", "b"]
    del verdicts[Unit("a", 1)]
    assert verified_namespaces(standings, verdicts) == ["b"]
