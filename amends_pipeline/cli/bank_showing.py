"""Answers of the bank, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from amends_pipeline.cli.output import Table, counted
from amends_pipeline.cli.session import complain

if TYPE_CHECKING:
    from amends_pipeline.bank.codes import Rejection
    from amends_pipeline.bank.fold import Judgement
    from amends_pipeline.bank.posting import Booking
    from amends_pipeline.bank.receipts import Standing
    from amends_pipeline.bank.values import Group
    from amends_pipeline.cli.session import Session
    from amends_pipeline.flows.bank_export import Exported

STATEMENT = "#sequence, journal, kind, effective at, known from, #amount, #balance"
CHANGES = "group, #from, #to, known from, entered, left, #change"
BALANCES = "account, currency, normal side, #raw balance, #balance"
BALANCE_MEMBERS = (
    "account_id",
    "currency",
    "normal_side",
    "raw_balance_minor",
    "normal_balance_minor",
)
GROUPS = "group, kind, #from, #to, journals, known from"
_CORRECTION = ("correction", "replacement", "reversal_business_operation_id")
_LATE = "adjustment_reason"


def whole(session: Session, judgement: Judgement) -> None:
    """Print a result as the JSON document that it is."""
    if session.as_json:
        session.out.document(judgement.result)
    else:
        session.out.write(json.dumps(judgement.result, indent=2).encode() + b"\n")
    if judgement.rejection is not None:
        complain(str(judgement.rejection))


def rejected(session: Session, rejection: Rejection) -> None:
    """Say why nothing was written."""
    if session.as_json:
        code = {"status": "rejected", "code": str(rejection.code)}
        places = ("where", "expected", "found")
        session.out.document(code | {name: getattr(rejection, name) for name in places})
    else:
        complain(str(rejection))


def booked(session: Session, booking: Booking) -> None:
    """Show the group that a command made."""
    from amends_pipeline.bank.values import plain

    group = booking.group
    if session.as_json:
        answer = {"status": "ok", "repeated": booking.repeated, "group": plain(group)}
        session.out.document(answer)
        return
    happened = "committed before" if booking.repeated else "committed"
    known = f"known from {group.available_at}"
    session.out.text(f"group {group.group_id}: {happened}, {known}")
    for journal in group.journals:
        command = journal.command
        recorded = f"sequence {journal.sequence}, recorded at {journal.recorded_at}"
        session.out.text(f"  {command.journal_id}: {recorded}")


def exported(session: Session, done: Exported) -> None:
    """Show the head of an export."""
    from amends_pipeline.bank.values import plain

    if session.as_json:
        counts = {"groups": done.groups, "accounts": done.accounts}
        session.out.document({"head": plain(done.head)} | counts)
        return
    head = done.head
    counts_text = f"{counted(done.groups, 'group')}, {counted(done.accounts, 'account')}"
    session.out.text(f"exported {counts_text}, complete to sequence {head.head_sequence}")
    session.out.text(f"  observed at {head.observed_at}, receipt {head.receipt_ref}")


def story(session: Session, stream_id: str, groups: Sequence[Group]) -> None:
    """Show what was posted."""
    from amends_pipeline.bank.values import plain

    if session.as_json:
        session.out.document({"stream_id": stream_id, "groups": [plain(each) for each in groups]})
        return
    table = Table(session.out, GROUPS)
    for group in groups:
        ends = (group.journals[0].sequence, group.journals[-1].sequence)
        names = " ".join(journal.command.journal_id for journal in group.journals)
        table.row(group.group_id, group.kind, *ends, names, group.available_at)
    table.end()
    session.out.text(f"see it: amends bank statement --stream {stream_id} --account ADA")


def standing_document(standing: Standing) -> dict[str, Any]:
    """Return where a stream stands, as JSON."""
    stream, last, with_receipt, recorded_at, available_at, observed_at, digest = standing
    return {
        **stream._asdict(),
        "last_sequence": str(last),
        "stamped_sequence": str(with_receipt),
        "recorded_at": recorded_at,
        "available_at": available_at,
        "observed_at": observed_at,
        "digest": digest.hex(),
    }


def statement(session: Session, judgement: Judgement) -> None:
    """Print the lines of a statement."""
    result = judgement.result
    if session.as_json or judgement.rejection is not None:
        whole(session, judgement)
        return
    session.out.text(_balance("opening", result["opening"]))
    table = Table(session.out, STATEMENT)
    for line in result["lines"]:
        sign = _sign(result["balance"])
        table.row(
            line["sequence"],
            line["journal_id"],
            line["kind"],
            line["effective_at"],
            line["available_at"],
            sign * int(line["raw_delta_minor"]),
            line["normal_balance_minor"],
        )
    table.end("nothing moved it")
    session.out.text(_balance("balance", result["balance"]))
    _reach(session, result["coverage"])


def balances(session: Session, judgement: Judgement, *, as_csv: bool) -> None:
    """Print the balances of all accounts."""
    result = judgement.result
    if session.as_json or judgement.rejection is not None:
        whole(session, judgement)
        return
    if as_csv:
        session.out.write(f"{','.join(BALANCE_MEMBERS)}\n".encode())
        for each in result["balances"]:  # identifiers and numbers: nothing of them needs quotes
            session.out.write(f"{','.join(each[name] for name in BALANCE_MEMBERS)}\n".encode())
        return
    table = Table(session.out, BALANCES)
    for each in result["balances"]:
        table.row(*(each[name] for name in BALANCE_MEMBERS))
    table.end("no accounts")
    _reach(session, result["coverage"])


def change(session: Session, judgement: Judgement) -> None:
    """Print what turns one answer into another."""
    result = judgement.result
    if session.as_json or judgement.rejection is not None:
        whole(session, judgement)
        return
    _side(session, "first", result["first"])
    table = Table(session.out, CHANGES)
    for each in result["groups"]:
        table.row(
            each["group_id"],
            each["first_sequence"],
            each["last_sequence"],
            each["available_at"],
            " ".join(each["entered_journal_ids"]),
            " ".join(each["left_journal_ids"]),
            each["normal_change_minor"],
        )
    table.end("no group changes it")
    _side(session, "second", result["second"])
    session.out.text(f"change {result['normal_change_minor']}")


def correction_of(given: object) -> dict[str, Any] | Rejection:
    """Return a correction's document with all its members; what they hold is judged elsewhere."""
    from amends_pipeline.bank.codes import Code, Rejection
    from amends_pipeline.bank.members import not_the_kind

    expected = f"an object of {', '.join(_CORRECTION)} and perhaps {_LATE}"
    if not isinstance(given, dict):
        return not_the_kind(expected, given).rejection("the correction")
    missing = [name for name in _CORRECTION if name not in given]
    unknown = [name for name in given if name not in {*_CORRECTION, _LATE}]
    if missing or unknown:
        found = f"no {missing[0]}" if missing else f"{unknown[0]} too"
        return Rejection(Code.INVALID_SCHEMA, "the correction", expected, found)
    return {_LATE: "", **given}


def _reach(session: Session, coverage: Mapping[str, str]) -> None:
    visible = coverage["visible_through_sequence"]
    head = f"head {coverage['head_sequence']}, {coverage['receipt_ref']}"
    session.out.text(f"known through sequence {visible} of {head}")


def _side(session: Session, name: str, answer: Mapping[str, Any]) -> None:
    cutoffs = f"effective by {answer['effective_cutoff']}, known by {answer['knowledge_cutoff']}"
    session.out.text(f"{_balance(name, answer['balance'])}, {cutoffs}")


def _balance(name: str, balance: Mapping[str, str]) -> str:
    amount = f"{balance['normal_balance_minor']} {balance['currency']}"
    return f"{name} of {balance['account_id']}: {amount} ({balance['normal_side']})"


def _sign(balance: Mapping[str, str]) -> int:
    return 1 if balance["normal_side"] == "debit" else -1
