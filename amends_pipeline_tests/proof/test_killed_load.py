"""A load of 200,000 records whose process is killed at drawn points loses and doubles nothing."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest

from amends_pipeline.store.server import connect_info
from amends_pipeline_tests.conftest import SETTINGS
from amends_pipeline_tests.proof.workload import config_of, lines

RECORDS = 200_000
KEYS = 300
DAYS = 60
SEED = 20_260_102
# Where the ten kills fall: part of the records decided, or part of the envelopes carried on.
DRAWN = random.Random(SEED)  # noqa: S311 - drawn kills, not secrets
KILLS = [
    *(("worker", part) for part in sorted(DRAWN.random() for _ in range(6))),
    *(("relay", part) for part in sorted(DRAWN.uniform(0.02, 0.9) for _ in range(2))),
    *(("view", part) for part in sorted(DRAWN.uniform(0.02, 0.9) for _ in range(2))),
]

FRONTIERS = """
SELECT w.next_offset, w.next_sequence, r.acknowledged, v.view_next
FROM amends.worker_progress w JOIN amends.relay_progress r USING (unit_id)
JOIN amends.view_progress v USING (unit_id)
"""
BROKEN_SEQUENCES = """
SELECT count(*) FROM (SELECT base, lag(base + count, 1, 0::int8) OVER (ORDER BY base) AS expected
    FROM amends.outbox_segment) s WHERE base <> expected
"""
BROKEN_VERSIONS = """
SELECT count(*) FROM (
    SELECT version, row_number() OVER (PARTITION BY family, item, day ORDER BY sequence) AS expected
    FROM amends.outbox) s WHERE version <> expected
"""
# First deliveries, in the order of the output log, are the outbox.
OUT_OF_ORDER = """
SELECT count(*) FROM (
    SELECT family, item, day, version, cause_offset, cause_txn_id, cause_revision, type, close,
        row_number() OVER (ORDER BY at) AS place
    FROM (SELECT *, min(output_offset) OVER (PARTITION BY family, item, day, version) AS at
          FROM amends.output_log) o WHERE output_offset = at) f
FULL JOIN (SELECT *, sequence + 1 AS place FROM amends.outbox) b USING (place)
WHERE (f.family, f.item, f.day, f.version, f.cause_offset, f.cause_txn_id, f.cause_revision,
    f.type, f.close)
    IS DISTINCT FROM (b.family, b.item, b.day, b.version, b.cause_offset, b.cause_txn_id,
    b.cause_revision, b.type, b.close)
"""
EVIDENCE = """
SELECT count(*), count(DISTINCT o) FROM (SELECT source_offset AS o FROM amends.authority
UNION ALL SELECT source_offset FROM amends.observation
UNION ALL SELECT source_offset FROM amends.quarantine) e
"""


class Load:
    """The namespace under load, on a server of its own that outlives every kill."""

    def __init__(self, home, tmp_path):
        self.environment = {**os.environ, "AMENDS_HOME": str(home)}
        config = tmp_path / "config.json"
        config.write_text(json.dumps(config_of("load", KEYS, 1)))
        records = tmp_path / "records.jsonl"
        records.write_bytes(b"\n".join(lines(SEED, RECORDS, KEYS, DAYS)))
        self.run("provision", str(config))
        self.run("append", "--namespace", "load", str(records))

    def command(self, *arguments):
        return [str(Path(sys.executable).with_name("amends")), "inventory", *arguments]

    def run(self, *arguments):
        ended = subprocess.run(
            self.command(*arguments), env=self.environment, capture_output=True, check=False
        )
        assert ended.returncode in (0, 1), ended.stderr.decode()
        return ended.stdout

    def drain(self):
        return subprocess.Popen(
            self.command("drain", "--namespace", "load", "--slice-records", "1000"),
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def passed(role, part, frontiers):
    """Whether the role has come to `part` of its way."""
    next_offset, next_sequence, acknowledged, view_next = frontiers
    if role == "worker":
        return next_offset >= part * RECORDS
    done = acknowledged if role == "relay" else view_next
    return next_offset == RECORDS and done >= part * next_sequence


def killed_at(load, connection, role, part):
    """Drain until the point is passed, then SIGKILL. Returns the frontiers found afterwards."""
    process = load.drain()
    try:
        while process.poll() is None and not passed(
            role, part, connection.execute(FRONTIERS).fetchone()
        ):
            time.sleep(0.005)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return connection.execute(FRONTIERS).fetchone()


@pytest.fixture
def load(tmp_path, postgres_server, request):
    home = tmp_path / "home"
    with connect_info(home, linger=0.0, settings=SETTINGS) as server:
        made = Load(home, tmp_path)
        with psycopg.connect(server.ledger_url, autocommit=True) as connection:
            yield made, connection


def test_nothing_is_lost_doubled_or_out_of_order_when_the_load_is_killed_ten_times(load):
    running, connection = load
    seen = [killed_at(running, connection, role, part) for role, part in KILLS]
    assert all(later >= earlier for earlier, later in pairwise(seen))
    assert any(0 < frontiers[0] < RECORDS for frontiers in seen), "no kill fell into the work"

    running.run("drain", "--namespace", "load", "--slice-records", "1000")

    next_offset, next_sequence, acknowledged, _ = connection.execute(FRONTIERS).fetchone()
    assert (next_offset, acknowledged) == (RECORDS, next_sequence)
    assert connection.execute(EVIDENCE).fetchone() == (RECORDS, RECORDS)
    assert connection.execute(BROKEN_SEQUENCES).fetchone() == (0,)
    assert connection.execute(BROKEN_VERSIONS).fetchone() == (0,)
    assert connection.execute(OUT_OF_ORDER).fetchone() == (0,)
    report = json.loads(running.run("verify", "--namespace", "load", "--json"))
    assert report["status"] == "BLOCKED", "the workload has conflicts"
    assert report["differences"] == []
