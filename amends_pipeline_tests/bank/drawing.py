"""Whole histories that are right, drawn by chance.

The chance is a `random.Random`, so that a test and a long run outside the suite draw alike.
"""

from __future__ import annotations

from copy import deepcopy
from typing import NamedTuple

from amends_pipeline_tests.bank import checker
from amends_pipeline_tests.bank.written import (
    account,
    at,
    checkpoint,
    context,
    correction,
    posting,
    query,
)

STEPS = (0, 0, 1, 1, 1_000, 86_400_000, 20 * 86_400_000)
AMOUNTS = (1, 1, 2, 10, 250, 10**29, 10**30 - 1)
SIDES = {"+": "debit", "-": "credit"}


class Case(NamedTuple):
    query: dict
    groups: list
    accounts: list
    context: dict


class Bank(NamedTuple):
    """A whole stream."""

    groups: list
    accounts: list
    observed: int


def drawn_accounts(rng):
    accounts = []
    for currency in rng.choice([["USD"], ["USD", "JPY"], ["KWD", "USD", "DEM"]]):
        for number in range(rng.randint(2, 4)):
            type_ = rng.choice(["asset", "expense", "liability", "equity", "revenue"])
            accounts.append(account(f"{currency}.{number}", type_, currency))
    if rng.random() < 0.3:
        accounts.append(account("a", "asset", "JPY", ledger_id="OTHER"))
        accounts.append(account("Z:9", "equity", "USD", entity_id="e-1"))
    rng.shuffle(accounts)
    return accounts


def drawn_legs(rng, accounts):
    """Balanced legs of at least two accounts of one currency; an account may have several."""
    own = [each["account_id"] for each in accounts if "." in each["account_id"]]
    one = rng.choice(own)
    currency = one.split(".")[0]
    others = [each for each in own if each.startswith(currency) and each != one]
    parts = [rng.choice(AMOUNTS) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
    if sum(parts) >= 10**30:
        parts = parts[:1]
    here, there = rng.choice(["+-", "-+"])
    legs = [
        {"account_id": rng.choice(others), "side": SIDES[there], "amount_minor": str(part)}
        for part in parts
    ]
    legs.append({"account_id": one, "side": SIDES[here], "amount_minor": str(sum(parts))})
    if rng.random() < 0.2:  # to and fro within one account, which may have no other leg
        same = rng.choice([one, *others])
        legs += [{"account_id": same, "side": side, "amount_minor": "7"} for side in SIDES.values()]
    if rng.random() < 0.5:
        rng.shuffle(legs)
    return legs, currency


def drawn_bank(rng, most=7):
    accounts = drawn_accounts(rng)
    groups, originals = [], []
    recorded = available = 0
    sequence = 1
    for _ in range(rng.randint(0, most)):
        recorded += rng.choice(STEPS)
        effective, source = (
            max(-30 * 86_400_000, recorded - rng.choice(STEPS) - rng.choice(STEPS)) for _ in "es"
        )
        last = recorded + rng.choice([0, 0, 1, 500])
        others = {"effective": at(effective), "source": at(source), "recorded": at(recorded)}
        legs, currency = drawn_legs(rng, accounts)
        if originals and rng.random() < 0.45:
            original = originals.pop(rng.randrange(len(originals)))
            currency = original["command"]["currency"]
            while legs[0]["account_id"].split(".")[0] != currency:
                legs, _ = drawn_legs(rng, accounts)
            group = correction(sequence, original, legs, currency=currency, **others)
            group["journals"][1]["recorded_at"] = at(last)
            group["correction"]["reason"] = rng.choice(["x", "Wrong \u00e9 account", "y" * 240])
            recorded = last
        else:
            group = posting(sequence, legs, currency=currency, **others)
        available = max(recorded, available) + rng.choice(STEPS[:5])
        group["available_at"] = at(available)
        if rng.random() < 0.2:
            for journal in group["journals"]:
                journal["command"]["booking_period"] = "2026-02"
                journal["adjustment_reason"] = rng.choice([" late ", "l", "\u2003x"])
        groups.append(group)
        originals.append(group["journals"][-1])
        sequence += len(group["journals"])
    return Bank(groups, accounts, available + rng.choice(STEPS))


def moments(bank):
    """Every time that stands in the history, and the milliseconds beside it."""
    times = {at(0), at(bank.observed)}
    for group in bank.groups:
        times.add(group["available_at"])
        for journal in group["journals"]:
            times |= {journal["recorded_at"], journal["command"]["effective_at"]}
    return sorted(times | {beside(time, step) for time in times for step in (-1, 1)})


def beside(time, milliseconds):
    """A timestamp so many milliseconds later, if that is on the same day."""
    hour, minute, second = map(int, time[11:19].split(":"))
    clock = ((hour * 60 + minute) * 60 + second) * 1000 + int(time[20:23]) + milliseconds
    if not 0 <= clock < 86_400_000:
        return time
    seconds, fraction = divmod(clock, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{time[:11]}{hour:02}:{minute:02}:{second:02}.{fraction:03}Z"


def drawn_case(rng, most=7):
    """A question about a drawn stream, from the start or from a checkpoint, that has an answer."""
    bank = drawn_bank(rng, most)
    times = moments(bank)
    observed = at(bank.observed)
    known = rng.choice([observed, *(time for time in times if time <= observed)])
    effective = rng.choice(times)
    own = [each for each in bank.accounts if "." in each["account_id"]]
    account_ = rng.choice(own)
    split = rng.randint(0, len(bank.groups))
    prefix = bank.groups[:split]
    if prefix and prefix[-1]["available_at"] > known:
        known = rng.choice([observed, prefix[-1]["available_at"]])
    asked = query(account_["account_id"], effective, known, currency=account_["currency"])
    # A checkpoint is worth what the plain sum over its prefix says.
    kept = checkpoint(account_, prefix, checker.raw_balance(asked, prefix), effective)
    entries = [{"checkpoint": kept, "prefix_groups": deepcopy(prefix)}]
    for number in range(rng.choice([0, 0, 1, 2])):
        other = rng.choice(own)
        unused = checkpoint(
            other,
            bank.groups[:number],
            5 * bool(bank.groups[:number]),
            at(number),
            checkpoint_id=f"U-{number}",
        )
        entries.append({"checkpoint": unused, "prefix_groups": deepcopy(bank.groups[:number])})
    rng.shuffle(entries)
    groups = bank.groups
    if rng.random() < 0.5:
        asked["checkpoint"] = deepcopy(kept)
        groups = bank.groups[split:]
    else:
        entries = rng.choice([entries, []])
    return Case(
        asked,
        deepcopy(groups),
        bank.accounts,
        context(bank.groups, *entries, observed=observed),
    )
