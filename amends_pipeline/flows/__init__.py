"""One verb a file: load through the ports, decide with the rules, save through the ports."""

from __future__ import annotations
