"""The agent's ``plan``, and what no result may hold: bytes that are no text."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.inferops.sglang.plugins.module_utils import adapter, host, layout
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.running import Completed
from ansible_collections.inferops.sglang.plugins.plugin_utils import agent_archive
from server_samples import instance
from test_server_activation import apply

from agent import plan
from agent.running import run

STOPPED = "LoadState=loaded\nActiveState=inactive\nMainPID=0\nUnitFileState=enabled\n"


def answer(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *instances: dict[str, Any]) -> Any:
    """What the agent says of this host, read as the controller reads it."""
    told = {
        "instances": instances, "toolkit": {}, "agent_version": "0" * 16, "thorough": False, "described": None,
        "python": None,
    }  # fmt: skip
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(told)))
    monkeypatch.setattr(plan, "run", lambda argv, **dummy: Completed(0, STOPPED, ""))
    plan.main()
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_bytes_that_are_no_text_are_shown_as_escapes(
    build: dict[str, Any], user: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    described = instance(build=build, run_as=user)
    apply(described)
    unit = Path(layout.Instance("kimi").unit_file)
    unit.write_bytes(unit.read_bytes() + b"# caf\xe9\n")
    found = answer(capsys, monkeypatch, described)
    (change,) = (change for change in found["plan"] if change["what"] == str(unit))
    assert change["before"].endswith("# caf\\udce9\n")
    json.dumps(found, ensure_ascii=False).encode()


@pytest.mark.parametrize("fails", [False, True])
def test_a_module_s_result_has_no_such_bytes_either(capsys: pytest.CaptureFixture[str], fails: bool) -> None:
    def logic() -> dict[str, Any]:
        if fails:
            raise InferopsError("no \udce9", paths=["\udce9"])
        return {"paths": ("\udce9", {"\udce9": 1}), "number": 1, "nothing": None}

    with patch_module_args({}):
        module = adapter.AnsibleModule(argument_spec={})
        with pytest.raises(SystemExit):
            adapter.finish(module, logic)
    found = json.loads(capsys.readouterr().out)
    found.pop("invocation")
    escape = "\\udce9"
    failed = {"failed": True, "msg": f"no {escape}", "paths": [escape]}
    assert found == (failed if fails else {"paths": [escape, {escape: 1}], "number": 1, "nothing": None})


def test_the_agent_reads_what_programs_print_whatever_it_is() -> None:
    assert run(["printf", "caf\\351"]) == Completed(0, "caf\udce9", "")
    assert run(["cat"], data="\udce9") == Completed(0, "\udce9", "")


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o666])
def test_an_archive_that_the_service_user_cannot_read_or_others_may_write_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    monkeypatch.setattr(layout, "AGENT", str(tmp_path))
    path, version = agent_archive.archive(tmp_path)
    path.chmod(mode)
    owner = "root" if os.getuid() == 0 else str(os.getuid())
    as_wanted = owner == "root" and mode == 0o644
    assert host._agent(version) == (version if as_wanted else f"{version}, {owner}:{mode:04o}")
    path.write_bytes(b"")
    assert host._agent(version) is None
