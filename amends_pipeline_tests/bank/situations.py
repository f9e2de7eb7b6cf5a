"""The canonical history and its damages, as `fixtures/bank` states them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import NamedTuple

FIXTURES = Path(__file__).parents[2] / "fixtures" / "bank"
CANONICAL = FIXTURES / "canonical"


def fixture(path):
    return json.loads(path.read_bytes())


class Situation(NamedTuple):
    """The four inputs of a fold, changed in place by a test that owns them."""

    query: dict
    groups: list
    accounts: list
    context: dict


def genesis():
    """The canonical history from its beginning; a checkpoint is registered and not used."""
    query, groups, accounts, context = (
        fixture(CANONICAL / f"{name}.json") for name in Situation._fields
    )
    context["checkpoint_registry"].append(
        {
            "checkpoint": fixture(CANONICAL / "checkpoint.json"),
            "prefix_groups": copy.deepcopy(groups[:2]),
        }
    )
    return Situation(query, groups, accounts, context)


def resumed():
    """The canonical history after its checkpoint, economically by the end of 20 October."""
    situation = genesis()
    checkpoint = fixture(CANONICAL / "checkpoint.json")
    situation.query["checkpoint"] = checkpoint
    situation.query["effective_cutoff"] = checkpoint["effective_cutoff"]
    del situation.groups[:2]
    return situation


class Damage(NamedTuple):
    """One way in which the canonical history is not whole, and the code that it has."""

    code: str
    wrong: str
    changes: list
    start: str

    def situation(self):
        damaged = {"genesis": genesis, "resumed": resumed}[self.start]()._asdict()
        for verb, path, *more in self.changes:
            _VERBS[verb](damaged, path, *more)
        return Situation(**damaged)


def damages():
    return [
        Damage(path.stem, wrong, changes, *(start or ["genesis"]))
        for path in sorted((FIXTURES / "faults").glob("*.json"))
        for wrong, changes, *start in fixture(path)
    ]


def _parent(root, path):
    *steps, last = path.split("/")
    for step in steps:
        root = root[int(step) if isinstance(root, list) else step]
    return root, (int(last) if isinstance(root, list) else last)


def _put(root, path, value):
    parent, name = _parent(root, path)
    if isinstance(parent, list) and name == len(parent):
        parent.append(copy.deepcopy(value))
    else:
        parent[name] = copy.deepcopy(value)


def _drop(root, path):
    parent, name = _parent(root, path)
    del parent[name]


def _insert(root, path, value):
    parent, name = _parent(root, path)
    parent.insert(name, copy.deepcopy(value))


def _copy(root, source, target):
    parent, name = _parent(root, source)
    to, _ = _parent(root, target)
    (_insert if isinstance(to, list) else _put)(root, target, parent[name])


def _swap(root, one, other):
    (first, a), (second, b) = _parent(root, one), _parent(root, other)
    first[a], second[b] = second[b], first[a]


_VERBS = {"put": _put, "drop": _drop, "insert": _insert, "copy": _copy, "swap": _swap}
