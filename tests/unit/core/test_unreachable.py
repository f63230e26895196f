"""Hosts that cannot be reached: a run must notice, and say why."""

from __future__ import annotations

import configparser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible_collections.inferops.sglang.plugins.action import sglang_plan

ROOT = Path(__file__).resolve().parents[3]


class Connection:
    def __init__(self, transport: str, status: int, said: bytes) -> None:
        self.transport, self.answer = transport, (status, b"", said)

    def exec_command(self, command: str, sudoable: bool = True) -> tuple[int, bytes, bytes]:
        assert (command, sudoable) == ("/bin/sh -c true", False)
        return self.answer


def test_a_way_through_a_hypervisor_says_why_it_ends() -> None:
    error = AnsibleConnectionFailure("Failed to create temporary directory. exited with result 255")
    pct = Connection("community.proxmox.proxmox_pct_remote", 255, b"container '101' not running!\n")
    told = sglang_plan.with_reason(error, pct)
    assert told.message == "the host cannot be entered: container '101' not running! (status 255)"


def test_an_error_that_says_it_all_is_left_alone() -> None:
    error = AnsibleConnectionFailure("Failed to connect")
    assert sglang_plan.with_reason(error, Connection("ssh", 255, b"")) is error
    assert sglang_plan.with_reason(error, Connection("community.proxmox.proxmox_pct_remote", 0, b"")) is error


@pytest.mark.parametrize("transport", ["ssh", "community.proxmox.proxmox_pct_remote"])
def test_each_reason_is_told_once(monkeypatch: pytest.MonkeyPatch, transport: str) -> None:
    """Ansible tells an error with its cause, the cause's cause and so on."""

    def away(*dummy: Any) -> None:
        raise AnsibleConnectionFailure("Connection refused")

    monkeypatch.setattr(ActionBase, "run", lambda *dummy: {})
    monkeypatch.setattr(sglang_plan.host_agent, "ask", away)
    action = object.__new__(sglang_plan.ActionModule)
    action._task = SimpleNamespace(args={"instances": []})
    action._connection = Connection(transport, 255, b"not running")
    with pytest.raises(AnsibleConnectionFailure) as raised:
        action.run(None, {})
    told, error = [], raised.value
    while error is not None and len(told) < 5:
        told.append(str(error))
        error = error.__cause__
    assert len(told) == len(set(told)) == (1 if transport == "ssh" else 2)


def test_ssh_asks_whether_the_host_still_lives() -> None:
    """A host that loses its power in the middle of a task sends no end of the connection."""
    config = configparser.ConfigParser()
    config.read(ROOT / "ansible.cfg")
    assert "ServerAliveInterval" in config["ssh_connection"]["ssh_args"]
