"""Groups of a batch side by side: what many of them are judged by together.

A column is made once and serves both judges: `batches`, which proves the grammar, and `admission`,
which takes a proven batch into a history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amends_pipeline.bank.values import Group


class Columns:
    """Members of groups, of their journals and of the journals' commands, in order."""

    def __init__(self, groups: Sequence[Group], written: Sequence[bytes]) -> None:
        self.groups = groups
        self.written = written
        """The groups as JSON, such as `values.read_group` reads."""
        self.group_ids = [group.group_id for group in groups]
        self.available = [group.available_at for group in groups]
        self.journals = [journal for group in groups for journal in group.journals]
        self.sequences = [journal.sequence for journal in self.journals]
        self.recorded = [journal.recorded_at for journal in self.journals]
        self.commands = [journal.command for journal in self.journals]
        self.journal_ids = [command.journal_id for command in self.commands]
        self.operations = [command.business_operation_id for command in self.commands]
        self.effective = [command.effective_at for command in self.commands]
        self.offered = [command.source_available_at for command in self.commands]
        self.legs = [command.legs for command in self.commands]
        self.accounts = {leg.account_id for legs in self.legs for leg in legs}
        self.currencies = {command.currency for command in self.commands}
        self.ledgers = {group.ledger_id for group in groups}
        self.ledgers.update(command.ledger_id for command in self.commands)
        self.entities = {group.entity_id for group in groups}
        self.entities.update(command.entity_id for command in self.commands)
        self.corrected = [
            (group, group.correction) for group in groups if group.correction is not None
        ]
