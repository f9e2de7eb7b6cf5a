"""Rows of the bank ledger: reference, all balances beside DuckDB and Beancount, export, oracle.

Every balance of every engine must be the oracle's, or its number does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from types import SimpleNamespace
from typing import Any

from amends_pipeline_tests.bench import ledger
from amends_pipeline_tests.bench.ledger import Ledger
from amends_pipeline_tests.bench.measure import Measurement, Peer, Row, at_least, at_most, rows
from amends_pipeline_tests.bench.player import Player
from amends_pipeline_tests.bench.rivals import NO_ENVIRONMENT
from amends_pipeline_tests.bench.stage import Stage, WrongError

SAMPLED = 7
"""Accounts that the reference is asked about, where all would take minutes."""


def shaped(stage: Stage, name: str) -> Ledger:
    """A history at the scale of this session."""
    shape = ledger.SHAPES[name].scaled(stage.options.scale)
    return ledger.ledger(shape, stage.options.home / "workloads")


def ours(stage: Stage, database: str = "postgres") -> Player:
    """A fresh process of ours."""
    return stage.ours(database, player="bank_ours")


def check(what: str, found: Mapping[str, str], told: Mapping[str, str]) -> None:
    """Refuse balances unless they are what was told; an account without legs may be left out."""
    differing = [
        f"{name}: expected {told.get(name)}, found {found.get(name, '0')}"
        for name in sorted(told.keys() | found.keys())
        if found.get(name, "0") != told.get(name)
    ]
    if differing:
        more = f" and {len(differing) - 1} more" if len(differing) > 1 else ""
        raise WrongError(f"balances by {what}: {differing[0]}{more}")


def check_all(what: str, found: Mapping[str, str], told: Mapping[str, str]) -> None:
    """As `check`; no account may be left out."""
    check(what, found, told)
    if found.keys() != told.keys():
        raise WrongError(f"balances by {what}: expected {len(told)}, found {len(found)}")


def judged(player: Player, made: Ledger, query: dict[str, Any] | None = None) -> SimpleNamespace:
    """The oracle's answer."""
    asked = query or made.query
    return player.ask("judged", path=str(made.groups), accounts=made.accounts, query=asked)


# --- all balances


class Samples:
    """Seconds of each engine, one run after the other."""

    def __init__(self) -> None:
        self.fold: list[float] = []
        self.oracle: list[float] = []
        self.duckdb: list[float] = []
        self.beancount: list[float] = []
        self.peak = 0.0


@rows("B2", "B5", title="all balances of a bank ledger, and the oracle")
def all_balances(stage: Stage) -> Iterator[Measurement]:
    made, samples = shaped(stage, "ledger"), Samples()
    with ours(stage) as player:
        told = judged(player, made).raw
        _check_earlier(player, made)
    for run in range(stage.runs):
        _run(stage, made, told, samples)
        stage.say(
            f"run {run + 1}: {samples.fold[-1]:.2f} s, oracle {samples.oracle[-1]:.2f} s,"
            f" DuckDB {samples.duckdb[-1]:.2f} s, Beancount"
            f" {samples.beancount[-1] if samples.beancount else 'missing'}"
        )
    name = f"all balances of {made.shape.groups:,} groups, {made.shape.accounts:,} accounts"
    fold = Row("B2", name, "s", samples.fold, f"from bytes on disk; peak {samples.peak:.0f} MB")
    yield fold.beside(Peer("DuckDB raw query", median(samples.duckdb)), at_most(15, 3))
    beancount = median(samples.beancount) if samples.beancount else None
    yield fold.beside(Peer("Beancount", beancount, NO_ENVIRONMENT), at_least(6, 20))
    yield Row("B5", "oracle over the same file", "s", samples.oracle).told()


def _check_earlier(player: Player, made: Ledger) -> None:
    """Refuse our answer at cutoffs within the history unless it is the oracle's."""
    query = {
        **made.query,
        "effective_cutoff": "2024-07-01T00:00:00.000Z",
        "knowledge_cutoff": "2024-08-01T00:00:00.000Z",
    }
    told = judged(player, made, query).raw
    done = player.ask("folded", folder=str(made.folder), query=query)
    check_all("us, earlier", done.raw, told)
    if done.raw == judged(player, made).raw:
        raise WrongError("the earlier cutoffs select everything")


def _run(stage: Stage, made: Ledger, told: Mapping[str, str], samples: Samples) -> None:
    """Each engine once, each in a process of its own."""
    query, path = made.query, str(made.groups)
    with ours(stage) as player:
        done = player.ask("folded", folder=str(made.folder), query=query)
    check_all("us", done.raw, told)
    samples.fold.append(done.seconds)
    samples.peak = max(samples.peak, done.peak_mb)
    with stage.peer("duckdb_bank_peer", own_python=True) as player:
        done = player.ask(
            "query",
            path=path,
            currency=query["currency"],
            effective=query["effective_cutoff"],
            knowledge=query["knowledge_cutoff"],
        )
    check("DuckDB", done.raw, told)
    samples.duckdb.append(done.seconds)
    if (beancount := stage.peer("beancount_peer")) is not None:
        with beancount as player:
            done = player.ask(
                "load_and_balance", path=str(made.beancount), currency=query["currency"]
            )
        check("Beancount", done.raw, told)
        samples.beancount.append(done.seconds)
    with ours(stage) as player:
        done = judged(player, made)
    check_all("the oracle", done.raw, told)
    samples.oracle.append(done.seconds)


# --- the reference


@rows("B1", "B3", title="the reference, account by account, and all accounts at once")
def reference(stage: Stage) -> Iterator[Measurement]:
    made = shaped(stage, "reference")
    accounts = made.accounts
    given = {"path": str(made.groups), "accounts": accounts, "context": made.context}
    step = len(accounts) // SAMPLED
    asked = [account["account_id"] for account in accounts[::step][:SAMPLED]]
    each, together = [], []
    with ours(stage) as player:
        told = judged(player, made).raw
    for _ in range(stage.runs):
        with ours(stage) as player:
            done = player.ask("folded_each", **given, query=made.query, asked=asked)
            check("the reference", done.raw, {name: told[name] for name in asked})
            each.append(median(done.seconds))
            done = player.ask("folded_together", **given, query=made.query)
            check_all("us, from values", done.raw, told)
            together.append(done.seconds)
    groups = made.shape.groups
    note = f"from JSON values; median of {len(asked)} accounts a run"
    yield Row("B1", f"the reference over {groups:,} groups, one account", "s", each, note).told()
    name = f"all balances of {groups:,} groups, {len(accounts):,} accounts"
    row = Row("B3", name, "s", together, "from JSON values")
    peer = Peer(f"the reference, {len(accounts):,} times", median(each) * len(accounts))
    yield row.beside(peer, at_least(20))


# --- the live journal


@rows("B4", title="export from the live journal")
def exported(stage: Stage) -> Iterator[Measurement]:
    made, rates = shaped(stage, "live"), []
    database, stream = "bank_live", [ledger.STREAM, ledger.LEDGER, ledger.ENTITY]
    with stage.connection() as connection:
        connection.execute(f"create database {database} template template0 encoding 'UTF8'")
    try:
        with ours(stage, database) as player:
            told = judged(player, made).raw
            done = player.ask("fill", stream=stream, path=str(made.groups), accounts=made.accounts)
            stage.say(f"{made.shape.groups:,} groups in the live journal in {done.seconds:.0f} s")
        folder = stage.scratch("bank")
        for run in range(stage.runs):
            with ours(stage, database) as player:
                into = str(folder / str(run))
                done = player.ask("exported", stream_id=ledger.STREAM, folder=into)
                check_all("us, exported", player.ask("answered", folder=into).raw, told)
            rates.append(done.groups / done.seconds)
    finally:
        stage.drop(database)
    name = f"export of {made.shape.groups:,} groups from the live journal"
    yield Row("B4", name, "groups/s", rates, "files on disk, synced").told()
