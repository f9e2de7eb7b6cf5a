"""The words of a verdict, which every ledger that compares two accounts of one history gives."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class Row(BaseModel):
    """A value that is written as a JSON object with exactly these members, in this order."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Status(StrEnum):
    """The verdict of a report."""

    PASS = "PASS"  # noqa: S105 - a verdict, not a password
    PASS_WITH_EXCLUSIONS = "PASS_WITH_EXCLUSIONS"  # noqa: S105 - as above
    BLOCKED = "BLOCKED"
    DRIFT = "DRIFT"
    INCOMPLETE = "INCOMPLETE"
    ERROR = "ERROR"


def first_that_holds(
    *,
    error: bool,
    incomplete: bool,
    drift: bool,
    blocked: bool = False,
    excluded: bool = False,
) -> Status:
    """Return the status of a verdict, by their precedence."""
    claims = {
        Status.ERROR: error,
        Status.INCOMPLETE: incomplete,
        Status.BLOCKED: blocked,
        Status.DRIFT: drift,
        Status.PASS_WITH_EXCLUSIONS: excluded,
    }
    return next((status for status, holds in claims.items() if holds), Status.PASS)
