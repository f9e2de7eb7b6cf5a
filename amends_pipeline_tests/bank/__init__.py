"""Tests of amends_pipeline.bank."""

from __future__ import annotations
