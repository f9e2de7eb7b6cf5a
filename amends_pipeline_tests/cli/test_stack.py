"""The parts of a stack: its logs, its guard, what earlier stacks left, its home, the signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from amends_pipeline.cli import stack as stack_module
from amends_pipeline.cli import stack_guard, stack_run
from amends_pipeline.cli.stack import Stack, end_leftovers
from amends_pipeline.cli.stack_logs import Logged, Logs
from amends_pipeline.cli.stack_run import within
from amends_pipeline.cli.up import hearing_signals
from amends_pipeline.kernel.errors import InputError

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
        ("ERROR:dagster.daemon:Caught an error", False),  # some lines are logged a second time so
        ("  File 'x.py', line 3", False),
    ],
)
def test_lines_that_tell_of_an_error_are_shown(logs, line, shown):
    with logs.fresh("daemon") as log:
        log.write(f"{line}\n".encode())
    assert list(logs.errors()) == ([Logged("daemon", line)] if shown else [])
    assert list(logs.errors()) == []


def test_an_error_is_shown_once_its_line_is_whole_without_colours_and_cut(logs):
    with logs.fresh("daemon") as log:
        log.write(b"\x1b[32mnow\x1b[0m - dagster - \x1b[31mERROR\x1b[0m - ")
        log.flush()
        assert list(logs.errors()) == []
        log.write(b"\xff" + b"x" * 1_000 + b"\n")
    [error] = logs.errors()
    assert error.text == f"now - dagster - ERROR - \ufffd{'x' * 275}..."


RUN = "a11d8e81-e261-4bc7-bb98-ae76a1d80aae"
OTHER_RUN = "b22d8e81-e261-4bc7-bb98-ae76a1d80aae"
LOST_RUN = "c0ffee00-e261-4bc7-bb98-ae76a1d80aae"
LOGGED = f"now - dagster - ERROR - refold - {RUN}"
FAILED_RUN = f"""\
{LOGGED} - 51 - worker - STEP_FAILURE - Execution of step "worker" failed.

dagster._core.definitions.events.Failure: partition 0, offset 1: expected this, found that

Stack Trace:
  File "x.py", line 1, in f

{LOGGED} - relay - Dependencies for step relay failed: ['worker']. Not executing.
{LOGGED} - view - Dependencies for step view were not executed: ['relay']. Not executing.
{LOGGED} - 51 - RUN_FAILURE - Execution of run for "refold" failed. Steps failed: ['worker'].
"""
WHY = (
    "\ndagster._core.definitions.events.Failure: partition 0, offset 1: expected this, found that\n"
)


@pytest.mark.parametrize(
    ("behind", "text"),
    [
        (WHY, "partition 0, offset 1: expected this, found that"),
        ("", """Execution of run for "refold" failed. Steps failed: ['worker']."""),
        (
            "now - dagster - INFO - Something else\n",
            """Execution of run for "refold" failed. Steps failed: ['worker'].""",
        ),
    ],
)
def test_a_failed_run_is_one_error_with_its_reason(logs, behind, text):
    with logs.fresh("code-server") as log:
        log.write(FAILED_RUN.encode())
        log.flush()
        assert list(logs.errors()) == []  # the reason may be on its way
        log.write(behind.encode())
    assert list(logs.errors()) == [Logged("code-server", text, RUN, "refold")]
    assert list(logs.errors()) == []


def test_a_failed_run_is_told_with_its_unit_once_for_each_reason(logs, capsys):
    fine = SimpleNamespace(port=1, logs=logs, check=lambda: None)
    wishes, locks = SimpleNamespace(parent=None), SimpleNamespace(lost=None)
    life = stack_run._Life(None, wishes, None, fine, locks, None)  # noqa: SLF001 - no run of it yet
    units = {RUN: {"dagster/partition": "main|p0"}, OTHER_RUN: {"dagster/partition": "main|p0"}}
    life._instance = SimpleNamespace(  # noqa: SLF001 - what a start would open
        get_run_by_id=lambda run: SimpleNamespace(tags=units[run]) if run in units else None
    )
    with logs.fresh("code-server") as log:
        for run in (RUN, OTHER_RUN, LOST_RUN):
            log.write(f"{FAILED_RUN}{WHY}".replace(RUN, run).encode())
    life.check()
    assert capsys.readouterr().err == (
        "run a11d8e81 (main|p0) failed: partition 0, offset 1: expected this, found that\n"
        "run c0ffee00 (refold) failed: partition 0, offset 1: expected this, found that\n"
    )


def test_the_last_words_are_the_last_lines_with_something_in_them(logs):
    with logs.fresh("daemon") as log:
        log.write(b"one\n\x1b[31mtwo\x1b[0m\n\n  three\n \nfour\n\n")
    assert logs.last_words("daemon") == "two | three | four"
    logs.fresh("daemon").close()
    assert logs.last_words("daemon") == "nothing"


def test_a_log_that_somebody_removed_tells_nothing(logs):
    logs.fresh("daemon").close()
    (logs.folder / "daemon.log").unlink()
    assert list(logs.errors()) == []
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
    stack = f"mine{tmp_path}"  # no other test's, nor the same test's of another run
    mine = environment(AMENDS_STACK=stack)
    victims = [
        processes(SLEEP, env=mine),
        processes(SLEEP, env=mine, start_new_session=True),
        processes(["sh", "-c", 'trap "" TERM; "$@" & wait', "sh", *SLEEP], env=mine),
    ]
    keeper = tmp_path / "store" / "keeper.py"
    keeper.parent.mkdir()
    keeper.write_text("import time; print(flush=True); time.sleep(600)")
    others = [
        processes(SLEEP, env=environment(AMENDS_STACK=f"{stack}2")),
        processes([sys.executable, keeper], env=mine),
        processes(SLEEP, env=environment(NOT_AMENDS_STACK=stack)),
    ]
    for process in (*victims, *others):
        process.stdout.readline()  # it runs
    guard = processes([*GUARD, "watch", stack, folder], stdin=subprocess.PIPE, process_group=0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        assert comes_true(lambda number=number: _ignores(guard.pid, number))
        guard.send_signal(number)
    assert [process.poll() for process in victims] == [None, None, None]
    guard.stdin.close()
    assert guard.wait(SECONDS) == 0
    assert [process.wait(SECONDS) for process in victims] == [-signal.SIGKILL] * 3
    assert stack_guard.members(stack) == []
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


def test_what_a_stack_starts_is_told_to_stop_when_its_parent_is_killed(processes, tmp_path):
    stack = f"orphan{tmp_path}"
    marked = environment(AMENDS_STACK=stack)
    program = (
        "import os, subprocess, sys\n"
        f"command = {GUARD} + ['enter', str(os.getpid()), *{SLEEP}]\n"
        f"subprocess.run(command)\n"
    )
    parent = processes([sys.executable, "-c", program], env=marked)
    parent.stdout.readline()
    [child] = set(stack_guard.members(stack)) - {parent.pid}
    parent.kill()
    assert comes_true(lambda: child not in stack_guard.members(stack))


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


# On the way out


def answer_late():
    time.sleep(600)


def fail():
    raise OSError


@pytest.mark.parametrize(
    ("question", "answer"), [(lambda: (), ()), (fail, None), (answer_late, None)]
)
def test_a_question_without_an_answer_holds_nothing_up(question, answer):
    began = time.monotonic()
    assert within(0.3, question) == answer
    assert time.monotonic() - began < SECONDS


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
