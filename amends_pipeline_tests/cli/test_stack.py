"""The parts of a stack: its logs, its guard, what earlier stacks left, the demo, the signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from amends_pipeline.cli import stack as stack_module
from amends_pipeline.cli import stack_demo, stack_guard
from amends_pipeline.cli.stack import Stack, end_leftovers
from amends_pipeline.cli.stack_demo import DEMO, SOURCE, Filling, configuration, provisioned
from amends_pipeline.cli.stack_logs import Logs
from amends_pipeline.cli.up import hearing_signals
from amends_pipeline.flows.append import Line, append
from amends_pipeline.flows.catch_up import catch_up
from amends_pipeline.flows.drain import Options
from amends_pipeline.flows.provision import provision
from amends_pipeline.inventory.config import parse_configuration
from amends_pipeline.inventory.envelope import STATUS_DAY
from amends_pipeline.kernel.errors import InputError
from amends_pipeline.kernel.instants import day_text
from amends_pipeline_tests import tables
from amends_pipeline_tests.contracts.ledgers import MemoryLedger

GUARD = [sys.executable, "-I", "-S", stack_guard.__file__]
SLEEP = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"]
SECONDS = 60.0


def comes_true(condition, seconds=SECONDS):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def processes():
    """Starts processes, and ends them."""
    with ExitStack() as started:

        def start(command, **options):
            process = started.enter_context(
                subprocess.Popen(command, stdout=subprocess.PIPE, **options)
            )
            started.callback(process.kill)
            return process

        yield start


def environment(**variables):
    return {**os.environ, **variables}


# Logs


@pytest.fixture
def logs(tmp_path):
    return Logs(tmp_path)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("2026-11-30 15:00:00 +0000 - dagster.daemon - ERROR - Caught an error", True),
        ("2026-11-30 15:00:00 +0000 - dagster - CRITICAL - It is over", True),
        ("2026-11-30 15:00:00 +0000 - dagster - INFO - No ERROR here", False),
        ("2026-11-30 15:00:00 +0000 - dagster - WARNING - Retrying", False),
        ("ERROR:    [Errno 98] error while attempting to bind", True),
        ("The word ERROR: in the middle", False),
        ("  File 'x.py', line 3", False),
    ],
)
def test_lines_that_tell_of_an_error_are_shown(logs, line, shown):
    with logs.fresh("daemon") as log:
        log.write(f"{line}\n".encode())
    assert list(logs.errors()) == ([("daemon", line)] if shown else [])
    assert list(logs.errors()) == []


def test_an_error_is_shown_once_its_line_is_whole_without_colours_and_cut(logs):
    with logs.fresh("daemon") as log:
        log.write(b"\x1b[32mnow\x1b[0m - dagster - \x1b[31mERROR\x1b[0m - ")
        log.flush()
        assert list(logs.errors()) == []
        log.write(b"\xff" + b"x" * 1_000 + b"\n")
    [(_, line)] = logs.errors()
    assert line == f"now - dagster - ERROR - \ufffd{'x' * 275}..."


def test_the_last_words_are_the_last_lines_with_something_in_them(logs):
    with logs.fresh("daemon") as log:
        log.write(b"one\n\x1b[31mtwo\x1b[0m\n\n  three\n \nfour\n\n")
    assert logs.last_words("daemon") == "two | three | four"
    logs.fresh("daemon").close()
    assert logs.last_words("daemon") == "nothing"


def test_the_log_of_the_time_before_is_kept(logs):
    for words in (b"first\n", b"second\n", b"third\n"):
        with logs.fresh("daemon") as log:
            log.write(words)
    assert (logs.folder / "daemon.log").read_bytes() == b"third\n"
    assert (logs.folder / "daemon.log.1").read_bytes() == b"second\n"


# The guard


def test_the_guard_ends_a_stack_wherever_its_processes_went_and_nobody_else(processes, tmp_path):
    folder = tmp_path / "sockets"
    folder.mkdir()
    (folder / "code.sock").touch()
    mine = environment(AMENDS_STACK="mine")
    victims = [
        processes(SLEEP, env=mine),
        processes(SLEEP, env=mine, start_new_session=True),
        processes(["sh", "-c", 'trap "" TERM; "$@" & wait', "sh", *SLEEP], env=mine),
    ]
    keeper = tmp_path / "store" / "keeper.py"
    keeper.parent.mkdir()
    keeper.write_text("import time; print(flush=True); time.sleep(600)")
    others = [
        processes(SLEEP, env=environment(AMENDS_STACK="mine2")),
        processes([sys.executable, keeper], env=mine),
        processes(SLEEP, env=environment(NOT_AMENDS_STACK="mine")),
    ]
    for process in (*victims, *others):
        process.stdout.readline()  # it runs
    guard = processes([*GUARD, "watch", "mine", folder], stdin=subprocess.PIPE, process_group=0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        assert comes_true(lambda number=number: _ignores(guard.pid, number))
        guard.send_signal(number)
    assert [process.poll() for process in victims] == [None, None, None]
    guard.stdin.close()
    assert guard.wait(SECONDS) == 0
    assert [process.wait(SECONDS) for process in victims] == [-signal.SIGKILL] * 3
    assert stack_guard.members("mine") == []
    assert [process.poll() for process in others] == [None, None, None]
    assert not folder.exists()


def _ignores(process, number):
    status = Path(f"/proc/{process}/status").read_text()
    [ignored] = [line.split()[1] for line in status.splitlines() if line.startswith("SigIgn:")]
    return bool(int(ignored, 16) & (1 << (number - 1)))


def test_what_a_stack_starts_hears_signals_whatever_its_starter_ignores(processes):
    program = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
        f"os.execv(sys.executable, {GUARD} + ['enter', str(os.getppid()), *{SLEEP}])\n"
    )
    process = processes([sys.executable, "-c", program])
    process.stdout.readline()
    assert not _ignores(process.pid, signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    assert process.wait(SECONDS) == -signal.SIGTERM


def test_what_a_stack_starts_is_told_to_stop_when_its_parent_is_killed(processes):
    marked = environment(AMENDS_STACK="orphan")
    program = (
        "import os, subprocess, sys\n"
        f"command = {GUARD} + ['enter', str(os.getpid()), *{SLEEP}]\n"
        f"subprocess.run(command)\n"
    )
    parent = processes([sys.executable, "-c", program], env=marked)
    parent.stdout.readline()
    [child] = set(stack_guard.members("orphan")) - {parent.pid}
    parent.kill()
    assert comes_true(lambda: child not in stack_guard.members("orphan"))


def test_what_a_stack_starts_does_not_begin_without_its_parent(processes):
    process = processes([*GUARD, "enter", "1", "/bin/sh", "-c", "echo begun"])
    assert process.stdout.read() == b""


# What earlier stacks left


@pytest.mark.parametrize(
    ("whose", "left"),
    [
        (("dead", "/here", ""), False),
        (("alive", "/here", ""), True),
        (("own", "/here", ""), True),
        (("dead", "/there", ""), True),
        (("dead", "/here", "postgresql:///theirs"), True),  # its lock is in another database
    ],
)
def test_only_processes_of_a_dead_stack_of_the_same_place_are_ended(
    processes, tmp_path, whose, left
):
    def variables(stack, home, url):  # no other test's
        names = {"AMENDS_STACK": f"{stack}{tmp_path}", "AMENDS_HOME": f"{home}{tmp_path}"}
        return names | {"AMENDS_POSTGRES_URL": url}

    process = processes(SLEEP, env=environment(**variables(*whose)))
    process.stdout.readline()
    end_leftovers(variables("own", "/here", ""), lambda stack: stack.startswith("alive"))
    if left:
        assert process.poll() is None
    else:
        assert process.wait(SECONDS) == -signal.SIGKILL


# Its home


def test_dagsters_home_is_below_amends_home_with_the_settings_of_the_project(tmp_path):
    stack = Stack(tmp_path / "home", 3000)
    stack.settle()
    stack.settle()
    project = Path(stack_module.__file__).parents[2]
    found = {path.name: path.read_bytes() for path in stack.dagster_home.iterdir()}
    assert found == {"dagster.yaml": (project / "dagster.yaml").read_bytes()}
    assert stack.environment["DAGSTER_HOME"] == str(tmp_path / "home" / "dagster")
    assert stack.environment["AMENDS_HOME"] == str(tmp_path / "home")


def test_variables_of_dagster_that_contradict_us_are_not_handed_on(tmp_path, monkeypatch):
    monkeypatch.setenv("DAGSTER_GRPC_PORT", "4000")
    monkeypatch.setenv("DAGSTER_SENSOR_GRPC_TIMEOUT_SECONDS", "70")
    environment = Stack(tmp_path, 3000).environment
    assert "DAGSTER_GRPC_PORT" not in environment
    assert environment["DAGSTER_SENSOR_GRPC_TIMEOUT_SECONDS"] == "70"


def test_without_a_checkout_it_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(
        stack_module.amends_pipeline, "__file__", str(tmp_path / "a" / "__init__.py")
    )
    with pytest.raises(InputError, match="part of the source checkout"):
        Stack(tmp_path / "home", 3000).settle()


# The demo


@pytest.fixture
def ledger():
    return MemoryLedger()


@pytest.fixture
def instance():
    """What Dagster is told of partitions, by name."""
    partitions = {}
    return SimpleNamespace(partitions=partitions, add_dynamic_partitions=partitions.__setitem__)


def provision_other(ledger, **members):
    provision(ledger, parse_configuration(tables.configuration(**members)))


def ends(ledger):
    return [extent.end for extent in ledger.source(SOURCE).extents()]


def work(ledger):
    catch_up(ledger, DEMO, Options(holder="a test"), lambda _: None)


def seen(ledger):
    """What readers see: days with their close, alerts marked."""
    config = ledger.store.config(DEMO)
    days = {}
    with ledger.store.snapshot(DEMO) as snapshot:
        for row in snapshot.visible():
            if row.day != STATUS_DAY:
                place = (config.keys[row.key].stock_key.item, day_text(row.day))
                days.setdefault(place, []).append(row.close)
    return {
        f"{item} {day}": f"{closes[0]}{' alert' * (len(closes) - 1)}"
        for (item, day), closes in days.items()
    }


def test_the_demo_is_made_where_there_is_none(ledger, instance):
    assert provisioned(ledger)
    assert ledger.store.info(DEMO).follows
    assert provisioned(ledger)
    Filling(ledger, instance)
    assert instance.partitions == {"namespace": ["demo"], "source_partition": ["p0", "p1"]}


@pytest.mark.parametrize(
    ("namespace", "source", "theirs"),
    [
        ("main", "feed", False),
        ("demo", "feed", True),  # their namespace
        ("demo", SOURCE, True),
        ("main", SOURCE, True),  # their source, of one partition
    ],
)
def test_what_is_somebody_elses_is_left_as_it_is(ledger, namespace, source, theirs):
    provision_other(ledger, namespace=namespace, source=source)
    before = ledger.store.info(namespace)
    assert provisioned(ledger) is not theirs
    assert ledger.store.info(namespace) == before
    assert {info.namespace for info in ledger.store.namespaces()} == (
        {namespace} if theirs else {namespace, DEMO}
    )


def test_history_comes_first_and_corrections_when_readers_have_it(ledger, instance, monkeypatch):
    monkeypatch.setattr(stack_demo, "POLL_SECONDS", 0.01)
    provisioned(ledger)
    filling = threading.Thread(target=Filling(ledger, instance).run)
    filling.start()
    assert comes_true(lambda: ends(ledger) == [3, 3])
    time.sleep(0.1)
    assert ends(ledger) == [3, 3]
    work(ledger)
    assert seen(ledger) == {
        "DEMO-BOLT 2026-01-01": "280",
        "DEMO-BOLT 2026-01-02": "190",
        "DEMO-BOLT 2026-01-04": "120 alert",
        "DEMO-PART 2026-01-01": "50 alert",
        "DEMO-PART 2026-01-02": "30",
        "DEMO-PART 2026-01-03": "80",
    }
    filling.join(SECONDS)
    assert ends(ledger) == [5, 4]
    work(ledger)
    assert seen(ledger) == {
        "DEMO-BOLT 2026-01-01": "280",
        "DEMO-BOLT 2026-01-03": "220",
        "DEMO-BOLT 2026-01-04": "150",
        "DEMO-PART 2026-01-01": "70",
        "DEMO-PART 2026-01-02": "50 alert",
    }


def test_the_next_stack_goes_on_where_the_demo_was_left(ledger, instance):
    provisioned(ledger)
    first = Filling(ledger, instance)
    first.stop()
    first.run()
    assert ends(ledger) == [3, 3]
    work(ledger)
    for _ in range(2):
        Filling(ledger, instance).run()
        assert ends(ledger) == [5, 4]


@pytest.mark.parametrize("after_stages", [0, 1])
def test_who_appends_to_the_demo_has_it_for_himself(ledger, instance, after_stages):
    provisioned(ledger)
    if after_stages:
        stopped = Filling(ledger, instance)
        stopped.stop()
        stopped.run()
    append(ledger, DEMO, [Line("by hand", 1, b"no record")])
    work(ledger)
    before = ends(ledger)
    Filling(ledger, instance).run()
    assert ends(ledger) == before


def test_the_demo_is_a_configuration_like_any_other():
    config = parse_configuration(configuration())
    assert (config.namespace, config.source, config.partitions) == (DEMO, SOURCE, 2)


# Signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_interrupts_and_a_second_one_makes_haste(number):
    before = signal.signal(number, signal.SIG_DFL)
    try:
        with hearing_signals() as ending:
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(number)
            assert (ending.begun.is_set(), ending.hurry.is_set()) == (True, False)
            signal.raise_signal(number)
            assert ending.hurry.is_set()
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize(("number", "heard"), [(signal.SIGINT, True), (signal.SIGHUP, False)])
def test_what_a_shell_makes_its_background_ignore_is_heard_and_what_nohup_does_is_not(
    number, heard
):
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with hearing_signals() as ending, suppress(KeyboardInterrupt):
            signal.raise_signal(number)
        assert ending.begun.is_set() is heard
    finally:
        signal.signal(number, before)
