# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Controller side of ``sglang_patch``: names and files become definitions, which travel as parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.plugin_utils import catalogue

COLLECTION = Path(__file__).resolve().parent.parent.parent


class ActionModule(ActionBase):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        args = dict(self._task.args)
        patches = args.get("patches")
        if isinstance(patches, list):  # anything else is for the module to refuse
            try:
                args["patches"] = catalogue.load([self._found(entry) for entry in patches], COLLECTION)
            except InferopsError as error:
                return {**result, "failed": True, "msg": error.message, **error.result}
        result.update(self._execute_module(module_args=args, task_vars=task_vars))
        return result

    def _found(self, entry: Any) -> Any:
        """The path of a file that is given relative to the playbook or its folder ``files``; others as they are."""
        if not isinstance(entry, str) or not entry.endswith((".yml", ".yaml")):
            return entry
        try:
            return self._find_needle("files", entry)
        except AnsibleError as error:
            raise InferopsError(f"there is no patch file {entry}: {error}") from error
