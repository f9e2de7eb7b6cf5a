"""What `amends up` asks its own webserver, and the addresses that it hands out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from typing import Any
from urllib.error import URLError
from urllib.request import ProxyHandler, Request, build_opener

from amends_pipeline.kernel.errors import OperationError

HOST = "127.0.0.1"
LOCATION = "amends"
SECONDS = 15.0

VIEW = "/assets/materialized_view"
LINKS = {
    "lineage": f"{VIEW}?view=lineage&lineageScope=upstream&lineageDepth=5",
    "partitions": f"{VIEW}?view=partitions",
    "checks": f"{VIEW}?view=checks",
}

STATE = """
{
  workspaceOrError {
    ... on Workspace {
      locationEntries { locationOrLoadError { __typename ... on PythonError { message } } }
    }
  }
  instance { daemonHealth { allDaemonStatuses { required lastHeartbeatTime } } }
}
"""
LAUNCH = """
mutation ($job: JobOrPipelineSelector!, $tags: [ExecutionTag!]!) {
  launchRun(
    executionParams: { selector: $job, runConfigData: {}, executionMetadata: { tags: $tags } }
  ) {
    ... on LaunchRunSuccess { run { runId } }
    ... on Error { message }
  }
}
"""


class Web:
    """A webserver on this machine."""

    def __init__(self, port: int) -> None:
        self.url = f"http://{HOST}:{port}"
        # A proxy that the environment names has no way to our loopback.
        self._opener = build_opener(ProxyHandler({}))

    @property
    def links(self) -> dict[str, str]:
        """Where lineage, partitions and checks of what readers see are shown."""
        return {name: f"{self.url}{path}" for name, path in LINKS.items()}

    def is_ready(self, since: float) -> bool:
        """Whether the definitions are loaded and every daemon has given a sign of life.

        since: seconds since 1970; signs of life from before are those of another stack. Raises
        OperationError when the definitions cannot be loaded.
        """
        try:
            state = self._ask(STATE, {})
        except (OSError, URLError, HTTPException, ValueError):
            return False  # it does not listen yet, or breaks off because it stops
        locations = [
            entry["locationOrLoadError"]
            for entry in state["workspaceOrError"].get("locationEntries", ())
        ]
        for location in locations:
            if location and location["__typename"] == "PythonError":
                raise OperationError(
                    "amends_pipeline.definitions",
                    expected="definitions that can be loaded",
                    found=" ".join(location["message"].split()),
                )
        daemons = [
            daemon["lastHeartbeatTime"] or 0
            for daemon in state["instance"]["daemonHealth"]["allDaemonStatuses"]
            if daemon["required"]
        ]
        return bool(locations) and all(locations) and bool(daemons) and min(daemons) > since

    def launch(self, job: str, tags: Mapping[str, str]) -> str:
        """Queue a run, as a person would who presses the button. Returns its id.

        Raises OperationError.
        """
        selector = {
            "repositoryLocationName": LOCATION,
            "repositoryName": "__repository__",
            "jobName": job,
        }
        pairs = [{"key": key, "value": value} for key, value in tags.items()]
        try:
            answer = self._ask(LAUNCH, {"job": selector, "tags": pairs})["launchRun"]
            return str(answer["run"]["runId"])
        except (OSError, URLError, HTTPException, ValueError) as error:
            found = str(error)
        except KeyError:
            found = str(answer.get("message", "another answer"))
        raise OperationError(f"{self.url}, job {job}", expected="a run of it", found=found)

    def _ask(self, query: str, variables: Mapping[str, object]) -> dict[str, Any]:
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = Request(  # noqa: S310 - the address is ours
            f"{self.url}/graphql", body, {"Content-Type": "application/json"}
        )
        with self._opener.open(request, timeout=SECONDS) as reply:
            answer = json.load(reply)
        if answer.get("errors"):
            raise ValueError(_messages(answer["errors"]))
        data: dict[str, Any] = answer["data"]
        return data


def _messages(errors: Sequence[Mapping[str, Any]]) -> str:
    return "; ".join(str(error.get("message")) for error in errors)
