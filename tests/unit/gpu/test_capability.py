"""Every way in which people write a compute capability is taken, or answered with the right one."""

from __future__ import annotations

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.gpu import capability


def test_as_it_is_printed() -> None:
    capability.require(["7.5", "9.0", "10.3", "12.0"], "capabilities")
    capability.require(["9.0a", "10.0f", "12.0"], "capabilities", suffixes="af")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sm_120", "write '12.0'"),
        ("compute_90a", "write '9.0'"),
        ("120", "write '12.0'"),
        ("90", "write '9.0'"),
        ("12.0a", "write '12.0'"),
        ("9.0;12.0", "write '9.0' and '12.0', as two entries of the list"),
        ("8.9 9.0+PTX", "write '8.9' and '9.0', as two entries"),
        ("12", "write '9.0' for H200"),
        ("Blackwell", "write '9.0' for H200"),
        ("", "write '9.0' for H200"),
    ],
)
def test_another_spelling_is_answered_with_the_right_one(text: str, words: str) -> None:
    with pytest.raises(InferopsError) as caught:
        capability.require(["9.0", text], "capabilities")
    assert f"capabilities: {text!r} is no compute capability; {words}" in caught.value.message
