"""Whole histories that are right, drawn by chance, and every way to change one thing in them.

Both take a `random.Random`, so that a property and a long run outside the suite draw alike.
"""

from __future__ import annotations

from copy import deepcopy
from itertools import pairwise
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
    own = [each["account_id"] for each in accounts if each["ledger_id"] == "CB-GENERAL"]
    own = [each for each in own if "." in each]
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
    if rng.random() < 0.1:  # within one account, besides
        legs += [leg | {"amount_minor": "7", "account_id": one} for leg in (legs[0], legs[-1])]
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
    """A timestamp so many milliseconds later."""
    day = int(time[8:10]) + 31 * int(time[5:7])  # only to stay within one month, below
    clock = int(time[11:13]) * 3_600_000 + int(time[14:16]) * 60_000
    clock += int(time[17:19]) * 1000 + int(time[20:23]) + milliseconds
    if not 0 <= clock < 86_400_000 or not day:
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
        unused = checkpoint(other, bank.groups[:number], 5, at(number), checkpoint_id=f"U-{number}")
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


# One change


def places(value, path=()):
    """Every path into a JSON value, the whole included."""
    yield path
    if type(value) is dict:
        for name, member in value.items():
            yield from places(member, (*path, name))
    elif type(value) is list:
        for position, element in enumerate(value):
            yield from places(element, (*path, position))


def found(value, path):
    for step in path:
        value = value[step]
    return value


OTHER_TYPES = (None, True, 0, -1, 10**400, 1.5, "", "x", [], {}, [[]], {"x": None})


def other_values(value, pool):
    """What may stand in the place of a value, near ones first."""
    yield from (deepcopy(other) for other in OTHER_TYPES)
    if type(value) is str:
        yield from other_texts(value)
        yield from pool
    elif type(value) is list:
        yield from other_lists(value)
    elif type(value) is dict:
        for name in value:
            yield {other: member for other, member in value.items() if other != name}
            yield {
                name.upper() if other == name else other: member for other, member in value.items()
            }
        yield value | {"note": None}
        yield value | {"": ""}
        yield list(value.values())


def other_texts(text):
    yield from (text + "\n", " " + text, text + " ", "\ufeff" + text, text + "\0", text + "\ud800")
    yield from (text.upper(), text.lower(), text.swapcase(), text[:-1], text[1:], text * 2)
    yield from ("0" + text, "-" + text, "+" + text, text + "0", text + ".0", text.replace("0", "٠"))
    yield from (text.replace("Z", "+00:00"), text.replace("T", " "), text.replace(".", ","))
    yield from (text.replace(":", "", 1), text.replace("-", "/"), text[:-4] + "Z", "x" * 65, "-x")
    if text.lstrip("-").isdecimal() and text.isascii():
        yield from (str(int(text) + step) for step in (-2, -1, 1, 2))
        yield from (str(-int(text)), str(10 * int(text)), "9" * 30, "9" * 31, "9" * 128, "9" * 129)
    if len(text) == 24 and text[-1] == "Z" and text[10] == "T":
        yield from (beside(text, step) for step in (-1000, -1, 1, 1000))
        yield from (f"0000{text[4:]}", f"0001{text[4:]}", f"9999{text[4:]}", f"{text[:17]}60.000Z")
        yield from (f"{text[:5]}02-30{text[10:]}", f"{text[:11]}24:00:00.000Z")
        yield f"{text[:5]}{'11' if text[5:7] == '12' else '12'}{text[7:]}"
    if len(text) == 7 and text[4] == "-":
        yield from (f"{text[:5]}13", f"{text[:5]}00", "0000-01", "2025-11", "2025-10", "0001-01")


def other_lists(elements):
    for position, element in enumerate(elements):
        yield elements[:position] + elements[position + 1 :]
        yield [*elements[: position + 1], deepcopy(element), *elements[position + 1 :]]
        yield [*elements, deepcopy(element)]
        yield [deepcopy(element), *elements]
        yield elements[:position]
        yield elements[position:]
    for position, (one, other) in enumerate(pairwise(elements)):
        yield [*elements[:position], other, one, *elements[position + 2 :]]
    yield elements[::-1]
    yield [*elements, None]
    yield from ([*elements, *elements], elements * 2049, (elements * 33)[:33])


def pool_of(case):
    """Texts of the case itself, and enumerated words, each worth trying in any place."""
    texts = {found(case, path) for path in places_of(case) if type(found(case, path)) is str}
    words = {"debit", "credit", "asset", "revenue", "posting", "correction", "USD", "EUR", "ZZZ"}
    return sorted(texts | words)


def places_of(case):
    """Every path into a case; the first step is a part's position."""
    return [(number, *path) for number, part in enumerate(case) for path in places(part)]


def put(case, path, value):
    """The case with one value put elsewhere; everything else is a copy."""
    parts = deepcopy(list(case))
    inner = parts
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return Case(*parts)


def changes(case, path, pool=()):
    """Every case that differs from `case` in the value at `path` alone."""
    value = found(case, path)
    for other in other_values(value, pool):
        if other != value or type(other) is not type(value):
            yield put(case, path, deepcopy(other))


def drawn_change(rng, case):
    """One change, drawn: where, then what."""
    path = rng.choice(places_of(case))
    pool = rng.sample(pool, 3) if len(pool := pool_of(case)) > 3 else pool
    every = list(changes(case, path, pool))
    return path, rng.choice(every)
