"""Exact balances from a committed journal export, at two cutoffs: the rules, pure.

To understand one balance read, in this order: codes, grammar, values, members, export, journal,
admission, checkpoint, fold. What stands on them: columns, batches and one_pass, for histories of
any length; balances, of all accounts at once; movements and statement, of one; receipts, heads and
posting, for a live journal; oracle and verify, for a second opinion.

Amounts are Python integers of minor units; a raw balance counts debits up and credits down.
"""

from __future__ import annotations
