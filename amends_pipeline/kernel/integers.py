"""The integers that every ledger stores: signed, 64 bits."""

from __future__ import annotations

from typing import Final

MIN_INT64: Final = -(2**63)
MAX_INT64: Final = 2**63 - 1
