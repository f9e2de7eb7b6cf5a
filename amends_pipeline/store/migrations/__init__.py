"""Schema `amends`, one revision after the other. `HEAD` is what this version of amends needs."""

from __future__ import annotations

from typing import Final

HEAD: Final = "0007"
"""The last revision of `versions/`. A test holds the two together."""
