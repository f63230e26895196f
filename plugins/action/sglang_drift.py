# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Controller side of ``sglang_drift``: one report of what the plans of a fleet came to; nothing is done on a host."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.inferops.sglang.plugins.module_utils.files import write_atomic
from ansible_collections.inferops.sglang.plugins.plugin_utils.report import drift, history, metrics, page, text


class ActionModule(ActionBase):
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        dummy, args = self.validate_argument_spec(
            argument_spec={
                "hosts": {"type": "list", "elements": "str", "required": True},
                "gateways": {"type": "list", "elements": "dict", "default": []},
                "folder": {"type": "path", "required": True},
                "metrics": {"type": "path"},
                "correct": {"type": "bool", "default": False},
                "earlier": {"type": "dict"},
                "variable": {"type": "str", "default": "sglang_planned"},
            }
        )
        if not args["hosts"]:
            # an empty report would look like a fleet in order
            raise AnsibleActionFail(
                "there is no host to compare: the pattern in sglang_hosts, by default the group "
                "'sglang', matches none; name another one, or see that the inventory is the right one"
            )
        hostvars = (task_vars or {})["hostvars"]
        # a host that was not looked at (--limit) has no result; one that did not answer has one that says so
        results = {host: hostvars[host].get(args["variable"]) for host in args["hosts"]}
        planned = {host: result for host, result in results.items() if result is not None}
        if not planned:
            raise AnsibleActionFail(
                f"none of the {len(results)} host(s) was looked at: --limit leaves them all out; name the hosts in "
                "sglang_hosts, and with --limit the controller, localhost, too"
            )
        report = drift.build(
            planned, _gateways(args["gateways"]), now=time.time(), correct=args["correct"], earlier=args["earlier"]
        )
        lines = text.lines(report)
        # first: what was found is told, too, where it cannot be written
        Display().display("\n".join(lines))
        if not self._task.check_mode:
            try:
                _write(Path(args["folder"]), report, args["earlier"], args["metrics"])
            except OSError as error:
                raise AnsibleActionFail(
                    "the report cannot be written; make room, or name another folder (reports) or file (drift_metrics)"
                ) from error
        result.update(
            # a report is no change of anything
            changed=False,
            lines=lines,
            report=report,
            drifted=drift.with_state(report, drift.DRIFTED),
            silent=drift.with_state(report, drift.UNREACHABLE),
            failing=drift.with_state(report, drift.FAILED),
            correctable=drift.correctable(report),
            open_keys=drift.open_keys(report),
            disturbing=drift.disturbing(report),
        )
        return result


def _gateways(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The results of a loop over gateways, each with the host that it was delegated to."""
    return [{**result, "host": result["item"]["key"]} for result in results]


def _write(
    folder: Path, report: Mapping[str, Any], earlier: Mapping[str, Any] | None, metrics_path: str | None
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        # two runs at once: each adds its line to the other's history, and what lies there is of one of them
        with contextlib.suppress(OSError):  # not every network's file system locks a folder
            fcntl.flock(lock, fcntl.LOCK_EX)
        runs = history.add(folder / "drift-history.jsonl", report, earlier)
        write_atomic(str(folder / "drift.json"), (json.dumps(report, indent=1, ensure_ascii=False) + "\n").encode())
        write_atomic(str(folder / "drift.html"), page.render(report, runs).encode())
        if metrics_path:
            write_atomic(metrics_path, metrics.text(report).encode())
    finally:
        os.close(lock)
