# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Controller side of ``sglang_ready``: shows what the start is doing while the module waits on the host."""

from __future__ import annotations

import math
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.inferops.sglang.plugins.plugin_utils.progress import Progress
from ansible_collections.inferops.sglang.plugins.plugin_utils.this_run import this_run


class ActionModule(ActionBase):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        variables = task_vars or {}
        args = dict(self._task.args)
        if "progress" in args:
            return {**result, "failed": True, "msg": "progress is set by the action plugin: leave it out"}
        args["run"] = this_run()
        with Progress(self, variables, self._task.check_mode, remind_s=math.inf) as progress:
            if progress.path is not None:
                args["progress"] = progress.path
            result.update(self._execute_module(module_args=args, task_vars=variables))
        return result
