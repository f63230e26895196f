"""One run at a time on an instance."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils import layout
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.server import lease

ONE = {"id": "c/1/1", "controller": "c"}
TWO = {"id": "c/2/2", "controller": "c"}


def test_it_is_taken_renewed_and_given_back(host: Path) -> None:
    lease.take("kimi", ONE, term=10, now=100)
    lease.take("kimi", ONE, term=10, now=105)
    assert json.loads(Path(layout.Instance("kimi").lease).read_text())["expires_at"] == 115
    lease.release("kimi", TWO)
    assert os.path.exists(layout.Instance("kimi").lease)
    lease.release("kimi", ONE)
    lease.take("kimi", TWO, now=106)


def test_another_run_waits_until_it_expires(host: Path) -> None:
    lease.take("kimi", ONE, term=10, now=100)
    with pytest.raises(InferopsError, match=r"c/1/1 from c, until 00:01:50 UTC .* remove .*lease\.json") as error:
        lease.take("kimi", TWO, now=109)
    assert error.value.result["lease"]["id"] == "c/1/1"
    lease.take("kimi", TWO, now=111)


def test_a_run_that_is_known_to_be_over_is_no_obstacle(host: Path) -> None:
    lease.take("kimi", ONE, now=100)
    lease.take("kimi", {**TWO, "break_id": "c/1/1"}, now=101)
    with pytest.raises(InferopsError):
        lease.take("kimi", {**ONE, "break_id": "c/3/3"}, now=102)
