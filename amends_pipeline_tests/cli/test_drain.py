"""Draining, and what stops it; setting aside; making the view anew."""

from __future__ import annotations

import threading

import pytest

from amends_pipeline.ports import Role, Unit
from amends_pipeline_tests.tables import configuration

LARGEST = 2**63 - 1


def test_counts_of_each_stage_in_sum_and_by_partition(bare):
    config = configuration(partitions=2)
    config["keys"][1]["partition"] = 1
    bare.provision(config)
    bare.append(
        """
        A r1 NEW day 1 -50
        A r1 NEW day 1 -50
        b/A r1 NEW day 1 5
        malformed
        """
    )
    worker = [
        {"records": 3, "accepted": 2, "rejected": 1, "decisions": 3, "envelopes": 3},
        {"records": 1, "accepted": 1, "rejected": 0, "decisions": 1, "envelopes": 2},
    ]
    views = [{"consumed": n, "rows": n, "duplicates": 0, "outdated": 0} for n in (3, 2)]
    assert bare.on("drain", "--slice-records", 1, "--json").document == {
        "namespace": "main",
        "boundary": [3, 1],
        "worker": {"records": 4, "accepted": 3, "rejected": 1, "decisions": 4, "envelopes": 5},
        "relay": {"published": 5},
        "view": {"consumed": 5, "rows": 5, "duplicates": 0, "outdated": 0},
        "partitions": [
            {"partition": 0, "worker": worker[0], "relay": {"published": 3}, "view": views[0]},
            {"partition": 1, "worker": worker[1], "relay": {"published": 2}, "view": views[1]},
        ],
        "stopped": [],
    }
    assert bare.on("drain").rows[1:] == ["0 0 0 0 0 0 0 0", "1 0 0 0 0 0 0 0"]


@pytest.fixture
def brink(bare):
    """Key a opens at the largest number, on partition 0; key b at 100, on partition 1."""
    config = configuration(partitions=2)
    config["keys"][0]["opening_balance"] = LARGEST
    config["keys"][1]["partition"] = 1
    bare.provision(config)
    return bare


OVERFLOW = (
    "error: partition 0, offset 1: expected closes that fit a signed 64-bit integer, found one of"
    ' item "DEMO-PART" at location "DEPOT-A" on 2026-01-02 that does not fit\n'
)


PAST_IT = (
    "Declare the record out of the input: amends inventory set-aside --namespace main"
    " --partition 0 --offset 1 --reason TEXT. The next run goes on after it:"
    " amends inventory drain --namespace main."
)


@pytest.mark.parametrize("cut", [(), ("--slice-records", 1), ("--commit-records", 1)])
def test_a_close_that_does_not_fit_stops_its_partition_and_names_the_record(brink, cut):
    result = brink.drained(
        """
        A r1 NEW day 2 -1
        A r2 NEW day 2 1
        B r1 NEW day 3 -1
        b/C r1 NEW day 1 5
        """,
        *cut,
        "--json",
    )
    assert (result.status, result.err) == (3, f"{OVERFLOW}next step: {PAST_IT}\n")
    assert [each["worker"]["records"] for each in result.document["partitions"]] == [1, 1]
    assert result.document["stopped"] == [
        {
            "partition": 0,
            "error": OVERFLOW.removeprefix("error: ").strip(),
            "next_step": PAST_IT,
        }
    ]
    # What precedes it reaches the readers, and so does the other partition.
    view = [
        (row["output_id"]["stock_key"]["location"], row["payload"].get("close"))
        for row in brink.on("view", "--json").documents
    ]
    assert view == [
        ("DEPOT-A", LARGEST - 1),
        ("DEPOT-B", 105),
        ("DEPOT-A", None),
        ("DEPOT-B", None),
    ]
    assert brink.on("status", "--json").document["lag"] == 2
    assert brink.on("verify").status == 1
    assert brink.on("drain").status == 3


def test_a_record_that_is_set_aside_lets_its_partition_go_on(brink):
    brink.drained("A r1 NEW day 2 1\nB r1 NEW day 3 -1")
    aside = ("set-aside", "--partition", 0, "--offset", 0, "--reason", "keyed twice", "--json")
    assert brink.on(*aside).document == {
        "namespace": "main",
        "partition": 0,
        "offset": 0,
        "reason": "keyed twice",
    }
    assert brink.on("drain").status == 0
    assert [row["code"] for row in brink.on("quarantine", "--json").documents] == ["SET_ASIDE"]
    verified = brink.on("verify", "--json")
    assert verified.status == 1
    assert verified.document["status"] == "PASS_WITH_EXCLUSIONS"
    late = brink.on("set-aside", "--partition", 0, "--offset", 1, "--reason", "too late")
    assert late.status == 2
    assert late.err.endswith("expected an offset from the frontier 2 on, found 1\n")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((0, 2, "why"), "expected the offset of a record from 0 to 1, found 2"),
        ((2, 0, "why"), "expected a partition from 0 to 1, found 2"),
        ((0, 0, " "), "expected a reason, found none"),
    ],
)
def test_only_a_record_that_is_there_is_set_aside_and_for_a_reason(brink, arguments, complaint):
    brink.append("A r1 NEW day 2 1\nB r1 NEW day 3 -1")
    partition, offset, reason = arguments
    result = brink.on("set-aside", "--partition", partition, "--offset", offset, "--reason", reason)
    assert result.status == 2
    assert complaint in result.err


def test_nothing_is_set_aside_in_an_empty_source(amends):
    result = amends.on("set-aside", "--partition", 0, "--offset", 0, "--reason", "why")
    assert result.status == 2
    assert result.err == (
        "error: set-aside in main|p0: expected a record in the source, found none at offset 0\n"
    )


def test_a_view_that_meets_no_envelope_stops_and_says_so(amends):
    amends.append("A r1 NEW day 1 -50")
    amends.ledger.spoil(Unit("main", 0))
    result = amends.on("drain", "--json")
    assert result.status == 3
    error, step = result.err.splitlines()
    assert error.startswith("error: view of main|p0, output offset 0")
    restore = (
        "next step: Restore the output log from a backup, then: amends inventory reproject"
        " --namespace main. If there is none, make another namespace from the source: amends"
        " inventory rebuild NEW --from main, then drain and verify it."
    )
    assert step == restore
    assert result.document["stopped"][0]["next_step"] == step.removeprefix("next step: ")
    again = amends.on("reproject")
    assert (again.status, again.err.splitlines()[-1]) == (3, restore)
    assert restore in amends.on("verify").text.splitlines()
    [unit] = amends.on("status", "--json").document["partitions"]
    assert (unit["view_next"], unit["output_end"], unit["pending"]) == (0, 4, 0)
    assert unit["view_stop"] is not None
    assert f"The view of partition 0 stopped: {unit['view_stop']}" in amends.on("status").text
    assert amends.on("verify", "--json").document["status"] == "ERROR"


def test_the_view_is_made_anew_from_the_output_log(amends):
    amends.drained("A r1 NEW day 1 -50\nA r2 NEW day 1 -30", "--slice-records", 1)
    before = amends.on("view", "--json").out
    amends.ledger.tables.unit(Unit("main", 0)).view.clear()
    assert amends.on("verify", "--json").document["status"] == "DRIFT"
    assert amends.on("verify").rows[1] == (
        "next step: Make the rows of readers anew from the output log: amends inventory reproject"
        " --namespace main. Then run amends inventory verify --namespace main. If rows still"
        " differ, make another namespace from the source: amends inventory rebuild NEW --from main,"
        " then drain and verify it."
    )
    assert amends.on("reproject", "--json").document == {
        "namespace": "main",
        "view": {"consumed": 5, "rows": 3, "duplicates": 0, "outdated": 0},
        "partitions": [{"partition": 0, "consumed": 5, "rows": 3, "duplicates": 0, "outdated": 0}],
    }
    assert amends.on("view", "--json").out == before
    assert amends.on("reproject").rows[1:] == ["0 5 3 0 0"]


@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_a_drain_waits_for_the_owner_and_says_who_it_is(amends, monkeypatch, quiet):
    amends.append("A r1 NEW day 1 -50")
    holding, waited = threading.Event(), threading.Event()

    def hold():
        with amends.ledger.store.hold(Unit("main", 0), Role.WORKER, holder="night run"):
            holding.set()
            assert waited.wait(30)

    # The lock is free again only after somebody was told to wait for it.
    store = amends.ledger.store
    wait = store._wait  # noqa: SLF001 - where the memory store tells who holds a lock

    def told(unit, role, seconds, waiting):
        def tell(by):
            waiting(by)
            waited.set()

        wait(unit, role, seconds, tell)

    monkeypatch.setattr(store, "_wait", told)
    owner = threading.Thread(target=hold)
    owner.start()
    assert holding.wait(30)
    result = amends.on("drain", "--json", *quiet)
    owner.join()
    assert result.status == 0
    assert result.err == "waiting for the worker of main|p0: its lock is held by night run\n"
    assert result.document["worker"]["records"] == 1


def test_a_source_that_was_made_anew_is_refused(amends):
    amends.drained("A r1 NEW day 1 -50")
    amends.ledger.recreate("depot-feed-1")
    result = amends.on("drain", "--json")
    assert result.status == 3
    assert result.out == b""
    error, step = result.err.splitlines()
    assert error.startswith("error: namespace main, source depot-feed-1: expected incarnation")
    assert step == (
        "next step: Restore the history and the configuration that the namespace was made from. A"
        " log that was begun anew is another source: it needs a name and a namespace of its own."
    )
    assert step in amends.on("verify").text.splitlines()
    assert "another one than the namespace was bound to" in amends.on("status").text
    assert amends.on("verify", "--json").document["status"] == "INCOMPLETE"
