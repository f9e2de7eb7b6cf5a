"""Tests of the flows: planning as tables, landing folders with real files."""
