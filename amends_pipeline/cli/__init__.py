"""The command line, one file a noun. Nothing is imported before it is needed: help is quick."""

from __future__ import annotations


def main() -> None:
    """Run the command line of this process and end it."""
    from amends_pipeline.cli.program import program

    program.main()
