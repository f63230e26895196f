"""A real browser, where there is one: Playwright with its own or the system's Chromium. None of it is required."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "unit" / "report"))


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright (pip install playwright)")
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with api.sync_playwright() as running:
        try:
            opened = running.chromium.launch(executable_path=program, args=["--no-sandbox"])
        except api.Error as error:
            pytest.skip(f"no Chromium starts here: {error}")
        yield opened
        opened.close()
