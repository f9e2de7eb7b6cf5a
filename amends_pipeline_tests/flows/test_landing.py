"""Landing folders with real files: what is taken, what is not, and nothing twice."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from functools import partial
from pathlib import Path

import pytest

from amends_pipeline.flows import landing, reading
from amends_pipeline.flows.landing import Fate, Seen, land, look, look_into
from amends_pipeline.flows.provision import provision
from amends_pipeline.inventory.config import parse_configuration
from amends_pipeline.kernel.errors import DatabaseUnavailable, InputError, OperationError
from amends_pipeline.sources import table
from amends_pipeline_tests.contracts.ledgers import MemoryLedger
from amends_pipeline_tests.tables import configuration, history

SOURCE = "depot-feed-1"
LATER = 3_000_000_000
"""Nanoseconds after which a file has settled."""
HEADER = "txn_id,revision,kind,item,location,valid_time,qty,source_time\n"
ROW = "A,1,NEW,DEMO-PART,DEPOT-A,2026-01-01T12:00:00Z,-50,2026-02-01T00:00:00Z\n"
LINES = "".join(f"{line.value.decode()}\n" for line in history("A r1 NEW day 1 -50\nmalformed"))


def digest(text: str | bytes) -> str:
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


class Harbour:
    """A landing folder, a ledger, and a clock three seconds ahead."""

    def __init__(self, ledger, root: Path):
        self.ledger = ledger
        self.root = root
        self.folder = root / SOURCE
        self.folder.mkdir(parents=True)
        provision(ledger, parse_configuration(configuration()))

    def put(self, name: str, text: str | bytes = LINES) -> Path:
        path = self.folder / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def land(self, **options) -> dict[str, Fate]:
        return {each.name: each.fate for each in self.outcomes(**options)}

    def outcomes(self, **options) -> list[landing.Outcome]:
        return list(land(self.ledger, self.root, SOURCE, clock=self.clock, **options))

    @staticmethod
    def clock() -> int:
        return time.time_ns() + LATER

    def seen(self) -> Seen:
        return look_into(self.folder, self.clock())

    @property
    def values(self) -> list[bytes]:
        log = self.ledger.source(SOURCE)
        return list(log.read(0, 0, log.extents()[0].end, 100_000).values)

    @property
    def landed(self) -> list[tuple]:
        return [
            (each.name, each.records, each.digest, each.error)
            for each in self.ledger.operations.landed(SOURCE)
        ]

    def files(self) -> list[str]:
        """Every file below the folder."""
        return sorted(
            str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file()
        )


@pytest.fixture
def harbour(ledger, tmp_path):
    return Harbour(ledger, tmp_path / "landing")


@pytest.fixture
def quiet(tmp_path):
    """A harbour over a ledger in memory, for what does not depend on it."""
    return Harbour(MemoryLedger(), tmp_path / "landing")


# --- what is seen


def test_without_a_folder_nothing_is_seen(tmp_path):
    assert look(tmp_path / "landing", time.time_ns()) == []


def test_each_source_has_a_folder(quiet):
    for name in ("b", "a", ".hidden"):
        (quiet.root / name).mkdir()
    (quiet.root / "file").write_text("")
    (quiet.root / "link").symlink_to(quiet.root / "a")
    assert [each.source for each in look(quiet.root, time.time_ns())] == ["a", "b", SOURCE]


def test_files_are_whole_when_they_have_not_changed_for_two_seconds(quiet):
    path = quiet.put("a.jsonl")
    changed = path.stat().st_ctime_ns
    young = look_into(quiet.folder, changed + 1_999_999_999)
    assert (young.whole, young.waits) == ([], '"a.jsonl" changed just now')
    old = look_into(quiet.folder, changed + 2_000_000_000)
    assert [each.name for each in old.whole] == ["a.jsonl"]


def test_the_time_of_the_last_write_can_be_set_back_and_deceives_nobody(quiet):
    path = quiet.put("a.jsonl")
    os.utime(path, (0, 0))
    assert quiet.seen().whole
    assert look_into(quiet.folder, time.time_ns()).whole == []


def test_a_file_that_is_renamed_into_the_folder_is_whole_after_two_seconds(quiet, tmp_path):
    (tmp_path / "a.jsonl").write_text(LINES)
    (tmp_path / "a.jsonl").rename(quiet.folder / "a.jsonl")
    assert quiet.land() == {"a.jsonl": Fate.APPENDED}


def test_what_is_not_taken_is_told_and_stays(quiet):
    quiet.put("a.jsonl.part")
    quiet.put("b.CSV.tmp")
    quiet.put(".c.jsonl")
    quiet.put("d.txt")
    quiet.put("e.jsonl", "")
    (quiet.folder / "f.jsonl").mkdir()
    (quiet.folder / "g.jsonl").symlink_to(quiet.folder / "d.txt")
    os.mkfifo(quiet.folder / "h.jsonl")
    before = quiet.files()
    assert quiet.land() == {}
    assert quiet.seen().waiting == [
        ("a.jsonl.part", "is not finished"),
        ("b.CSV.tmp", "is not finished"),
        ("d.txt", "is neither .jsonl nor .csv"),
        ("e.jsonl", "is empty"),
        ("f.jsonl", "is no file"),
        ("g.jsonl", "is a link"),
        ("h.jsonl", "is no file"),
    ]
    assert quiet.seen().waits == (
        '"a.jsonl.part" is not finished, "b.CSV.tmp" is not finished,'
        ' "d.txt" is neither .jsonl nor .csv, and 4 more'
    )
    assert quiet.files() == before


def test_a_file_that_cannot_be_read_waits(quiet, monkeypatch):
    quiet.put("a.jsonl")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may read everything
    assert quiet.seen().waits == '"a.jsonl" cannot be read'


def test_one_look_sees_a_thousand_files_in_the_order_of_their_names(quiet, monkeypatch):
    monkeypatch.setattr(landing, "FILES_AT_ONCE", 3)
    for name in ("d", "b", "a", "c"):
        quiet.put(f"{name}.jsonl", name)
    assert list(quiet.land()) == ["a.jsonl", "b.jsonl", "c.jsonl"]
    assert list(quiet.land()) == ["d.jsonl"]
    assert quiet.values == [b"a", b"b", b"c", b"d"]


def test_a_folder_that_is_a_link_or_is_gone_is_refused(quiet, tmp_path):
    quiet.folder.rmdir()
    with pytest.raises(OperationError, match="found No such file or directory"):
        quiet.land()
    (tmp_path / "elsewhere").mkdir()
    quiet.folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OperationError, match="found a link"):
        quiet.land()


# --- what is appended


@pytest.mark.parametrize(
    "name", ["a.jsonl", "A.JSONL", "\u202ea\n.jsonl", "a b|c.jsonl", "ä.jsonl"]
)
def test_lines_are_appended_byte_for_byte_and_the_file_is_moved(harbour, name):
    harbour.put(name)
    [outcome] = harbour.outcomes()
    known = digest(LINES)
    assert outcome == (name, Fate.APPENDED, known, 2, "")
    assert harbour.values == [line.encode() for line in LINES.splitlines()]
    assert harbour.landed == [(name, 2, known, None)]
    assert harbour.files() == [f"done/{known[:12]}-{name}"]
    assert harbour.outcomes() == []


def test_rows_of_csv_become_records(harbour):
    harbour.put("a.csv", HEADER + ROW)
    harbour.put("b.Csv", HEADER + ROW + ROW)
    assert harbour.land() == {"a.csv": Fate.APPENDED, "b.Csv": Fate.APPENDED}
    assert len(set(harbour.values)) == 1
    assert [records for _, records, _, _ in harbour.landed] == [1, 2]


def test_a_name_that_is_no_utf_8_is_kept_readable(harbour):
    name = os.fsdecode(b"\xff.jsonl")
    harbour.put(name)
    assert harbour.land() == {name: Fate.APPENDED}
    assert harbour.landed[0][0] == "\\udcff.jsonl"
    assert harbour.files() == [f"done/{digest(LINES)[:12]}-{name}"]


def test_names_of_every_length_can_be_moved(quiet):
    quiet.put("\u00e4" * 124 + ".jsonl")
    quiet.put("b" * 251 + ".csv", "no header")
    assert set(quiet.land().values()) == {Fate.APPENDED, Fate.SET_ASIDE}
    moved = [Path(name) for name in quiet.files()]
    assert [(path.parent.name, path.name[-6:]) for path in moved] == [
        ("done", ".jsonl"),
        ("set-aside", "bb.csv"),
        ("set-aside", "or.txt"),
    ]


def test_files_without_records_land_too(harbour):
    harbour.put("a.jsonl", "\n\r\n")
    harbour.put("b.csv", HEADER)
    assert set(harbour.land().values()) == {Fate.APPENDED}
    assert harbour.values == []
    assert [(name, records) for name, records, _, _ in harbour.landed] == [
        ("a.jsonl", 0),
        ("b.csv", 0),
    ]


def test_a_source_that_no_namespace_has_is_refused(quiet):
    with pytest.raises(InputError, match='found "elsewhere"'):
        list(land(quiet.ledger, quiet.root, "elsewhere"))


def test_no_file_is_begun_when_the_time_is_over(quiet):
    quiet.put("a.jsonl")
    assert quiet.land(seconds=-1) == {}
    assert quiet.land(seconds=60) == {"a.jsonl": Fate.APPENDED}


# --- nothing twice


def test_the_same_bytes_under_two_names_are_appended_once(harbour):
    harbour.put("a.jsonl")
    harbour.put("b.jsonl")
    assert harbour.land() == {"a.jsonl": Fate.APPENDED, "b.jsonl": Fate.APPENDED_BEFORE}
    assert len(harbour.values) == 2
    assert [name for name, _, _, _ in harbour.landed] == ["a.jsonl"]
    known = digest(LINES)[:12]
    assert harbour.files() == [f"done/{known}-a.jsonl", f"done/{known}-b.jsonl"]


def test_the_same_file_again_is_not_appended_again(harbour):
    for expected in (Fate.APPENDED, Fate.APPENDED_BEFORE, Fate.APPENDED_BEFORE):
        harbour.put("a.jsonl")
        assert harbour.land() == {"a.jsonl": expected}
    assert len(harbour.values) == 2
    assert harbour.files() == [f"done/{digest(LINES)[:12]}-a.jsonl"]


def test_a_file_that_cannot_be_moved_stays_and_is_known_by_its_digest(harbour):
    (harbour.folder / "done").write_text("in the way")
    harbour.put("a.jsonl")
    [first], [second] = harbour.outcomes(), harbour.outcomes()
    assert (first.fate, first.note) == (Fate.APPENDED, "not moved: File exists")
    assert (second.fate, second.note) == (Fate.APPENDED_BEFORE, "not moved: File exists")
    assert len(harbour.values) == 2
    (harbour.folder / "done").unlink()
    assert harbour.outcomes()[0].note == ""
    assert harbour.files() == [f"done/{digest(LINES)[:12]}-a.jsonl"]


def test_files_are_not_moved_through_a_link(quiet, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (quiet.folder / "done").symlink_to(tmp_path / "elsewhere")
    quiet.put("a.jsonl")
    assert quiet.outcomes()[0].note == "not moved: a link"
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert len(quiet.values) == 2


def test_a_file_that_grows_after_it_was_appended_lands_as_another_one(quiet, monkeypatch):
    path = quiet.put("a.jsonl", "one\n")
    append_to = landing.append_to

    def append_and_grow(*arguments, **options):
        done = append_to(*arguments, **options)
        with path.open("a") as stream:
            stream.write("two\n")
        return done

    monkeypatch.setattr(landing, "append_to", append_and_grow)
    [outcome] = quiet.outcomes()
    assert (outcome.fate, outcome.note) == (
        Fate.APPENDED,
        "not moved: it is another file by now",
    )
    monkeypatch.undo()
    assert quiet.files() == ["a.jsonl"]
    assert quiet.land() == {"a.jsonl": Fate.APPENDED}
    assert quiet.values == [b"one", b"one", b"two"]


def test_a_file_that_changes_while_it_is_read_is_not_appended(harbour, monkeypatch):
    path = harbour.put("a.jsonl", "one\n")
    append_to = landing.append_to

    def change_and_append(*arguments, **options):
        path.write_text("two\n")
        return append_to(*arguments, **options)

    monkeypatch.setattr(landing, "append_to", change_and_append)
    [outcome] = harbour.outcomes()
    assert (outcome.fate, outcome.note) == (Fate.LEFT, "it changed while it was read")
    assert (harbour.values, harbour.landed) == ([], [])
    monkeypatch.undo()
    assert harbour.land() == {"a.jsonl": Fate.APPENDED}
    assert harbour.values == [b"two"]


def test_a_file_that_somebody_takes_away_meanwhile_is_passed_over(quiet, monkeypatch):
    quiet.put("a.jsonl")
    quiet.put("b.jsonl", "b")
    gone = quiet.seen()
    (quiet.folder / "a.jsonl").unlink()
    monkeypatch.setattr(landing, "look_into", lambda *_: gone)
    assert quiet.land() == {"a.jsonl": Fate.LEFT, "b.jsonl": Fate.APPENDED}


def test_without_a_database_the_files_stay(quiet, monkeypatch):
    quiet.put("a.jsonl")

    def append(*_, **__):
        raise DatabaseUnavailable("database", expected="a server", found="none")

    monkeypatch.setattr(landing, "append_to", append)
    with pytest.raises(DatabaseUnavailable):
        quiet.land()
    assert quiet.files() == ["a.jsonl"]


# --- bad files


@pytest.mark.parametrize(
    ("name", "text", "where", "expected", "found"),
    [
        ("bad.csv", HEADER + "one,two\n", ", row 2", "8 columns", "2"),
        ("bad.csv", ROW, ", row 1", "the columns txn_id, ", '"A, 1, NEW, DEMO-PART'),
        ("bad.csv", HEADER + '"open', ", row 2", "CSV by RFC 4180", "unexpected end of data"),
        ("bad.jsonl", b"x" * (16 * 2**20 + 1), ", line 1", "at most 16777216 bytes", "16777217"),
        ("bad.jsonl", b"ok\n" + b"x" * 2**25, ", line 2", "at most 16777216 bytes", "more"),
    ],
)
def test_a_bad_file_is_set_aside_with_its_error(  # noqa: PLR0917 - columns of the table
    harbour, name, text, where, expected, found
):
    harbour.put(name, text)
    harbour.put("good.jsonl", "good")
    assert harbour.land() == {name: Fate.SET_ASIDE, "good.jsonl": Fate.APPENDED}
    assert harbour.values == [b"good"]
    parts = (harbour.folder / "set-aside" / f"{name}.error.txt").read_text().splitlines()
    assert parts[0] == f'where: "{name}"{where}'
    assert parts[1].startswith(f"expected: {expected}")
    assert parts[2].startswith(f"found: {found}")
    [(bad, records, known, error), _] = harbour.landed
    assert (bad, records, known) == (name, 0, digest(text))
    assert error.startswith(f'"{name}"{where}: expected {expected}')
    kept = (harbour.folder / "set-aside" / name).read_bytes()
    assert digest(kept) == known


def test_two_bad_files_of_one_name_are_both_kept(quiet):
    for text in ("one", "two", "two"):
        quiet.put("bad.csv", text)
        assert quiet.land() == {"bad.csv": Fate.SET_ASIDE}
    two = f"set-aside/{digest('two')[:12]}-bad.csv"
    assert quiet.files() == sorted(
        ["set-aside/bad.csv", "set-aside/bad.csv.error.txt", two, f"{two}.error.txt"]
    )
    assert [known for _, _, known, _ in quiet.landed] == [digest("one"), digest("two")]


def test_bytes_that_were_set_aside_may_land_under_a_better_name(harbour):
    harbour.put("a.csv", "one\n")
    harbour.land()
    harbour.put("a.jsonl", "one\n")
    assert harbour.land() == {"a.jsonl": Fate.APPENDED}
    assert harbour.values == [b"one"]
    assert [error is None for _, _, _, error in harbour.landed] == [False, True]


def test_hostile_names_are_escaped_in_what_people_read(quiet):
    name = "\x1b[31m\n\u202e.csv"
    quiet.put(name, "no header")
    quiet.land()
    text = (quiet.folder / "set-aside" / f"{name}.error.txt").read_text()
    assert text.splitlines()[0] == 'where: "\\x1b[31m\\n\\u202e.csv", row 1'
    assert len(text.splitlines()) == 3


# --- kills

KILLED = """
import os, signal, sys, time
from pathlib import Path
from amends_pipeline.assembly import open_ledger
from amends_pipeline.flows import landing, reading

url, root, source, moment = sys.argv[1:]

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

if moment == "before the commit":
    wrapped = landing._same
    def lines(*arguments):
        yield from wrapped(*arguments)
        die()
    landing._same = lines
else:
    name = {"before the move": "rename", "before the error is written": "write_text"}[moment]
    setattr(Path, name, die)
with open_ledger(url) as ledger:
    list(landing.land(ledger, Path(root), source, clock=lambda: time.time_ns() + 3 * 10**9))
"""


@pytest.mark.parametrize("ledger", ["postgres"], indirect=True)
@pytest.mark.parametrize(
    ("moment", "name", "text", "appended", "fate"),
    [
        ("before the commit", "a.jsonl", LINES, 0, Fate.APPENDED),
        ("before the move", "a.jsonl", LINES, 2, Fate.APPENDED_BEFORE),
        ("before the move", "a.csv", HEADER + ROW, 1, Fate.APPENDED_BEFORE),
        ("before the error is written", "a.csv", "bad", 0, Fate.SET_ASIDE),
        ("before the move", "a.csv", "bad", 0, Fate.SET_ASIDE),
    ],
)
def test_a_kill_in_the_middle_changes_nothing_twice(  # noqa: PLR0917 - columns of the table
    harbour, ledger, moment, name, text, appended, fate
):
    harbour.put(name, text)
    program = [sys.executable, "-c", KILLED, ledger.url, str(harbour.root), SOURCE, moment]
    assert subprocess.run(program, check=False).returncode == -signal.SIGKILL
    assert len(harbour.values) == appended
    assert (harbour.folder / name).exists()
    assert harbour.land() == {name: fate}
    assert len(harbour.landed) == 1
    records = {LINES: 2, HEADER + ROW: 1}.get(text, 0)
    assert (len(harbour.values), harbour.landed[0][1]) == (records, records)
    assert not (harbour.folder / name).exists()
    assert harbour.land() == {}


def test_two_who_land_the_same_file_at_once_append_it_once(tmp_path, ledger):
    harbour = Harbour(ledger, tmp_path / "landing")
    harbour.put("a.jsonl")
    seen = harbour.seen()
    other = Harbour.__new__(Harbour)
    other.__dict__.update(harbour.__dict__, ledger=ledger.reopened())
    fates = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(landing, "look_into", lambda *_: seen)
        patch.setattr(landing, "_move", lambda *_: "")
        fates = [harbour.land(), other.land()]
    assert fates == [{"a.jsonl": Fate.APPENDED}, {"a.jsonl": Fate.APPENDED_BEFORE}]
    assert len(harbour.values) == 2


@pytest.mark.parametrize("ledger", ["postgres"], indirect=True)
@pytest.mark.parametrize("name", ["a.jsonl", "a.csv"])
def test_a_large_file_takes_as_much_memory_as_a_small_one(harbour, monkeypatch, name):
    """With buffers of 16 and 64 KB: 5,000 records, then 20,000, each file in one transaction."""
    monkeypatch.setattr(landing, "BLOCK_BYTES", 2**14)
    monkeypatch.setattr(reading, "BLOCK_BYTES", 2**14)
    monkeypatch.setattr(table, "BUFFERED_BYTES", 2**16)
    monkeypatch.setattr(table, "SEGMENT_BYTES", 2**16)
    monkeypatch.setattr(landing, "append_to", partial(_traced, landing.append_to, peaks := []))
    line = history("A r1 NEW day 1 -50")[0].value.decode()
    for records in (5_000, 20_000):
        text = HEADER + ROW * records if name == "a.csv" else f"{line}\n" * records
        harbour.put(name, text)
        assert harbour.outcomes()[0].records == records
    small, large = peaks
    assert large < 1.5 * small


def _traced(function, peaks, *arguments, **options):
    tracemalloc.start()
    try:
        return function(*arguments, **options)
    finally:
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
