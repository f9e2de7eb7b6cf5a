"""Verdicts, manifests, current namespaces, removal and landed files, in every ledger."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from amends_pipeline.flows.rebuild import rebuild
from amends_pipeline.kernel.errors import AlreadyLanded, Held, InputError, UnknownNamespace
from amends_pipeline.ports import Extent, Landed, Role, SourceRecord, Unit, Verdict
from amends_pipeline_tests.contracts.bench import SOURCE, STORY, Bench, provisioned
from amends_pipeline_tests.tables import configuration

MAIN = Unit("main", 0)
HOSTILE = "a\x00b\ud800c\u202e\n'; DROP TABLE x; --"


def verdict(unit=MAIN, status="PASS", **members) -> Verdict:
    standing = Verdict(
        unit,
        status=status,
        accepted=True,
        source_end=2**40,
        output_end=7,
        differences=0,
        judged_at="2026-01-01T00:00:00.000Z",
        judged_by="a test",
        report='{"status":"PASS"}',
    )
    return standing._replace(**members)


def landed(name="a.jsonl", digest="d1", records=0, error=None) -> Landed:
    return Landed(SOURCE, digest, name, records, error, "2026-01-01T00:00:00Z")


def records(*partitions: int) -> list[SourceRecord]:
    return [SourceRecord(partition, None, b"{}") for partition in partitions]


def two(ledger, name="main", **arguments) -> Bench:
    """A namespace over two partitions."""
    return provisioned(ledger, configuration(partitions=2, namespace=name), **arguments)


# --- verdicts


def test_the_last_verdict_of_a_unit_stands(ledger):
    two(ledger, "b")
    two(ledger, "a")
    operations = ledger.operations
    assert list(operations.verdicts()) == []
    operations.record_verdict(verdict(Unit("b", 1)))
    operations.record_verdict(verdict(Unit("a", 1), "DRIFT", accepted=False, differences=3))
    operations.record_verdict(verdict(Unit("b", 1), "BLOCKED", report="{}"))
    operations.record_verdict(verdict(Unit("a", 0), judged_by="b test"))
    assert list(ledger.reopened().operations.verdicts()) == [
        verdict(Unit("a", 0), judged_by="b test"),
        verdict(Unit("a", 1), "DRIFT", accepted=False, differences=3),
        verdict(Unit("b", 1), "BLOCKED", report="{}"),
    ]
    assert operations.verdict(Unit("b", 1)) == verdict(Unit("b", 1), "BLOCKED", report="{}")
    assert operations.verdict(Unit("b", 0)) is None


def test_reports_are_left_out_where_nobody_asks_for_them(bench):
    long = "x" * 1_000_000
    bench.ledger.operations.record_verdict(verdict(report=long))
    assert bench.ledger.operations.verdicts(reports=False) == [verdict(report="")]
    assert bench.ledger.operations.verdicts() == [verdict(report=long)]


def test_whatever_stands_in_a_verdict_is_kept_as_far_as_it_can_be_stored(bench):
    bench.ledger.operations.record_verdict(verdict(judged_by=HOSTILE, report=HOSTILE))
    [kept] = bench.ledger.operations.verdicts()
    told = "a\\x00b\\ud800c\u202e\n'; DROP TABLE x; --"
    assert (kept.judged_by, kept.report) == (told, told)


# --- manifests


def test_a_manifest_takes_the_place_of_the_one_before(ledger):
    two(ledger, "b")
    two(ledger, "a")
    operations = ledger.operations
    assert operations.manifest("a") is None
    operations.store_manifest("a", '{"rejections":[]}')
    operations.store_manifest("a", "{}")
    assert (operations.manifest("a"), operations.manifest("b")) == ("{}", None)


# --- following, and who is current


def test_a_namespace_follows_or_not_and_everybody_sees_it(bench):
    for follows in (False, True, True):
        bench.ledger.operations.follow("main", follows=follows)
        assert bench.store.info("main").follows is follows
        assert bench.store.namespaces()[0].follows is follows
        assert [each.follows for each in bench.store.standing()] == [follows]
        with bench.store.snapshot("main") as snapshot:
            assert snapshot.info().follows is follows


def test_the_first_namespace_that_follows_a_source_is_current_and_stays_so(ledger):
    operations = ledger.operations
    assert operations.current(SOURCE) is None
    for name in ("a", "b", "c"):
        provisioned(ledger, configuration(namespace=name), follows=False)
    assert operations.current(SOURCE) is None
    operations.follow("b", follows=True)
    operations.follow("a", follows=True)
    assert operations.current(SOURCE) == "b"
    operations.follow("b", follows=False)
    operations.follow("c", follows=True)
    assert operations.current(SOURCE) == "b"
    assert operations.current("depot-feed-2") is None


def test_a_namespace_that_is_provisioned_to_follow_is_current_at_once(ledger):
    provisioned(ledger, configuration(namespace="z"))
    provisioned(ledger, configuration(namespace="a"))
    other = configuration(namespace="other", source="depot-feed-2")
    provisioned(ledger, other)
    assert ledger.operations.current(SOURCE) == "z"
    assert ledger.operations.current("depot-feed-2") == "other"


# --- removal


def drained(ledger, name: str, *, follows: bool) -> Bench:
    bench = provisioned(ledger, configuration(keys="abc", namespace=name), follows=follows)
    bench.drain("" if bench.source.extents()[0].end else STORY, size=3)
    ledger.operations.record_verdict(verdict(Unit(name, 0)))
    ledger.operations.store_manifest(name, "{}")
    return bench


def test_a_removed_namespace_leaves_nothing_but_the_source_log(ledger):
    main = drained(ledger, "main", follows=True)
    old = drained(ledger, "old", follows=False)
    ledger.store.set_aside(Unit("old", 0), 100, "it is bad")
    with main.unchanged():
        ledger.operations.remove("old")
        assert [info.namespace for info in ledger.store.namespaces()] == ["main"]
        assert [each.unit for each in ledger.operations.verdicts()] == [MAIN]
    for store in (ledger.store, ledger.reopened().store):
        for ask in (
            lambda store=store: store.info("old"),
            lambda store=store: store.config("old"),
            lambda store=store: store.snapshot("old").__enter__(),
            lambda store=store: store.progress(Unit("old", 0)),
        ):
            with pytest.raises(UnknownNamespace):
                ask()
    assert old.source.extents() == [Extent(0, 10)]
    assert ledger.operations.current(SOURCE) == "main"


def test_a_name_may_be_used_again_after_its_namespace_was_removed(ledger):
    main = drained(ledger, "main", follows=True)
    drained(ledger, "old", follows=False)
    seen_elsewhere = ledger.reopened()
    assert seen_elsewhere.store.progress(Unit("old", 0)).next_offset == 10
    ledger.operations.remove("old")
    again = provisioned(ledger, configuration(keys="ab", namespace="old"), follows=False)
    assert again.progress().next_offset == 0
    assert list(ledger.store.outbox(Unit("old", 0))) == []
    assert ledger.outputs.end(Unit("old", 0)) == 0
    assert ledger.operations.verdict(Unit("old", 0)) is None
    assert ledger.operations.manifest("old") is None
    again.drain()
    with again.store.snapshot("old") as snapshot, main.store.snapshot("main") as theirs:
        assert len(list(snapshot.visible())) == len(list(theirs.visible()))


def test_what_belongs_to_no_namespace_any_more_is_stored_by_nobody(ledger):
    provisioned(ledger)
    provisioned(ledger, configuration(namespace="old"), follows=False)
    elsewhere = ledger.reopened().operations
    assert elsewhere.verdict(Unit("old", 0)) is None
    ledger.operations.remove("old")
    for ask in (
        lambda: elsewhere.record_verdict(verdict(Unit("old", 0))),
        lambda: elsewhere.store_manifest("old", "{}"),
        lambda: elsewhere.follow("old", follows=True),
        lambda: elsewhere.remove("old"),
    ):
        with pytest.raises(UnknownNamespace):
            ask()


def test_the_current_namespace_is_not_removed(ledger):
    bench = drained(ledger, "main", follows=True)
    with bench.unchanged(), pytest.raises(InputError, match="one that is not current"):
        ledger.operations.remove("main")
    ledger.operations.follow("main", follows=False)
    with bench.unchanged(), pytest.raises(InputError, match="one that is not current"):
        ledger.operations.remove("main")


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("partition", [0, 1])
def test_a_namespace_whose_unit_is_held_is_not_removed(ledger, role, partition):
    two(ledger)
    bench = two(ledger, "old", follows=False)
    with (
        bench.store.hold(Unit("old", partition), role, holder="run 7"),
        bench.unchanged(),
        pytest.raises(Held, match=rf'{role} of old\|p{partition}: .*"run 7"'),
    ):
        ledger.operations.remove("old")
    ledger.operations.remove("old")
    with pytest.raises(UnknownNamespace):
        ledger.store.info("old")


def test_the_owners_of_a_removed_unit_commit_nothing_more(ledger):
    provisioned(ledger)
    bench = provisioned(ledger, configuration(keys="abc", namespace="old"), follows=False)
    bench.append(STORY)
    token, decisions = bench.claim(), bench.decide()
    ledger.operations.remove("old")
    with pytest.raises(UnknownNamespace):
        bench.store.commit(token, decisions)


# --- whoever is not there


ASKS = {
    "record_verdict": lambda operations, unit: operations.record_verdict(verdict(unit)),
    "verdict": lambda operations, unit: operations.verdict(unit),
    "store_manifest": lambda operations, unit: operations.store_manifest(unit.namespace, "{}"),
    "manifest": lambda operations, unit: operations.manifest(unit.namespace),
    "follow": lambda operations, unit: operations.follow(unit.namespace, follows=True),
    "remove": lambda operations, unit: operations.remove(unit.namespace),
}


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
@pytest.mark.parametrize("namespace", ["nobody", "", "a\x00b", "\ud800", "ä"])
def test_a_namespace_that_is_not_there_is_refused(bench, ask, namespace):
    with pytest.raises(UnknownNamespace):
        ask(bench.ledger.operations, Unit(namespace, 0))


@pytest.mark.parametrize("partition", [-1, 1])
def test_a_partition_that_is_not_there_is_refused(bench, partition):
    for ask in ("record_verdict", "verdict"):
        with pytest.raises(InputError, match="expected a partition from 0 to 0"):
            ASKS[ask](bench.ledger.operations, Unit("main", partition))


# --- landed files


def test_a_file_lands_with_its_records(ledger):
    bench = two(ledger)
    ends = bench.source.append(records(0, 1, 1), landing=landed(records=99, error="no"))
    assert list(ends) == [1, 2]
    assert list(bench.source.append([], landing=landed("empty.csv", "d2"))) == [1, 2]
    ledger.operations.record_landed(landed("bad.jsonl", "d3", error="line 7: no"))
    assert list(ledger.reopened().operations.landed(SOURCE)) == [
        landed(records=3),
        landed("empty.csv", "d2"),
        landed("bad.jsonl", "d3", error="line 7: no"),
    ]
    assert list(ledger.operations.landed("depot-feed-2")) == []


def test_a_file_lands_once_whatever_it_is_called(ledger):
    bench = two(ledger)
    bench.source.append(records(0), landing=landed())
    with bench.unchanged(), pytest.raises(AlreadyLanded, match=r'"b\.jsonl".*"a\.jsonl"'):
        bench.source.append(records(0, 1), landing=landed("b.jsonl"))
    other = ledger.source("depot-feed-2")
    other.create(1)
    assert list(other.append(records(0), landing=landed()._replace(source="depot-feed-2"))) == [1]
    assert len(ledger.operations.landed(SOURCE)) == 1


def test_a_file_that_was_set_aside_may_land_later_and_be_set_aside_again(ledger):
    bench = two(ledger)
    for _ in range(2):
        ledger.operations.record_landed(landed(error="no such source"))
    assert list(bench.source.append(records(0), landing=landed())) == [1, 0]
    ledger.operations.record_landed(landed(error="again"))
    assert [each.error for each in ledger.operations.landed(SOURCE)] == [
        "no such source",
        "no such source",
        None,
        "again",
    ]


def test_a_file_of_which_a_record_is_refused_has_not_landed(ledger):
    bench = two(ledger)
    with pytest.raises(InputError, match="partition"):
        bench.source.append(records(0, 1, 2), landing=landed())

    def breaking():
        yield from records(0)
        raise InputError("line 2", expected="a line", found="none")

    with pytest.raises(InputError, match="line 2"):
        bench.source.append(breaking(), landing=landed())
    assert list(ledger.operations.landed(SOURCE)) == []
    assert list(bench.source.append(records(0), landing=landed())) == [1, 0]


def test_of_many_who_land_the_same_file_at_once_one_appends_it(ledger):
    two(ledger)

    def land(_) -> bool:
        try:
            ledger.source(SOURCE).append(records(0, 1), landing=landed())
        except AlreadyLanded:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(land, range(8))) == 1
    assert list(ledger.source(SOURCE).extents()) == [Extent(0, 1), Extent(0, 1)]


def test_a_file_may_have_any_name(ledger):
    bench = two(ledger)
    bench.source.append(records(0), landing=landed(HOSTILE))
    ledger.operations.record_landed(landed(HOSTILE, "d2", error=HOSTILE))
    told = "a\\x00b\\ud800c\u202e\n'; DROP TABLE x; --"
    first, second = ledger.operations.landed(SOURCE)
    assert (first.name, second.name, second.error) == (told, told, told)
    with pytest.raises(AlreadyLanded) as refused:
        bench.source.append(records(0), landing=landed(HOSTILE))
    assert str(refused.value).isprintable()


# --- rebuilding


def test_a_rebuild_may_be_repeated_and_goes_on_where_it_broke_off(ledger):
    main = drained(ledger, "main", follows=True)
    main.store.set_aside(MAIN, 10, "it is bad")
    made = rebuild(ledger, "new", "main")
    again = rebuild(ledger, "new", "main")
    assert (made.created, again.created) == (True, False)
    info = ledger.store.info("new")
    assert (info.follows, info.source, info.first_offsets) == (False, SOURCE, (0,))
    assert [tuple(each) for each in ledger.store.set_asides(Unit("new", 0))] == [(10, "it is bad")]
    assert ledger.operations.manifest("new") == "{}"
    assert ledger.operations.current(SOURCE) == "main"
