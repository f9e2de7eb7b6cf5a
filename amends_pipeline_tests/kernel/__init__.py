"""Tests of amends_pipeline.kernel."""

from __future__ import annotations
