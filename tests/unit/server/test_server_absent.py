"""What a description names and a host does not have is told by the plan, before anything is touched."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils import host as host_resource
from ansible_collections.inferops.sglang.plugins.module_utils import layout, planning
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.running import Completed
from server_samples import instance


def nothing_runs(argv: Sequence[str], **dummy: Any) -> Completed:
    return Completed(0, "\n\n".join("LoadState=not-found" for word in argv if word.endswith(".service")), "")


def plan(*instances: dict[str, Any], python: str | None = None) -> dict[str, Any]:
    return planning.run(nothing_runs, instances, {}, "0" * 16, python=python)


def compilers(there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    observe = host_resource.observe
    found = dict.fromkeys(("gcc", "g++", "Python.h"), there)
    monkeypatch.setattr(host_resource, "observe", lambda version: {**observe(version), "compilers": found})


def test_a_user_that_the_host_does_not_have(host: Path, build: dict[str, Any]) -> None:
    described = [
        instance(name=name, port=port, build=build, run_as="nobody-knows", gpus=["none"])
        for name, port in (("a", 1), ("b", 2))
    ]
    with pytest.raises(InferopsError) as raised:
        plan(*described)
    for name in "ab":
        assert f"instance {name!r}: run_as is 'nobody-knows', and this host has no such user" in raised.value.message


def test_the_service_user_is_made_by_prepare(
    host: Path, build: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "SERVICE_USER", "nobody-knows")
    assert plan(instance(build=build, run_as="nobody-knows"))["plan"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"python": "/none/bin/python"}, "python is '/none/bin/python', which is no program on this host"),
        ({"python": sys.executable, "source": "/none"}, "source is '/none', which is no folder on this host"),
    ],
)
def test_an_environment_in_place_that_is_not_there(host: Path, user: str, given: dict[str, Any], words: str) -> None:
    with pytest.raises(InferopsError, match=words):
        plan(instance(mode="in_place", build=None, run_as=user, definitions=[], **given))


def test_the_python_of_builds_is_looked_for_where_one_has_to_be_made(
    host: Path, build: dict[str, Any], user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compilers(True, monkeypatch)
    missing = {**build, "build_id": "lock-111111111111"}
    assert plan(python="/none/python3")["deferred"] == []
    assert plan(instance(build=missing, run_as=user), python=sys.executable)
    with pytest.raises(InferopsError, match="sglang_python is '/none/python3', which is no program on this host"):
        plan(instance(build=missing, run_as=user), python="/none/python3")
    # packages that are still to be installed may bring it
    compilers(False, monkeypatch)
    deferred = plan(instance(build=missing, run_as=user), python="/none/python3")["deferred"]
    assert any("builds are made with /none/python3" in text for text in deferred)
