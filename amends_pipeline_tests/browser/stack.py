"""A stack of `amends up` with its demo, in a home of its own, and how a test asks about it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path

import psycopg
import pytest

from amends_pipeline.assembly import open_ledger
from amends_pipeline.cli.stack_demo import DEMO, PARTITIONS, STAGES
from amends_pipeline.flows.accept import standing_verdicts
from amends_pipeline.ports import Unit
from amends_pipeline.store.server import connect_info

AMENDS = Path(sys.executable).with_name("amends")
# A busy machine is no reason to fail: what the promises take is measured in their own time.
PATIENCE = float(os.environ.get("AMENDS_TEST_PATIENCE", "3"))
SECONDS = 45 * PATIENCE
DEMO_UNITS = [Unit(DEMO, partition) for partition in range(PARTITIONS)]

RUNS = """
query ($partition: String!) {
  runsOrError(limit: 20, filter: {tags: [{key: "dagster/partition", value: $partition}]}) {
    ... on Runs { results { runId jobName status creationTime startTime endTime } }
  }
}
"""
UNFINISHED = """
query ($job: String!) {
  runsOrError(
    filter: {pipelineName: $job, statuses: [QUEUED, NOT_STARTED, STARTING, STARTED, CANCELING]}
  ) { ... on Runs { results { runId } } }
}
"""
NAMESPACES = """
{
  assetNodes(assetKeys: [{path: ["materialized_view"]}]) {
    partitionKeysByDimension { name partitionKeys }
  }
}
"""
BALANCES = "SELECT item, day, close FROM amends.balance WHERE namespace = %s"
MATERIALIZED = """
query ($partition: String!) {
  assetNodes(assetKeys: [{path: ["materialized_view"]}]) {
    assetMaterializations(partitions: [$partition], limit: 1) { timestamp runId }
  }
}
"""


def comes_true(condition, seconds=SECONDS):
    """Wait until a condition is true; return what it is then, which is false after the time."""
    until = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() > until:
            return value
        time.sleep(0.2)


class Stack:
    """A stack that is ready when this returns. Other words are the command line's."""

    def __init__(self, home, output):
        self.home = home
        self.environment = {
            **os.environ,
            "AMENDS_HOME": str(home),
            # By default a verdict stands for a minute before another one is asked for.
            "AMENDS_VERIFY_INTERVAL_SECONDS": "1",
        }
        began = time.monotonic()
        self.said = output / "stack.log"
        with self.said.open("wb") as said:
            self.process = subprocess.Popen(
                [AMENDS, "up", "--port", "0", "--json", "--with-parent"],
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=said,
            )
        ready, _, _ = select.select([self.process.stdout], [], [], SECONDS)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            self._kill()
            pytest.fail(f"the stack is not ready: {self.said.read_text()}")
        self.seconds_to_start = time.monotonic() - began
        self.told = json.loads(line)
        self.url = self.told["url"]

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            self._kill()
            raise

    def _kill(self):
        """Its guard ends what it started."""
        self.process.kill()
        self.process.communicate()

    # What people do at the command line

    def call(self, *arguments, given=""):
        """Call `amends inventory`; return what it prints, as a document."""
        done = subprocess.run(
            [AMENDS, "inventory", *arguments, "--json"],
            env=self.environment,
            input=given.encode(),
            capture_output=True,
            check=False,
            timeout=SECONDS,
        )
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)

    # What is so

    @contextmanager
    def ledger(self):
        with connect_info(self.home, {}) as server, open_ledger(server.ledger_url) as ledger:
            yield ledger

    @contextmanager
    def sql(self):
        """Connect to the ledgers' database, past everything that guards them."""
        with (
            connect_info(self.home, {}) as server,
            psycopg.connect(server.ledger_url, autocommit=True) as connection,
        ):
            yield connection

    def balances(self, namespace):
        """What readers see: {(item, day): close}."""
        with self.sql() as connection:
            return {
                (item, day): close for item, day, close in connection.execute(BALANCES, [namespace])
            }

    def ask(self, query, **variables):
        """Ask Dagster, by GraphQL."""
        body = json.dumps({"query": query, "variables": variables})
        with closing(HTTPConnection(self.url.removeprefix("http://"), timeout=60)) as connection:
            headers = {"Content-Type": "application/json"}
            connection.request("POST", "/graphql", body, headers)
            answer = json.load(connection.getresponse())
        assert "errors" not in answer, answer
        return answer["data"]

    def runs(self, unit):
        """The runs of a unit, the latest first."""
        return self.ask(RUNS, partition=str(unit))["runsOrError"]["results"]

    def unfinished(self, job):
        """The runs of a job that have not ended."""
        return self.ask(UNFINISHED, job=job)["runsOrError"]["results"]

    def namespaces(self):
        """The namespaces that are partitions: a sensor makes a new one a partition at its tick."""
        [node] = self.ask(NAMESPACES)["assetNodes"]
        [keys] = [
            each["partitionKeys"]
            for each in node["partitionKeysByDimension"]
            if each["name"] == "namespace"
        ]
        return keys

    def materialized(self, unit, after):
        """When the view of a unit was materialized last, and by which run; None if not since.

        Both times are seconds since 1970.
        """
        [node] = self.ask(MATERIALIZED, partition=str(unit))["assetNodes"]
        for found in node["assetMaterializations"]:
            at = int(found["timestamp"]) / 1000
            return (at, found["runId"]) if at > after else None
        return None


def verified(ledger, unit):
    """The verdict on a unit where it stands now, if there is one."""
    progress = ledger.store.progress(unit)
    verdict = standing_verdicts(ledger).get(unit)
    boundary = (progress.next_offset, ledger.outputs.end(unit))
    if verdict is not None and (verdict.source_end, verdict.output_end) == boundary:
        return verdict
    return None


def filled(ledger):
    """Whether the whole demo is appended, and readers have what follows from it."""
    ends = [extent.end for extent in ledger.source(ledger.store.info(DEMO).source).extents()]
    if sum(ends) < sum(map(len, STAGES)):
        return False
    for unit, end in zip(DEMO_UNITS, ends, strict=True):
        at = ledger.store.progress(unit)
        if at.next_offset < end or at.pending or at.view_next < ledger.outputs.end(unit):
            return False
    return True
