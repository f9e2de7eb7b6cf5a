"""Which PostgreSQL: the user's, named by AMENDS_POSTGRES_URL, or the private one in AMENDS_HOME.

On the user's server the ledgers live in the schema `amends` (the search path is the store's matter)
and Dagster's storage in the schema `dagster` of the same database. On the private server each has a
database of its own. The password of the user's URL stands in `ledger_url` and `dagster_url` and
nowhere else: no repr, no log, no error.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import quote

import psycopg
from psycopg import conninfo, sql
from psycopg.errors import DuplicateDatabase, DuplicateSchema, UniqueViolation

from amends_pipeline.kernel.errors import DatabaseUnavailable
from amends_pipeline.store import libpq
from amends_pipeline.store.embedded import OLDEST_MAJOR, Lease

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

URL_VARIABLE = "AMENDS_POSTGRES_URL"
HOME_VARIABLE = "AMENDS_HOME"
DEFAULT_HOME = ".amends"
LEDGER_DATABASE = "amends"
DAGSTER_NAME = "dagster"  # its database on the private server, its schema on the user's

CONNECT_SECONDS = "10"
MASK = "***"
SECRETS = ("password", "sslpassword", "oauth_client_secret")
# All of Dagster's processes make its tables at their first start; this lock lets one do it.
DAGSTER_LOCK = 0x616D656E6473
OURS_TO_READ = (
    "postgresql://USER:PASSWORD@HOST:PORT/DATABASE, special characters in it percent-encoded"
)

_SCHEME = re.compile(r"(postgres|postgresql)(\+[a-z0-9]+)?://", re.IGNORECASE)
_USERINFO = re.compile(r"(://[^\s:/@]*:)\S*@")
_SETTING = re.compile(
    rf"\b((?:{'|'.join(SECRETS)})\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&'\"]+)", re.IGNORECASE
)


@dataclass(frozen=True, repr=False)
class Server:
    """A server that answered, and how to reach what is ours on it.

    ledger_url: for psycopg 3, a URL.
    dagster_url: for SQLAlchemy over psycopg2, as Dagster needs it.
    where: the place in words, without the password.
    lease: what keeps the private server up; None on the user's.
    secrets: what must not be shown.
    """

    ledger_url: str
    dagster_url: str
    where: str
    lease: Lease | None = None
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Show the place without any password."""
        return f"Server({self.where!r})"

    def __enter__(self) -> Self:
        """Return the server itself; `connect_info` has taken the lease already."""
        return self

    def __exit__(self, *_: object) -> None:
        """Give the lease back."""
        self.close()

    @property
    def alchemy_url(self) -> str:
        """The ledgers' database for SQLAlchemy over psycopg 3, as migrations need it."""
        return self.ledger_url.replace("postgresql://", "postgresql+psycopg://", 1)

    def close(self) -> None:
        """Give the lease back, if there is one."""
        if self.lease is not None:
            self.lease.release()

    def redact(self, text: str) -> str:
        """Mask this server's password in a text, and whatever looks like one."""
        return _masked(text, self.secrets)

    def unavailable(self, error: Exception) -> DatabaseUnavailable:
        """Turn an error of a driver into ours, without the password."""
        return _unavailable(self.where, error, self.secrets)

    @contextlib.contextmanager
    def dagster_set_up(self) -> Iterator[None]:
        """Make the place for Dagster's tables if missing; hold a lock while Dagster makes them."""
        url = self.dagster_url.replace("postgresql+psycopg2://", "postgresql://", 1)
        try:
            if self.lease is not None:
                _create_database(self.lease.url("postgres"), DAGSTER_NAME)
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("select pg_advisory_lock(%s)", (DAGSTER_LOCK,))
                if self.lease is None:
                    _create_schema(connection, DAGSTER_NAME)
                yield
        except psycopg.Error as error:
            raise self.unavailable(error) from error


def connect_info(
    home: Path | None = None,
    environment: Mapping[str, str] | None = None,
    *,
    database: str | None = None,
    linger: float = 2.0,
    settings: Mapping[str, str] | None = None,
) -> Server:
    """Find the server, see that it answers, and make the ledgers' database if it is missing.

    home: AMENDS_HOME, unless given; by default `.amends` in the current folder. Of no effect on the
    user's server.
    environment: where the two variables are looked up; by default the process's own.
    database: the ledgers' database; by default `amends`, or the one in the user's URL. One named
    here is made if it is missing, on the user's server too. linger, settings: as in `Lease`.

    Raises DatabaseUnavailable.
    """
    environment = os.environ if environment is None else environment
    if url := environment.get(URL_VARIABLE):
        return _users_server(url, database)
    home = home or Path(environment.get(HOME_VARIABLE) or DEFAULT_HOME)
    lease = Lease(home, linger, settings).acquire()
    database = database or LEDGER_DATABASE
    try:
        _create_database(lease.url("postgres"), database)
    except psycopg.Error as error:
        lease.release()
        raise _unavailable(str(lease.folder), error, ()) from error
    return Server(
        lease.url(database),
        lease.url(DAGSTER_NAME, "psycopg2"),
        f"database {database} of {lease.folder}",
        lease,
    )


def redact(text: str) -> str:
    """Mask whatever looks like a password in a text: in a URL's user part, or as `password=...`."""
    return _masked(text, ())


def _masked(text: str, secrets: tuple[str, ...]) -> str:
    for secret in secrets:
        for form in {secret, quote(secret, safe=""), quote(secret)}:
            text = text.replace(form, MASK)
    return _SETTING.sub(rf"\g<1>{MASK}", _USERINFO.sub(rf"\g<1>{MASK}@", text))


def _unavailable(where: str, error: Exception, secrets: tuple[str, ...]) -> DatabaseUnavailable:
    told = " ".join(_masked(str(error), secrets).split())
    return DatabaseUnavailable(where, expected="a PostgreSQL server that serves us", found=told)


# --- the user's server


def _users_server(url: str, database: str | None) -> Server:
    libpq.forget_session()
    parts = _parse(url)
    secrets = tuple(parts[name] for name in SECRETS if parts.get(name))
    parts.setdefault("connect_timeout", CONNECT_SECONDS)
    parts["client_encoding"] = "UTF8"
    parts["options"] = f"{parts.get('options', '')} {libpq.SESSION}".strip()
    host, port = parts.get("host", "the default host"), parts.get("port", "default port")
    place = _masked(f"{host}:{port}", secrets)
    try:
        if database is not None:
            _create_database(_url("postgresql", parts), database)
            parts["dbname"] = database
        with psycopg.connect(_url("postgresql", parts)) as connection:
            where = f"{URL_VARIABLE} ({place}, database {connection.info.dbname})"
            _check(where, connection)
    except psycopg.Error as error:
        raise _unavailable(f"{URL_VARIABLE} ({place})", error, secrets) from None
    options = f"{parts['options']} -c search_path={DAGSTER_NAME}"
    dagster = _url("postgresql+psycopg2", {**parts, "options": options})
    return Server(_url("postgresql", parts), dagster, where, secrets=secrets)


def _parse(url: str) -> dict[str, str]:
    """Read the URL as libpq does, but refuse what it would cut in the middle of a password."""
    scheme = _SCHEME.match(url)
    if scheme is None:
        raise DatabaseUnavailable(URL_VARIABLE, expected=OURS_TO_READ, found="another beginning")
    rest = url[scheme.end() :]
    credentials = re.match(r"[^@/]*@", rest)
    after = rest[credentials.end() if credentials else 0 :].split("?", 1)[0]
    if "@" in after:
        found = "an @ beyond the one before the host"
        raise DatabaseUnavailable(URL_VARIABLE, expected=OURS_TO_READ, found=found)
    try:
        parts = conninfo.conninfo_to_dict(f"postgresql://{rest}")
    except (psycopg.Error, UnicodeError):  # its message would show a part of the URL
        parts = None
    # In postgresql://user:password, without a host, the password stands where a port is looked for.
    if parts is None or not re.fullmatch(r"[0-9,]*", str(parts.get("port", ""))):
        found = "text that libpq cannot read (not shown: it may hold a password)"
        raise DatabaseUnavailable(URL_VARIABLE, expected=OURS_TO_READ, found=found)
    return {name: str(value) for name, value in parts.items() if value is not None}


def _url(scheme: str, parts: Mapping[str, str]) -> str:
    """Write a URL that libpq and SQLAlchemy read alike, the password where SQLAlchemy masks it."""
    rest = dict(parts)
    user, password, name = (rest.pop(part, "") for part in ("user", "password", "dbname"))
    login = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
    query = "&".join(f"{key}={quote(value, safe='/')}" for key, value in rest.items())
    return f"{scheme}://{login}{'@' if login else ''}/{quote(name, safe='')}?{query}"


def _check(where: str, connection: psycopg.Connection) -> None:
    major = connection.info.server_version // 10_000
    if major < OLDEST_MAJOR:
        expected = f"PostgreSQL {OLDEST_MAJOR} or later"
        raise DatabaseUnavailable(where, expected=expected, found=f"version {major}")
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise DatabaseUnavailable(where, expected="a database in UTF8", found=f"one in {encoding}")
    if connection.info.parameter_status("in_hot_standby") == "on":
        expected = "a server that can be written to"
        raise DatabaseUnavailable(where, expected=expected, found="a replica in recovery")


# --- databases and schemas


def _create_database(url: str, name: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        if (
            connection.execute("select from pg_database where datname = %s", (name,)).fetchone()
            is None
        ):
            statement = sql.SQL("create database {} template template0 encoding 'UTF8'")
            with contextlib.suppress(DuplicateDatabase, UniqueViolation):  # another was first
                connection.execute(statement.format(sql.Identifier(name)))


def _create_schema(connection: psycopg.Connection, name: str) -> None:
    # "if not exists" would ask for the right to create even where the schema exists.
    if (
        connection.execute("select from pg_namespace where nspname = %s", (name,)).fetchone()
        is None
    ):
        with contextlib.suppress(DuplicateSchema, UniqueViolation):
            connection.execute(sql.SQL("create schema {}").format(sql.Identifier(name)))
