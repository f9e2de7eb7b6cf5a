"""Explain: the evidence of a key, loaded whole, tells why it has the balance that it has."""

from __future__ import annotations

from typing import NamedTuple

from amends_pipeline.inventory.config import StockKey
from amends_pipeline.inventory.explain import Explanation
from amends_pipeline.inventory.explain import explain as explained
from amends_pipeline.inventory.refold import EVERY_DAY
from amends_pipeline.kernel.display import shown
from amends_pipeline.kernel.errors import FrontierMoved, InputError
from amends_pipeline.ports import Ledger, Unit

ATTEMPTS = 10
"""How often a worker may commit while the key is being read."""


class Explained(NamedTuple):
    """An explanation, and which records it rests on."""

    unit: Unit
    stock_key: StockKey
    next_offset: int
    """The worker's frontier: the source records before it are all that is known."""
    explanation: Explanation


def explain(ledger: Ledger, namespace: str, stock_key: StockKey, day: int) -> Explained:
    """Explain the balance of a stock key at the end of `day`, a day number.

    Raises UnknownNamespace, InputError for a key that is not configured, FrontierMoved when the
    worker never pauses long enough to read the key in one state.
    """
    config = ledger.store.config(namespace)
    key = config.number_of(stock_key)
    if key is None:
        raise InputError(
            f"namespace {namespace}",
            expected="a configured stock key",
            found=f"item {shown(stock_key.item)} at location {shown(stock_key.location)}",
        )
    unit = Unit(namespace, config.keys[key].partition)
    store = ledger.store
    before = store.progress(unit).next_offset
    for _ in range(ATTEMPTS):
        evidence = store.evidence(unit, key)
        state = store.keys(unit, {key: EVERY_DAY})[key]
        after = store.progress(unit).next_offset
        if after == before:
            explanation = explained(state, evidence.authorities, evidence.observations, day)
            return Explained(unit, stock_key, after, explanation)
        before = after
    raise FrontierMoved(
        f"worker of {unit}", expected="a frontier that rests while a key is read", found="commits"
    )
