"""Our own player of the bank: the reference, the fold of all accounts, oracle, live journal.

Seconds are those of what is measured alone; balances are raw, as text, by account.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amends_pipeline.assembly import open_ledger
from amends_pipeline.bank import batches
from amends_pipeline.bank.balances import fold_balances, fold_balances_bytes
from amends_pipeline.bank.export import parse_accounts
from amends_pipeline.bank.fold import fold_balance
from amends_pipeline.bank.heads import Stream
from amends_pipeline.bank.oracle import Question, compute
from amends_pipeline.bank.posting import Asked
from amends_pipeline.bank.values import Group
from amends_pipeline.flows.bank_answer import answer
from amends_pipeline.flows.bank_export import export
from amends_pipeline.flows.bank_stamp import stamp
from amends_pipeline.flows.bank_take import files_of, read
from amends_pipeline.kernel.errors import AmendsError
from amends_pipeline_tests.bench.obeying import Answer, serve, timed


def raw_of(result: Mapping[str, Any]) -> dict[str, str]:
    """The balances of an answer. Raises ValueError where it is a refusal."""
    if result["status"] != "ok":
        raise ValueError(f"expected balances, found {result['code']}")
    return {each["account_id"]: each["raw_balance_minor"] for each in result["balances"]}


def folded(folder: str, query: dict[str, str]) -> Answer:
    """All balances from the bytes of an export on disk, in a folder."""
    with timed() as clock:
        documents = read(Path(folder))
        with files_of(Path(folder)).groups.open("rb") as lines:
            result = fold_balances_bytes(query, lines, documents.accounts, documents.context)
    return {"seconds": clock.seconds, "raw": raw_of(result)}


def answered(folder: str) -> Answer:
    """All balances from a folder with an export, at its head, as the asset of balances does it."""
    with timed() as clock:
        found = answer(Path(folder))
    raw = {each["account_id"]: each["raw_balance_minor"] for each in found.balances}
    return {"seconds": clock.seconds, "raw": raw}


def judged(path: str, accounts: list[Any], query: dict[str, str]) -> Answer:
    """All balances as the oracle finds them."""
    question = Question(
        query["ledger_id"], query["entity_id"], query["effective_cutoff"], query["knowledge_cutoff"]
    )
    with timed() as clock:
        found = compute(Path(path), accounts, question)
    raw = {each.account_id: str(each.raw_balance_minor) for each in found.balances}
    return {"seconds": clock.seconds, "raw": raw}


def folded_together(
    path: str, accounts: list[Any], context: dict[str, Any], query: dict[str, str]
) -> Answer:
    """All balances from JSON values in memory, which the reference takes too."""
    groups = _values(path)
    with timed() as clock:
        result = fold_balances(query, groups, accounts, context)
    return {"seconds": clock.seconds, "raw": raw_of(result)}


def folded_each(
    path: str,
    accounts: list[Any],
    context: dict[str, Any],
    query: dict[str, str],
    asked: list[str],
) -> Answer:
    """The balance of each of some accounts by the reference, and the seconds of each."""
    groups, raw, seconds = _values(path), {}, []
    for name in asked:
        question = {**query, "account_id": name, "checkpoint": None}
        with timed() as clock:
            result = fold_balance(question, groups, accounts, context)
        raw |= raw_of({**result, "balances": [result["balance"]]})
        seconds.append(clock.seconds)
    return {"seconds": seconds, "raw": raw}


def asked_of(group: Group) -> Asked:
    """What a poster looks up before it adds a group."""
    commands = [journal.command for journal in group.journals]
    return Asked(
        journals=tuple(command.journal_id for command in commands),
        accounts=tuple(leg.account_id for command in commands for leg in command.legs),
    )


def _values(path: str) -> list[Any]:
    return [json.loads(line) for line in Path(path).read_bytes().splitlines()]


class Live:
    """The live journal in a database."""

    def __init__(self, url: str) -> None:
        self._url = url

    def fill(self, stream: list[str], path: str, accounts: list[Any]) -> Answer:
        """Put groups into a new stream as they are, each a transaction, and give them receipts.

        Commits need not reach the disk before the next one here.
        """
        options = "options=-csynchronous_commit%3Doff"
        separator = "&" if "?" in self._url else "?"
        with open_ledger(f"{self._url}{separator}{options}") as ledger, Path(path).open("rb") as at:
            journal = ledger.bank
            journal.open(Stream(*stream), list(parse_accounts(accounts).values()))
            with timed() as clock:
                for batch in batches.read_lines(at):
                    for group in batch.groups:
                        with journal.locked(stream[0]) as locked:
                            locked.facts(asked_of(group))
                            locked.append(group)
            stamp(journal, stream[0])
        return {"seconds": clock.seconds}

    def exported(self, stream_id: str, folder: str) -> Answer:
        """Export a stream into a folder, which is made."""
        Path(folder).mkdir()
        with open_ledger(self._url) as ledger, timed() as clock:
            done = export(ledger.bank, stream_id, files_of(Path(folder)))
        return {"seconds": clock.seconds, "groups": done.groups}


def main() -> None:
    """Serve; the one argument is the URL of the database."""
    live = Live(sys.argv[1])
    try:
        serve(
            {
                "folded": folded,
                "answered": answered,
                "judged": judged,
                "folded_together": folded_together,
                "folded_each": folded_each,
                "fill": live.fill,
                "exported": live.exported,
            }
        )
    except AmendsError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
