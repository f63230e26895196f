# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""``sglang_rollout``: the plan of a rollout, made and kept on the controller."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.plugin_utils import rollout, rollout_file
from ansible_collections.inferops.sglang.plugins.plugin_utils.this_run import this_run


class ActionModule(ActionBase):
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        dummy, args = self.validate_argument_spec(
            argument_spec={
                "path": {"type": "path"},
                "hosts": {"type": "list", "elements": "str"},
                "only": {"type": "list", "elements": "str"},
                "gateway": {"type": "str", "default": ""},
                "wishes": {"type": "dict", "default": {}},
                "resume": {"type": "bool", "default": False},
                "unit": {"type": "str"},
                "state": {"type": "str", "choices": [rollout.STARTED, rollout.DONE, *rollout.FAILED]},
                "note": {"type": "str", "default": ""},
                "figures": {"type": "dict", "default": {}},
            },
            required_together=[["unit", "state"]],
            required_one_of=[["path", "hosts"]],
            required_by={"unit": "path"},
            required_if=[["resume", True, ["path"]]],
            mutually_exclusive=[["hosts", "unit"]],
        )
        try:
            plan, changed = self._plan(args, task_vars or {})
        except InferopsError as error:
            raise AnsibleActionFail(error.message) from error
        result.update(changed=changed, plan=plan, lines=rollout.lines(plan), stop=rollout.must_stop(plan, time.time()))
        return result

    def _plan(self, args: Mapping[str, Any], task_vars: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        path = args["path"]
        write = not self._task.check_mode and path is not None
        if args["hosts"] is not None:
            behind = bool(args["gateway"])
            hosts = [rollout.described(name, task_vars["hostvars"][name], behind) for name in args["hosts"]]
            wishes = args["wishes"]
            plan = (
                rollout.resume(rollout_file.read(path), hosts, wishes)
                if args["resume"]
                else rollout.plan(hosts, wishes, args["only"])
            )
            if write:
                rollout_file.begin(path, plan, this_run()["id"])
            return plan, write
        if args["unit"] is None or not write:
            return rollout_file.read(path), False
        unit, state, note = args["unit"], args["state"], args["note"].strip()

        def change(kept: dict[str, Any]) -> dict[str, Any]:
            return rollout.mark(kept, unit, state, time.time(), note, args["figures"])

        # a note of what was done elsewhere is no change
        return rollout_file.update(path, change), False
