"""The oracle imports nothing of what it judges, neither in its text nor while it runs."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import amends_pipeline
from amends_pipeline.inventory import config, oracle, oracle_input, revision, revision_columns

SHARED_WITH_WORKER = {
    "amends_pipeline.inventory.config",
    "amends_pipeline.inventory.revision",
    "amends_pipeline.inventory.revision_columns",
}
OWN = "amends_pipeline.inventory.oracle_input"
KERNEL = "amends_pipeline.kernel."


def imported(source: str) -> set[str]:
    """Every module or name that a source text imports, wherever in the text."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            prefix = "." * node.level + (node.module or "")
            names |= {f"{prefix}.{alias.name}" for alias in node.names}
    return names


def strangers(source: str) -> set[str]:
    """Imports of this project that the oracle may not have; relative ones are none it may have."""
    allowed = (KERNEL, f"{OWN}.", *(f"{module}." for module in SHARED_WITH_WORKER))
    return {
        name
        for name in imported(source)
        if name.startswith((".", "amends_pipeline")) and not name.startswith(allowed)
    }


@pytest.mark.parametrize(
    "line",
    [
        "import amends_pipeline.inventory.refold",
        "from amends_pipeline.inventory import diff",
        "from amends_pipeline.inventory.classify import classify",
        "from amends_pipeline import ports",
        "from . import authority",
        "from .config import NamespaceConfig",
        "def late():\n    from amends_pipeline.store import memory",
    ],
)
def test_a_stranger_would_be_found(line):
    assert strangers(line)


@pytest.mark.parametrize("module", [oracle, oracle_input, config, revision, revision_columns])
def test_the_text_imports_no_stranger(module):
    source = Path(module.__file__).read_text(encoding="utf-8")
    assert strangers(source) == set()
    assert "importlib" not in source
    assert "__import__" not in source


RUN = """
import json, sys
from amends_pipeline.inventory import oracle
from amends_pipeline.inventory.config import parse_configuration

config = parse_configuration({
    "schema_version": 1, "namespace": "n", "source": "s", "partitions": 1,
    "origin": "2026-01-01T00:00:00Z",
    "keys": [{"stock_key": {"item": "I", "location": "L"},
              "opening_balance": 1, "reorder_threshold": 1}],
})
value = json.dumps({
    "txn_id": "T", "revision": 1, "kind": "NEW", "stock_key": {"item": "I", "location": "L"},
    "valid_time": "2026-01-01T12:00:00Z", "qty": -1, "source_time": "2026-01-01T12:00:00Z",
}).encode()
batch = oracle.RawBatch([0, 1], [None, b'["I","L"]'], [b"{", value])
result = oracle.compute(config, [oracle.History(0, [batch], frozenset())])
assert (len(result.rejections), list(result.alerts.rows())) == (1, [(0, 20454, 0)])
json.dump([name for name in sys.modules if name.startswith("amends_pipeline")], sys.stdout)
"""


def test_a_run_loads_no_stranger():
    ran = subprocess.run(
        [sys.executable, "-c", RUN],
        check=True,
        capture_output=True,
        cwd=Path(amends_pipeline.__file__).parents[1],
    )
    loaded = {f"{name}." for name in json.loads(ran.stdout)}
    packages = {"amends_pipeline.", "amends_pipeline.inventory.", KERNEL}
    own = {"amends_pipeline.inventory.oracle.", f"{OWN}."} | {
        f"{name}." for name in SHARED_WITH_WORKER
    }
    assert own < loaded
    assert {name for name in loaded - packages - own if not name.startswith(KERNEL)} == set()
