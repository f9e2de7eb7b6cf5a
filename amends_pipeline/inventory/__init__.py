"""The rules of the inventory ledger: pure values in, pure values out.

What they mean, in the order to read it: config, revision, classify, authority, refold, diff,
envelope, slice, keyfold, trial, decision, outbox, view. How that is judged and explained: oracle,
compare, verify, explain.

The same over columns, for many records at once, held to these by property tests:
revision_columns, slice_columns, assertions, identities, weighing, key_columns, known_keys, frame,
batch, envelope_columns, view_batch.
"""

from __future__ import annotations
