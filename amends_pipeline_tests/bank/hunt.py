"""Look for a change that the folds and the second checker judge differently, for as long as asked.

    python -m amends_pipeline_tests.bank.hunt SECONDS [SEED [CHANGES]]

draws histories from SEED on, judges each, and judges 60 cases of each with one change and 20 with
one misdeed, or with up to CHANGES of them at once. It prints how many cases had which code, and
each disagreement once by its kind, with the seed that draws it. With several changes the contract
does not say which fault of one query, account, entry or group comes first: two structural codes are
then no disagreement.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from contextlib import ExitStack
from copy import deepcopy
from itertools import chain
from random import Random

from amends_pipeline.bank.balances import fold_balances, fold_balances_bytes
from amends_pipeline.bank.fold import fold_balance
from amends_pipeline_tests.bank.changing import changed, drawn_change, places, texts_of
from amends_pipeline_tests.bank.checker import check, check_balances
from amends_pipeline_tests.bank.drawing import drawn_case
from amends_pipeline_tests.bank.misdeeds import commit

ACCEPTED = "BALANCE_FOLDED"
STRUCTURAL = {
    "INVALID_SCHEMA",
    "INVALID_IDENTIFIER",
    "INVALID_TIMESTAMP",
    "INVALID_AMOUNT",
    "INVALID_SEQUENCE",
    "INVALID_ACCOUNTS",
    "INVALID_CONTEXT",
    "INVALID_GROUP",
}
REJECTION = {
    "status": "rejected",
    "balance": None,
    "coverage": None,
    "trace": [],
    "checkpoint": None,
    "checkpoint_registry_entry": None,
}


def verdicts(case):
    """What the checker and the fold say: codes, or whole results where both accept."""
    code, expected = check(*case)
    if expected is None:
        expected = REJECTION | {"code": code}
    return expected, fold_balance(*case)


def disagreement(case):
    """(the checker's code, the fold's, the members that differ), or None where both agree."""
    expected, result = verdicts(case)
    if result == expected:
        return None
    members = tuple(name for name in expected if result.get(name) != expected[name])
    return expected["code"], result.get("code"), members


def disagreement_about_all(case):
    """The same about all accounts of the currency, from values and from bytes.

    None also for cases that are no question about all accounts: they start from a checkpoint, or
    what was changed belongs to one account's question alone.
    """
    query, groups, accounts, context = case
    one_accounts = {"account_id", "checkpoint"}
    if type(query) is not dict or not one_accounts <= query.keys() or type(groups) is not list:
        return None
    if query["checkpoint"] is not None:
        return None
    query = {name: query[name] for name in query if name not in one_accounts}
    code, balances = check_balances(query, groups, accounts, context)
    lines = [json.dumps(group).encode() + b"\n" for group in groups]
    for result in (
        fold_balances(query, iter(groups), accounts, context),
        fold_balances_bytes(query, lines, accounts, context),
    ):
        if result["code"] != code:
            return code, result["code"], ("fold_balances",)
        if balances is not None and result["balances"] != balances:
            return code, code, ("fold_balances",)
    return None


def pattern(case, path):
    steps = ["*" if isinstance(step, int) else step for step in path[1:]]
    return ".".join([case._fields[path[0]], *steps])


def drawn_changes(seed, count, at_once=1):
    """Yield a drawn case unchanged, then `count` times changed: (where, the case while changed)."""
    rng = Random(seed)  # noqa: S311 - no secret, but a repeatable draw
    case = drawn_case(rng, rng.choice([2, 4, 7]))
    yield [], case
    paths, texts = list(places(case)), texts_of(case)
    for _ in range(count):
        with ExitStack() as stack:
            now, done = case, []
            for _ in range(rng.randint(1, at_once)):
                try:
                    path, value = drawn_change(rng, now, paths, texts)
                except (LookupError, TypeError):  # an earlier change took the place away
                    continue
                now = stack.enter_context(changed(now, path, value))
                done.append(path)
            yield [pattern(case, path) for path in done], now


def drawn_misdeeds(seed, count, at_once=1):
    """Yield `count` times the drawn case with misdeeds: (their names, the changed copy)."""
    rng = Random(seed)  # noqa: S311 - no secret, but a repeatable draw
    case = drawn_case(rng, rng.choice([2, 4, 7]))
    for _ in range(count):
        changed_case, done = commit(rng, case, at_once)
        yield done, changed_case


def main(seconds, seed=0, at_once=1):
    end = time.monotonic() + seconds
    first, cases, codes, kinds = seed, 0, Counter(), {}
    while time.monotonic() < end:
        changes = drawn_changes(seed, 60, at_once)
        for done, case in chain(changes, drawn_misdeeds(seed, 20, at_once)):
            given = deepcopy(case) if cases % 100 == 0 else None
            differs = disagreement(case) or disagreement_about_all(case)
            if differs is not None and len(done) > 1 and STRUCTURAL.issuperset(differs[:2]):
                differs = None
            cases += 1
            codes[check(*case)[0]] += 1
            if given is not None and given != case:
                differs = ("inputs", "changed", ())
            if differs is not None:
                kinds.setdefault(differs, (seed, done))
        seed += 1
    write = sys.stdout.write
    write(f"{cases} cases from seeds {first} to {seed - 1}, {len(kinds)} kinds of disagreement\n")
    for code, count in codes.most_common():
        write(f"{count:9} {code}\n")
    for kind, (drawn_from, done) in kinds.items():
        write(f"{kind} seed {drawn_from}: {done}\n")
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
