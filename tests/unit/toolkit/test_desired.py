"""The description of a toolkit: what is taken, what is refused, and how it is said."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.toolkit.desired import NONE, parse


def test_nothing_described_is_nothing_wanted() -> None:
    for described in (None, {}, {"source": "none"}):
        assert parse(described).source == NONE


def test_defaults() -> None:
    desired = parse({"source": "apt", "version": "13.0"})
    assert desired.path == "/usr/local/cuda-13.0" and desired.minor == "13.0"
    assert desired.capabilities == ("9.0", "12.0") and desired.default_link == "keep"
    assert parse({"source": "wheels", "version": "13.0.2"}).path == "/usr/local/cuda-13.0"
    assert parse({"source": "present", "version": 13.1, "path": "/opt/cuda/"}).path == "/opt/cuda"


@pytest.mark.parametrize(
    ("described", "words"),
    [
        ({"source": "pip", "version": "13.0"}, r"source is 'pip'.*apt, wheels, present, none"),
        ({"source": "wheel", "version": "13.0"}, "did you mean 'wheels'"),
        ({"sorce": "apt"}, "unknown key 'sorce'; did you mean 'source'"),
        ({"source": "apt"}, "version is ''"),
        ({"source": "apt", "version": "13"}, "version is '13'"),
        ({"source": "apt", "version": "cuda-13"}, "such as '13.0' or '13.0.2', in quotes"),
        ({"source": "apt", "version": "13.0", "capabilities": ["sm_120"]}, "'sm_120' is no compute.*; write '12.0'$"),
        ({"source": "apt", "version": "13.0", "default_link": "yes"}, "default_link is 'yes'"),
        ({"source": "apt", "version": "13.0", "path": "cuda"}, "must be absolute"),
        ({"source": "wheels", "version": "13.0", "path": "/usr/local/cuda/"}, "is the default link"),
    ],
)
def test_what_is_refused(described: dict[str, Any], words: str) -> None:
    with pytest.raises(InferopsError, match=words):
        parse(described)


@pytest.mark.parametrize("written", ["9.0, 12.0a", ["9.0", "12.0a"], ("9.0", "12.0a")])
def test_a_list_may_be_one_text_as_in_ansible(written: Any) -> None:
    described = {"source": "wheels", "version": "13.0", "capabilities": written, "find_links": "/srv/wheels"}
    assert parse(described).capabilities == ("9.0", "12.0a") and parse(described).find_links == ("/srv/wheels",)
    assert parse({**described, "capabilities": 12.0}).capabilities == ("12.0",)


@pytest.mark.parametrize(
    ("wanted", "there", "right"),
    [
        ("13.0", "13.0.2", True),
        ("13.0", "13.0", True),
        ("13.0.2", "13.0.2", True),
        ("13.0.2", "13.0", False),
        ("13.0", "13.1.0", False),
        ("13.1", "13.10.0", False),
        ("13.0", None, False),
    ],
)
def test_satisfied_by(wanted: str, there: str | None, right: bool) -> None:
    assert parse({"source": "apt", "version": wanted}).satisfied_by(there) is right
