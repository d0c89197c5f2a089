"""The explorer's page in a real Chromium, which all tests of this folder share."""

import pytest

from report import chromium
from wane import explore


@pytest.fixture(scope="module")
def browser():
    with chromium.window() as window:
        yield window


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    return explore("two-rooms").save(tmp_path_factory.mktemp("explorer") / "page.html")


@pytest.fixture(scope="module")
def calculator(browser, page_file):
    """A page whose functions tests may call; they change nothing that it shows."""
    tab = browser.new_context(offline=True, reduced_motion="reduce").new_page()
    tab.goto(page_file.as_uri())
    return tab
