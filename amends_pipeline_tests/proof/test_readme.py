"""The README runs: its commands work in the order they are written, its paths exist."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
NOT_RUN = {"make test", "make up", "make bench"}
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines()
    if line and line not in NOT_RUN
]
LINKS = re.findall(r"\]\((?!https?:)([^)#]+)", README)
NAMED = re.findall(r"`((?:amends_pipeline|amends_pipeline_tests|fixtures|docs)/[^`]*)`", README)


def test_every_command_works_in_the_order_it_is_written(tmp_path):
    environment = {**os.environ, "AMENDS_HOME": str(tmp_path / "home")}
    shown = {}
    for command in COMMANDS:
        ended = subprocess.run(
            ["bash", "-c", command],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"
        shown[command] = ended.stdout
    assert len(COMMANDS) >= 9

    # What the README prints of the demo is what the demo prints.
    [promised] = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    printed = [line.split() for line in shown["make demo"].splitlines()]
    missing = [line for line in promised.splitlines() if line and line.split() not in printed]
    assert missing == []


@pytest.mark.parametrize("path", sorted({*LINKS, *NAMED}))
def test_every_path_exists(path):
    assert (ROOT / path).exists()


def test_it_is_short():
    assert len(README.splitlines()) <= 150
