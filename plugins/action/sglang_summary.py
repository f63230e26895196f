# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Controller side of ``sglang_summary``: one screen of what a run came to; nothing is done on a host."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.inferops.sglang.plugins.plugin_utils import summary
from ansible_collections.inferops.sglang.plugins.plugin_utils.report import last


class ActionModule(ActionBase):
    _requires_connection = False
    _VALID_ARGS = frozenset({"variable", "hosts", "drift"})

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        dummy, args = self.validate_argument_spec(
            argument_spec={
                "variable": {"type": "str", "default": "sglang_planned"},
                "hosts": {"type": "list", "elements": "str", "required": True},
                "drift": {"type": "list", "elements": "path", "default": []},
            }
        )
        hostvars = (task_vars or {})["hostvars"]
        planned = {host: hostvars[host].get(args["variable"]) if host in hostvars else None for host in args["hosts"]}
        lines = summary.lines(planned)
        verdict = last.verdict(args["drift"])
        lines += [verdict, ""] if verdict else []
        Display().display("\n".join(lines))
        result.update(changed=False, lines=lines)
        return result
