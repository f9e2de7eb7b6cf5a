"""What rows stand on: a private server, databases at a known point, players, and what is true."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Self

import psycopg
from psycopg import sql

from amends_pipeline.store.server import Server, connect_info
from amends_pipeline_tests.bench.measure import quantile
from amends_pipeline_tests.bench.player import PEERS, ROOT, Player, own
from amends_pipeline_tests.bench.truth import Facts
from amends_pipeline_tests.bench.workload import SHAPES, Workload, workload

HOME = ROOT / "test-output" / "bench"
FLOOR_COMMITS = 1_000
LONG = 3
"""Runs of what takes long, while there is time."""
PATIENCE_SECONDS = 14 * 60
"""After so long a session makes only one run of what takes long, so that the whole set ends."""
SLICE = 10_000
"""Records of a slice where a row does not say otherwise."""


COPIED = {"1m"}
"""Workloads that many rows begin with. What others make is used once."""
SUMS = ("balances", "closes", "alerts")
"""What a peer is held to."""


class WrongError(Exception):
    """A result does not agree with the oracle: its number does not count."""


@dataclass
class Options:
    """How the harness was called."""

    wanted: tuple[str, ...] = ()
    runs: int = 5
    scale: float = 1.0
    peers: bool = True
    home: Path = HOME
    settings: dict[str, str] = field(default_factory=dict)


class Stage:
    """A server of the harness's own, deleted with all of its databases at the end."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._stack = ExitStack()
        self._truth: dict[str, Facts] = {}
        self._ready: dict[tuple[str, str], str] = {}
        self._made = 0
        self._began = time.monotonic()
        self.remembered: dict[str, object] = {}
        """What one family measured and another may use."""
        self.peaks: dict[str, float] = {}
        """MB that a worker needed at most to decide a whole workload in slices of 10,000."""
        self.floors: list[float] = []
        """Milliseconds of every commit that the floor was measured with."""

    def __enter__(self) -> Self:
        self.options.home.mkdir(parents=True, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix="server-", dir=self.options.home))
        self.folder.chmod(0o711)  # the server may run as another user, where ours is root
        self._stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        server = connect_info(self.folder, {}, linger=0.0, settings=self.options.settings)
        self.server: Server = self._stack.enter_context(server)
        self.log = self.folder / "players.log"
        self.log.touch()
        self._stack.callback(self._keep_log)
        return self

    def _keep_log(self) -> None:
        shutil.move(self.log, self.options.home / "players.log")

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # --- what was asked for

    @property
    def runs(self) -> int:
        return self.options.runs

    @property
    def long_runs(self) -> int:
        """Runs of what takes long."""
        late = time.monotonic() - self._began > PATIENCE_SECONDS
        return min(self.runs, 1 if late else LONG)

    def wants(self, *rows: str) -> bool:
        """Whether any of these rows was asked for."""
        return not self.options.wanted or bool(set(rows) & set(self.options.wanted))

    def say(self, text: str) -> None:
        """Tell how far we are, on standard error."""
        sys.stderr.write(f"{time.strftime('%H:%M:%S')}   {text}\n")
        sys.stderr.flush()

    def workload(self, name: str) -> Workload:
        """A workload at the scale of this session, its files made if need be."""
        shape = SHAPES[name].scaled(self.options.scale)
        return workload(shape, self.options.home / "workloads")

    # --- players

    def ours(
        self, database: str, environment: Mapping[str, str] | None = None, player: str = "ours"
    ) -> Player:
        """A fresh process of ours over a database."""
        module = f"amends_pipeline_tests.bench.{player}"
        url = self.server.lease.url(database)
        return Player(own(), module, self.log, [url], environment)

    def peer(self, name: str, *, own_python: bool = False) -> Player | None:
        """A fresh process of a peer; None where the peers' environment is missing."""
        if not own_python and not (self.options.peers and PEERS.exists()):
            return None
        module = f"amends_pipeline_tests.bench.peers.{name}"
        return Player(own() if own_python else PEERS, module, self.log)

    def scratch(self, name: str) -> Path:
        """An empty folder of this session."""
        folder = self.folder / f"{name}-{self._number()}"
        folder.mkdir()
        return folder

    # --- databases at a known point

    @contextmanager
    def copy(self, point: str, name: str, database: str = "") -> Iterator[str]:
        """A database of one's own at a point of a workload: `source`, `decided` or `applied`."""
        template = self.ready(point, name)
        database = database or f"copy_{self._number()}"
        self.drop(database)
        self._create(database, template)
        try:
            yield database
        finally:
            self.drop(database)

    def ready(self, point: str, name: str) -> str:
        """The database from which copies are made; made itself when first asked for."""
        if (point, name) not in self._ready:
            make = {"source": self._source, "decided": self._decided, "applied": self._applied}
            self._ready[point, name] = make[point](name)
        return self._ready[point, name]

    def has(self, point: str, name: str) -> bool:
        """Whether a point was made already."""
        return (point, name) in self._ready

    def keep(self, point: str, name: str, database: str) -> bool:
        """Let a database be the one of a point, unless there is one. It may not be written to."""
        if (point, name) in self._ready:
            return False
        self._ready[point, name] = database
        return True

    def fresh_copy(self, point: str, name: str) -> str:
        """As `copy`, for the caller to drop or to keep."""
        database = f"copy_{self._number()}"
        self._create(database, self.ready(point, name))
        return database

    def drop(self, database: str) -> None:
        """Drop a database, unless it was kept."""
        if database not in self._ready.values():
            with self.connection() as connection:
                connection.execute(
                    sql.SQL("drop database if exists {} with (force)").format(
                        sql.Identifier(database)
                    )
                )

    @contextmanager
    def last(self, point: str, name: str) -> Iterator[str]:
        """The database of a point itself, for the last row that needs it."""
        database = self.ready(point, name)
        del self._ready[point, name]
        try:
            yield database
        finally:
            self.drop(database)

    def configuration(self, name: str) -> Path:
        """The configuration of a workload's namespace, as a file."""
        path = self.folder / f"{name}.json"
        if not path.exists():
            path.write_text(json.dumps(self.workload(name).configuration(name)))
        return path

    def _source(self, name: str) -> str:
        """The log appended and the namespace made; nothing decided yet."""
        load = self.workload(name)
        database = f"source_{self._number()}"
        self._create(database, "template0")
        with self.ours(database) as player:
            player.ask("provision", configuration=str(self.configuration(name)))
            done = player.ask("append", namespace=name, path=str(load.records_file))
        self.say(f"{name}: {done.records:,} records appended in {done.seconds:.1f} s")
        return database

    def _decided(self, name: str) -> str:
        """Everything decided in slices of 10,000. What is not copied is checked by its user."""
        if name in COPIED:
            database = self.fresh_copy("source", name)
        else:
            database = self.ready("source", name)
            del self._ready["source", name]
        with self.ours(database) as player:
            done = player.ask("ingest", namespace=name, slice_records=SLICE)
            if name in COPIED:
                self.check_state(player, name)
        self.peaks[name] = done.peak_mb
        self.say(f"{name}: {done.records / done.seconds:,.0f} records/s; {done.peak_mb:.0f} MB")
        return database

    def _applied(self, name: str) -> str:
        """Decided, published, applied, and the view found right."""
        database = self.fresh_copy("decided", name)
        with self.ours(database) as player:
            self.carried_on(player, name)
        return database

    def _create(self, database: str, template: str) -> None:
        with self.connection() as connection:
            connection.execute(
                sql.SQL("create database {} template {} encoding 'UTF8' strategy file_copy").format(
                    sql.Identifier(database), sql.Identifier(template)
                )
            )
            connection.execute("checkpoint")  # now, not in the middle of what is measured

    @contextmanager
    def connection(self, database: str = "postgres") -> Iterator[psycopg.Connection]:
        """A plain connection, each statement a transaction."""
        with psycopg.connect(self.server.lease.url(database), autocommit=True) as connection:
            yield connection

    def _number(self) -> int:
        self._made += 1
        return self._made

    # --- what is true

    def truth(self, name: str) -> Facts:
        """What the oracle says of a workload."""
        if name not in self._truth:
            self._truth[name] = self.truth_after(name, [])
            self.say(f"{name}: the oracle says {self._truth[name]}")
        return self._truth[name]

    def truth_after(self, name: str, more: list[str]) -> Facts:
        """What the oracle says of a workload and some lines after it."""
        with self.ours("postgres") as player:
            said = player.ask(
                "oracle_facts",
                configuration=str(self.configuration(name)),
                path=str(self.workload(name).records_file),
                more=more,
            )
        return facts(said)

    def check_sums(self, peer: SimpleNamespace, name: str, more: list[str] | None = None) -> None:
        """Refuse a peer's result unless its sums are the oracle's."""
        told = self.truth_after(name, more) if more else self.truth(name)
        if tuple(getattr(peer, part) for part in SUMS) != tuple(
            getattr(told, part) for part in SUMS
        ):
            raise WrongError(f"a peer on {name}: expected {told}, found {peer}")

    def check_state(self, player: Player, name: str, more: list[str] | None = None) -> None:
        """Refuse what the worker keeps unless it is what the oracle says, with `more` lines."""
        found = facts(player.ask("state_facts", namespace=name))
        told = self.truth_after(name, more) if more else self.truth(name)
        self.check(f"state of {name}", found, told)

    def check_outbox(self, player: Player, name: str) -> None:
        """Refuse what the outbox tells unless it is what the oracle says."""
        blocked = list(self.workload(name).conflicting)
        said = player.ask("outbox_facts", namespace=name, blocked_keys=blocked)
        self.check(f"outbox of {name}", facts(said), self.truth(name))

    @staticmethod
    def check(what: str, found: Facts, told: Facts) -> None:
        """Refuse what was found unless it is what was told."""
        if found != told:
            raise WrongError(f"{what}: expected {told}, found {found}")

    def carried_on(self, player: Player, name: str) -> SimpleNamespace:
        """Publish and apply what is pending, and refuse it unless verification finds it right."""
        player.ask("relay", namespace=name)
        player.ask("project", namespace=name)
        return self.verified(player, name)

    def verified(self, player: Player, name: str) -> SimpleNamespace:
        """Refuse a namespace unless verification, the whole of it, finds it right."""
        found = player.ask("verify", namespace=name)
        if found.differences or found.status not in {"PASS", "PASS_WITH_EXCLUSIONS", "BLOCKED"}:
            raise WrongError(f"verification of {name}: {found}")
        return found

    # --- the commit floor

    def floor(self, commits: int = FLOOR_COMMITS) -> float:
        """Median milliseconds to update the one row of a table and commit, here and now."""
        if self.options.scale < 1:
            commits = min(commits, 100)
        with psycopg.connect(self.server.lease.url("postgres")) as connection:
            connection.execute("create table if not exists fence (id int primary key, epoch int8)")
            connection.execute("insert into fence values (1, 0) on conflict do nothing")
            connection.commit()
            samples = []
            for _ in range(commits):
                start = time.perf_counter()
                connection.execute("update fence set epoch = epoch + 1 where id = 1")
                connection.commit()
                samples.append((time.perf_counter() - start) * 1000)
        self.floors += samples
        return quantile(samples, 0.5)

    def machine(self) -> dict[str, object]:
        """What the numbers were measured on."""
        with self.connection() as connection:
            version = connection.execute("show server_version").fetchone()[0]
            fsync = connection.execute("show fsync").fetchone()[0]
        return {
            "cores": os.cpu_count(),
            "processor": _processor(),
            "python": sys.version.split()[0],
            "postgresql": version,
            "fsync": fsync,
            "load1": round(os.getloadavg()[0], 2),
            "commit_floor_ms": round(quantile(self.floors, 0.5), 3) if self.floors else None,
            "scale": self.options.scale,
        }


def facts(answer: SimpleNamespace) -> Facts:
    """The facts in a player's answer."""
    return Facts(*(getattr(answer, name) for name in Facts._fields))


def _processor() -> str:
    found: Sequence[str] = ()
    path = Path("/proc/cpuinfo")
    if path.exists():
        found = [line for line in path.read_text().splitlines() if line.startswith("model name")]
    return found[0].partition(":")[2].strip() if found else "unknown"
