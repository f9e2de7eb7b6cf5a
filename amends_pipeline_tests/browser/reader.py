"""A person in front of the browser: where things are on the pages, and what they say."""

from __future__ import annotations

import re
from itertools import count
from urllib.parse import urlencode

from playwright.sync_api import expect

from amends_pipeline_tests.browser.stack import SECONDS

MILLISECONDS = SECONDS * 1000
VIEW = "/assets/materialized_view"
CHAIN = [
    "source_log",
    "source_evidence",
    "projections",
    "committed_outbox",
    "output_log",
    "materialized_view",
]

_numbers = count(1)


class Reader:
    """One page of the browser, on one stack; it keeps a picture of each step."""

    def __init__(self, page, stack, output):
        self.page = page
        self.stack = stack
        self.output = output
        page.set_default_timeout(MILLISECONDS)
        expect.set_options(timeout=MILLISECONDS)

    def open(self, path, **query):
        self.page.goto(f"{self.stack.url}{path}{f'?{urlencode(query)}' if query else ''}")

    def keep(self, name, **options):
        """Keep a picture of what is to be seen, once nothing on it is loading."""
        spinners = self.page.locator("[class*=Spinner], [class*=spinner]")
        expect(spinners.locator("visible=true")).to_have_count(0)
        path = self.output / f"{next(_numbers):02}-{name}.png"
        self.page.screenshot(path=path, animations="disabled", **options)

    # Tables of metadata

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

    # Partitions, in two columns

    def choose(self, unit):
        """Choose a unit where partitions are listed."""
        for text in (unit.namespace, f"p{unit.partition}"):
            self.page.get_by_text(text, exact=True).first.click()
        expect(self.page.get_by_text(str(unit), exact=True).first).to_be_visible()

    def counted(self, status):
        """How many partitions have a status, which stands beside its box: `Missing (0)`."""
        label = self.page.get_by_text(re.compile(rf"^{status} \(\d+\)$")).first
        return int(re.search(r"\d+", label.inner_text())[0])

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
        page.get_by_role("option").or_(page.get_by_role("menuitem")).filter(
            has_text=str(unit)
        ).click()
        self.keep(f"verify-{unit.namespace}-p{unit.partition}")
        page.get_by_role("button", name="Launch Run").click()
        page.wait_for_url("**/runs/*")
        expect(page.get_by_text("Success", exact=True).first).to_be_visible()

    # Whatever would be cut off

    def cut_off(self):
        """What is wider than the window lets it be, which nothing scrolls into sight."""
        return self.page.evaluate(
            """() => [...document.querySelectorAll("button, table, [role=tab]")]
                .filter(each => {
                    const box = each.getBoundingClientRect();
                    return box.width && box.right > window.innerWidth + 1;
                })
                .map(each => `${each.tagName} ${each.innerText.slice(0, 40)}`)"""
        )
