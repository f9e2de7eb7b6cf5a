"""`amends bank` as processes, over the private server: what one posts, the next one finds."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from amends_pipeline_tests.contracts.bank_bench import command


def amends(*words, given=b""):
    program = str(Path(sys.executable).with_name("amends"))
    return subprocess.run(
        [program, "bank", *map(str, words)], input=given, capture_output=True, check=False
    )


def test_a_story_is_told_corrected_exported_and_folded_by_processes(postgres_server, tmp_path):
    stream = ["--stream", "BY-PROCESSES"]
    told = amends("seed-demo", *stream)
    assert (told.returncode, told.stderr) == (0, b"")

    def post(number):
        given = json.dumps(command(f"n{number}", "CASH ADA 1")).encode()
        return amends("post", *stream, "-", "--json", given=given)

    with ThreadPoolExecutor(3) as pool:
        posted = list(pool.map(post, range(3)))
    assert [each.returncode for each in posted] == [0, 0, 0], posted[0].stderr
    groups = sorted(json.loads(each.stdout)["group"]["group_id"] for each in posted)
    assert groups == ["G-6", "G-7", "G-8"]

    files = {name: tmp_path / name for name in ("groups", "accounts", "context")}
    exported = amends("export", *stream, *(f"--{name}={path}" for name, path in files.items()))
    assert exported.returncode == 0, exported.stderr
    head = json.loads(files["context"].read_bytes())["head"]
    query = tmp_path / "query"
    query.write_text(
        json.dumps(
            {
                "schema_version": "d30-balance-fold-v1",
                "ledger_id": head["ledger_id"],
                "entity_id": head["entity_id"],
                "account_id": "ADA",
                "currency": "USD",
                "effective_cutoff": head["observed_at"],
                "knowledge_cutoff": head["observed_at"],
                "checkpoint": None,
            }
        )
    )
    words = [f"--{name}={path}" for name, path in {**files, "query": query}.items()]
    folded = amends("fold", *words, "--json")
    assert folded.returncode == 0, folded.stderr
    assert json.loads(folded.stdout)["balance"]["normal_balance_minor"] == "97353"
    assert amends("seed-demo", *stream).returncode == 2
