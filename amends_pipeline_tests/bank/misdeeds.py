"""Changes that a clumsy or dishonest source would make: each leaves every group well written.

A single changed value mostly breaks a shape. A misdeed keeps shapes, balances and references whole
where it can, so that the rules between groups, and their order, decide.
"""

from __future__ import annotations

from copy import deepcopy

from amends_pipeline_tests.bank.drawing import beside, drawn_legs
from amends_pipeline_tests.bank.written import at, correction, reversed_legs


def histories(case):
    """The lists of groups in a case that are not empty: those of the export, then prefixes."""
    entries = [entry["prefix_groups"] for entry in case.context["checkpoint_registry"]]
    return [groups for groups in (case.groups, *entries) if groups]


def journals(groups):
    return [journal for group in groups for journal in group["journals"]]


def everything(case):
    return [group for groups in histories(case) for group in groups]


def retarget(rng, case):
    """A correction of another journal, exact or not."""
    groups = everything(case)
    pairs = [group for group in groups if group["correction"]]
    if pairs:
        group = rng.choice(pairs)
        other = rng.choice(journals(groups))["command"]
        group["correction"]["original_journal_id"] = other["journal_id"]
        if rng.random() < 0.7:
            for member in group["journals"]:
                member["command"]["currency"] = other["currency"]
            group["journals"][0]["command"]["legs"] = reversed_legs(other["legs"])
            if rng.random() < 0.5:
                group["journals"][1]["command"]["legs"] = deepcopy(other["legs"])


def correct_again(rng, case):
    """One more correction at the end, of any journal, and the head that counts it."""
    known = everything(case)
    if not known or not case.groups:
        return
    original = rng.choice(journals(known))
    sequence = int(case.context["head"]["head_sequence"]) + 1
    observed = case.context["head"]["observed_at"]
    group = correction(
        sequence,
        original,
        deepcopy(original["command"]["legs"]),
        effective=original["command"]["effective_at"],
        recorded=observed,
        currency=original["command"]["currency"],
    )
    for member in group["journals"]:
        member["command"]["booking_period"] = original["command"]["effective_at"][:7]
    if rng.random() < 0.3:
        turned = group["journals"][0]["command"]["legs"]
        turned.reverse()
    case.groups.append(group)
    if rng.random() < 0.8:
        case.context["head"]["head_sequence"] = str(sequence + 1)


def shift_clock(rng, case):
    groups = everything(case)
    if not groups:
        return
    group = rng.choice(groups)
    times = [each["available_at"] for each in groups]
    times += [each["recorded_at"] for each in journals(groups)]
    time = beside(rng.choice(times), rng.choice([-1, 0, 0, 1]))
    member = rng.choice(group["journals"])
    match rng.randrange(4):
        case 0:
            group["available_at"] = time
        case 1:
            member["recorded_at"] = time
        case 2:
            for each in group["journals"] if rng.random() < 0.7 else [member]:
                each["command"]["source_available_at"] = time
        case _:
            for each in group["journals"] if rng.random() < 0.7 else [member]:
                each["command"]["effective_at"] = time
                each["command"]["booking_period"] = time[:7]
                each["adjustment_reason"] = ""


def shift_head(rng, case):
    head = case.context["head"]
    if rng.random() < 0.5:
        times = [group["available_at"] for group in everything(case)] or [at(0)]
        head["observed_at"] = beside(rng.choice(times), rng.choice([-1, 0, 1]))
    else:
        head["head_sequence"] = str(max(0, int(head["head_sequence"]) + rng.choice([-2, -1, 1])))


def move_groups(rng, case):
    groups = rng.choice(histories(case) or [[]])
    if not groups:
        return
    here, there = rng.randrange(len(groups)), rng.randrange(len(groups))
    match rng.randrange(5):
        case 0:
            groups[here], groups[there] = groups[there], groups[here]
        case 1:
            del groups[here]
        case 2:
            groups.insert(there, deepcopy(groups[here]))
        case 3:
            groups.insert(there, deepcopy(rng.choice(everything(case))))
        case _:
            del groups[here:]


def reuse(rng, case):
    """An identity that stands elsewhere already."""
    groups = everything(case)
    if not groups:
        return
    one, other = rng.choice(groups), rng.choice(groups)
    mine, theirs = rng.choice(one["journals"])["command"], rng.choice(other["journals"])["command"]
    match rng.randrange(5):
        case 0:
            one["group_id"] = other["group_id"]
        case 1:
            name = "business_operation_id"
            mine[name] = theirs[name]
        case 2 if one["correction"] and other["correction"]:
            one["correction"]["correction_id"] = other["correction"]["correction_id"]
        case 3:
            one["journals"][0]["sequence"] = other["journals"][0]["sequence"]
            if one["correction"]:
                second = int(one["journals"][0]["sequence"]) + 1
                one["journals"][1]["sequence"] = str(second)
        case _:
            old, mine["journal_id"] = mine["journal_id"], theirs["journal_id"]
            if one["correction"] and rng.random() < 0.8:
                for name in ("reversal_journal_id", "replacement_journal_id"):
                    if one["correction"][name] == old:
                        one["correction"][name] = theirs["journal_id"]


def rewrite_legs(rng, case):
    """Other legs, balanced among themselves as often as not, or one unit more on all sides."""
    groups = everything(case)
    if not groups:
        return
    said = rng.choice(journals(groups))["command"]
    match rng.randrange(4):
        case 0:
            said["legs"], said["currency"] = drawn_legs(rng, case.accounts)
        case 1:
            said["legs"], _ = drawn_legs(rng, case.accounts)
        case 2:
            said["legs"].append(deepcopy(rng.choice(said["legs"])))
        case _:
            for leg in said["legs"]:
                leg["amount_minor"] = str(int(leg["amount_minor"]) + 1)[:30]


def rescope(rng, case):
    groups = everything(case)
    parts = [case.query, rng.choice(case.accounts), case.context["head"]]
    parts += [rng.choice(groups), rng.choice(journals(groups))["command"]] if groups else []
    rng.choice(parts)[rng.choice(["ledger_id", "entity_id"])] = rng.choice(["CB-A", "OTHER", "e-1"])


def recurrency(rng, case):
    groups = everything(case)
    parts = [case.query, rng.choice(case.accounts)]
    parts += [rng.choice(journals(groups))["command"]] if groups else []
    rng.choice(parts)["currency"] = rng.choice(["USD", "JPY", "KWD", "DEM", "EUR", "ZZZ", "usd"])


def ask_otherwise(rng, case):
    account = rng.choice(case.accounts)
    match rng.randrange(4):
        case 0:
            case.query["account_id"] = account["account_id"]
        case 1:
            case.query.update({name: account[name] for name in ("account_id", "currency")})
        case 2:
            times = [group["available_at"] for group in everything(case)] or [at(0)]
            case.query["knowledge_cutoff"] = beside(rng.choice(times), rng.choice([-1, 0, 1]))
        case _:
            times = [each["command"]["effective_at"] for each in journals(everything(case))]
            case.query["effective_cutoff"] = rng.choice(times or [at(0)])


def miscarry_checkpoint(rng, case):
    """Another checkpoint, in the query, in the registry, or agreeing in both."""
    asked = case.query["checkpoint"]
    entries = case.context["checkpoint_registry"]
    if asked is None:
        if entries and rng.random() < 0.5:
            case.query["checkpoint"] = deepcopy(rng.choice(entries)["checkpoint"])
        return
    same = [entry["checkpoint"] for entry in entries if entry["checkpoint"] == asked]
    name = rng.choice(sorted(asked.keys() - {"schema_version"}))
    others = [each["checkpoint"][name] for each in entries]
    times = [group["available_at"] for group in everything(case)] or [at(0)]
    others += {
        "raw_balance_minor": ["0", "1", "-5"],
        "normal_side": ["debit", "credit"],
        "through_sequence": ["0", "1", "2", "3"],
        "last_available_at": times,
        "last_recorded_at": times,
        "effective_cutoff": times,
        "account_id": [each["account_id"] for each in case.accounts],
        "currency": ["USD", "JPY"],
    }.get(name, ["X"])
    value = rng.choice(others)
    for each in [asked, *same] if rng.random() < 0.7 else rng.choice([[asked], same]):
        each[name] = value


MISDEEDS = (
    retarget,
    correct_again,
    shift_clock,
    shift_clock,
    shift_head,
    move_groups,
    reuse,
    rewrite_legs,
    rescope,
    recurrency,
    ask_otherwise,
    miscarry_checkpoint,
)


def commit(rng, case, most=2):
    """Change a copy of the case by one or more misdeeds; return it and their names."""
    changed = type(case)(*deepcopy(list(case)))
    done = [rng.choice(MISDEEDS) for _ in range(rng.randint(1, most))]
    for misdeed in done:
        misdeed(rng, changed)
    return changed, [misdeed.__name__ for misdeed in done]
