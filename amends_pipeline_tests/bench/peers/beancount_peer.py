"""Beancount: the same journals as a text ledger, loaded, validated and added up."""

from __future__ import annotations

import beancount
from beancount import loader
from beancount.ops.summarize import balance_by_account
from beancount.parser import printer

from amends_pipeline_tests.bench.obeying import Answer, serve, timed


def load_and_balance(path: str, currency: str) -> Answer:
    """From the file to the balance of every account with a transaction."""
    loader.initialize(use_cache=False)
    with timed() as clock:
        entries, errors, _ = loader.load_file(path)
        inventories, _ = balance_by_account(entries)
        units = {name: each.get_currency_units(currency) for name, each in inventories.items()}
    if errors:
        raise ValueError(printer.format_error(errors[0]))
    if any(each.number != int(each.number) for each in units.values()):
        raise ValueError("a balance is no whole number")
    # A name in Beancount is one of ours after the root.
    raw = {name.partition(":")[2]: str(int(each.number)) for name, each in units.items()}
    return {"seconds": clock.seconds, "raw": raw}


if __name__ == "__main__":
    serve(
        {
            "load_and_balance": load_and_balance,
            "version": lambda: {"version": beancount.__version__},
        }
    )
