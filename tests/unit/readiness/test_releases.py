"""What the tables rely on stands in every release's sources; and a start in each release's words goes through."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.readiness import milestones as ms
from ansible_collections.inferops.sglang.plugins.module_utils.readiness import signatures as sig
from ansible_collections.inferops.sglang.plugins.module_utils.readiness.exceptions import EXCEPTIONS
from ansible_collections.inferops.sglang.plugins.module_utils.readiness.story import Reader
from ansible_collections.inferops.sglang.plugins.module_utils.readiness.verdict import Observation, judge
from releases import RELEASES, release_tree
from writing import Log, minor


@functools.cache
def sources(release: str) -> str:
    """The Python sources of SGLang's runtime, in one text."""
    root = release_tree(release) / "sglang"
    files = [path for folder in ("srt", "cli") for path in sorted((root / folder).rglob("*.py"))]
    files += root.glob("*.py")
    return "\n".join(path.read_text(errors="replace") for path in files)


def _in_range(entry: Any, release: str) -> bool:
    return (not entry.since or minor(entry.since) <= minor(release)) and (
        not entry.until or minor(release) <= minor(entry.until)
    )


def _texts() -> Iterator[tuple[Any, str]]:
    for entry in (*ms.MILESTONES, *EXCEPTIONS, *sig.LINES):
        for text in entry.source:
            yield entry, text


@pytest.mark.index
@pytest.mark.parametrize("release", RELEASES)
def test_every_text_stands_in_the_sources(release: str) -> None:
    wanted = [text for entry, text in _texts() if _in_range(entry, release)] + list(sig.OTHER_SOURCES)
    assert [text for text in wanted if text not in sources(release)] == []


@pytest.mark.index
@pytest.mark.parametrize("release", RELEASES)
def test_a_range_ends_where_the_text_does(release: str) -> None:
    """A text outside of its range would say that the range is wrong."""
    outside = [text for entry, text in _texts() if not _in_range(entry, release)]
    assert [text for text in outside if text in sources(release)] == []


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("tp", [1, 4])
@pytest.mark.parametrize("spec", [False, True])
def test_a_start_goes_through_every_phase(release: str, tp: int, spec: bool) -> None:
    log = Log(release, tp=tp, spec=spec).ready()
    reader = Reader()
    seen = []
    for line in log.data.splitlines(keepends=True):
        reader.feed(line)
        if not seen or seen[-1] != reader.story.phase:
            seen.append(reader.story.phase)
    wanted = {ms.ARGS, ms.DIST_INIT, ms.WEIGHTS, ms.KV_POOL, ms.CAPTURE, ms.HTTP_BIND, ms.WARMUP, ms.SERVING}
    if spec:
        wanted |= {ms.WEIGHTS_DRAFT, ms.CAPTURE_DRAFT}
    assert wanted <= set(seen)
    assert seen[-1] == ms.SERVING and seen.count(ms.SERVING) == 1
    state = judge(reader.story, Observation(unit="active"))
    assert (state.verdict, state.category) == ("ready", "none")
    for rank in log.ranks:
        assert state.matrix[rank or "main"][ms.DIST_INIT] == "done"
        assert state.matrix[rank or "main"][ms.WEIGHTS] == "done"
