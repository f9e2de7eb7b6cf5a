"""A process that posts to a live journal until it is killed; each line tells what is committed.

    python -m amends_pipeline_tests.store.bank_poster URL NAME [between]

`between`: it stops for ever after the first commit, before the receipt.
"""

from __future__ import annotations

import sys
import time

from amends_pipeline.bank.posting import decide, parse_posting
from amends_pipeline.flows.bank_post import post
from amends_pipeline.store.bank import PostgresBank
from amends_pipeline.store.postgres import Database
from amends_pipeline_tests.contracts.bank_bench import STREAM, command


def main(url, name, where=""):
    journal = PostgresBank(Database(url))
    if where == "between":
        request = parse_posting(command(name))
        with journal.locked(STREAM.stream_id) as stream:
            decided = decide(stream.standing, stream.facts(request.asked), request)
            stream.append(decided.group)
        sys.stdout.write("committed\n")
        sys.stdout.flush()
        time.sleep(600)
    for number in range(10**6):
        booking = post(journal, STREAM.stream_id, command(f"{name}-{number}"))
        sys.stdout.write(f"{booking.group.journals[-1].command.journal_id}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
