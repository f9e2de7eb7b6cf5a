"""Exact balances from a committed journal export, at two cutoffs: the rules, pure.

Read in this order: codes, grammar, values, export, checkpoint, admission, fold; then batches and
balances, which answer all accounts at once, statement, journal. Amounts are Python integers of
minor units; a raw balance counts debits up and credits down.
"""

from __future__ import annotations
