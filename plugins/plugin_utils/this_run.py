# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which run this is, and whether another one still lives: for leases on hosts and for the file of a rollout."""

from __future__ import annotations

import multiprocessing
import os
import socket
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible_collections.inferops.sglang.plugins.module_utils import procfs


def this_run() -> dict[str, Any]:
    """The run that this worker belongs to: the process of ansible-playbook, which forked it.

    :raises AnsibleActionFail: when that process is gone. Workers have a session of their own and outlive a controller
        that is killed; one that is left must change nothing, least of all under a lease that nobody renews.
    """
    parent = multiprocessing.parent_process()
    pid = os.getppid() if parent is None or parent.pid is None else parent.pid
    main = procfs.read(pid)
    if main is None:
        raise AnsibleActionFail("the run that this task belongs to has ended; nothing was changed")
    controller = socket.gethostname()
    return {"id": f"{controller}/{pid}/{main.started}", "controller": controller}


def is_over(run_id: str) -> bool:
    """Whether a run was one of this controller and has ended."""
    return _alive(run_id) is False


def lives(run_id: str) -> bool:
    """Whether a run is one of this controller and works on."""
    return _alive(run_id) is True


def _alive(run_id: str) -> bool | None:
    """Nothing where it cannot be known: a run of another controller, or no run at all."""
    controller, dummy, rest = run_id.partition("/")
    pid, dummy, started = rest.partition("/")
    if controller != socket.gethostname() or not pid.isdigit():
        return None
    process = procfs.read(int(pid))
    return process is not None and str(process.started) == started
