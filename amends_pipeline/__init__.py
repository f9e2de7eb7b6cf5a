"""Ledgers whose derived facts stay true when their history is corrected.

definitions, cli      what a person touches
defs                  the only folder that knows Dagster
simulation            drawn schedules and faults over the same flows
flows                 load, decide, save: one verb a file
store, sources,
outputs               PostgreSQL, memory and files behind the roles of ports
inventory, bank,
history               the rules: pure, no clock, no randomness, no I/O except reading a named input
kernel                words that all ledgers share; each line imports only the lines below it
"""

from __future__ import annotations
