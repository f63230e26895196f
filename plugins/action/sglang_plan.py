# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Controller side of ``sglang_plan``: from the inventory's words to what a host can compare itself with."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.server import spec
from ansible_collections.inferops.sglang.plugins.plugin_utils import desired, host_agent, variables
from ansible_collections.inferops.sglang.plugins.plugin_utils.described import listed


class ActionModule(ActionBase):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        args = dict(self._task.args)
        described = args.get("instances") or []
        try:
            wrong = variables.misspelt(task_vars or {})
            if wrong:
                raise InferopsError("; ".join(wrong), problems=wrong)
            agent = desired.agent()
            args["instances"] = desired.complete(described, (task_vars or {}).get("playbook_dir"), agent)
        except InferopsError as error:
            return {**result, "failed": True, "msg": error.message, **error.result}
        args["agent_version"] = agent["version"]
        try:
            told = host_agent.ask(self, "plan", agent["version"], args, spec.plan_arguments(), task_vars or {})
            result["asked"] = "module" if told is None else "agent"
            result.update(self._execute_module(module_args=args, task_vars=task_vars) if told is None else told)
        except AnsibleConnectionFailure as error:
            told = with_reason(error, self._connection)
            if told is error:  # an error that is its own cause would be told over and over
                raise
            raise told from error
        if not result.get("failed"):
            result["agent"] = agent
            result["builds"] = _to_make(result["plan"], args["instances"], described)
            result["trees"] = _to_patch(result["plan"], args["instances"], described)
        return result


def with_reason(error: AnsibleConnectionFailure, connection: Any) -> AnsibleConnectionFailure:
    """The error of the first module on a host, with what the way there says of itself.

    A connection that leads through something else (``pct exec`` on a hypervisor) fails inside: Ansible then speaks of a
    temporary folder, and shows what was said only at ``-vvvv``. SSH speaks for itself.
    """
    if connection.transport == "ssh":
        return error
    status, dummy, said = connection.exec_command("/bin/sh -c true", sudoable=False)
    text = said.decode("utf-8", "replace").strip()
    return AnsibleConnectionFailure(f"the host cannot be entered: {text} (status {status})") if status else error


def _to_make(
    plan: list[dict[str, Any]], instances: list[dict[str, Any]], described: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The distinct builds that the plan wants made, as the inventory names them."""
    wanted = {change["resource"].partition("/")[2] for change in plan if change["resource"].startswith("build/")}
    found = {}
    for instance, words in zip(instances, described, strict=True):
        build_id = (instance.get("build") or {}).get("build_id")
        if build_id in wanted:
            found[build_id] = {"build_id": build_id, "lock": words["lock"], "patches": listed(words.get("patches"))}
    return list(found.values())


def _to_patch(
    plan: list[dict[str, Any]], instances: list[dict[str, Any]], described: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The environments in place that the plan wants patched, as the inventory names the patches."""
    wanted = {change["resource"].partition("/")[2] for change in plan if change["resource"].startswith("patches/")}
    return [
        {"name": instance["name"], "python": instance["python"], "patches": listed(words["patches"])}
        for instance, words in zip(instances, described, strict=True)
        if instance["name"] in wanted
    ]
