"""What people and automation keep about namespaces, beside the facts themselves."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from amends_pipeline.ports.values import Unit


class Verdict(NamedTuple):
    """The outcome of one verification of one unit, with the boundary it holds at."""

    unit: Unit
    status: str
    """PASS, PASS_WITH_EXCLUSIONS, BLOCKED, DRIFT, INCOMPLETE or ERROR."""
    accepted: bool
    source_end: int
    """H: the source end it was judged at."""
    output_end: int
    """O: the end of the output log at that moment."""
    differences: int
    judged_at: str
    """RFC 3339, UTC."""
    judged_by: str
    """The Dagster run or the command that judged."""
    report: str
    """The whole report as JSON: every difference, not only those that a table shows."""


class Landed(NamedTuple):
    """A file that was picked up from a landing folder, once."""

    source: str
    digest: str
    """SHA-256 of its bytes, in hexadecimal."""
    name: str
    records: int
    error: str | None
    """Why it was set aside; None when it was appended."""
    landed_at: str


class Counted(StrEnum):
    """Rows of a unit that can be counted."""

    TRANSACTIONS = "transactions"
    """Identities that were seen: each has one authority."""
    OBSERVATIONS = "observations"
    """Accepted records that are not in force."""
    QUARANTINED = "quarantined"
    """Records that were rejected or set aside."""
    PAGES = "pages"
    """Runs of 64 calendar days of a stock key that hold a day with activity, now or before."""
    OUTPUTS = "outputs"
    """Outputs that the view has a version of, withdrawn ones too."""
    VISIBLE = "visible"
    """Outputs that readers see."""


class Operations(Protocol):
    """Verdicts, manifests, the life of namespaces, landed files, counts. One transaction a method.

    Methods that take a namespace or a unit raise UnknownNamespace, or InputError for a partition
    that the namespace does not have.
    """

    def record_verdict(self, verdict: Verdict) -> None:
        """Keep a verdict; the last one recorded of a unit stands."""
        ...

    def verdicts(self, *, reports: bool = True) -> Sequence[Verdict]:
        """The standing verdict of every unit that was ever judged, by namespace and partition.

        reports: read the reports too, which may be long; else they are empty.
        """
        ...

    def verdict(self, unit: Unit) -> Verdict | None:
        """The standing verdict of one unit; None when it was never judged."""
        ...

    def store_manifest(self, namespace: str, document: str) -> None:
        """Accept exactly these exclusions from now on."""
        ...

    def manifest(self, namespace: str) -> str | None:
        """The accepted exclusions as JSON, None when none were ever stored."""
        ...

    def follow(self, namespace: str, *, follows: bool) -> None:
        """Let the sensor ask for runs of the namespace's units, or not."""
        ...

    def current(self, source: str) -> str | None:
        """The namespace that readers of a source see: the first one that followed it."""
        ...

    def remove(self, namespace: str) -> None:
        """Forget a namespace and everything made for it; the source log stays.

        Raises UnknownNamespace, Held when a role of one of its units is held, InputError when it
        is the current namespace of its source.
        """
        ...

    def record_landed(self, landed: Landed) -> None:
        """Keep that a file was set aside. Appended files are recorded by `SourceLog.append`."""
        ...

    def landed(self, source: str) -> Sequence[Landed]:
        """Files that were picked up for a source, in order."""
        ...

    def row_counts(self, unit: Unit, counted: Collection[Counted]) -> Mapping[Counted, int]:
        """How many rows a unit has of each kind, at one moment.

        Counting reads what it counts, some 100 ms for a million rows. It is given up after a few
        seconds: then nothing is returned.
        """
        ...
