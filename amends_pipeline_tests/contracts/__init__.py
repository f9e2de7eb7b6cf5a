"""What every source, store and output log must do: one set of cases over all of them."""

from __future__ import annotations
