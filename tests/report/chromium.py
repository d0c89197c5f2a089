"""Finds the Chromium that the tests open the report with.

It is $CHROMIUM, an installed Chromium, or Playwright's own. Run as a program, this file prints the path. If there is no
Chromium it installs one before: Debian's package where apt is available, else Playwright's download.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
APPLICATIONS = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
CURE = "run `make browser` with a network, install Chromium yourself, or name one: CHROMIUM=/path/to/it make test"


def find() -> str | None:
    """Returns the path of a Chromium that runs, or None. Raises RuntimeError if $CHROMIUM names one that does not."""
    chosen = os.environ.get("CHROMIUM")
    if chosen:
        if not _runs(chosen):
            raise RuntimeError(f"CHROMIUM={chosen} does not run: {CURE}")
        return chosen
    installed = [path for path in map(shutil.which, NAMES) if path]
    candidates = [*installed, *APPLICATIONS]
    return next((path for path in candidates if _runs(path)), None) or _playwrights_own()


@contextmanager
def window() -> Iterator[Any]:
    """Opens a browser without a screen. Raises RuntimeError if there is none."""
    from playwright.sync_api import sync_playwright

    path = find()
    if path is None:
        raise RuntimeError(f"there is no Chromium to open the report with: {CURE}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--disable-gpu", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


def _runs(path: str) -> bool:
    """Whether a program starts. Ubuntu's chromium-browser may be a script that only says how to install Chromium."""
    try:
        return subprocess.run([path, "--version"], capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _playwrights_own() -> str | None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if _runs(path) else None


def get() -> list[str]:
    """Installs a Chromium. Returns what went wrong on the way."""
    wrong = []
    if shutil.which("apt-get"):
        root = [] if os.geteuid() == 0 else ["sudo", "--non-interactive"]
        apt = [*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet=2"]
        wrong += _run([*apt, "update"]) or _run([*apt, "install", "--yes", "--no-install-recommends", "chromium"])
        if not wrong:
            return []
    return wrong + _run([sys.executable, "-m", "playwright", "install", "--no-shell", "chromium"])


def _run(command: list[str]) -> list[str]:
    """Runs a command. Returns what went wrong, if anything."""
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        return [f"{' '.join(command)}: {error}"]
    return [f"{' '.join(command)}: {(done.stderr or done.stdout)[-1500:]}"] if done.returncode else []


def main() -> None:
    """Prints the path of a Chromium."""
    path = find()
    if path is None:
        print("installing Chromium for the tests of the report (half a minute)", file=sys.stderr)
        wrong = get()
        path = find()
        if path is None:
            sys.exit("\n".join([*wrong, f"no Chromium was found and none could be installed: {CURE}"]))
    print(Path(path))


if __name__ == "__main__":
    main()
