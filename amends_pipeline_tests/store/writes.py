"""What each role writes, for tests of who may."""

from __future__ import annotations

import pytest

from amends_pipeline.inventory.view_batch import moves_of
from amends_pipeline.ports import Role
from amends_pipeline_tests.envelopes import batch, envelope

ROW = envelope("a day 9 balance v1 5, by Z r1 at 0")
LOCKERS = """
SELECT a.pid FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND a.datname = current_database()
"""

WRITES = {
    "commit": (Role.WORKER, lambda bench, token: bench.store.commit(token, bench.decide())),
    "acknowledge": (
        Role.RELAY,
        lambda bench, token: bench.store.acknowledge(token, bench.progress().acknowledged, 1),
    ),
    "commit_view": (
        Role.VIEW,
        lambda bench, token: bench.store.commit_view(
            token, bench.progress().view_next, 99, {ROW.output_id: ROW}, "a stop"
        ),
    ),
    "advance_view": (
        Role.VIEW,
        lambda bench, token: bench.store.advance_view(
            token, bench.progress().view_next, 99, moves_of(bench.config, 0, batch([ROW]))
        ),
    ),
    "reset_view": (Role.VIEW, lambda bench, token: bench.store.reset_view(token)),
}
EACH_WRITE = pytest.mark.parametrize(("role", "write"), WRITES.values(), ids=WRITES)
PROGRESS = {
    Role.WORKER: "worker_progress",
    Role.RELAY: "relay_progress",
    Role.VIEW: "view_progress",
}
