"""One stack and one browser for all tests of this folder.

Pictures of every step are kept in `test-output/browser`, with the times that were measured; workers
of pytest-xdist have a stack and a folder each. Browser and stack end with the last test here:
Playwright has an event loop in its thread, where other tests want one of their own.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from amends_pipeline_tests.browser.reader import WINDOW, Reader
from amends_pipeline_tests.browser.stack import DEMO_UNITS, Stack, comes_true, filled, verified
from amends_pipeline_tests.conftest import make_home, remove_home

OUTPUT = Path(__file__).parents[2] / "test-output" / "browser"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
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
    folder = OUTPUT / os.environ.get("PYTEST_XDIST_WORKER", "")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


@pytest.fixture(scope="package")
def times(output):
    """Seconds by name; written down at the end."""
    measured = {}
    yield measured
    told = {name: round(seconds, 1) for name, seconds in measured.items()}
    (output / "times.json").write_text(f"{json.dumps(told, indent=2)}\n")


# The browser


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
    flags = [*FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        yield browser
        browser.close()


@contextmanager
def fresh_page(browser):
    """Open a page that remembers nothing of earlier ones."""
    context = browser.new_context(viewport=WINDOW, timezone_id="UTC", locale="en-US")
    try:
        yield context.new_page()
    finally:
        context.close()


@pytest.fixture
def reader(request, browser, stack, output, times):
    """A person with a fresh page. What a failing test has seen last is kept."""
    with fresh_page(browser) as page:
        began = time.monotonic()
        yield Reader(page, stack, output)
        times[request.node.name] = time.monotonic() - began
        if request.node.stash.get(FAILED, False):
            page.screenshot(path=output / f"failed-{request.node.name}.png")


# The stack


@pytest.fixture(scope="package")
def stack(program, output, times):
    """A stack that is ready; its demo is on its way."""
    home = make_home()
    running = Stack(home, output)
    try:
        times["stack ready"] = running.seconds_to_start
        yield running
    finally:
        running.end()
        remove_home(home)


@pytest.fixture(scope="package")
def demo(stack, times):
    """The stack, once readers have the history of the demo and its corrections."""
    began = time.monotonic()
    with stack.ledger() as ledger:
        assert comes_true(lambda: filled(ledger))
    assert comes_true(lambda: not stack.unfinished("refold"))
    times["waited for the demo"] = time.monotonic() - began
    return stack


@pytest.fixture(scope="package")
def judged(demo, times):
    """The stack, once the demo is judged where it stands and nothing else goes on."""
    began = time.monotonic()
    with demo.ledger() as ledger:
        assert comes_true(lambda: all(verified(ledger, unit) for unit in DEMO_UNITS))
    assert comes_true(lambda: not demo.unfinished("verify"))
    times["waited for the verdicts on the demo"] = time.monotonic() - began
    return demo


@pytest.fixture(scope="package")
def backfill(browser, judged, output):
    """The id of a backfill of a namespace that was made anew from the demo, launched in the UI."""
    with fresh_page(browser) as page:
        return Reader(page, judged, output).rebuild()
