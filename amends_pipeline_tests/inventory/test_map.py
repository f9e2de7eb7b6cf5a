"""The map of the room names what is in it."""

from __future__ import annotations

import re
from pathlib import Path

from amends_pipeline import inventory


def test_every_module_is_named_once():
    said = re.findall(r"[a-z_]+(?=[,.])", (inventory.__doc__ or "").split("\n\n", 1)[1])
    modules = {path.stem for path in Path(inventory.__file__).parent.glob("*.py")} - {"__init__"}
    assert sorted(set(said) & modules) == sorted(modules)
    assert len([name for name in said if name in modules]) == len(modules)
