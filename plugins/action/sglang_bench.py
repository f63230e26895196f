# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Controller side of ``sglang_bench``: whose lease on the instance is renewed while it is measured."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.inferops.sglang.plugins.plugin_utils.this_run import this_run


class ActionModule(ActionBase):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        args = {**self._task.args, "run": this_run()}
        result.update(self._execute_module(module_args=args, task_vars=task_vars))
        return result
