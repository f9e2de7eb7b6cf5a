"""Words that all ledgers share; imports nothing of the package outside this folder."""

from __future__ import annotations
