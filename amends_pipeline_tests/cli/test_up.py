"""`amends up` as real processes: ready, told, stopped, killed, and what is left in each case."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psycopg
import pyarrow.parquet as pq
import pytest

from amends_pipeline.assembly import open_ledger
from amends_pipeline.cli.stack_demo import DEMO, STAGES
from amends_pipeline.flows.append import Line, append
from amends_pipeline.flows.provision import provision
from amends_pipeline.inventory.config import parse_configuration
from amends_pipeline.kernel.instants import day_text
from amends_pipeline.ports import Role
from amends_pipeline.store.server import connect_info
from amends_pipeline.store.stack_locks import StackLocks
from amends_pipeline_tests.cli.ups import (
    AMENDS,
    FAILURE,
    PARTITIONS,
    PATIENCE,
    READY_MILLISECONDS,
    SECONDS,
    STOP_SECONDS,
    UNIT,
    Up,
    comes_true,
    left_of,
)
from amends_pipeline_tests.conftest import make_home, remove_home
from amends_pipeline_tests.tables import configuration, history


@pytest.fixture(scope="module")
def homes():
    """Makes homes, and kills what a failing test leaves in them."""
    made = []

    def make():
        made.append(make_home())
        return made[-1]

    yield make
    for home in made:
        for process in left_of(home):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        remove_home(home)


@pytest.fixture
def start():
    """Starts stacks, which are ready; whatever becomes of the test, none of them is left open."""
    with ExitStack() as started:

        def call(home, *options):
            up = Up(home, *options)
            started.callback(up.close)
            up.wait_until_ready()
            return up

        yield call


@contextmanager
def ledger_of(home):
    """The ledger of a home, whose private server stays up for the block."""
    with connect_info(home, {}) as server, open_ledger(server.ledger_url) as ledger:
        yield ledger


def refused(*options, home=None, **environment):
    """Call `amends up` where it cannot start: status, what was said."""
    environment = {**os.environ, **environment} | ({"AMENDS_HOME": str(home)} if home else {})
    done = subprocess.run(
        [AMENDS, "up", *options],
        env=environment,
        capture_output=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.stdout == b""
    return done.returncode, done.stderr.decode()


# What it cannot do, said clearly


def test_a_port_that_is_none_is_a_usage_error():
    status, said = refused("--port", "65536")
    assert status == 2
    assert "65536" in said


def test_a_busy_port_is_named_before_anything_is_started(postgres_server):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        status, said = refused("--port", str(port))
    assert status == 3
    assert said == (
        f"error: port {port} of 127.0.0.1: expected a port for the webserver; --port N names"
        " another, found another program that listens on it\n"
    )


def test_a_second_stack_on_a_database_is_told_who_is_there(postgres_server):
    with StackLocks(postgres_server, "a", "amends up, port 3000, process 7 on desk"):
        status, said = refused("--port", "0")
    assert status == 3
    assert said.startswith(f"error: {postgres_server.where}: expected no other stack on it, found ")
    assert '"amends up, port 3000, process 7 on desk", since ' in said


@pytest.mark.parametrize(
    ("name", "told"),
    [("nobody_made_this", 'database "nobody_made_this" does not exist'), (None, "refused")],
)
def test_a_database_that_cannot_be_had_is_named_without_its_password(postgres_server, name, told):
    url = "postgresql://me:hunter2@127.0.0.1:1/mine"
    if name is not None:
        url = postgres_server.lease.url(name)
    status, said = refused(AMENDS_POSTGRES_URL=url)
    assert status == 3
    assert said.startswith("error: AMENDS_POSTGRES_URL (")
    assert told in said
    assert "hunter2" not in said


def test_a_home_that_cannot_be_written_is_an_error_of_ours(database_url, tmp_path):
    (tmp_path / "file").touch()
    home = tmp_path / "file" / "home"
    status, said = refused("--port", "0", home=home, AMENDS_POSTGRES_URL=database_url)
    assert status == 3
    assert said.startswith(f"error: {home}: expected a folder that this user can write, found ")


# The life of a stack


def closes(ledger):
    """What readers of the demo see: (item, day, close)."""
    config = ledger.store.config(DEMO)
    with ledger.store.snapshot(DEMO) as snapshot:
        return [
            (config.keys[row.key].stock_key.item, day_text(row.day), row.close)
            for row in snapshot.visible()
            if row.type == 3  # a balance
        ]


AFTER_CORRECTIONS = [
    ("DEMO-BOLT", "2026-01-01", 280),
    ("DEMO-BOLT", "2026-01-03", 220),
    ("DEMO-BOLT", "2026-01-04", 150),
    ("DEMO-PART", "2026-01-01", 70),
    ("DEMO-PART", "2026-01-02", 50),
]


def shows_the_demo(up):
    [node] = up.ask(PARTITIONS)["assetNodes"]
    ranges = node["assetPartitionStatuses"].get("ranges", ())
    return [
        (each["primaryDimStartKey"], each["secondaryDim"]["materializedPartitions"])
        for each in ranges
    ] == [(DEMO, ["p0", "p1"])]


def short(home, partition):
    """What the example's file of a unit of the demo says is to be ordered; None without a file."""
    path = home / "exports" / DEMO / partition / "open_reorders.parquet"
    if not path.exists():
        return None
    return [(row["item"], row["short_by"]) for row in pq.read_table(path).to_pylist()]


def test_it_is_ready_with_something_to_show_and_goes_on_ctrl_c(homes, start):
    home = homes()
    up = start(home)
    assert up.told["ready_milliseconds"] < READY_MILLISECONDS * PATIENCE
    assert set(up.told["links"]) == {"lineage", "partitions", "checks", "bank"}
    for link in up.told["links"].values():
        assert b"<html" in up.request("GET", link.removeprefix(up.told["url"]))
    status, said = refused("--port", "0", home=home)
    assert (status, f"port {up.told['url'].rsplit(':', 1)[1]}, process" in said) == (3, True)
    with ledger_of(home) as ledger:
        assert comes_true(lambda: closes(ledger) == AFTER_CORRECTIONS)
        [source] = {info.source for info in ledger.store.namespaces()}
        assert sum(extent.end for extent in ledger.source(source).extents()) == sum(
            map(len, STAGES)
        )
    assert comes_true(lambda: shows_the_demo(up))
    assert comes_true(lambda: short(home, "p0") == [("DEMO-PART", 10)])
    assert comes_true(lambda: short(home, "p1") == [])
    # A run gets the stack's tag when it is launched, and some may still be queued.
    assert comes_true(lambda: up.launched() == up.runs().keys() != set())
    status, said, seconds = up.end(signal.SIGINT)
    assert status == 0, said
    assert [line for line in said.splitlines() if "ERROR" in line or " failed: " in line] == []
    assert comes_true(lambda: not left_of(home), STOP_SECONDS * PATIENCE)
    assert seconds < STOP_SECONDS * PATIENCE
    assert sorted(path.name for path in (home / "logs").iterdir()) == [
        "code-server.log",
        "daemon.log",
        "webserver.log",
    ]


def waiting_run(up, ledger, holding, record):
    """Hold a unit, and have a run of it begin that waits."""
    holding.enter_context(ledger.store.hold(UNIT, Role.WORKER, holder="a test"))
    append(ledger, UNIT.namespace, [Line("table", 1, each.value) for each in history(record)])
    run_id = up.launch(UNIT)
    assert comes_true(lambda: up.in_progress(run_id))
    return run_id


def kill_everything(up, home):
    """The guard first, then who would notice, then the rest, then the private server."""
    stack = up.told["stack"].encode()
    guard = [
        int(each.parent.name)
        for each in Path("/proc").glob("[0-9]*/cmdline")
        if stack in read(each)
    ]
    assert len(guard) == 1
    for process in [*guard, up.process.pid, *up.members(), *left_of(home)]:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    up.process.communicate(timeout=SECONDS)


def read(path):
    with suppress(OSError):
        return path.read_bytes()
    return b""


def status_of(home, run_id):
    """What Dagster's storage says of a run, while no Dagster runs."""
    with connect_info(home, {}) as server, psycopg.connect(server.lease.url("dagster")) as storage:
        question = "SELECT status FROM runs WHERE run_id = %s"
        return storage.execute(question, [run_id]).fetchone()[0]


def test_whatever_is_killed_nothing_is_left_and_the_next_stack_goes_on(homes, start):
    home = homes()
    with ledger_of(home) as ledger, ExitStack() as holding:
        provision(ledger, parse_configuration(configuration(source="feed")))
        first = start(home, "--no-demo")
        run_id = waiting_run(first, ledger, holding, "A r1 NEW day 1 -50")
        # SIGKILL of the parent alone.
        status, _, seconds = first.end(signal.SIGKILL)
        assert status == -signal.SIGKILL
        assert seconds < STOP_SECONDS * PATIENCE
        second = start(home, "--no-demo")
        assert second.told["reaped"] == [run_id]
        assert second.runs()[run_id]["status"] == "FAILURE"
        events = second.ask(FAILURE, run=run_id)["logsForRun"]["events"]
        assert any("Its stack was killed" in event.get("message", "") for event in events)
        assert ledger.store.progress(UNIT).next_offset == 0
        # SIGKILL of everything in mid-run.
        again = second.launch(UNIT)
        assert comes_true(lambda: second.in_progress(again))
        kill_everything(second, home)
    assert comes_true(lambda: not left_of(home))
    temporary = Path((home / "dagster" / "temporary").read_text())
    assert temporary.exists()
    third = start(home, "--no-demo")
    # The sensor may have asked for a run of its own beside it.
    assert again in third.told["reaped"]
    assert not temporary.exists()
    with ledger_of(home) as ledger, ExitStack() as holding:
        assert comes_true(lambda: ledger.store.progress(UNIT).next_offset == 1)
        # SIGTERM in mid-run.
        stopped = waiting_run(third, ledger, holding, "A r2 AMEND day 1 -30")
        status, said, seconds = third.end(signal.SIGTERM)
    assert (status, seconds < STOP_SECONDS * PATIENCE) == (0, True)
    assert "stopping; 1 run in progress, with 4 s to finish" in said
    assert "1 run did not finish: marked as failed" in said
    assert not Path((home / "dagster" / "temporary").read_text()).exists()
    assert status_of(home, stopped) == "FAILURE"
    assert comes_true(lambda: not left_of(home), STOP_SECONDS * PATIENCE)


def test_with_its_parent_it_ends_also_when_that_is_killed(homes):
    home = homes()
    program = "import subprocess, sys; subprocess.run(sys.argv[1:])"
    command = [sys.executable, "-c", program, AMENDS, "up", "--port", "0"]
    command += ["--with-parent", "--no-demo"]  # a run of the demo would be told of at the end
    environment = {**os.environ, "AMENDS_HOME": str(home)}
    with (
        subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as parent,
        ExitStack() as ending,
    ):
        ending.callback(parent.kill)
        assert comes_true((home / "logs" / "code-server.log").exists)
        parent.kill()
        _, said = parent.communicate(timeout=SECONDS)
    assert said.decode().splitlines()[-2:] == ["stopping", "stopped"]
    assert comes_true(lambda: not left_of(home), STOP_SECONDS * PATIENCE)
