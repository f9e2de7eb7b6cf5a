"""The most changed stock key of a run, before and after: which days, what readers see, the words.

What readers saw is read from the view before the envelopes are applied, and what they see
afterwards; nothing is drawn that was not published.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import dagster as dg

from amends_pipeline.defs.inventory.changes import Change
from amends_pipeline.defs.inventory.metadata import cell, fact_text
from amends_pipeline.inventory.config import NamespaceConfig
from amends_pipeline.inventory.envelope import Envelope, Family, OutputId
from amends_pipeline.inventory.picture import Line, Story, draw
from amends_pipeline.inventory.view import visible
from amends_pipeline.kernel.display import escape_markdown
from amends_pipeline.kernel.instants import MAX_DAY, day_text
from amends_pipeline.ports import LedgerStore, Unit

DRAWN_DAYS = 400
"""Days of a picture, at most, from shortly before the first changed day on."""
AROUND_DAYS = 7
"""Days before and after the changed ones that are drawn if they have a balance."""
LOOKED_BACK_DAYS = 400
"""Days among which the balance that the first drawn day begins with is looked for."""
LISTED_DAYS = 10
"""Changed days that are listed under the picture, the largest changes first."""


class Window(NamedTuple):
    """Days of a stock key, and what changed on them."""

    key: int
    first: int
    last: int
    """The last day, included."""
    changes: Sequence[Change]
    """Of the key's days, the largest first; some may lie after the last day."""
    of_keys: int
    """How many stock keys have changed days."""


def most_changed(config: NamespaceConfig, changed: Sequence[Change]) -> Window | None:
    """Return the key with the most changed days, if there is one.

    Of several that whose closes moved furthest altogether, then the first in order of the keys.
    """
    days: Counter[int] = Counter()
    moved: Counter[int] = Counter()
    for change in changed:
        if not change.of_status:
            days[change.key] += 1
            moved[change.key] += change.size
    if not days:
        return None
    key = min(days, key=lambda key: (-days[key], -moved[key], key))
    changes = [each for each in changed if each.key == key and not each.of_status]
    first = max(config.origin.day, min(each.day for each in changes) - AROUND_DAYS)
    last = min(MAX_DAY, max(each.day for each in changes) + AROUND_DAYS)
    return Window(key, first, min(last, first + DRAWN_DAYS - 1), changes, len(days))


def seen(store: LedgerStore, unit: Unit, config: NamespaceConfig, window: Window) -> Line:
    """Read what readers see of the key over the days of a window."""
    key, first, last, *_ = window
    start = max(config.origin.day, first - LOOKED_BACK_DAYS)
    outputs = [OutputId(Family.BALANCE, key, day) for day in range(start, last + 1)]
    outputs += [OutputId(Family.ALERT, key, day) for day in range(first, last + 1)]
    rows = list(filter(visible, store.view_rows(unit, outputs).values()))
    closes = dict(_closes(rows, Family.BALANCE))
    earlier = [day for day in closes if day < first]
    entering = None
    if earlier:
        entering = closes[max(earlier)]
    elif closes and start == config.origin.day:
        entering = config.keys[key].opening_balance
    drawn = {day: close for day, close in closes.items() if day >= first}
    return Line(entering, drawn, dict(_closes(rows, Family.ALERT)))


def _closes(rows: Sequence[Envelope], family: Family) -> Iterator[tuple[int, int]]:
    return ((row.day, row.close) for row in rows if row.output_id.family == family)


def story_of(config: NamespaceConfig, window: Window, before: Line, after: Line) -> Story:
    """Put both sides together, without days at either end that neither has a balance for."""
    days = {each.day for each in window.changes} | before.closes.keys() | after.closes.keys()
    days = {day for day in days if window.first <= day <= window.last}
    key = config.keys[window.key]
    first, last = min(days), max(days)
    return Story(key.stock_key, key.reorder_threshold, first, last, before, after)


def unpictured(changed: Sequence[Change]) -> dg.MarkdownMetadataValue:
    """Say that no day changed, in the place of a picture."""
    statuses = sum(each.of_status for each in changed)
    keys = "1 stock key" if statuses == 1 else f"{statuses} stock keys"
    but = f" The status of {keys} changed: see the table what\\_changed." if statuses else ""
    return dg.MetadataValue.md(f"No balance and no alert changed for readers.{but}")


def pictured(
    config: NamespaceConfig, window: Window, before: Line, after: Line
) -> dg.MarkdownMetadataValue:
    """Write what changed as sentences, a picture and a short table.

    `before` and `after` are what was `seen` over the window.
    """
    story = story_of(config, window, before, after)
    name = " at ".join(escape_markdown(cell(text)) for text in story.stock_key)
    svg = b64encode(draw(story).encode()).decode("ascii")
    return dg.MetadataValue.md(
        f"{_told(name, window, story)}\n\n"
        f"![Balance of {name} before and after](data:image/svg+xml;base64,{svg})\n\n"
        f"{_table(window.changes)}"
    )


def _told(name: str, window: Window, story: Story) -> str:
    """Write what happened, in short paragraphs: a long line would make the dialog wide."""
    changes = window.changes
    days = [each.day for each in changes]
    raised = sum(each.now.alert and not each.was.alert for each in changes)
    withdrawn = sum(each.was.alert and not each.now.alert for each in changes)
    when = f"from {day_text(min(days))} to {day_text(max(days))}"
    told = [
        f"{name}: 1 day changed, {day_text(days[0])}."
        if len(days) == 1
        else f"{name}: {len(days)} days changed, {when}.",
        f"Alerts raised: {raised}, withdrawn: {withdrawn}.",
    ]
    later = sum(day > story.last for day in days)
    if later:
        told.append(f"The picture ends on {day_text(story.last)}: {later} changed days are later.")
    if window.of_keys > 1:
        told.append(f"Of {window.of_keys} stock keys with changed days, this one changed most.")
    return "\n\n".join(told)


def _table(changes: Sequence[Change]) -> str:
    rows = [
        f"| {day_text(each.day)} | {escape_markdown(fact_text(each.was))}"
        f" | {escape_markdown(fact_text(each.now))} |\n"
        for each in changes[:LISTED_DAYS]
    ]
    more = len(changes) - len(rows)
    also = f"\nAnd {more} more day{'' if more == 1 else 's'}.\n" if more else ""
    return f"| day | was | now |\n| --- | ---: | ---: |\n{''.join(rows)}{also}"
