# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Controller side of ``python_env``: reads the lock and the patches, and shows what the host is doing meanwhile."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.plugin_utils import builds
from ansible_collections.inferops.sglang.plugins.plugin_utils.progress import Progress


class ActionModule(ActionBase):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        variables = task_vars or {}
        args = dict(self._task.args)
        for name in ("spec", "progress"):
            if name in args:
                return {**result, "failed": True, "msg": f"{name} is set by the action plugin: leave it out"}
        try:
            args["spec"] = self._spec(args, variables)
        except InferopsError as error:
            return {**result, "failed": True, "msg": error.message, **error.result}
        with Progress(self, variables, self._task.check_mode) as progress:
            args["progress"] = progress.path
            result.update(self._execute_module(module_args=args, task_vars=variables))
        return result

    def _spec(self, args: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any] | None:
        """The specification; ``None`` where options are missing or of a wrong kind: the module says so better."""
        lock, patches = args.get("lock"), args.get("patches") or []
        indexes, find_links = args.get("indexes") or [], args.get("find_links") or []
        if not isinstance(lock, str) or not all(isinstance(value, list) for value in (patches, indexes, find_links)):
            return None
        return builds.resolve(
            lock,
            patches,
            python=str(args.get("python") or "/usr/bin/python3"),
            indexes=indexes,
            find_links=find_links,
            collection_root=builds.COLLECTION,
            search=[str(variables["playbook_dir"])] if variables.get("playbook_dir") else [],
        )
