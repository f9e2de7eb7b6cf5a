"""One change in a case: where it may be made, and what may stand there instead.

A change replaces the value at one path: a text by a similar one or by another text of the same
case, a value by one of another type, an object by one with a member more, less or renamed, an array
by one with an element dropped, doubled or moved.
"""

from __future__ import annotations

from contextlib import contextmanager
from copy import deepcopy
from itertools import pairwise

from amends_pipeline_tests.bank.drawing import beside

OTHER_TYPES = (None, True, 0, -1, 10**400, 1.5, "", "x", [], {}, [[]], {"x": None})
WORDS = ("debit", "credit", "asset", "revenue", "posting", "correction", "USD", "EUR", "ZZZ")


def places(value, path=()):
    """Every path into a JSON value or a case, the whole left out."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for step, member in inner:
        yield (*path, step)
        if isinstance(member, dict | list):
            yield from places(member, (*path, step))


def found(value, path):
    for step in path:
        value = value[step]
    return value


def texts_of(case):
    """The texts that stand in a case, and enumerated words; each is worth trying in any place."""
    texts = {each for each in (found(case, path) for path in places(case)) if type(each) is str}
    return sorted(texts.union(WORDS))


def drawn_change(rng, case, paths, texts):
    """Draw a path and what to put there. What is drawn always differs from what is there."""
    while True:
        path = rng.choice(paths)
        value = found(case, path)
        others = [
            each
            for each in drawn_kind(rng, value, texts)
            if each != value or type(each) is not type(value)
        ]
        if others:
            return path, deepcopy(rng.choice(others))


def drawn_kind(rng, value, texts):
    """All replacements of one kind: of texts, other texts and near ones more often than others."""
    kind = rng.random()
    if kind < 0.15:
        return OTHER_TYPES
    if type(value) is str:
        return list(near_texts(value)) if kind < 0.5 else texts
    if type(value) is list:
        return list(near_lists(value))
    if type(value) is dict:
        return list(near_objects(value))
    return [*OTHER_TYPES, *texts]


@contextmanager
def changed(case, path, value):
    """Put a value into the case itself and take it back afterwards: copies would take longest."""
    if len(path) == 1:
        yield case._replace(**{case._fields[path[0]]: value})
        return
    inner = found(case, path[:-1])
    before = inner[path[-1]]
    inner[path[-1]] = value
    try:
        yield case
    finally:
        inner[path[-1]] = before


def near_objects(members):
    for name in members:
        less = {other: member for other, member in members.items() if other != name}
        yield less
        yield less | {name.upper(): members[name]}
    yield members | {"note": None}
    yield members | {"": ""}
    yield list(members.values())


def near_texts(text):
    yield f"{text}\n{text}"
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


def near_lists(elements):
    if len(elements) > 64:  # an earlier change made it long; all that follows would fill the memory
        yield from (elements[1:], elements[:-1], elements[::2])
        return
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
