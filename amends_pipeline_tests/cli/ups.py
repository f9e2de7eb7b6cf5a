"""One call of `amends up` as a process of its own, and what can be asked of it."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from contextlib import closing, suppress
from http.client import HTTPConnection
from pathlib import Path

import pytest

from amends_pipeline.ports import Unit
from amends_pipeline_tests.store.embedded.programs import processes_of

AMENDS = Path(sys.executable).with_name("amends")
SECONDS = 180  # for what takes ten on a machine that has nothing else to do
READY_MILLISECONDS = 30_000
STOP_SECONDS = 10.0
# A busy machine is no reason to fail: what the promise takes is measured in its own time.
PATIENCE = float(os.environ.get("AMENDS_TEST_PATIENCE", "3"))
UNIT = Unit("main", 0)

LAUNCH = """
mutation ($tags: [ExecutionTag!]!) {
  launchRun(executionParams: {
    selector: {
      repositoryLocationName: "amends", repositoryName: "__repository__", jobName: "refold"
    },
    runConfigData: {}, executionMetadata: {tags: $tags}
  }) { __typename ... on LaunchRunSuccess { run { runId } } ... on Error { message } }
}
"""
RUNS = "{ runsOrError { ... on Runs { results { runId status jobName tags { key value } } } } }"
# The tag is hidden from people, and from what tells of runs; it is there to be asked for.
LAUNCHED = """
query ($stack: String!) {
  runsOrError(filter: {tags: [{key: ".dagster/amends_stack", value: $stack}]}) {
    ... on Runs { results { runId } }
  }
}
"""
FAILURE = """
query ($run: ID!) {
  logsForRun(runId: $run) {
    ... on EventConnection { events { __typename ... on MessageEvent { message } } }
  }
}
"""
PARTITIONS = """
{
  assetNodes(assetKeys: [{path: ["materialized_view"]}]) {
    assetPartitionStatuses {
      ... on MultiPartitionStatuses {
        ranges { primaryDimStartKey secondaryDim {
          ... on DefaultPartitionStatuses { materializedPartitions } } }
      }
    }
  }
}
"""


def environ_of(process):
    with suppress(OSError):
        return (Path("/proc") / process / "environ").read_bytes().split(b"\0")
    return []


def carrying(name, value):
    """Every process whose environment says so, whoever its parent is; zombies have none."""
    wanted = f"{name}={value}".encode()
    numbers = (each.name for each in Path("/proc").iterdir() if each.name.isdigit())
    return [int(number) for number in numbers if wanted in environ_of(number)]


def left_of(home):
    """Every process that was started for a home, the private server's included."""
    return carrying("AMENDS_HOME", home) + processes_of(home)


def comes_true(condition, seconds=SECONDS):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.2)
    return False


class Up:
    """One call of `amends up`."""

    def __init__(self, home, *options):
        self.process = subprocess.Popen(
            [AMENDS, "up", "--port", "0", "--json", *options],
            env={**os.environ, "AMENDS_HOME": str(home)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def wait_until_ready(self):
        ready, _, _ = select.select([self.process.stdout], [], [], SECONDS)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            self.process.kill()
            _, err = self.process.communicate(timeout=SECONDS)
            pytest.fail(f"the stack is not ready: {err.decode()}")
        self.told = json.loads(line)

    def close(self):
        """Leave nothing open. What it started has a guard."""
        self.process.kill()
        for pipe in (self.process.stdout, self.process.stderr):
            pipe.close()
        self.process.wait()

    def ask(self, query, **variables):
        body = json.dumps({"query": query, "variables": variables})
        answer = json.loads(self.request("POST", "/graphql", body))
        assert "errors" not in answer, answer
        return answer["data"]

    def request(self, method, path, body=None):
        address = self.told["url"].removeprefix("http://")
        with closing(HTTPConnection(address, timeout=60)) as connection:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            assert reply.status == 200
            return reply.read()

    def runs(self):
        results = self.ask(RUNS)["runsOrError"]["results"]
        return {
            run["runId"]: run | {"tags": {tag["key"]: tag["value"] for tag in run["tags"]}}
            for run in results
        }

    def launched(self):
        """The runs that this stack launched."""
        results = self.ask(LAUNCHED, stack=self.told["stack"])["runsOrError"]["results"]
        return {run["runId"] for run in results}

    def launch(self, unit):
        """Press the button for a unit."""
        values = {"": str(unit), "/namespace": unit.namespace, "/source_partition": "p0"}
        tags = [{"key": f"dagster/partition{key}", "value": values[key]} for key in values]
        answer = self.ask(LAUNCH, tags=tags)["launchRun"]
        assert answer["__typename"] == "LaunchRunSuccess", answer
        return answer["run"]["runId"]

    def in_progress(self, run_id):
        return self.runs()[run_id]["status"] == "STARTED"

    def members(self):
        return carrying("AMENDS_STACK", self.told["stack"])

    def end(self, number):
        """Send a signal; return the exit status, what was said, and how long all of it took."""
        began = time.monotonic()
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=SECONDS)
        assert comes_true(lambda: not self.members())
        return self.process.returncode, err.decode(), time.monotonic() - began
