"""The example asset `open_reorders`: what it decides, what it writes, what it tells."""

from __future__ import annotations

import dagster as dg
import pandas as pd
import pyarrow.parquet as pq
import pytest

from amends_pipeline.defs.catalog import OPEN_REORDERS
from amends_pipeline.defs.inventory.refreshing import open_reorders
from amends_pipeline.defs.inventory.reorders import Reorder, below_threshold, path_of, write
from amends_pipeline.defs.resources import resource_over
from amends_pipeline.inventory.config import parse_configuration
from amends_pipeline.kernel.errors import OperationError
from amends_pipeline.ports import Unit
from amends_pipeline_tests.defs.conftest import QUIET, Run, on_both, rows
from amends_pipeline_tests.defs.test_changes import alert, balance
from amends_pipeline_tests.tables import configuration

LARGEST, SMALLEST = 2**63 - 1, -(2**63)
COLUMNS = ["item", "location", "since", "day", "close", "threshold", "short_by"]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Where files are written."""
    monkeypatch.setenv("AMENDS_HOME", str(tmp_path))
    return tmp_path


def materialize(office, unit: str = "main|p0") -> Run:
    """Run the asset alone for a unit."""
    result = dg.materialize(
        [open_reorders],
        partition_key=unit,
        instance=office.instance,
        resources={"ledger": resource_over(office.ledger)},
        run_config=QUIET,
        raise_on_error=False,
    )
    return Run(result)


def found(office, namespace: str = "main", partition: int = 0):
    """What is short, as (location, since, day, close, short by), and how many are blocked."""
    with office.ledger.store.snapshot(namespace) as moment:
        below = below_threshold(moment.config(), [partition], moment.visible())
    [(of, (short, blocked))] = below.items()
    assert of == partition
    return [(row.location[-1], *row[2:5], row.short_by) for row in short], blocked


# --- the fact


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ("", []),
        ("A r1 NEW day 1 -40", []),  # at the threshold is not below it
        ("A r1 NEW day 1 -41", [("A", "2026-01-01", "2026-01-01", 59, 1)]),
        # Since the crossing, not since the latest close.
        (
            "A r1 NEW day 1 -50; B r1 NEW day 5 -20",
            [("A", "2026-01-01", "2026-01-05", 30, 30)],
        ),
        # It came back in between: the later crossing counts.
        (
            "A r1 NEW day 1 -50; B r1 NEW day 2 50; C r1 NEW day 4 -70",
            [("A", "2026-01-04", "2026-01-04", 30, 30)],
        ),
        ("A r1 NEW day 1 -50; B r1 NEW day 2 50", []),
        # A correction moves the crossing, as in the seed.
        (
            "A r1 NEW day 1 -50; B r1 NEW day 2 -20; A r2 AMEND day 1 -30",
            [("A", "2026-01-02", "2026-01-02", 50, 10)],
        ),
        ("A r1 NEW day 1 -50; A r2 CANCEL day 1", []),
        # The largest shortage first, equal ones by key.
        (
            "A r1 NEW day 1 -50; b/A r1 NEW day 1 -70; c/A r1 NEW day 1 -50",
            [
                ("B", "2026-01-01", "2026-01-01", 30, 30),
                ("A", "2026-01-01", "2026-01-01", 50, 10),
                ("C", "2026-01-01", "2026-01-01", 50, 10),
            ],
        ),
    ],
)
def test_keys_below_their_threshold_now_with_the_day_since_when(office, history, expected):
    office.provision(configuration(keys="abc"))
    if history:
        office.append(history)
    office.refold()
    assert found(office) == (expected, 0)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        # An opening below the threshold is no crossing, and no activity is no day.
        ("", ("A", None, None, 10, 50)),
        ("A r1 NEW day 1 -5", ("A", None, "2026-01-01", 5, 55)),
        ("A r1 NEW day 1 -5; A r2 CANCEL day 1", ("A", None, None, 10, 50)),
        ("A r1 NEW day 1 60; B r1 NEW day 3 -40", ("A", "2026-01-03", "2026-01-03", 30, 30)),
    ],
)
def test_a_key_that_opened_below_has_no_crossing_until_it_came_up(office, history, expected):
    office.provision(configuration(keys="a", opening=10))
    if history:
        office.append(history)
    office.refold()
    assert found(office) == ([expected], 0)


def test_blocked_keys_are_counted_and_left_out(office):
    office.provision(configuration(keys="abc"))
    office.append("""
        A r1 NEW day 1 -50
        b/A r1 NEW day 1 -50
        b/A r1 NEW day 1 -51
    """)
    office.refold()
    assert found(office) == ([("A", "2026-01-01", "2026-01-01", 50, 10)], 1)
    office.append("b/A r2 AMEND day 1 -52")
    office.refold()
    assert [row[0] for row in found(office)[0]] == ["B", "A"]


def test_a_unit_has_the_keys_of_its_partition(office):
    document = configuration(partitions=2)
    document["keys"][1]["partition"] = 1
    office.provision(document)
    office.append("A r1 NEW day 1 -50; b/A r1 NEW day 1 -60; b/A r1 NEW day 1 -61")
    for unit in ("main|p0", "main|p1"):
        office.refold(unit)
    assert found(office, partition=0) == ([("A", "2026-01-01", "2026-01-01", 50, 10)], 0)
    assert found(office, partition=1) == ([], 1)
    with office.ledger.store.snapshot("main") as moment:
        both = below_threshold(moment.config(), [0, 1], moment.visible())
    assert {at: (len(each.rows), each.blocked) for at, each in both.items()} == {
        0: (1, 0),
        1: (0, 1),
    }


def test_an_alert_that_no_later_balance_supports_is_no_beginning():
    # Nobody publishes this; a view that drifted may hold it.
    config = parse_configuration(configuration(keys="a"))
    rows = [alert(1, 1, 50), balance(1, 1, 50), balance(2, 1, 80), balance(3, 1, 40)]
    [row] = below_threshold(config, [0], rows)[0].rows
    assert (row.since, row.close) == (None, 40)


# --- the file


def test_the_largest_integers_come_back_exactly(tmp_path):
    path = tmp_path / "new" / "open_reorders.parquet"
    extreme = [
        Reorder("a", "b", None, None, SMALLEST, LARGEST, LARGEST - SMALLEST),
        Reorder("a", "c", "2026-01-01", "9999-12-31", 2**53 + 1, 2**53 + 2, 1),
        Reorder("é\n", "d", "0001-01-01", None, -(2**53) - 1, LARGEST, LARGEST + 2**53 + 1),
    ]
    write(path, extreme)
    assert [Reorder(**row) for row in pq.read_table(path).to_pylist()] == extreme
    frame = pd.read_parquet(path, dtype_backend="numpy_nullable")
    assert list(frame["short_by"]) == [row.short_by for row in extreme]


@pytest.mark.parametrize("content", [[], [Reorder("a", "b", None, None, 1, 2, 1)]])
def test_the_columns_of_the_file_are_those_that_the_asset_shows(tmp_path, content):
    write(tmp_path / "file", content)
    stored = [
        (field.name, str(field.type).removeprefix("large_"))
        for field in pq.read_schema(tmp_path / "file")
    ]
    shown = OPEN_REORDERS.metadata["dagster/column_schema"].columns
    assert stored == [(column.name, column.type) for column in shown]


def test_a_file_that_cannot_be_written_whole_leaves_the_former_one(tmp_path, monkeypatch):
    path = tmp_path / "open_reorders.parquet"
    write(path, [Reorder("a", "b", None, None, 1, 2, 1)])
    before = path.read_bytes()

    def fail(frame, part, **_):
        part.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_parquet", fail)
    with pytest.raises(OperationError, match="expected a file to write, found No space left"):
        write(path, [])
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_units_have_files_of_their_own(home):
    assert path_of(Unit("main", 3), None) == home / "exports/main/p3/open_reorders.parquet"
    assert path_of(Unit("b", 0), "/x").as_posix() == "/x/exports/b/p0/open_reorders.parquet"


# --- the asset


@on_both
def test_a_run_writes_the_file_and_tells_what_is_in_it(office, home):
    office.provision(configuration(keys="abc"))
    office.append("""
        A r1 NEW day 1 -50
        b/A r1 NEW day 1 -70
        c/A r1 NEW day 1 -70
        c/A r1 NEW day 1 -71
    """)
    office.refold()
    run = materialize(office)
    assert run.success
    told = {key: value.value for key, value in run.told("open_reorders").items()}
    path = home / "exports/main/p0/open_reorders.parquet"
    assert told["dagster/row_count"] == 2
    assert told["excluded_blocked_keys"] == 1
    assert told["view_next_offset"] == office.ledger.store.progress(Unit("main", 0)).view_next
    assert told["file"] == str(path)
    assert told["note"] == f"The view as it is at output offset {told['view_next_offset']}."
    preview = run.told("open_reorders")["preview"]
    assert [column.name for column in preview.schema.columns] == COLUMNS
    assert rows(preview) == [
        ("DEMO-PART", "DEPOT-B", "2026-01-01", "2026-01-01", "30", "60", "30"),
        ("DEMO-PART", "DEPOT-A", "2026-01-01", "2026-01-01", "50", "60", "10"),
    ]
    frame = pd.read_parquet(path)
    assert list(frame.columns) == COLUMNS
    assert frame["location"].tolist() == ["DEPOT-B", "DEPOT-A"]
    assert [path.name for path in path.parent.iterdir()] == [path.name]


def test_the_keys_are_the_same_for_a_unit_that_is_not_there_and_it_gets_no_file(main, home):
    main.instance.add_dynamic_partitions("source_partition", ["p7"])
    main.append("A r1 NEW day 1 -50")
    main.refold()
    here, absent = materialize(main), materialize(main, "main|p7")
    assert list(here.told("open_reorders")) == list(absent.told("open_reorders"))
    told = {key: value.value for key, value in absent.told("open_reorders").items()}
    assert told["note"] == ("Namespace main has no partition p7, only p0: there is nothing to do.")
    assert (told["dagster/row_count"], told["file"]) == (0, "")
    assert not (home / "exports/main/p7").exists()


def test_the_same_view_has_the_same_version_and_another_view_another(main):
    def version() -> str:
        event = main.instance.get_latest_materialization_event(OPEN_REORDERS.key)
        return event.asset_materialization.tags["dagster/data_version"]

    versions = []
    for history in ("A r1 NEW day 1 -50", None, "B r1 NEW day 2 -1"):
        if history:
            main.append(history)
            main.refold()
        materialize(main)
        versions.append(version())
    assert versions[0] == versions[1] != versions[2]


def test_a_preview_shows_the_largest_shortages_and_the_file_all(office, home):
    document = configuration(keys="a", opening=0)
    key = document["keys"][0]
    document["keys"] = [
        key | {"stock_key": {"item": f"I{at:02}", "location": "L"}, "reorder_threshold": at}
        for at in range(1, 31)
    ]
    office.provision(document)
    run = materialize(office)
    assert run.value("open_reorders", "dagster/row_count") == 30
    shown = rows(run.told("open_reorders")["preview"])
    assert [row[0] for row in shown] == [f"I{at:02}" for at in range(30, 10, -1)]
    assert len(pd.read_parquet(run.value("open_reorders", "file"))) == 30


def test_hostile_names_stand_escaped_in_the_preview_and_as_they_are_in_the_file(office):
    document = configuration(keys="a", opening=0)
    names = {"item": "A\u202e|<b>\n", "location": "L" * 300}
    document["keys"][0]["stock_key"] = names
    office.provision(document)
    run = materialize(office)
    [(item, location, since, *_)] = rows(run.told("open_reorders")["preview"])
    assert (item, since) == ("A\\u202e|<b>\\n", "")
    assert location.endswith("... (300 characters)")
    [row] = pq.read_table(run.value("open_reorders", "file")).to_pylist()
    assert (row["item"], row["location"]) == (names["item"], names["location"])


def test_a_folder_that_cannot_be_made_fails_the_run_clearly(main, home):
    (home / "exports").write_text("no folder")
    description, parts = materialize(main).failure("open_reorders")
    assert parts["error"] == "OperationError"
    assert description.startswith(str(home / "exports"))
    assert "expected a file to write, found Not a directory" in description


def test_a_namespace_that_was_not_provisioned_fails_the_run_clearly(main):
    main.instance.add_dynamic_partitions("namespace", ["ghost"])
    assert materialize(main, "ghost|p0").failure("open_reorders")[1]["error"] == "UnknownNamespace"
