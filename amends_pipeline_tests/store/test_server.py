"""Which server is used, and that a password in its URL is seen by nobody."""

from __future__ import annotations

import logging
import traceback
from urllib.parse import quote

import psycopg
import pytest
import sqlalchemy
from hypothesis import example, given
from hypothesis import strategies as st

from amends_pipeline.kernel.errors import DatabaseUnavailable
from amends_pipeline.store.server import connect_info, redact

PASSWORD = "s3c@r/t:%&=?#"


def ask(url, question):
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(question).fetchone()[0]


def tell(url, *statements):
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.fixture
def users_url(postgres_server, database_url):
    """The URL of somebody who owns a database on a server of their own, with a password."""
    name = ask(database_url, "select current_database()")
    tell(
        database_url,
        f"create role clerk login password {PASSWORD!r}",
        f'grant all on database "{name}" to clerk',
    )
    socket = ask(database_url, "show unix_socket_directories").strip('"')
    yield f"postgresql://clerk:{quote(PASSWORD, safe='')}@/{name}?host={quote(socket)}"
    tell(database_url, "drop owned by clerk", "drop role clerk")


# ---------------------------------------------------------------- which


def test_without_a_url_the_private_server_has_a_database_for_each(postgres_server):
    url = postgres_server.ledger_url
    assert ask(url, "select current_database()") == "amends"
    assert ask(url, "show server_encoding") == "UTF8"
    with postgres_server.dagster_set_up():
        dagster = sqlalchemy.create_engine(postgres_server.dagster_url).connect()
        assert dagster.execute(sqlalchemy.text("select current_database()")).scalar() == "dagster"
        assert dagster.engine.driver == "psycopg2"
        dagster.close()
        dagster.engine.dispose()
    ours = sqlalchemy.create_engine(postgres_server.alchemy_url).connect()
    assert ours.execute(sqlalchemy.text("select current_database()")).scalar() == "amends"
    assert ours.engine.driver == "psycopg"
    ours.close()
    ours.engine.dispose()


def test_the_home_is_the_one_given_else_the_variable_else_a_folder_here(
    postgres_server, monkeypatch
):
    home = postgres_server.lease.home
    for given_home, environment in (
        (home, {"AMENDS_HOME": "/nowhere"}),
        (None, {"AMENDS_HOME": str(home), "AMENDS_POSTGRES_URL": ""}),
    ):
        with connect_info(given_home, environment) as server:
            assert server.lease.home == home
    (home / "here").mkdir(exist_ok=True)
    (home / "here" / ".amends").symlink_to(home)
    monkeypatch.chdir(home / "here")
    with connect_info(environment={}) as server:
        assert server.lease.home == home
    (home / "here" / ".amends").unlink()


@pytest.mark.parametrize("name", ["amends_demo", 'odd "name" %41 ü/?'])
def test_a_database_can_be_named_and_is_made_once(postgres_server, name):
    for _ in range(2):
        with connect_info(environment={}, home=postgres_server.lease.home, database=name) as server:
            assert ask(server.ledger_url, "select current_database()") == name
    with psycopg.connect(postgres_server.ledger_url, autocommit=True) as connection:
        connection.execute(psycopg.sql.SQL("drop database {}").format(psycopg.sql.Identifier(name)))


def test_a_url_puts_everything_on_the_users_server(users_url):
    with connect_info(environment={"AMENDS_POSTGRES_URL": users_url}) as server:
        assert server.lease is None
        assert ask(server.ledger_url, "select current_user") == "clerk"
        assert psycopg.conninfo.conninfo_to_dict(server.ledger_url)["password"] == PASSWORD
        for _ in range(2):
            with server.dagster_set_up():
                engine = sqlalchemy.create_engine(server.dagster_url)
                with engine.connect() as connection:
                    path = sqlalchemy.text("select current_schemas(false)::text")
                    assert connection.execute(path).scalar() == "{dagster}"
                engine.dispose()


@pytest.mark.parametrize("scheme", ["postgres", "postgresql+psycopg2", "postgresql+psycopg"])
def test_every_usual_scheme_is_understood(users_url, scheme):
    url = users_url.replace("postgresql", scheme, 1)
    server = connect_info(environment={"AMENDS_POSTGRES_URL": url})
    assert ask(server.ledger_url, "select current_user") == "clerk"


def test_options_of_the_user_stay_in_force(users_url):
    url = f"{users_url}&options=-cwork_mem%3D7MB&application_name=shop"
    server = connect_info(environment={"AMENDS_POSTGRES_URL": url})
    assert ask(server.ledger_url, "show work_mem") == "7MB"
    with server.dagster_set_up():
        engine = sqlalchemy.create_engine(server.dagster_url)
        with engine.connect() as connection:
            for setting, value in (
                ("work_mem", "7MB"),
                ("search_path", "dagster"),
                ("application_name", "shop"),
            ):
                assert connection.execute(sqlalchemy.text(f"show {setting}")).scalar() == value
        engine.dispose()


def test_what_a_role_or_a_shell_has_set_changes_no_session_of_ours(users_url, monkeypatch):
    for setting, value in (
        ("timezone", "Asia/Tokyo"),
        ("datestyle", "German"),
        ("search_path", "public"),
        ("client_encoding", "LATIN1"),
        ("default_transaction_read_only", "on"),
        ("default_transaction_isolation", "serializable"),
        ("standard_conforming_strings", "off"),
    ):
        tell(
            users_url,
            "set default_transaction_read_only = off",
            f"alter role clerk set {setting} = '{value}'",
        )
    for name, value in (
        ("PGTZ", "Africa/Cairo"),
        ("PGDATESTYLE", "Postgres"),
        ("PGCLIENTENCODING", "SQL_ASCII"),
        ("PGOPTIONS", "-c timezone=America/Lima -c search_path=public -c nonsense=1"),
    ):
        monkeypatch.setenv(name, value)
    server = connect_info(environment={"AMENDS_POSTGRES_URL": users_url})
    question = """select concat_ws(' ', current_setting('timezone'), current_setting('datestyle'),
        current_setting('client_encoding'), current_setting('default_transaction_read_only'),
        current_setting('default_transaction_isolation'))"""
    expected = "UTC ISO, MDY UTF8 off read committed"
    assert ask(server.ledger_url, question) == expected
    with psycopg.connect(server.ledger_url) as connection:
        sent = connection.execute("select %t::bytea", [b"\\x00"]).fetchone()
    assert sent == (b"\\x00",)
    with server.dagster_set_up():
        engine = sqlalchemy.create_engine(server.dagster_url)
        with engine.connect() as connection:
            assert connection.execute(sqlalchemy.text(question)).scalar() == expected
            path = sqlalchemy.text("select current_schemas(false)::text")
            assert connection.execute(path).scalar() == "{dagster}"
        engine.dispose()


def test_a_named_database_on_the_users_server_is_made_if_that_is_allowed(
    users_url, postgres_server
):
    environment = {"AMENDS_POSTGRES_URL": users_url}
    with pytest.raises(DatabaseUnavailable, match="permission denied to create database"):
        connect_info(environment=environment, database="amends_demo")
    tell(postgres_server.ledger_url, "alter role clerk createdb")
    server = connect_info(environment=environment, database="amends_demo")
    assert ask(server.ledger_url, "select current_database()") == "amends_demo"
    tell(postgres_server.ledger_url, "drop database amends_demo")


def test_a_database_in_another_encoding_is_refused(users_url, postgres_server):
    tell(
        postgres_server.ledger_url,
        "create database old template template0 encoding 'LATIN1' locale 'C'",
    )
    url = users_url.replace("/test_", "/old?ignored=", 1).split("?", 1)[0]
    url += "?" + users_url.split("?", 1)[1]
    with pytest.raises(
        DatabaseUnavailable, match="expected a database in UTF8, found one in LATIN1"
    ):
        connect_info(environment={"AMENDS_POSTGRES_URL": url})
    tell(postgres_server.ledger_url, "drop database old")


def test_an_old_server_is_refused(users_url, monkeypatch):
    monkeypatch.setattr(psycopg.ConnectionInfo, "server_version", 140_012)
    with pytest.raises(
        DatabaseUnavailable, match="expected PostgreSQL 15 or later, found version 14"
    ):
        connect_info(environment={"AMENDS_POSTGRES_URL": users_url})


def test_a_replica_is_refused(users_url, monkeypatch):
    told = psycopg.ConnectionInfo.parameter_status

    def of_a_replica(info, name):
        return "on" if name == "in_hot_standby" else told(info, name)

    monkeypatch.setattr(psycopg.ConnectionInfo, "parameter_status", of_a_replica)
    with pytest.raises(DatabaseUnavailable, match="be written to, found a replica in recovery"):
        connect_info(environment={"AMENDS_POSTGRES_URL": users_url})


def test_an_error_of_the_driver_becomes_ours(postgres_server):
    with pytest.raises(psycopg.Error) as raised:
        ask(postgres_server.ledger_url, "select 1 / 0")
    ours = str(postgres_server.unavailable(raised.value))
    assert ours == (
        f"database amends of {postgres_server.lease.folder}:"
        " expected a PostgreSQL server that serves us, found division by zero"
    )


# ---------------------------------------------------------------- the password


@pytest.mark.parametrize(
    ("url", "found"),
    [
        # what libpq would cut in the middle of the password
        ("postgresql://clerk:hid@den@127.0.0.1:1/shop", "an @ beyond the one before the host"),
        ("postgresql://clerk:hid/den@127.0.0.1:1/shop", "an @ beyond the one before the host"),
        ("postgresql://clerk:hidden%zz@127.0.0.1:1/shop", "libpq cannot read"),
        ("postgresql://clerk:hidden", "libpq cannot read"),
        ("postgresql://clerk:hidden@127.0.0.1:1/shop?sslmod=no", "libpq cannot read"),
        ("postgresql://clerk:hidden@127.0.0.1:hidden/shop", "libpq cannot read"),
        ("postgresql://clerk:\udcff@127.0.0.1:1/shop", "libpq cannot read"),
        # no URL of PostgreSQL
        ("mysql://clerk:hidden@127.0.0.1/shop", "another beginning"),
        ("host=127.0.0.1 password=hidden", "another beginning"),
        ("hidden", "another beginning"),
        # nobody there
        ("postgresql://clerk:hidden@127.0.0.1:1/shop", "127.0.0.1:1.*Connection refused"),
        ("postgresql://clerk@127.0.0.1:1/shop?password=hidden", "Connection refused"),
        ("postgresql://clerk:hidden@[::1]:1,127.0.0.1:2/shop", "::1,127.0.0.1:1,2"),
        ("postgresql://clerk:hidden@/shop?host=/hidden", r"\*\*\*"),
    ],
)
def test_a_bad_url_says_where_and_what_but_not_the_password(url, found, caplog):
    caplog.set_level(logging.DEBUG)
    with pytest.raises(DatabaseUnavailable, match=found) as refusal:
        connect_info(environment={"AMENDS_POSTGRES_URL": url})
    told = "".join(traceback.format_exception(refusal.value)) + repr(refusal.value) + caplog.text
    assert "AMENDS_POSTGRES_URL" in told
    for secret in ("hidden", "hid@den", "hid/den", "den@"):
        assert secret not in told.replace('connect_info(environment={"AMENDS', "")


def test_a_wrong_password_is_not_shown(users_url, postgres_server):
    folder = postgres_server.lease.folder / "data"
    rules = (folder / "pg_hba.conf").read_text()
    (folder / "pg_hba.conf").write_text(f"local all clerk scram-sha-256\n{rules}")
    tell(postgres_server.ledger_url, "select pg_reload_conf()")
    try:
        assert connect_info(environment={"AMENDS_POSTGRES_URL": users_url})
        wrong = users_url.replace("s3c", "hidden")
        with pytest.raises(DatabaseUnavailable, match="password authentication failed") as refusal:
            connect_info(environment={"AMENDS_POSTGRES_URL": wrong})
        assert "hidden" not in str(refusal.value)
    finally:
        (folder / "pg_hba.conf").write_text(rules)
        tell(postgres_server.ledger_url, "select pg_reload_conf()")


def test_a_server_shows_itself_without_the_password(users_url):
    server = connect_info(environment={"AMENDS_POSTGRES_URL": users_url})
    raw, written = PASSWORD, quote(PASSWORD, safe="")
    for text in (repr(server), str(server), f"{server!r}", server.where):
        assert raw not in text
        assert written not in text
    assert server.redact(f"it is {raw} or {written}") == "it is *** or ***"
    assert repr(sqlalchemy.create_engine(server.dagster_url)).count("***") == 1
    assert repr(sqlalchemy.create_engine(server.alchemy_url)).count("***") == 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://clerk:hidden@db/shop", "postgresql://clerk:***@db/shop"),
        ("at postgresql://clerk:hid@den@db/shop.", "at postgresql://clerk:***@db/shop."),
        ("postgresql://clerk@db/shop", "postgresql://clerk@db/shop"),
        ("host=db password=hidden user=clerk", "host=db password=*** user=clerk"),
        ("password = 'hid\\'den x' user=clerk", "password = *** user=clerk"),
        ("/shop?sslpassword=hidden&port=1", "/shop?sslpassword=***&port=1"),
        ("no password here: a=b", "no password here: a=b"),
        ("", ""),
    ],
)
def test_whatever_looks_like_a_password_is_masked(text, shown):
    assert redact(text) == shown
    assert redact(shown) == shown


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=3))
@example("***a")
@example(PASSWORD)
def test_no_password_is_seen_whatever_it_is(password):
    url = f"postgresql://clerk:{quote(password, safe='')}@127.0.0.1:1/shop"
    with pytest.raises(DatabaseUnavailable) as refusal:
        connect_info(environment={"AMENDS_POSTGRES_URL": url})
    # Without a password the message is this one; a part of it that equals the password is masked.
    plain = (
        "AMENDS_POSTGRES_URL (127.0.0.1:1): expected a PostgreSQL server that serves us, found"
        ' connection failed: connection to server at "127.0.0.1", port 1 failed: Connection refused'
        " Is the server running on that host and accepting TCP/IP connections?"
    )
    if password not in plain and quote(password) not in plain:
        assert str(refusal.value) == plain
    assert (
        quote(password, safe="") not in redact(url)
        or password in "postgresql://clerk:***@127.0.0.1:1/shop"
    )
