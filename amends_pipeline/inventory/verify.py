"""The verdict: whether readers see what the whole history says, at one complete boundary.

A report is a verdict with everything that it stands on: the boundary it was made at, every row
that differs, the records and conflicts that it excludes, and what it did not compare. Its status is
the first of these that holds:

    ERROR                 the oracle failed, or the view stopped at a breach of the output protocol
    INCOMPLETE            the boundary is not reached; the distance says what is missing
    BLOCKED               authority of a key is in conflict; differences found elsewhere are kept
    DRIFT                 a row differs
    PASS_WITH_EXCLUSIONS  all rows agree, beside rejected records or conflicts
    PASS                  all rows agree, and nothing is excluded

This module judges values that a flow has read. `compare` finds the differences.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from pydantic import Field, ValidationError

from amends_pipeline.inventory.classify import Code
from amends_pipeline.inventory.compare import Difference, Found, Key, differences, key_of
from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.inventory.oracle import OracleResult
from amends_pipeline.kernel import strict_json
from amends_pipeline.kernel.canonical import compact_json
from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import InputError
from amends_pipeline.kernel.integers import MAX_INT64
from amends_pipeline.kernel.verdict import Row, Status, first_that_holds

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_Coordinate = Annotated[int, Field(strict=True, ge=0, le=MAX_INT64)]
_RevisionNumber = Annotated[int, Field(strict=True, ge=1, le=MAX_INT64)]


class RejectedRecord(Row):
    """A record that is excluded from the business facts."""

    partition: _Coordinate
    offset: _Coordinate
    code: Code


class ConflictingRevision(Row):
    """A revision of a transaction that says two things, in force or superseded."""

    stock_key: Key
    txn_id: str
    revision: _RevisionNumber


class Manifest(Row):
    """Exclusions that a person accepts, matched as exact sets."""

    rejections: tuple[RejectedRecord, ...] = ()
    conflicts: tuple[ConflictingRevision, ...] = ()

    def within(self, config: NamespaceConfig, partitions: Collection[int]) -> Manifest:
        """The part of the manifest that concerns the given partitions."""
        return Manifest(
            rejections=tuple(each for each in self.rejections if each.partition in partitions),
            conflicts=tuple(
                each
                for each in self.conflicts
                if config.partition_of((each.stock_key.item, each.stock_key.location)) in partitions
            ),
        )


def parse_manifest(raw: bytes, *, where: str = "manifest") -> Manifest:
    """Read a manifest: `{"rejections": [...], "conflicts": [...]}`, entries as a report has them.

    A member that is left out is an empty set. Raises `InputError` for anything else, and for an
    entry that stands twice.
    """
    document = strict_json.loads(raw, where=where)
    try:
        manifest = Manifest.model_validate(document)
    except ValidationError as error:
        raise _input_error(error.errors(include_url=False)[0], where) from None
    for name, entries in (("rejections", manifest.rejections), ("conflicts", manifest.conflicts)):
        seen: set[Row] = set()
        for position, entry in enumerate(entries):
            if entry in seen:
                found = f"{compact_json(entry.model_dump(mode='json'))} again"
                place = f"{where}.{name}[{position}]"
                raise InputError(place, expected="each entry once", found=found)
            seen.add(entry)
    return manifest


def _input_error(details: ErrorDetails, where: str) -> InputError:
    """Tell in our words what pydantic found first."""
    place = "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in details["loc"])
    found = shown(details["input"])
    match details["type"]:
        case "missing":
            expected, found = "a member", "none"
        case "extra_forbidden":
            expected = "no such member"
        case "model_type":
            expected = "an object"
        case _:
            expected = details["msg"].removeprefix("Input should be ")
    return InputError(f"{where}{place}", expected=expected, found=found)


class PartitionBoundary(Row):
    """Where one partition stood when it was judged. All ends and frontiers are exclusive."""

    partition: int
    source_end: int
    """H: the verdict is about the records before it."""
    worker_next: int
    pending: int
    """Outbox rows that were not acknowledged."""
    output_end: int
    """O: the end of the output log."""
    view_next: int


Stage = Literal["configuration", "incarnation", "source", "worker", "relay", "view"]


class Distance(Row):
    """One thing that keeps a boundary from being complete."""

    stage: Stage
    partition: int | None = None
    by: int | None = None
    """How many offsets or rows; negative where a frontier has passed the boundary."""
    says: str


class NotCompared(Row):
    """Something that the verdict says nothing about."""

    what: str
    stock_key: Key | None = None


class Report(Row):
    """A verdict and everything that it stands on. The first six members are the contract's."""

    status: Status
    accepted: bool
    boundary: tuple[PartitionBoundary, ...]
    differences: tuple[Difference, ...]
    """Every row that differs: statuses, conflicts, rejections, alerts, balances, in order."""
    rejections: tuple[RejectedRecord, ...]
    """What the oracle rejects. In an incomplete report it is a diagnosis, as the conflicts are."""
    conflicts: tuple[ConflictingRevision, ...]
    distance: tuple[Distance, ...] = ()
    not_compared: tuple[NotCompared, ...] = ()
    errors: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Write the report as one compact JSON document, without a line end."""
        return compact_json(self.model_dump(mode="json"))

    @property
    def agrees(self) -> bool:
        """Tell whether rows were compared and all of them agree."""
        return self.status in {Status.PASS, Status.PASS_WITH_EXCLUSIONS}

    def accepts(self, manifest: Manifest | None) -> bool:
        """Tell whether rows agree with exactly the exclusions of the manifest."""
        manifest = manifest or Manifest()
        return (
            self.agrees
            and set(manifest.rejections) == set(self.rejections)
            and set(manifest.conflicts) == set(self.conflicts)
        )


class PartitionStanding(NamedTuple):
    """What was read of one partition, all at one moment."""

    boundary: PartitionBoundary
    first_offset: int
    """Where the namespace starts in the source."""
    retained_start: int
    retained_end: int
    view_stop: str | None


def stopped_in(partition: int) -> str:
    """How the error of a report begins that tells of a partition's view."""
    return f"partition {partition}: the view stopped at "


class Standing(NamedTuple):
    """What was read of a namespace, all at one moment."""

    partitions: Sequence[PartitionStanding]
    provisioned_digest: str
    digest: str
    """Of the configuration that is there now."""
    bound_incarnation: str
    incarnation: str
    """Of the source that is there now."""

    @property
    def stops(self) -> list[str]:
        """Why views stopped."""
        return [
            f"{stopped_in(each.boundary.partition)}{each.boundary.view_next}: {each.view_stop}"
            for each in self.partitions
            if each.view_stop is not None
        ]


def distances(standing: Standing) -> list[Distance]:
    """Return what keeps the boundary from being complete; nothing when it is."""
    return [
        *_foreign("configuration", standing.provisioned_digest, standing.digest),
        *_foreign("incarnation", standing.bound_incarnation, standing.incarnation),
        *(distance for each in standing.partitions for distance in _partition_distances(each)),
    ]


def oracle_can_read(distance: Iterable[Distance]) -> bool:
    """Tell whether the source at hand is the namespace's, whole up to the boundary."""
    return not any(each.stage in {"configuration", "incarnation", "source"} for each in distance)


def _foreign(stage: Stage, expected: str, found: str) -> list[Distance]:
    if expected == found:
        return []
    return [Distance(stage=stage, says=f"{stage} {found} is not {expected}, as provisioned")]


def _partition_distances(standing: PartitionStanding) -> list[Distance]:
    boundary = standing.boundary
    partition = boundary.partition
    found: list[Distance] = []

    def note(stage: Stage, by: int, says: str) -> None:
        if by:
            text = f"partition {partition}: {says}"
            found.append(Distance(stage=stage, partition=partition, by=by, says=text))

    note(
        "source",
        max(standing.retained_start - standing.first_offset, 0),
        f"the source starts at {standing.retained_start}, after {standing.first_offset},"
        " where the namespace starts",
    )
    note(
        "source",
        max(boundary.source_end - standing.retained_end, 0),
        f"the source ends at {standing.retained_end}, before {boundary.source_end}",
    )
    note(
        "worker",
        boundary.source_end - boundary.worker_next,
        f"worker_next {boundary.worker_next} is"
        f" {_side(boundary.worker_next, boundary.source_end)} the boundary {boundary.source_end}",
    )
    note("relay", boundary.pending, f"{boundary.pending} outbox rows are pending")
    note(
        "view",
        boundary.output_end - boundary.view_next,
        f"view_next {boundary.view_next} is"
        f" {_side(boundary.view_next, boundary.output_end)} the output end {boundary.output_end}",
    )
    return found


def _side(frontier: int, end: int) -> str:
    return "past" if frontier > end else f"{end - frontier} short of"


def judge(  # noqa: PLR0913 - each is one thing that was read
    config: NamespaceConfig,
    standing: Standing,
    *,
    expected: OracleResult | None,
    found: Found | None,
    errors: Sequence[str] = (),
    manifest: Manifest | None = None,
) -> Report:
    """Make the report.

    `expected` is None when the oracle failed, which `errors` then says, or could not read the
    source. `found` is None when there was nothing to compare: at an error or a distance.
    """
    distance = distances(standing)
    errors = [*errors, *standing.stops]
    differing: list[Difference] = []
    if not errors and not distance and expected is not None and found is not None:
        differing = differences(config, expected, found)
        not_compared = _never_compared(config, expected)
    else:
        not_compared = [NotCompared(what="anything: there is no complete boundary to compare at")]
    report = Report(
        status=first_that_holds(
            error=bool(errors),
            incomplete=bool(distance) or expected is None,
            blocked=expected is not None and bool(expected.blocked()),
            drift=bool(differing),
            excluded=expected is not None and bool(expected.rejections or expected.conflicts),
        ),
        accepted=False,
        boundary=tuple(each.boundary for each in standing.partitions),
        differences=tuple(differing),
        rejections=_rejections(expected),
        conflicts=_conflicts(config, expected),
        distance=tuple(distance),
        not_compared=tuple(not_compared),
        errors=tuple(errors),
    )
    return report.model_copy(update={"accepted": report.accepts(manifest)})


def _never_compared(config: NamespaceConfig, expected: OracleResult) -> list[NotCompared]:
    return [
        NotCompared(what="versions, causes and order of publication"),
        *(
            NotCompared(what="balances and alerts of a blocked key", stock_key=key_of(config, key))
            for key in expected.blocked()
        ),
    ]


def _rejections(expected: OracleResult | None) -> tuple[RejectedRecord, ...]:
    if expected is None:
        return ()
    return tuple(
        RejectedRecord(partition=each.partition, offset=each.offset, code=Code(each.code))
        for each in expected.rejections
    )


def _conflicts(
    config: NamespaceConfig, expected: OracleResult | None
) -> tuple[ConflictingRevision, ...]:
    if expected is None:
        return ()
    return tuple(
        ConflictingRevision(
            stock_key=key_of(config, each.key), txn_id=each.txn_id, revision=each.revision
        )
        for each in expected.conflicts
    )
