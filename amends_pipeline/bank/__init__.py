"""Exact balances from a committed journal export, at two cutoffs: the rules, pure.

To understand one balance read, in this order: codes, grammar, values, members, export, journal,
admission, checkpoint, fold. What stands on them: columns, batches and balances, for all
accounts at once; statement; receipts, heads and posting, for a live journal; oracle and verify, for
a second opinion.

Amounts are Python integers of minor units; a raw balance counts debits up and credits down.
"""

from __future__ import annotations
