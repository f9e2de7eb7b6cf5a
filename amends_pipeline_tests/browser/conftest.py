"""One stack and one browser for all tests of this folder.

Pictures of every step are kept in `test-output/browser`, with the times that were measured. Browser
and stack end with the last test here: Playwright leaves an event loop running in its thread, where
later tests want one of their own.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from amends_pipeline_tests.browser.stack import SECONDS, Stack, comes_true, settled
from amends_pipeline_tests.conftest import make_home, remove_home

OUTPUT = Path(__file__).parents[2] / "test-output" / "browser"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WINDOW = {"width": 1440, "height": 900}
FLAGS = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
]
FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


@pytest.fixture(scope="package")
def output():
    """An empty folder for what the tests leave to be looked at."""
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir(parents=True)
    return OUTPUT


@pytest.fixture(scope="package")
def times(output):
    """Seconds by name; written down at the end."""
    measured = {}
    yield measured
    told = {name: round(seconds, 1) for name, seconds in measured.items()}
    (output / "times.json").write_text(f"{json.dumps(told, indent=2)}\n")


@pytest.fixture(scope="package")
def program():
    """The browser that is installed."""
    found = [path for path in map(shutil.which, PROGRAMS) if path]
    if not found:
        pytest.skip(f"no browser: none of {', '.join(PROGRAMS)} is on PATH")
    return found[0]


@pytest.fixture(scope="package")
def browser(program):
    """The browser, without a window; its sandbox does not work for root."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - after the skip

    flags = [*FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def stack(program, output, times):
    """A stack with the demo, whose history and corrections are processed and judged."""
    home = make_home()
    running = Stack(home, output)
    try:
        times["stack ready"] = running.seconds_to_start
        began = time.monotonic()
        with running.ledger() as ledger:
            assert comes_true(lambda: settled(ledger), 2 * SECONDS)
        times["demo appended, processed and judged"] = time.monotonic() - began
        yield running
    finally:
        running.end()
        remove_home(home)


@pytest.fixture
def context(request, browser, stack, output, times):
    """A fresh context of the browser; what a failing test saw last is kept."""
    context = browser.new_context(viewport=WINDOW, timezone_id="UTC", locale="en-US")
    began = time.monotonic()
    yield context
    times[request.node.name] = time.monotonic() - began
    if request.node.stash.get(FAILED, False):
        for page in context.pages:
            page.screenshot(path=output / f"failed-{request.node.name}.png")
    context.close()


@pytest.fixture
def reader(context, stack, output):
    """A person with a fresh page."""
    from amends_pipeline_tests.browser.reader import Reader  # noqa: PLC0415 - after the skip

    return Reader(context.new_page(), stack, output)
