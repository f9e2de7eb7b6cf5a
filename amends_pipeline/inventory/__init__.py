"""The rules of the inventory ledger: pure values in, pure values out.

Read in this order: config, revision, classify, authority, refold, diff, envelope, decision,
outbox, view, oracle, verify, explain.
"""

from __future__ import annotations
