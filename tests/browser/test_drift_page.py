"""The page of drift in a real browser, for 8 and for 200 hosts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.plugin_utils.report import drift, page
from report_samples import NOW, fleet


@pytest.fixture(params=[8, 200])
def shown(browser: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    report = drift.build(fleet(request.param), now=NOW)
    path = tmp_path / "drift.html"
    path.write_text(page.render(report, [{"made_at": report["made_at"], **report["summary"]}] * 3))
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    opened = context.new_page()
    problems: list[str] = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("request", lambda asked: problems.append(asked.url) if asked.url != path.as_uri() else None)
    opened.goto(path.as_uri())
    opened.inferops_hosts = request.param
    yield opened
    assert problems == []
    context.close()


def loaded_ms(opened: Any) -> float:
    return float(opened.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd"))


def test_nothing_scrolls_sideways(shown: Any, record_property: Any) -> None:
    record_property(f"loaded_ms_{shown.inferops_hosts}_hosts", loaded_ms(shown))
    print(f"{shown.inferops_hosts} hosts: loaded in {loaded_ms(shown):.0f} ms")
    for width in (1280, 800, 480):
        shown.set_viewport_size({"width": width, "height": 900})
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
    shown.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert shown.evaluate("document.documentElement.scrollWidth") <= 480


def test_a_click_on_a_cell_opens_what_is_said_there(shown: Any) -> None:
    shown.evaluate("for (const one of document.querySelectorAll('details')) one.open = false")
    shown.click('a[href="#d-process-gpu-003"]')
    assert shown.locator("#h-gpu-003").get_attribute("open") is not None
    assert shown.evaluate("document.activeElement.id") == "d-process-gpu-003"
    # and once more, after it was closed
    shown.evaluate("document.getElementById('h-gpu-003').open = false")
    shown.click('a[href="#d-process-gpu-003"]')
    assert shown.locator("#h-gpu-003").get_attribute("open") is not None


def test_keys_are_enough(shown: Any) -> None:
    shown.focus('a[href="#h-gpu-003"]')
    shown.keyboard.press("ArrowRight")
    assert shown.evaluate("document.activeElement.hash") == "#d-build-gpu-003"
    shown.keyboard.press("ArrowLeft")
    shown.keyboard.press("ArrowDown")
    assert shown.evaluate("document.activeElement.hash") == "#h-gpu-005"
    shown.keyboard.press("Enter")
    assert shown.locator("#h-gpu-005").get_attribute("open") is not None


def test_what_is_not_wanted_is_hidden(shown: Any) -> None:
    rows = shown.locator("#matrix tbody tr:visible")
    assert rows.count() == shown.inferops_hosts
    shown.check("#only")
    assert rows.count() == shown.locator("#matrix tbody tr:not(.in_sync)").count() < shown.inferops_hosts
    shown.uncheck("#only")
    shown.fill("#find", "GPU-003")
    assert rows.count() == 1


def test_it_is_dark_where_dark_is_wanted(shown: Any) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light = shown.evaluate(ground)
    shown.emulate_media(color_scheme="dark")
    assert shown.evaluate(ground) != light
    shown.emulate_media(color_scheme="dark", media="print")
    assert shown.evaluate(ground) == light


def test_on_paper_everything_is_open(shown: Any) -> None:
    shown.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert shown.locator("details:not([open])").count() == 0
    assert len(shown.pdf()) > 10_000
