"""The rules of the inventory ledger: pure values in, pure values out.

What they mean, in the order to read it: config, revision, classify, authority, refold, diff,
envelope, slice, keyfold, trial, decision, outbox, wire, view. How that is judged and explained:
oracle_input, oracle, compare, verify, by_partition, explain, picture.

The same over columns, for many records at once, held to these by property tests:
revision_columns, slice_columns, assertions, identities, weighing, key_columns, key_rows,
known_keys, frame, batch, envelope_columns, view_batch.
"""

from __future__ import annotations
