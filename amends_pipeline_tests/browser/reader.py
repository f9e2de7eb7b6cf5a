"""A person in front of the browser: where things are on the pages, and what they say."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from itertools import count
from urllib.parse import urlencode

from playwright.sync_api import expect

from amends_pipeline.cli.stack_demo import DEMO
from amends_pipeline_tests.browser.stack import DEMO_UNITS, SECONDS, comes_true

WINDOW = {"width": 1440, "height": 900}
MILLISECONDS = SECONDS * 1000
NAVIGATION = 68  # pixels of the navigation when it is folded
VIEW = "/assets/materialized_view"
REBUILT = "rebuild-1"

_numbers = count(1)


class Reader:
    """One page of the browser, on one stack; it keeps a picture of each step."""

    def __init__(self, page, stack, output):
        self.page = page
        self.stack = stack
        self.output = output
        self._left = 0
        page.set_default_timeout(MILLISECONDS)
        expect.set_options(timeout=MILLISECONDS)

    def open(self, path, **query):
        self.page.goto(f"{self.stack.url}{path}{f'?{urlencode(query)}' if query else ''}")

    def keep(self, name):
        """Keep a picture of what is to be seen."""
        size = self.page.viewport_size
        clip = {"x": self._left, "y": 0, **size, "width": size["width"] - self._left}
        path = self.output / f"{next(_numbers):02}-{name}.png"
        self.page.screenshot(path=path, animations="disabled", clip=clip)

    @contextmanager
    def small_window(self, height):
        """Keep pictures for a text: not so wide, and without the navigation.

        Pages of the stack that are opened in the block are shown so; one must be open before.
        """
        self._resize({"width": NAVIGATION + 1232, "height": height}, folded=True)
        yield
        self._resize(WINDOW, folded=False)

    def _resize(self, size, *, folded):
        value = json.dumps(folded)
        self.page.evaluate(f"localStorage.setItem('dagster-nav-collapsed', '{value}')")
        self.page.set_viewport_size(size)
        self._left = NAVIGATION if folded else 0

    # Metadata

    def table(self, key):
        """Read a table among the metadata, by its key: a list of cells for each row."""
        rows = self._entry(key).get_by_role("table").locator("tbody tr")
        expect(rows.first).to_be_visible()
        return [row.get_by_role("cell").all_inner_texts() for row in rows.all()]

    def value(self, key):
        """Read a short value among the metadata, by its key."""
        return self._entry(key).get_by_role("cell").nth(1).inner_text()

    def _entry(self, key):
        return self.page.get_by_role("cell", name=key, exact=True).locator("xpath=..")

    # Lineage

    def node(self, asset):
        """Find the name of an asset in the graph."""
        return self.page.get_by_text(asset, exact=True).last

    def expect_green(self, asset):
        """Wait until the box of an asset in a small graph says that all of it is there."""
        expect(self.node(asset).locator("xpath=..")).to_have_attribute("style", re.compile("green"))

    # Partitions, in two columns

    def choose(self, unit):
        """Choose a unit where partitions are listed."""
        for text in (unit.namespace, f"p{unit.partition}"):
            self.page.get_by_text(text, exact=True).first.click()
        expect(self.page.get_by_text(str(unit), exact=True).first).to_be_visible()

    def expect_counted(self, status, count):
        """Wait until the partitions of a status are so many, as a pattern says: `Missing (0)`."""
        label = re.compile(rf"^{status} \({count}\)$")
        expect(self.page.get_by_text(label).first).to_be_visible()

    # Checks

    def open_check(self, name):
        self.open(VIEW, view="checks", checkDetail=name)
        expect(self.page.get_by_text("Latest execution")).to_be_visible()

    def open_verdict(self, unit):
        """Open what the check says of one unit, whichever was judged last."""
        self.open_check("view_equals_oracle")
        self.page.get_by_role("tab", name="Partitions").last.click()
        self.choose(unit)
        expect(self._entry("status")).to_be_visible()

    def judge(self, unit):
        """Launch the job `verify` for a unit, and wait for its end."""
        page = self.page
        self.open("/locations/amends/jobs/verify/playground")
        page.get_by_role("combobox", name="Partition").click()
        choices = page.get_by_role("option").or_(page.get_by_role("menuitem"))
        choices.filter(has_text=str(unit)).click()
        # Launched before the run is given its tags, it would have no partition.
        expect(page.get_by_text(f"partition: {unit}", exact=True)).to_be_visible()
        page.get_by_role("button", name="Launch Run").click()
        page.wait_for_url("**/runs/*")
        expect(page.get_by_text("Success", exact=True).first).to_be_visible()
        expect(page.get_by_text("RUN_SUCCESS", exact=True).first).to_be_visible()

    # Rebuilds

    def rebuild(self):
        """Make a namespace from the demo and launch a backfill of its units; return its id."""
        told = self.stack.call("rebuild", REBUILT, "--from", DEMO)
        assert (told["created"], told["follows"]) == (True, False)
        assert comes_true(lambda: REBUILT in self.stack.namespaces())
        page = self.page
        page.goto(self.stack.told["links"]["lineage"])
        page.get_by_role("button", name="Materialize all").click()
        dialog = page.get_by_role("dialog").filter(has_text="Partition selection")
        dialog.get_by_text("Select a partition or create one").first.click()
        page.get_by_role("menuitem").filter(has_text=REBUILT).click()
        dialog.get_by_text("Launch runs to materialize").click()  # Escape would close all of it
        dialog.get_by_role("button", name="All").nth(1).click()
        expect(dialog.get_by_text(f"{len(DEMO_UNITS)} partitions")).to_be_visible()
        self.keep("backfill-dialog")
        dialog.get_by_role("button", name="Launch backfill").click()
        created = page.get_by_text(re.compile(r"^Created backfill"))
        expect(created).to_be_visible()
        self.keep("backfill-launched")
        return re.search(r"Created backfill\s+(\w+)", created.inner_text())[1]
