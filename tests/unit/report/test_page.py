"""The page: needs nothing beside itself, shows no host's text as markup, and every link of it leads somewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.plugin_utils.report import drift, page
from report_samples import EDITED, NOW, OTHER_ARGV, PATCHED, STRAY, change, fleet, planned


class Seen(HTMLParser):
    """What a browser would load, and where links lead."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(str(value))
            elif name in ("src", "srcset", "data", "action") or (name == "href" and not str(value).startswith("#")):
                self.fetched.append(str(value))
            elif name == "href":
                self.links.append(str(value)[1:])


def render(planned: dict[str, Any], runs: list[dict[str, Any]] | None = None, **options: Any) -> str:
    return page.render(drift.build(planned, now=NOW, **options), runs or [])


@pytest.mark.parametrize("count", [1, 8, 200])
def test_it_needs_nothing_beside_itself_and_its_links_lead_somewhere(count: int) -> None:
    text = render(fleet(count))
    seen = Seen(text)
    assert seen.fetched == []
    assert not re.search(r"url\(|@import|fetch\(|https?://(?!127\.0\.0\.1)", text)
    assert set(seen.links) <= set(seen.ids)
    assert len(seen.ids) == len(set(seen.ids))
    assert "{{" not in text and "{%" not in text


def test_links_lead_to_their_own_place_whatever_hosts_are_called() -> None:
    names = ["a", "a-build", "a build", "fe80::1%eth0", "ü", "h-a", "a~20~build", "x" * 300]
    seen = Seen(render({name: planned(PATCHED) for name in names}))
    assert set(seen.links) <= set(seen.ids)
    assert len(seen.ids) == len(set(seen.ids))
    assert not any(set(" %") & set(link) for link in seen.links)


def test_texts_of_hosts_are_text() -> None:
    hostile = "</script><script>alert(1)</script><img src=x>"
    bad = change("gpus", hostile, {"cmd": hostile}, None)
    text = render({hostile: planned(EDITED, noticed=(bad,)), "b": {"unreachable": True, "msg": hostile}})
    assert text.count("<script>") == 1
    assert "<img" not in text


def test_a_cell_has_the_heaviest_look_of_its_differences() -> None:
    def open_(entry: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {**entry, "correctable": True, "corrected": False, **more}

    assert page.level([]) == "ok"
    assert page.level([open_(EDITED)]) == "none"
    assert page.level([open_(EDITED), open_(PATCHED), open_(OTHER_ARGV)]) == "rebuild"
    assert page.level([open_(STRAY, correctable=False)]) == "reported"
    assert page.level([open_(PATCHED, corrected=True)]) == "corrected"


@pytest.mark.parametrize(
    ("count", "sizes"), [(1, [1]), (8, [8]), (30, [12, 12, 6]), (200, [50] * 4), (201, [51, 51, 51, 48])]
)
def test_the_matrix_has_at_most_four_blocks(count: int, sizes: list[int]) -> None:
    rows = [{"name": str(number)} for number in range(count)]
    found = page.blocks(rows)
    assert [len(block) for block in found] == sizes
    assert [row for block in found for row in block] == rows


def test_before_and_after_are_shown_as_lines_that_went_and_came() -> None:
    assert page.lines_of("a\nb\n", "a\nc\n") == [(" ", "…"), (" ", "a"), ("-", "b"), ("+", "c")]
    assert page.lines_of(None, "1.0") == [("-", "(nothing)"), ("+", "1.0")]
    assert page.lines_of([], True) == [("-", "[]"), ("+", "true")]


def test_timelines_share_one_scale_and_the_slowest_comes_first() -> None:
    report = drift.build({"a": planned(), "b": planned(slower=2)}, now=NOW)
    slow, fast = page.timelines(report["hosts"])
    assert (slow["label"], fast["label"]) == ("b / kimi", "a / kimi")
    weights = next(phase for phase in slow["phases"] if phase["name"] == "weights")
    assert weights["left"] == pytest.approx(100 * 40 / slow["total"])
    assert fast["phases"][1]["width"] == pytest.approx(weights["width"] / 2)
    assert all(phase["left"] + phase["width"] <= 100.001 for start in (slow, fast) for phase in start["phases"])


def test_runs_are_stacks_whose_worst_is_the_full_height() -> None:
    def run(**counts: int) -> dict[str, Any]:
        return {"made_at": "t", "hosts": 9, "drifted": 0, "corrected": 0, "unreachable": 0, "failed": 0, **counts}

    good, bad = page.history_bars([run(), run(drifted=3, unreachable=1)])
    assert good["pieces"] == [] and "all in sync" in good["said"]
    assert [piece["height"] for piece in bad["pieces"]] == [75, 25]
    assert [piece["top"] for piece in bad["pieces"]] == [25, 0]


def test_a_fleet_in_order_says_so() -> None:
    assert "every host is as described" in render({"a": planned()})
