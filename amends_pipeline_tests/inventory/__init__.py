"""Tests of amends_pipeline.inventory."""

from __future__ import annotations
