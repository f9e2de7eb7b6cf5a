"""The whole computation the naive way, written from the contract.

Record by record, everything of the record's key is worked out again from all its evidence. Nothing
is kept small, fast or incremental, and no rule is shared with the package: only the reading of
timestamps is.

    walk      what each record did, up to an overflow
    compute   what stands in the end
    publish   the exact bytes of every envelope, for a given way of cutting the log
"""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from amends_pipeline.kernel.instants import (
    MAX_DAY,
    MIN_DAY,
    InstantSyntaxError,
    day_text,
    parse_instant,
)

SMALLEST, LARGEST = -(2**63), 2**63 - 1
MEMBERS = {"txn_id", "revision", "kind", "stock_key", "valid_time", "qty", "source_time"}
TYPES = {
    "alert": ("AlertRetracted", "AlertRaised"),
    "balance": ("BalanceRetracted", "BalanceStated"),
    "key-status": ("", "KeyStatusStated"),
}
"""Type of a withdrawal and of a statement."""

StockKey = tuple[str, str]
Source = Sequence[tuple[int, bytes | None, bytes]]
"""(offset, raw key, value) of one partition, in offset order."""


class Assertion(NamedTuple):
    """What two assertions at one revision are compared by."""

    kind: str
    instant: tuple[int, int]
    qty: int


@dataclass
class Key:
    """All evidence of one stock key, and its rows while trust lasted."""

    opening: int
    threshold: int
    said: dict[tuple[str, int], list[Assertion]] = field(default_factory=dict)
    """Distinct assertions by (txn_id, revision)."""
    shown: dict[tuple, dict] = field(default_factory=dict)
    """Payload by ("alert", day), ("balance", day) or ("key-status",)."""

    def highest(self) -> dict[str, int]:
        """The highest revision of every transaction."""
        revisions: dict[str, int] = {}
        for txn_id, revision in self.said:
            revisions[txn_id] = max(revision, revisions.get(txn_id, 0))
        return revisions

    def disputed(self) -> list[tuple[str, int]]:
        """Conflicts at a highest revision."""
        found = [pair for pair in self.highest().items() if len(self.said[pair]) > 1]
        return sorted(found, key=lambda pair: (pair[0].encode(), pair[1]))

    def totals(self) -> dict[int, int]:
        """Sum of each day that has at least one undisputed active transaction."""
        sums: dict[int, int] = defaultdict(int)
        for pair in self.highest().items():
            assertions = self.said[pair]
            if len(assertions) == 1 and assertions[0].kind != "CANCEL":
                sums[assertions[0].instant[0]] += assertions[0].qty
        return dict(sums)

    def rows(self) -> dict[tuple, dict]:
        """Balances and alerts from the opening on."""
        rows: dict[tuple, dict] = {}
        close = self.opening
        for day, moved in sorted(self.totals().items()):
            before, close = close, close + moved
            rows["balance", day] = {"present": True, "close": close}
            if before >= self.threshold and close < self.threshold:
                rows["alert", day] = {"present": True, "threshold": self.threshold, "close": close}
        return rows


class Step(NamedTuple):
    """What one record did."""

    offset: int
    code: str | None
    """Rejection code; the members below are then empty."""
    stock_key: StockKey | None = None
    txn_id: str = ""
    revision: int = 0
    assertion: Assertion | None = None
    changed: frozenset[int] = frozenset()
    """Days of a READY key whose total or activity changed; all that it has when it unblocked."""
    every_day: bool = False
    shown: dict[tuple, dict] | None = None
    """What the key shows from now on."""


class Stop(NamedTuple):
    """The record that no close survives, and the day that does not fit."""

    offset: int
    day: int


class Outcome(NamedTuple):
    """What stands when all records were taken, or all before the stop."""

    visible: dict[str, dict]
    """Payload by encoded output id."""
    rejections: list[tuple[int, str]]
    conflicts: set[tuple[str, str, str, int]]
    """(item, location, txn_id, revision), superseded ones too."""
    accepted: list[int]
    stop: Stop | None


def compute(config: dict, source: Source, partition: int = 0, aside: Iterable[int] = ()) -> Outcome:
    """What stands in the end, for every way of cutting the log."""
    steps, stop = walk(config, source, partition, aside)
    shown: dict[StockKey, dict] = {}
    said: dict[tuple, set[Assertion]] = defaultdict(set)
    for step in steps:
        if step.code is None:
            shown[step.stock_key] = step.shown
            said[(*step.stock_key, step.txn_id, step.revision)].add(step.assertion)
    return Outcome(
        {
            encoded_id(config, stock_key, output): payload
            for stock_key, outputs in shown.items()
            for output, payload in outputs.items()
        },
        [(step.offset, step.code) for step in steps if step.code is not None],
        {identity for identity, assertions in said.items() if len(assertions) > 1},
        [step.offset for step in steps if step.code is None],
        stop,
    )


def walk(
    config: dict, source: Source, partition: int = 0, aside: Iterable[int] = ()
) -> tuple[list[Step], Stop | None]:
    """Every record in order; on an overflow, those before the offending record."""
    keys = {
        (key["stock_key"]["item"], key["stock_key"]["location"]): Key(
            key["opening_balance"], key["reorder_threshold"]
        )
        for key in config["keys"]
    }
    steps: list[Step] = []
    # An intraday total may leave the range on its way: (steps before, key, its one day, the stop).
    out: tuple[int, StockKey, frozenset[int], Stop] | None = None
    for offset, raw_key, value in source:
        code = _code(config, partition, raw_key, value) if offset not in aside else "SET_ASIDE"
        if code is not None:
            steps.append(Step(offset, code))
            continue
        stock_key, txn_id, revision, assertion = _parts(_decoded(value))
        step = Step(offset, None, stock_key, txn_id, revision, assertion)
        step = _taken(keys[stock_key], step)
        trusted = step.shown["key-status",]["status"] == "READY"
        if out is not None and (
            stock_key != out[1] or not trusted or step.every_day or step.changed - out[2]
        ):
            return steps[: out[0]], out[3]
        unfit = [day for (_, *day), payload in step.shown.items() if _unfit(payload)]
        if not unfit or not trusted:
            out = None
        elif out is None:
            out = len(steps), stock_key, step.changed, Stop(offset, min(unfit)[0])
            if step.every_day or len(step.changed) > 1:
                return steps, out[3]
        steps.append(step)
    return (steps, None) if out is None else (steps[: out[0]], out[3])


def _taken(key: Key, step: Step) -> Step:
    before, disputed_before = key.totals(), key.disputed()
    assertions = key.said.setdefault((step.txn_id, step.revision), [])
    if step.assertion not in assertions:
        assertions.append(step.assertion)
    after, disputed = key.totals(), key.disputed()
    rows = {output: payload for output, payload in key.shown.items() if len(output) > 1}
    if not disputed:
        rows = key.rows()
    reasons = [
        {
            "stock_key": {"item": step.stock_key[0], "location": step.stock_key[1]},
            "txn_id": txn_id,
            "revision": revision,
        }
        for txn_id, revision in disputed
    ]
    status = "BLOCKED" if disputed else "READY"
    key.shown = {**rows, ("key-status",): {"present": True, "status": status, "reasons": reasons}}
    moved = {day for day in {*before, *after} if before.get(day) != after.get(day)}
    return step._replace(
        changed=frozenset() if disputed else frozenset(moved),
        every_day=bool(disputed_before) and not disputed,
        shown=key.shown,
    )


def publish(
    config: dict,
    source: Source,
    untils: Iterable[int],
    partition: int = 0,
    aside: Iterable[int] = (),
) -> list[list[bytes]]:
    """The envelopes of each slice; slice n holds the records before `untils[n]` not yet taken."""
    steps, _ = walk(config, source, partition, aside)
    shown: dict[StockKey, dict] = defaultdict(dict)
    versions: dict[str, int] = defaultdict(int)
    published = []
    for until in untils:
        mine = [step for step in steps if step.offset < until]
        steps = steps[len(mine) :]
        accepted = [step for step in mine if step.stock_key is not None]
        envelopes = []
        for stock_key in sorted({step.stock_key for step in accepted}, key=_compact):
            of_key = [step for step in accepted if step.stock_key == stock_key]
            told = _published(config, of_key, shown[stock_key], versions, partition)
            envelopes += [_compact(envelope).encode() for envelope in told]
            shown[stock_key] = of_key[-1].shown
        published.append(envelopes)
    return published


def _published(
    config: dict, steps: list[Step], before: dict, versions: dict[str, int], partition: int
) -> Iterator[dict]:
    """The envelopes of one key whose slice consists of `steps`."""
    stock_key, after = steps[0].stock_key, steps[-1].shown
    changed = [o for o in {**before, **after} if before.get(o) != after.get(o)]

    def place(output: tuple) -> tuple:
        return output == ("key-status",), encoded_id(config, stock_key, output).encode()

    for output in sorted(changed, key=place):
        payload = after.get(output, {"present": False})
        if output == ("key-status",):
            cause = _last_that_changed_status(steps, before)
        else:
            cause = [s for s in steps if s.every_day or any(d <= output[1] for d in s.changed)][-1]
        identifier = encoded_id(config, stock_key, output)
        versions[identifier] += 1
        yield {
            "schema_version": 1,
            "output_id": _output_id(config, stock_key, output),
            "version": versions[identifier],
            "type": TYPES[output[0]][payload["present"]],
            "payload": payload,
            "cause": {
                "source": config["source"],
                "partition": partition,
                "offset": cause.offset,
                "txn_id": cause.txn_id,
                "revision": cause.revision,
            },
        }


def _last_that_changed_status(steps: list[Step], before: dict) -> Step:
    last, status = None, before.get(("key-status",))
    for step in steps:
        if step.shown["key-status",] != status:
            last, status = step, step.shown["key-status",]
    return last


def _output_id(config: dict, stock_key: StockKey, output: tuple) -> dict:
    family, *days = output
    return {
        "namespace": config["namespace"],
        "family": family,
        "stock_key": {"item": stock_key[0], "location": stock_key[1]},
        **({"day": day_text(days[0])} if days else {}),
    }


def encoded_id(config: dict, stock_key: StockKey, output: tuple) -> str:
    """The compact JSON array that identifies an output."""
    family, *days = output
    return _compact([config["namespace"], family, *stock_key, *map(day_text, days)])


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _unfit(payload: dict) -> bool:
    return not SMALLEST <= payload.get("close", 0) <= LARGEST


def _parts(record: dict) -> tuple[StockKey, str, int, Assertion]:
    stock_key = record["stock_key"]["item"], record["stock_key"]["location"]
    instant = tuple(parse_instant(record["valid_time"]))
    assertion = Assertion(record["kind"], instant, record["qty"])
    return stock_key, record["txn_id"], record["revision"], assertion


def _code(config: dict, partition: int, raw_key: bytes | None, value: bytes) -> str | None:
    record = _decoded(value)
    if record is None:
        return "MALFORMED"
    stock_key, txn_id, revision, assertion = _parts(record)
    homes = {
        (key["stock_key"]["item"], key["stock_key"]["location"]): key.get("partition")
        for key in config["keys"]
    }
    encoded = _compact(stock_key).encode()
    home = homes.get(stock_key)
    if home is None:
        home = zlib.crc32(encoded) % config["partitions"]
    earliest = tuple(parse_instant(config["origin"]))
    tests = {
        "IDENTITY": "" in {txn_id, *stock_key},
        "REVISION": revision < 1,
        "KIND": assertion.kind not in {"NEW", "AMEND", "CANCEL"},
        "CANCEL_QUANTITY": assertion.kind == "CANCEL" and assertion.qty != 0,
        "VALID_TIME": assertion.instant < earliest or assertion.instant[0] > MAX_DAY,
        "UNKNOWN_KEY": stock_key not in homes,
        "KEY_MISMATCH": raw_key not in {None, encoded},
        "ROUTING": home != partition,
    }
    return next((code for code, holds in tests.items() if holds), None)


def _decoded(value: bytes) -> dict | None:
    """A record's document, or None when it is no record."""

    def once(pairs: list[tuple[str, object]]) -> dict:
        if len(dict(pairs)) != len(pairs):
            raise ValueError(pairs)
        return dict(pairs)

    def refused(text: str) -> None:
        raise ValueError(text)

    try:
        record = json.loads(
            value.decode(), object_pairs_hook=once, parse_float=refused, parse_constant=refused
        )
        return record if len(value) <= 2**20 and _well_formed(record) else None
    except (ValueError, RecursionError):
        return None


def _well_formed(record: object) -> bool:
    """The members and their types; raises a ValueError for some of what is wrong."""
    if not isinstance(record, dict) or record.keys() != MEMBERS:
        return False
    stock_key = record["stock_key"]
    if not isinstance(stock_key, dict) or stock_key.keys() != {"item", "location"}:
        return False
    texts = [record["txn_id"], record["kind"], *stock_key.values()]
    times = [record["valid_time"], record["source_time"]]
    if not all(isinstance(text, str) and "\0" not in text for text in texts + times):
        return False
    "".join(texts).encode()  # a lone surrogate has no UTF-8
    numbers = [record["revision"], record["qty"]]
    if not all(type(number) is int and SMALLEST <= number <= LARGEST for number in numbers):
        return False
    try:
        instants = [parse_instant(time) for time in times]
    except InstantSyntaxError:
        return False
    return MIN_DAY <= instants[1].day <= MAX_DAY
