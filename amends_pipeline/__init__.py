"""Ledgers whose derived facts stay true when their history is corrected.

definitions, cli      what a person touches
defs                  the only folder that knows Dagster
assembly              which store stands behind the ports
flows                 load, decide, save: one verb a file
store, sources,
outputs               PostgreSQL, memory and files behind the roles of ports
ports                 what a store, a source, an output must do
inventory, bank       the rules: pure, no clock, no randomness, no I/O except reading a named input
kernel                words that all ledgers share; each line imports only the lines below it
"""

from __future__ import annotations
