# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Controller side of ``sglang_preflight``: completes the instances, and shows what needs attention as it is found."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.plugin_utils import desired

display = Display()


class ActionModule(ActionBase):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        args = dict(self._task.args)
        try:
            args["instances"] = desired.complete(args.get("instances") or [], (task_vars or {}).get("playbook_dir"))
        except InferopsError as error:
            raise AnsibleActionFail(error.message, result=error.result) from error
        result.update(self._execute_module(module_args=args, task_vars=task_vars))
        host = (task_vars or {}).get("inventory_hostname", "")
        for line in result.get("summary") or []:
            display.display(f"    {host} {line}")
        return result
