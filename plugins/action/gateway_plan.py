# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Controller side of ``gateway_plan``: which servers a gateway is to have stands in the inventory."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.plugin_utils import fleet, rollout


class ActionModule(ActionBase):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        args = dict(self._task.args)
        hostvars = (task_vars or {})["hostvars"]
        try:
            hosts = [fleet.described(name, hostvars[name]) for name in args.get("hosts") or []]
        except InferopsError as error:
            raise AnsibleActionFail(error.message) from error
        # the first host of a replica alone is a worker
        owners = {url: unit["hosts"][0] for unit in rollout.units_of(hosts) for url in unit["workers"]}
        args["workers"] = list(owners)
        result.update(self._execute_module(module_args=args, task_vars=task_vars))
        result["owners"] = owners
        return result
