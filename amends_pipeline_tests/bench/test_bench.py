"""The harness itself, on workloads so small that their numbers say nothing.

They are shown. What is asserted is that they were earned: that the oracle agreed, and might not.
"""

from __future__ import annotations

import json

import pytest

from amends_pipeline_tests.bench import __main__ as bench
from amends_pipeline_tests.bench import document, table, truth
from amends_pipeline_tests.bench.measure import (
    FAMILIES,
    Family,
    Measurement,
    Peer,
    Row,
    at_least,
    at_most,
    chosen,
    in_order,
    missing,
    shown,
    slope,
)
from amends_pipeline_tests.bench.player import PlayerError
from amends_pipeline_tests.bench.stage import Options, Stage, WrongError
from amends_pipeline_tests.bench.workload import workload
from amends_pipeline_tests.conftest import SETTINGS

ROWS = ("1", "2", "6", "17")
SCALE = 0.004
FORM = {"row", "name", "value", "unit", "peer", "ratio", "must", "holds"}
DEFAULT_ROWS = set(range(1, 21)) - {3, 10, 13}


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    home = tmp_path_factory.mktemp("bench")
    home.chmod(0o711)
    with Stage(Options(ROWS, 1, SCALE, peers=False, home=home, settings=SETTINGS)) as made:
        yield made


@pytest.fixture(scope="module")
def small(stage):
    return stage.workload("1m")


# ---------------------------------------------------------------- the rows


def test_small_rows_are_measured_and_what_they_measure_is_right(stage, tmp_path, record_property):
    measurements = bench.measured(stage, list(chosen(ROWS)), tmp_path / "bench.json")
    machine = stage.machine()
    entries = json.loads((tmp_path / "bench.json").read_text())
    assert {entry["row"] for entry in entries} == set(ROWS)
    for entry in entries:
        assert entry.keys() >= FORM
        assert entry["value"] is not None, entry
        assert entry["holds"] is None, "so small a workload says nothing"
    latency = next(entry for entry in entries if entry["row"] == "1")
    assert latency["unit"] == "ms"
    assert latency["must"] == "≤ 6.5 × commit floor"
    assert latency["ratio"] > 0
    again, _ = document.read(tmp_path / "bench.json")
    assert again == table.sorted_rows(measurements)
    record_property("report", table.text(measurements, machine, width=150))


def test_every_row_of_the_table_is_registered():
    registered = {row for family in FAMILIES for row in family.rows}
    assert {str(row) for row in DEFAULT_ROWS} <= registered


def test_an_unknown_row_is_refused_and_the_known_ones_are_named():
    with pytest.raises(SystemExit, match=r"expected some of 1, 2, 4, .* found \['99'\]"):
        bench.main(["--rows", "1,99"])


def test_a_result_that_is_not_the_oracles_does_not_count(stage, small):
    with stage.copy("source", "1m") as database:
        total = small.records_file.read_bytes().count(b"\n")
        with stage.ours(database) as player:
            player.ask("ingest", namespace="1m", slice_records=100, until=total - 3)
            with pytest.raises(WrongError, match="state of 1m: expected"):
                stage.check_state(player, "1m")
            with pytest.raises(WrongError, match="outbox of 1m: expected"):
                stage.check_outbox(player, "1m")
            with pytest.raises(WrongError, match=r"verification of 1m: .*INCOMPLETE"):
                stage.carried_on(player, "1m")
            player.ask("ingest", namespace="1m", slice_records=100)
            stage.check_state(player, "1m")
            stage.check_outbox(player, "1m")
            stage.carried_on(player, "1m")


@pytest.mark.parametrize("error", [WrongError("drift"), PlayerError("gone")])
def test_a_family_that_fails_has_no_number_and_the_others_go_on(stage, error, tmp_path):
    out = tmp_path / "bench.json"

    def failing(_):
        yield Row("1", "before", "s", [1.0]).told()
        raise error

    def working(_):
        rows = [entry["row"] for entry in json.loads(out.read_text())]
        assert rows == ["1"], "what is measured is written down as it is done"
        yield Row("2", "after", "s", [1.0]).told()

    families = [Family(("1",), "first", failing), Family(("2",), "second", working)]
    failed, worked = bench.measured(stage, families, out)
    assert (failed.row, failed.value, failed.note) == ("1", None, f"failed: {error}")
    assert (worked.row, worked.value) == ("2", 1.0)


# ---------------------------------------------------------------- workloads


def test_equal_shapes_give_equal_bytes(small, tmp_path):
    again = workload(small.shape, tmp_path)
    for name in ("records_file", "corrections_file", "warming_file"):
        assert getattr(again, name).read_bytes() == getattr(small, name).read_bytes()
    other = workload(small.shape._replace(seed=8), tmp_path)
    assert other.records_file.read_bytes() != small.records_file.read_bytes()


def test_a_workload_has_what_its_shape_promises(small):
    told = [json.loads(line) for line in small.lines()]
    kinds = {kind: sum(each["kind"] == kind for each in told) for kind in ("AMEND", "CANCEL")}
    assert abs(len(told) - small.shape.records) < 0.01 * small.shape.records
    assert kinds["AMEND"] > 3 * kinds["CANCEL"] > 0
    assert 0.09 < sum(kinds.values()) / len(told) < 0.11
    assert [each["source_time"] for each in told] == sorted(each["source_time"] for each in told)
    assert len(set(small.lines())) < len(told), "some records are repeated"


def test_late_corrections_are_of_distinct_transactions_and_each_is_the_next_revision(small):
    highest: dict[tuple, int] = {}
    for line in small.lines():
        each = json.loads(line)
        identity = (each["stock_key"]["item"], each["txn_id"])
        highest[identity] = max(each["revision"], highest.get(identity, 0))
    late = [json.loads(line) for line in [*small.warming(), *small.corrections(0, 500)]]
    identities = [(each["stock_key"]["item"], each["txn_id"]) for each in late]
    assert len(set(identities)) == len(late)
    assert [each["revision"] for each in late] == [highest[name] + 1 for name in identities]


def test_the_oracle_is_asked_about_the_workload_itself(stage, small):
    facts = stage.truth("1m")
    more = [line.decode() for line in small.corrections(0, 1)]
    assert facts.blocked == 0
    assert 0 < facts.balances <= small.shape.keys * 3 * small.shape.days
    assert stage.truth_after("1m", more).digest != facts.digest


def test_facts_differ_when_any_row_does():
    rows = truth.triples([(0, 1, 5), (0, 2, 7)])
    none = truth.triples([])
    facts = truth.facts_of(rows, none, 0)
    assert facts[:4] == (2, 12, 0, 0)
    assert truth.facts_of(truth.triples([(0, 1, 7), (0, 2, 5)]), none, 0).digest != facts.digest
    assert truth.facts_of(none, rows, 0).digest != facts.digest


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    ("unit", "ours", "peer", "bound", "told"),
    [
        ("ms", 2.0, 1.0, at_most(6.5, 2.5), (2.0, True, True)),
        ("ms", 7.0, 1.0, at_most(6.5, 2.5), (7.0, False, False)),
        ("ms", 0.5, 400.0, at_least(600, 1_600), (800.0, True, False)),
        ("ms", 1.0, 500.0, at_least(600, 1_600), (500.0, False, False)),
        ("records/s", 30.0, 10.0, at_least(1.5, 4), (3.0, True, False)),
        ("records/s", 10.0, 10.0, at_least(1.5, 4), (1.0, False, False)),
    ],
)
def test_a_ratio_says_how_we_stand_beside_a_peer(unit, ours, peer, bound, told):
    row = Row("1", "row", unit, [ours]).beside(Peer("peer", peer), bound)
    assert (row.ratio, row.holds, row.goal_holds) == told


def test_what_is_granted_beside_a_ratio_counts_for_the_must_alone():
    row = Row("15", "oracle", "s", [4.5])
    told = row.beside(Peer("DuckDB", 1.0), at_most(4, 1.3), plus=1)
    assert (told.ratio, told.must, told.holds, told.goal_holds) == (4.5, "≤ 4 × DuckDB + 1 s", 1, 0)
    assert not row.beside(Peer("DuckDB", 0.8), at_most(4, 1.3), plus=1).holds


def test_a_missing_peer_leaves_the_row_undecided_and_says_why():
    told = Row("1", "row", "ms", [1.0]).beside(Peer("Pathway", None, "no wheel"), at_least(6))
    assert (told.peer, told.ratio, told.holds) == ("Pathway: missing (no wheel)", None, None)
    assert "peer missing" in table.cells(told)
    assert table.cells(missing("1", "row", "why"))[2] == "not measured"


def test_the_median_of_the_runs_counts_and_their_spread_is_told():
    told = Row("6", "row", "records/s", [5.0, 1.0, 4.0]).told(at_least(4, 5))
    assert (told.value, told.low, told.high, told.runs) == (4.0, 1.0, 5.0, 3)
    assert (told.holds, told.goal_holds) == (True, False)


@pytest.mark.parametrize("exponent", [0.0, 0.05, 1.0, 2.0])
def test_the_slope_between_logarithms_is_the_exponent(exponent):
    sizes = (1e5, 1e6, 5e6)
    assert slope((size, 3 * size**exponent) for size in sizes) == pytest.approx(exponent)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.15634, "0.156"),
        (1.4, "1.4"),
        (12.34, "12.3"),
        (300, "300"),
        (60_000.4, "60,000"),
        (0, "0"),
    ],
)
def test_numbers_have_three_digits(number, text):
    assert shown(number) == text


def test_rows_stand_in_the_order_of_their_numbers():
    assert in_order(["11", "B1", "2", "1"]) == ["1", "2", "11", "B1"]
    rows = [Measurement(row, "", None, "") for row in ("17", "2")]
    assert [each.row for each in table.sorted_rows(rows)] == ["2", "17"]


# ---------------------------------------------------------------- the document

MACHINE = {
    "cores": 2,
    "processor": "Z80",
    "python": "3.11",
    "postgresql": "18",
    "fsync": "on",
    "load1": 0.5,
}


def test_the_document_gets_a_line_a_measurement_and_keeps_its_prose():
    row = Row("1", "a correction", "ms", [0.5, 0.7, 0.6], "some | rows")
    told = [row.beside(Peer("floor", 0.2), at_most(6.5, 2.5))]
    text = f"# Before\n\n{document.START}\nold\n{document.END}\n\nAfter.\n"
    made = document.renewed(text, told, MACHINE)
    assert "2 cores of Z80" in made
    assert (
        "| 1 | a correction (some \\| rows) | 0.6 ms | 0.5 to 0.7 (3) | 3 × floor: 0.2 ms"
        " | ≤ 6.5 × floor | ≤ 2.5 × floor | yes |"
    ) in made.splitlines()
    assert "old" not in made
    assert made.startswith("# Before\n")
    assert made.endswith("\n\nAfter.\n")
    assert document.renewed(made, told, MACHINE) == made


def test_the_document_in_the_project_has_its_markers():
    text = document.DOCUMENT.read_text(encoding="utf-8")
    assert document.renewed(text, [], MACHINE) != text


def test_without_a_measurement_there_is_nothing_to_document(tmp_path):
    with pytest.raises(SystemExit, match=r"expected what `make bench` writes, found nothing"):
        document.read(tmp_path / "bench.json")
