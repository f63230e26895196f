"""What runs against what should run, with a real process as the server."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils import layout
from ansible_collections.inferops.sglang.plugins.module_utils.server import process, resource
from server_samples import instance

SLEEP = "import time; time.sleep(300)"
INVOCATION = "0" * 32


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


@pytest.fixture
def described(build: dict[str, Any], user: str, model: Path) -> dict[str, Any]:
    return instance(
        build=build, run_as=user, model_path=str(model), api_key="sk-planted", secret_env={"T": "hf-planted"},
        args={"tp_size": 1}, env={"NCCL_DEBUG": "WARN"},
    )  # fmt: skip


@pytest.fixture
def start(described: dict[str, Any]) -> Iterator[Callable[[], dict[str, str]]]:
    """Starts a process as the launcher would start the described server; what systemd would say of its unit."""
    running: list[subprocess.Popen[bytes]] = []

    def run() -> dict[str, str]:
        seen = resource.look(described, unit(0))
        assert seen.wanted is not None
        assert seen.environment is not None
        wanted = seen.wanted
        variables = {**wanted.variables, **wanted.secret_variables}
        # the command line of the server under the name of the build's interpreter, run by ours
        argv = [wanted.argv[0], "-c", SLEEP, *wanted.argv[1:], "--nccl-port=20001"]
        child = subprocess.Popen(argv, executable=sys.executable, env=variables)
        running.append(child)
        secrets = layout.Instance("kimi").secrets_file
        files = process.digests(process.loaded_files(wanted.argv, seen.environment.root, secrets))
        files[secrets] = process.sha256(wanted.files[secrets].encode())
        record = {
            "argv": wanted.argv, "added": ["-c", SLEEP, "--nccl-port=20001"], "shape": wanted.shape, "gpus": "all",
            "files": files, "activation": None, "started_at": time.time(),
        }  # fmt: skip
        Path(layout.Instance("kimi").logs).mkdir(parents=True, exist_ok=True)
        Path(process.record_file("kimi", INVOCATION)).write_text(json.dumps(record))
        while "--nccl-port=20001" not in process.procfs.cmdline(child.pid):
            time.sleep(0.01)
        return unit(child.pid)

    yield run
    for child in running:
        child.kill()
        child.wait()


def unit(pid: int) -> dict[str, str]:
    state = "active" if pid else "inactive"
    return {"LoadState": "loaded", "ActiveState": state, "MainPID": str(pid), "InvocationID": INVOCATION}


Start = Callable[[], dict[str, str]]


def test_what_runs_as_described_has_no_reason(described: dict[str, Any], start: Start) -> None:
    shown = start()
    seen = resource.look(described, shown)
    assert seen.reasons == []
    assert seen.process.main_pid == int(shown["MainPID"])
    assert seen.process.active_since == pytest.approx(time.time(), abs=60)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"args": {"tp_size": 2}}, "option --tp-size: it runs with '1'; wanted with '2'"),
        ({"args": {}}, "option --tp-size: it runs with '1'; wanted without it"),
        (
            {"args": {"tp_size": 1, "trust_remote_code": True}},
            "--trust-remote-code: it runs without it; wanted with it",
        ),
        ({"port": 30001}, "option --port"),
        ({"env": {"NCCL_DEBUG": "INFO"}}, "environment variable NCCL_DEBUG: it runs with 'WARN'; wanted with 'INFO'"),
        ({"env": {"NCCL_DEBUG": "WARN", "NEW": "1"}}, "environment variable NEW: it runs without it"),
        ({"secret_env": {"T": "hf-other"}}, "secret environment variable T is not the one"),
        ({"api_key": "sk-other"}, "the API keys changed"),
        ({"api_key": None}, "the API keys changed"),
        ({"run_as": "nobody"}, "wanted is nobody"),
        ({"core_dumps": True}, "limits or its sandbox"),
        ({"gpus": ["0"]}, "it was started on GPUs all; wanted are 0"),
    ],
)
def test_each_difference_is_a_reason_in_words(
    described: dict[str, Any], start: Start, changed: dict[str, Any], reason: str
) -> None:
    reasons = resource.look({**described, **changed}, start()).reasons
    assert any(reason in text for text in reasons), reasons
    assert "planted" not in " ".join(reasons)
    assert "other" not in " ".join(reasons).replace("another", "")


@pytest.mark.parametrize("changed", [{"drain_timeout": 7}, {"restart_delay": 70}, {"acknowledge": ["x"]}])
def test_what_a_process_does_not_depend_on_is_no_reason(
    described: dict[str, Any], start: Start, changed: dict[str, Any]
) -> None:
    assert resource.look({**described, **changed}, start()).reasons == []


def test_files_that_it_loaded(described: dict[str, Any], start: Start, model: Path) -> None:
    shown = start()
    (model / "config.json").write_text('{"changed": true}')
    assert resource.look(described, shown).reasons == [f"{model}/config.json changed since it was started"]
    os.utime(model / "config.json")
    (model / "config.json").write_text("{}")
    assert resource.look(described, shown).reasons == []


def test_a_drop_in_of_the_users_own(described: dict[str, Any], start: Start, tmp_path: Path) -> None:
    drop_in = tmp_path / "limits.conf"
    drop_in.write_text("[Service]\n")
    os.utime(drop_in, (1, 1))
    shown = {**start(), "DropInPaths": str(drop_in)}
    assert resource.look(described, shown).reasons == []
    os.utime(drop_in, (time.time() + 5, time.time() + 5))
    assert resource.look(described, shown).reasons == [
        f"the drop-in {drop_in} of its unit changed since it was started"
    ]


def test_a_drop_in_that_systemd_has_not_read_yet(described: dict[str, Any], start: Start) -> None:
    """Putting right reads it, and the next plan would say so."""
    shown = start()
    drop_in = Path(layout.Instance("kimi").unit_file + ".d") / "nice.conf"
    drop_in.parent.mkdir()
    drop_in.write_text("[Service]\nNice=1\n")
    os.utime(drop_in, (time.time() + 5, time.time() + 5))
    for told in ("", str(drop_in)):
        (reason,) = resource.look(described, {**shown, "DropInPaths": told}).reasons
        assert reason == f"the drop-in {drop_in} of its unit changed since it was started"


def test_a_build_that_was_replaced(described: dict[str, Any], start: Start) -> None:
    from server_samples import make_build

    shown = start()
    make_build("lock-000000000000", 2)
    (reason, *dummy) = resource.look(described, shown).reasons
    assert "lock-000000000000.1; wanted is" in reason


def test_a_variable_that_is_no_longer_wanted(described: dict[str, Any], start: Start) -> None:
    shown = start()
    seen = resource.look({**described, "env": {}}, shown)
    assert seen.environment is not None
    assert seen.wanted is not None
    before = {"variables": ["NCCL_DEBUG", "HOME"]}
    (found,) = process.differences({**described, "env": {}}, seen.environment, seen.wanted, seen.process, before)
    assert found.text == "environment variable NCCL_DEBUG is set in it and no longer wanted"
    assert (found.what, found.before, found.after) == ("environment variable NCCL_DEBUG", "set", None)


def test_a_plan_has_each_difference_with_what_runs_and_what_is_wanted(described: dict[str, Any], start: Start) -> None:
    shown = start()
    changed = {**described, "args": {"tp_size": 2}, "secret_env": {"T": "hf-other"}}
    found = {c.what: (c.before, c.after) for c in resource.plan(resource.look(changed, shown)).changes}
    assert found["option --tp-size"] == ("1", "2")
    assert found["secret environment variable T"] == ("(secret, as found)", "(secret, as described)")


def test_what_was_a_secret_when_it_was_started_is_none_to_show(described: dict[str, Any], start: Start) -> None:
    """It has its variables in the open now, with other values."""
    shown = start()
    open_now = {**described, "secret_env": {}, "env": {"NCCL_DEBUG": "WARN", "T": "1"}}
    seen = resource.look(open_now, shown)
    assert seen.environment is not None and seen.wanted is not None
    before = {"variables": ["NCCL_DEBUG", "T"], "secret_variables": ["T"]}
    (found,) = process.differences(open_now, seen.environment, seen.wanted, seen.process, before)
    assert (found.what, found.before, found.after) == (
        "environment variable T", "(secret, as found)", "(secret, as described)"
    )  # fmt: skip
    assert "planted" not in found.text


def test_a_key_on_a_command_line_that_nobody_described_is_not_shown(described: dict[str, Any], start: Start) -> None:
    seen = resource.look(described, start())
    assert seen.environment is not None and seen.wanted is not None
    for words in (["--api-key=typed"], ["--api-key", "typed"], ["--ssl-keyfile-password=typed"]):
        running = dataclasses.replace(seen.process, argv=[*seen.wanted.argv, *words])
        found = process.differences(described, seen.environment, seen.wanted, running, None)
        assert [difference.before for difference in found] == ["(secret, as found)"]
        assert "typed" not in str(found)
    swapped = [*seen.wanted.argv[:-2], "--api-key=typed", *seen.wanted.argv[-2:]]
    wanted = dataclasses.replace(seen.wanted, argv=[*seen.wanted.argv, "--api-key=typed"])
    running = dataclasses.replace(seen.process, argv=swapped)
    assert "typed" not in str(process.differences(described, seen.environment, wanted, running, None))


def test_a_process_without_a_record(described: dict[str, Any], start: Start) -> None:
    shown = start()
    os.unlink(process.record_file("kimi", INVOCATION))
    (reason,) = resource.look(described, shown).reasons
    assert "not started by this collection's launcher" in reason


def test_nothing_runs_nothing_to_say(described: dict[str, Any]) -> None:
    assert resource.look(described, unit(0)).reasons == []


def test_an_edited_checkout_in_place(described: dict[str, Any], start: Start, tmp_path: Path) -> None:
    source = tmp_path / "checkout" / "python" / "sglang"
    source.mkdir(parents=True)
    (source / "old.py").write_text("")
    os.utime(source / "old.py", (1, 1))
    assert process.newest_source(str(tmp_path / "checkout")) == (1.0, str(source / "old.py"))
    (source / "new.py").write_text("")
    newest = process.newest_source(str(tmp_path / "checkout"))
    assert newest is not None
    assert newest[1] == str(source / "new.py")
