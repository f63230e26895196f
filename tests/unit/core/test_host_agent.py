"""A plan asked of the host's own agent: the same answer as the module's, and the module wherever it cannot be had."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.inferops.sglang.plugins.module_utils import layout
from ansible_collections.inferops.sglang.plugins.module_utils.server import spec
from ansible_collections.inferops.sglang.plugins.plugin_utils import agent_archive, host_agent

SPEC = spec.plan_arguments()


class Templar:
    def template(self, value: Any) -> Any:
        return value


class Action:
    """What of an action plugin is used; its host is this machine, without Ansible's path to it."""

    _templar = Templar()

    def __init__(self, pipelining: bool = True, noise: str = "", environment: str = "") -> None:
        self.pipelining, self.noise, self.environment = pipelining, noise, environment
        self.commands: list[str] = []
        self.data = b""

    def _is_pipelining_enabled(self, module_style: str) -> bool:
        return self.pipelining

    def _compute_environment_string(self) -> str:
        return self.environment

    def _low_level_execute_command(self, cmd: str, in_data: bytes) -> dict[str, Any]:
        self.commands.append(cmd)
        self.data = in_data
        done = subprocess.run(["/bin/sh", "-c", cmd], input=in_data, capture_output=True, check=False, cwd="/")
        return {"rc": done.returncode, "stdout": self.noise + done.stdout.decode(), "stderr": done.stderr.decode()}


@pytest.fixture
def version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The agent's, whose archive lies where hosts keep theirs."""
    monkeypatch.setattr(layout, "AGENT", str(tmp_path))
    return agent_archive.archive(tmp_path)[1]


def ask(action: Action, version: str, **args: Any) -> dict[str, Any] | None:
    variables = {"ansible_python_interpreter": sys.executable}
    parameters = {"instances": [], "agent_version": version, **args}
    return host_agent.ask(action, "plan", version, parameters, SPEC, variables)  # type: ignore[arg-type]


def instance(**more: Any) -> dict[str, Any]:
    return {"name": "kimi", "model_path": "/m", "lock": "any", **more}


def test_it_is_what_the_action_plugin_has() -> None:
    """The methods that are called are Ansible's own, and take what they are given."""
    for name in ("_is_pipelining_enabled", "_compute_environment_string", "_low_level_execute_command"):
        assert callable(getattr(ActionBase, name))


def test_the_agent_answers_as_the_module_does(version: str) -> None:
    answer = ask(Action(), version)
    script = (
        "from ansible.module_utils.testing import patch_module_args\n"
        "from ansible_collections.inferops.sglang.plugins.modules import sglang_plan\n"
        f"with patch_module_args({{'instances': [], 'agent_version': {version!r}}}): sglang_plan.main()\n"
    )
    path = [entry for entry in sys.path if entry.endswith("collections")]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}\n{script}"], capture_output=True, text=True
    )
    module = json.loads(done.stdout)
    module.pop("invocation")
    assert answer == module
    assert answer is not None and answer["plan"], "a machine without the service user has something to do"


def test_a_description_that_cannot_be_right_fails_in_the_same_words(version: str) -> None:
    answer = ask(Action(), version, instances=[instance(name="no name")])
    assert answer is not None and answer["failed"] is True
    assert answer["msg"].startswith("instance 'no name': a name is at most 48")


def test_parameters_come_with_their_defaults_and_types_and_not_on_the_command_line(version: str) -> None:
    action = Action()
    ask(action, version, instances=[instance(port="30001", api_key="sk-Planted", env={"A": "ä\"$'\n"})])
    (told,) = json.loads(action.data)["instances"]
    assert (told["port"], told["drain_timeout"], told["mode"]) == (30001, 120, "managed")
    assert (told["api_key"], told["env"]) == ("sk-Planted", {"A": "ä\"$'\n"})
    assert "Planted" not in action.commands[0]
    # nor anything that a C shell, which the remote user may have, would not take within quotes
    assert not set("\n!\\`") & set(action.commands[0])


def test_no_secret_comes_back(version: str) -> None:
    answer = ask(Action(), version, instances=[instance(name="sk-Planted", api_key="sk-Planted")])
    assert answer is not None and answer["failed"] and "Planted" not in json.dumps(answer)


def test_what_a_login_prints_before_is_passed_over(version: str) -> None:
    answer = ask(Action(noise="Welcome to {this} host\n\n"), version)
    assert answer is not None and "plan" in answer


def test_the_environment_of_the_task_is_kept(version: str) -> None:
    action = Action(environment="PLANTED=1")
    assert ask(action, version) is not None and action.commands[0].startswith("PLANTED=1 ")


@pytest.mark.parametrize("how", ["away", "changed", "cut short"])
def test_an_archive_that_is_not_ours_is_not_run(version: str, tmp_path: Path, how: str) -> None:
    archive, ran = tmp_path / f"{version}.pyz", tmp_path / "ran"
    if how == "away":
        archive.unlink()
    elif how == "cut short":
        archive.write_bytes(archive.read_bytes()[:-100])
    else:
        source = tmp_path / "changed" / "agent"
        source.mkdir(parents=True)
        (source / "__init__.py").write_text(f"open({str(ran)!r}, 'w').close()\n")
        subprocess.run([sys.executable, "-m", "zipfile", "-c", archive, source], check=True)
    action = Action()
    assert ask(action, version) is None and action.commands
    assert not ran.exists()


@pytest.mark.parametrize(
    "args",
    [
        {"instances": [instance(port="many")]},
        {"instances": [instance(wrong=1)]},
        {"instances": [instance(mode="in_place", python="~/env/bin/python")]},
        {"instances": [instance(writable_paths=["$HOME/x"])]},
        {"python": "~/bin/python"},
    ],
)
def test_what_the_module_says_better_is_left_to_it(version: str, args: dict[str, Any]) -> None:
    action = Action()
    assert ask(action, version, **args) is None
    assert not action.commands


def test_a_connection_that_takes_no_input_is_left_to_the_module(version: str) -> None:
    action = Action(pipelining=False)
    assert ask(action, version) is None
    assert not action.commands


@pytest.mark.parametrize("python", ["/nowhere/python3", "/bin/true", "/bin/echo"])
def test_an_interpreter_that_is_none_is_left_to_the_module(version: str, python: str) -> None:
    variables = {"ansible_python_interpreter": python}
    parameters = {"instances": [], "agent_version": version}
    action: Any = Action()
    assert host_agent.ask(action, "plan", version, parameters, SPEC, variables) is None


@pytest.mark.parametrize("named", ["auto", "auto_silent", "python3"])
def test_without_a_path_the_system_s_own_python_is_asked(version: str, named: str) -> None:
    action: Any = Action()
    host_agent.ask(action, "plan", version, {"instances": []}, SPEC, {"ansible_python_interpreter": named})
    assert action.commands[0].startswith("/usr/bin/python3 ")
