# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Controller side of ``sglang_server``: adds what only the controller knows (builds, agent, who is running)."""

from __future__ import annotations

import multiprocessing
import os
import socket
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.inferops.sglang.plugins.module_utils import procfs
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.plugin_utils import desired


class ActionModule(ActionBase):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        args = dict(self._task.args)
        try:
            args["instances"] = desired.complete(args.get("instances") or [], (task_vars or {}).get("playbook_dir"))
        except InferopsError as error:
            raise AnsibleActionFail(error.message, result=error.result) from error
        args["run"] = this_run()
        done = self._execute_module(module_args=args, task_vars=task_vars)
        held = done.get("lease") if done.get("failed") else None
        if held and is_over(held):
            args["run"]["break_id"] = held["id"]
            done = self._execute_module(module_args=args, task_vars=task_vars)
        result.update(done)
        return result


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


def is_over(held: dict[str, Any]) -> bool:
    """Whether the run that holds a lease was one of this controller and has ended."""
    controller, dummy, rest = str(held.get("id", "")).partition("/")
    pid, dummy, started = rest.partition("/")
    if controller != socket.gethostname() or not pid.isdigit():
        return False
    process = procfs.read(int(pid))
    return process is None or str(process.started) != started
