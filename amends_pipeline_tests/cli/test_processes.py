"""`amends` as real processes over PostgreSQL: what only a process and its streams can show."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import uuid
from contextlib import suppress
from pathlib import Path

import pytest

from amends_pipeline_tests.tables import configuration, document, encoded, history

ROOT = Path(__file__).parents[2]
SEED = ROOT / "fixtures/inventory/seed"
AMENDS = Path(sys.executable).with_name("amends")
SECONDS = 240


class Shell:
    """Calls `amends` as a process, on a namespace and a source that no other test knows."""

    def __init__(self, folder, **environment):
        self.folder = folder
        self.namespace = f"n{uuid.uuid4().hex}"
        self.source = f"s{uuid.uuid4().hex}"
        self.environment = {**os.environ, **environment}
        self.environment.pop("AMENDS_DEBUG", None)

    def start(self, *arguments, **streams):
        """Start `amends` with these arguments."""
        command = [AMENDS, *map(str, arguments)]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen(command, env=self.environment, **(pipes | streams))

    def call(self, *arguments, given=b"", **streams):
        """Call `amends` with these arguments: status, standard output, standard error as text."""
        with self.start(*arguments, **streams) as process:
            out, err = process.communicate(given, timeout=SECONDS)
            return process.returncode, out, err.decode()

    def on(self, command, *arguments, given=b"", **streams):
        """Call `amends inventory COMMAND --namespace ...`."""
        named = ("inventory", command, "--namespace", self.namespace)
        return self.call(*named, *arguments, given=given, **streams)

    def provision(self, config):
        """Provision a configuration under the names of this shell."""
        path = self.folder / "config.json"
        path.write_text(json.dumps(config | {"namespace": self.namespace, "source": self.source}))
        status, _, err = self.call("inventory", "provision", path)
        assert (status, err) == (0, "")

    def named(self, raw):
        """Lines of a fixture under the names of this shell."""
        return raw.replace(
            b'"namespace":"main"', b'"namespace":"%b"' % self.namespace.encode()
        ).replace(b'"source":"depot-feed-1"', b'"source":"%b"' % self.source.encode())


@pytest.fixture
def shell(postgres_server, tmp_path):
    return Shell(tmp_path)


def test_the_worked_correction_from_files_to_verdicts(shell):
    shell.provision(json.loads((SEED / "config.json").read_text()))
    for stage in json.loads((SEED / "days.json").read_text())["stages"]:
        status, out, err = shell.on(
            "append", "-", "--json", given=(SEED / stage["file"]).read_bytes()
        )
        assert (status, err) == (0, "")
        assert json.loads(out)["ends"] == [stage["worker_next"]]
        status, out, err = shell.on("drain", "--slice-records", 1, "--json")
        assert (status, err) == (0, "")
        status, out, err = shell.on("verify", "--json")
        assert (status, err) == (0, "")
        report = json.loads(out)
        assert (report["status"], report["accepted"]) == ("PASS", True)
        [boundary] = report["boundary"]
        assert (boundary["worker_next"], boundary["view_next"]) == (
            stage["worker_next"],
            stage["view_next"],
        )
    known = shell.named((SEED / "envelopes-slice-1.jsonl").read_bytes()).splitlines()
    status, out, err = shell.on("outbox", "--json")
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        b'{"partition":0,"sequence":%d,"acknowledged":true,"envelope":%b}' % (sequence, raw)
        for sequence, raw in enumerate(known)
    ]
    status, out, err = shell.on("view", "--json")
    assert (status, err) == (0, "")
    assert out.splitlines() == [known[6], known[7], known[8], known[2]]
    status, out, err = shell.on("explain", "DEMO-PART", "DEPOT-A", "2026-01-03", "--json")
    assert (status, err) == (0, "")
    why = json.loads(out)
    assert (why["balance"], [each["close"] for each in why["contributing"]]) == (50, [70, 50])
    assert [(each["txn_id"], each["why"]) for each in why["not_contributing"]] == [
        ("ISSUE-001", "superseded"),
        ("RECEIPT-003", "cancelled"),
        ("RECEIPT-003", "cancellation"),
    ]


def test_an_overflow_and_the_way_out_of_it(shell):
    shell.provision(configuration(opening=2**63 - 1, keys="a"))
    text = "A r1 NEW day 1 -1\nB r1 NEW day 2 5\nC r1 NEW day 3 -1"
    shell.on("append", "-", given=b"\n".join(line.value for line in history(text)))
    status, out, err = shell.on("drain", "--json")
    assert status == 3
    assert err.startswith("error: partition 0, offset 1: ")
    assert 'item "DEMO-PART" at location "DEPOT-A" on 2026-01-02' in err
    assert json.loads(out)["worker"]["records"] == 1
    aside = ("--partition", 0, "--offset", 1, "--reason", "keyed twice")
    assert shell.on("set-aside", *aside)[0] == 0
    assert shell.on("drain")[0] == 0
    status, out, _ = shell.on("verify", "--json")
    assert status == 1
    manifest = shell.folder / "manifest.json"
    report = json.loads(out)
    manifest.write_text(json.dumps({"rejections": report["rejections"], "conflicts": []}))
    assert shell.on("verify", "--accept", manifest)[0] == 0


# Calls `amends` as often as there are lines of arguments, and says how each call ended.
SESSION = """
import json, sys
from amends_pipeline.cli.program import program
for line in sys.stdin:
    try: program.main(json.loads(line))
    except SystemExit as ended: print("status", ended.code, flush=True)
"""
HOSTS = [
    {"TZ": "UTC", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0"},
    {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "TZ": "Pacific/Kiritimati"},
    {"LANG": "tr_TR.UTF-8", "PYTHONIOENCODING": "latin-1", "TZ": "America/St_Johns"},
]


def test_no_setting_of_the_host_changes_a_byte(postgres_server, tmp_path):
    """Two records are decided one by one, the others as columns."""
    names = [("日本 😀", "\u202eDEPOT"), ("[red]", "<b>'\"")]
    config = configuration(partitions=2, opening=10, threshold=0)
    config["keys"] = [
        {**key, "stock_key": {"item": item, "location": location}, "partition": number}
        for number, (key, (item, location)) in enumerate(zip(config["keys"], names, strict=True))
    ]
    late = [f"2026-01-{day:02}T23:30:00-01:00" for day in (1, 2, 3)]
    few = [document(name, "T\x1b", 1, "NEW", late[0], qty=-15) for name in names]
    many = [
        document(names[0], f"T{at % 120}", 1 + at // 90, "AMEND", late[at % 3], qty=at % 7)
        for at in range(300)
    ]
    for name, records in (("few", few), ("many", many)):
        (tmp_path / name).write_bytes(b"\n".join(map(encoded, records)) + b"\n{\n")
    printed = [written_on(host, tmp_path, config) for host in HOSTS]
    assert printed[0].count(b"status 0\n") == 8
    assert printed[0].endswith(b"status 1\n"), "nobody has accepted the rejections"
    days = {day.decode() for day in re.findall(rb'"day":"([^"]+)"', printed[0])}
    assert days == {"2026-01-02", "2026-01-03", "2026-01-04"}
    assert printed[1:] == printed[:1] * 2


def written_on(host, folder, config):
    """All that `amends` prints of two loads on such a host, under names that hosts share."""
    shell = Shell(folder, **host)
    shell.provision(config)
    named = ("--namespace", shell.namespace)
    calls = [
        ("append", *named, str(folder / "few")),
        ("drain", *named, "--slice-records", "1"),
        ("append", *named, str(folder / "many")),
        ("drain", *named),
        ("view", *named, "--json"),
        ("outbox", *named, "--json"),
        ("outbox", *named, "--quiet"),
        ("quarantine", *named, "--json"),
        ("verify", *named, "--json"),
    ]
    done = subprocess.run(
        [sys.executable, "-c", SESSION],
        input=b"".join(json.dumps(["inventory", *call]).encode() + b"\n" for call in calls),
        env=shell.environment,
        capture_output=True,
        timeout=SECONDS,
        check=True,
    )
    for name, shared in ((shell.namespace, b"n"), (shell.source, b"s")):
        done.stdout = done.stdout.replace(name.encode(), shared)
    return done.stdout


@pytest.fixture(scope="module")
def long_view(postgres_server, tmp_path_factory):
    """A namespace whose view is longer than any pipe."""
    shell = Shell(tmp_path_factory.mktemp("long"))
    shell.provision(configuration(keys="a"))
    text = "\n".join(f"T{number} r1 NEW day {number} 1" for number in range(1, 2_001))
    shell.on("append", "-", given=b"\n".join(line.value for line in history(text)))
    assert shell.on("drain")[0] == 0
    return shell


def test_who_stops_reading_is_told_nothing(long_view):
    for form in ("--json", "--quiet"):
        arguments = ("inventory", "view", "--namespace", long_view.namespace, form)
        with long_view.start(*arguments) as process:
            assert process.stdout.read(1)
            process.stdout.close()
            assert process.stderr.read() == b""
            assert process.wait(SECONDS) == 141


def test_a_full_disk_is_an_operation_error(long_view):
    for command in ("view", "status"):
        with Path("/dev/full").open("wb") as full:
            status, _, err = long_view.on(command, "--json", stdout=full)
        assert status == 3
        assert err == (
            "error: standard output: expected it to take what is printed,"
            " found No space left on device\n"
        )


@pytest.mark.parametrize("buffered", ["", "1"])
@pytest.mark.parametrize("line", ["--help", "--version", "inventory drain --help", "complete"])
def test_help_for_a_full_disk_ends_as_every_command(tmp_path, line, buffered):
    shell = Shell(tmp_path, PYTHONUNBUFFERED=buffered)
    if line == "complete":
        shell = Shell(tmp_path, _AMENDS_COMPLETE="bash_source", PYTHONUNBUFFERED=buffered)
    with Path("/dev/full").open("wb") as full:
        status, _, err = shell.call(*line.split(), stdout=full)
    assert status == 3
    assert err == (
        "error: standard output: expected it to take what is printed,"
        " found No space left on device\n"
    )


def test_a_shell_learns_how_a_line_may_go_on(tmp_path):
    shell = Shell(
        tmp_path, _AMENDS_COMPLETE="bash_complete", COMP_WORDS="amends inventory re", COMP_CWORD="2"
    )
    assert shell.call() == (0, b"plain,rebuild\nplain,remove\nplain,reproject\n", "")


def test_nothing_is_left_of_standard_input_whoever_ends_us(shell, tmp_path):
    shell.provision(configuration())
    copies = tmp_path / "copies"
    copies.mkdir()
    shell.environment["TMPDIR"] = str(copies)
    with shell.start("inventory", "append", "--namespace", shell.namespace, "-") as process:
        # More than a pipe holds: when it is written, a part of it is copied.
        process.stdin.write(b"x" * 1_000_000)
        process.stdin.flush()
        process.kill()
        process.wait(SECONDS)
    assert list(copies.iterdir()) == []


@pytest.fixture
def heard():
    """Interrupts are heard by what is started, although shells have background jobs ignore them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_ends_without_a_traceback(shell, heard):
    shell.provision(configuration())
    arguments = ("inventory", "append", "--namespace", shell.namespace, "-")
    with shell.start(*arguments) as process:
        # More than a pipe holds: when it is written, the process reads.
        process.stdin.write(b"x" * 1_000_000)
        process.stdin.flush()
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)
        assert (process.returncode, process.stderr.read()) == (130, b"interrupted\n")
        assert process.stdout.read() == b""


def test_a_server_that_is_not_there_is_told_without_its_password(tmp_path):
    url = f"postgresql://someone:s3cret@/ledger?host={tmp_path}"
    shell = Shell(tmp_path, AMENDS_POSTGRES_URL=url)
    status, out, err = shell.on("view")
    assert (status, out) == (3, b"")
    assert err.startswith("error: AMENDS_POSTGRES_URL ")
    assert "s3cret" not in err
    assert len(err.splitlines()) == 1


def test_a_home_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "home").write_text("")
    shell = Shell(tmp_path, AMENDS_HOME=str(tmp_path / "home"))
    status, out, err = shell.on("view")
    assert (status, out) == (3, b"")
    assert err.startswith("error: ")
    assert len(err.splitlines()) == 1
    status, _, err = shell.call("--home", tmp_path / "home", "inventory", "namespaces")
    assert status == 2
    assert "is a file" in err


def test_file_names_from_strangers_do_no_harm(shell):
    name = b"\x1b[31m\xff\xe2\x80\xae[red].csv"
    path = os.fsencode(shell.folder) + b"/" + name
    Path(os.fsdecode(path)).write_bytes(b"x")
    shell.provision(configuration())
    status, out, err = shell.on("append", os.fsdecode(path))
    assert (status, out) == (2, b"")
    assert "\\\\x1b[31m\\\\udcff\\\\u202e[red].csv" not in err
    assert "\\x1b[31m\\udcff\\u202e[red].csv" in err
    assert err.removesuffix("\n").isprintable()


def test_a_closed_standard_output_is_an_operation_error(shell):
    shell.provision(configuration())
    command = f'"{AMENDS}" inventory status --namespace {shell.namespace} --json >&-'
    done = subprocess.run(
        ["sh", "-c", command],
        env=shell.environment,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 3
    assert done.stderr == b"error: standard output: expected an open file, found a closed one\n"


def test_help_needs_neither_a_ledger_nor_its_libraries():
    code = (
        "import sys\n"
        "from amends_pipeline.cli.program import program\n"
        "try: program.main(['inventory', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'dagster', 'psycopg', 'duckdb', 'numpy', 'pydantic', 'rich', 'msgspec'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=SECONDS, check=True
    )
    assert done.stderr == b"[]\n"
