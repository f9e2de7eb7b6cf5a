"""The webserver of a stack: whether it is ready, and the addresses that are handed out."""

from __future__ import annotations

import json
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from typing import Any

from amends_pipeline.kernel.errors import OperationError

HOST = "127.0.0.1"
LOCATION = "amends"
SECONDS = 15.0

VIEW = "/assets/materialized_view"
BALANCES = "/assets/bank_balances"
LINKS = {
    "lineage": f"{VIEW}?view=lineage&lineageScope=neighbors&lineageDepth=5",
    "partitions": f"{VIEW}?view=partitions",
    "checks": f"{VIEW}?view=checks",
    "bank": f"{BALANCES}?view=lineage&lineageScope=neighbors&lineageDepth=5",
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


class Web:
    """The webserver on a port of this machine."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.url = f"http://{HOST}:{port}"

    @property
    def links(self) -> dict[str, str]:
        """Where lineage, partitions and checks of what readers see, and the bank, are shown."""
        return {name: f"{self.url}{path}" for name, path in LINKS.items()}

    def is_ready(self, since: float) -> bool:
        """Whether the definitions are loaded and every daemon has given a sign of life.

        since: seconds since 1970; signs of life from before are those of an earlier stack. Raises
        OperationError when the definitions cannot be loaded.
        """
        try:
            state = self._ask(STATE)["data"]
            entries = state["workspaceOrError"]["locationEntries"]
            statuses = state["instance"]["daemonHealth"]["allDaemonStatuses"]
        except (OSError, HTTPException, ValueError, LookupError, TypeError):
            return False  # it does not listen yet, or is not itself yet
        locations = [entry["locationOrLoadError"] for entry in entries]
        for location in locations:
            if location and location["__typename"] == "PythonError":
                raise OperationError(
                    "amends_pipeline.definitions",
                    expected="definitions that can be loaded",
                    found=" ".join(location["message"].split()),
                )
        signs = [each["lastHeartbeatTime"] or 0 for each in statuses if each["required"]]
        return bool(locations) and all(locations) and min(signs, default=0) > since

    def _ask(self, query: str) -> dict[str, Any]:
        # Not through a proxy that the environment names: it has no way to our loopback.
        with closing(HTTPConnection(HOST, self._port, timeout=SECONDS)) as connection:
            body = json.dumps({"query": query})
            connection.request("POST", "/graphql", body, {"Content-Type": "application/json"})
            answer: dict[str, Any] = json.load(connection.getresponse())
            return answer
