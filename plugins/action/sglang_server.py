# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Controller side of ``sglang_server``: adds what only the controller knows (builds, agent, who is running)."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.plugin_utils import desired
from ansible_collections.inferops.sglang.plugins.plugin_utils.this_run import is_over, this_run

#: What an instance without a description is taken for: no build has this name.
UNDESCRIBED = {"model_path": "/", "build": {"build_id": ""}}


class ActionModule(ActionBase):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        args = dict(self._task.args)
        instances = args.get("instances") or []
        if args.get("state") == "absent":
            # of what is to go, maybe no more is known than its name
            instances = [{**UNDESCRIBED, **one} if isinstance(one, dict) else one for one in instances]
        try:
            args["instances"] = desired.complete(instances, (task_vars or {}).get("playbook_dir"))
        except InferopsError as error:
            raise AnsibleActionFail(error.message, result=error.result) from error
        args["run"] = this_run()
        done = self._execute_module(module_args=args, task_vars=task_vars)
        held = done.get("lease") if done.get("failed") else None
        if held and is_over(str(held["id"])):
            args["run"]["break_id"] = held["id"]
            done = self._execute_module(module_args=args, task_vars=task_vars)
        result.update(done)
        return result
