# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""``sglang_rollout``: the plan of a rollout, made and kept on the controller."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError, nearest
from ansible_collections.inferops.sglang.plugins.plugin_utils import fleet, rollout, rollout_file
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
                "wishes": {"type": "dict", "default": {}},
                "resume": {"type": "bool", "default": False},
                "unit": {"type": "str"},
                "state": {"type": "str", "choices": [rollout.STARTED, rollout.DONE, *rollout.FAILED]},
                "note": {"type": "str", "default": ""},
                "figures": {"type": "dict", "default": {}},
                "was": {"type": "dict", "default": {}},
                "replaced": {"type": "dict", "default": {}},
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
        result["unfinished"] = [unit["name"] for unit in rollout.unfinished(plan)]
        return result

    def _plan(self, args: Mapping[str, Any], task_vars: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        path = args["path"]
        write = not self._task.check_mode and path is not None
        if args["hosts"] is not None:
            plan = _made(args, task_vars)
            if write:
                rollout_file.begin(path, plan, this_run()["id"])
            return plan, write
        if args["unit"] is None or not write:
            return rollout_file.read(path), False

        def change(kept: dict[str, Any]) -> dict[str, Any]:
            was = {task_vars["inventory_hostname"]: args["was"]} if args["was"] else {}
            learned = {"was": was, "replaced": args["replaced"], "figures": args["figures"]}
            return rollout.mark(kept, args["unit"], args["state"], time.time(), args["note"].strip(), **learned)

        # a note of what was done elsewhere is no change
        return rollout_file.update(path, change, this_run()["id"]), False


def _made(args: Mapping[str, Any], task_vars: Mapping[str, Any]) -> dict[str, Any]:
    """The plan for the hosts, and for what an earlier one has left of them."""
    wanted, hostvars = args["hosts"], task_vars["hostvars"]
    names = fleet.whole(hostvars, wanted, task_vars["groups"].get("sglang", []))
    hosts = [fleet.described(name, hostvars[name]) for name in names]
    only = wanted if args["only"] is None else args["only"]
    for name in set(only) - set(names):
        raise InferopsError(
            f"{name!r} is to be changed and is none of the fleet ({', '.join(names)})" + nearest(name, names)
        )
    if args["resume"]:
        return rollout.resume(rollout_file.read(args["path"]), hosts, args["wishes"], only)
    return rollout.plan(hosts, args["wishes"], only)
