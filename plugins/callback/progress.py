# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Long plays on a terminal: one line a host that says what it is doing."""

from __future__ import annotations

DOCUMENTATION = r"""
name: progress
type: stdout
short_description: One line a host with what it is doing now
version_added: "0.1.0"
author: The inferops.sglang authors (@inferops)
description:
  - On a terminal, a line for each host says which task it is in, for how long, and what
    M(inferops.sglang.sglang_ready), M(inferops.sglang.python_env) and others say while they wait. Only changes,
    failures with their cause and what a task prints stay on the screen.
  - Where the output is no terminal (a file, a pipe, a CI job), where the terminal cannot move its cursor, and with
    C(-v), it is the callback P(ansible.builtin.default#callback), but for one thing. A server that did not come up is
    shown by its message alone, which names the cause, the log and what to do; C(-v) shows the whole diagnosis.
extends_documentation_fragment:
  - default_callback
  - result_format_callback
requirements:
  - set as stdout in configuration
"""

EXAMPLES = r"""
# ansible.cfg
# [defaults]
# stdout_callback = inferops.sglang.progress
"""

import os
import sys
from collections.abc import Mapping
from typing import Any

from ansible.plugins.callback.default import CallbackModule as DefaultCallback
from ansible_collections.inferops.sglang.plugins.plugin_utils.live_view import (
    DONE,
    FAILED,
    UNREACHABLE,
    Screen,
    View,
)

#: They ask the person at the terminal.
_ASKING = ("pause", "ansible.builtin.pause", "ansible.legacy.pause")


class CallbackModule(DefaultCallback):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "inferops.sglang.progress"

    def __init__(self) -> None:
        super().__init__()
        self._view = View()
        self._screen: Screen | None = None
        self._causes: list[str] = []

    def v2_playbook_on_start(self, playbook: Any) -> None:
        capable = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        if capable and not self._display.verbosity:
            self._screen = Screen(sys.stdout, self._view)
            sys.stdout = self._screen
        super().v2_playbook_on_start(playbook)

    def v2_playbook_on_play_start(self, play: Any) -> None:
        super().v2_playbook_on_play_start(play)
        self._view.start(play.get_name().strip())

    def _task_start(self, task: Any, prefix: str | None = None) -> None:
        if self._screen is None:
            super()._task_start(task, prefix=prefix)
        else:
            self._screen.show(task.action not in _ASKING)

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        if self._screen is None:
            super().v2_runner_on_start(host, task)
            return
        self._view.begin(host.get_name(), _name(task))
        self._screen.update()

    def v2_runner_on_ok(self, result: Any) -> None:
        if self._screen is None:
            super().v2_runner_on_ok(result)
            return
        self._ended(result, DONE)
        if result.result.get("changed"):
            self._display.display(f"changed: {_who(result)}  {_name(result.task)}")

    def v2_runner_on_skipped(self, result: Any) -> None:
        if self._screen is None:
            super().v2_runner_on_skipped(result)
        else:
            self._ended(result, DONE)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        if self._screen is None:
            super().v2_runner_on_failed(result, ignore_errors=ignore_errors)
        elif ignore_errors:
            self._ended(result, DONE, "failed, and that is ignored")
        else:
            self._say_cause(result, FAILED)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        if self._screen is None:
            super().v2_runner_on_unreachable(result)
        else:
            self._say_cause(result, UNREACHABLE)

    def v2_runner_item_on_ok(self, result: Any) -> None:
        self._item(result, super().v2_runner_item_on_ok)

    def v2_runner_item_on_skipped(self, result: Any) -> None:
        self._item(result, super().v2_runner_item_on_skipped)

    def v2_runner_item_on_failed(self, result: Any) -> None:
        self._item(result, super().v2_runner_item_on_failed)
        if self._screen is not None:
            self._display.display(f"failed: {_who(result)}  {_name(result.task)}: {_cause(result.result)}")

    def v2_runner_retry(self, result: Any) -> None:
        if self._screen is None:
            super().v2_runner_retry(result)
            return
        self._view.note(result.host.get_name(), f"try {result.result['attempts'] + 1} of {result.result['retries']}")
        self._screen.update()

    def v2_playbook_on_include(self, included_file: Any) -> None:
        if self._screen is None:
            super().v2_playbook_on_include(included_file)

    def _dump_results(self, result: Mapping[str, Any], *args: Any, **keywords: Any) -> str:
        if isinstance(result.get("failure"), Mapping) and "msg" in result and not self._display.verbosity:
            result = {"msg": result["msg"]}
        return str(super()._dump_results(result, *args, **keywords))

    def v2_playbook_on_stats(self, stats: Any) -> None:
        if self._screen is not None:
            sys.stdout = self._screen.close()
            self._screen = None
            for cause in self._causes:
                self._display.display(cause)
        super().v2_playbook_on_stats(stats)

    def _item(self, result: Any, plain: Any) -> None:
        """An item of a loop has ended."""
        if self._screen is None:
            plain(result)
            return
        self._view.note(result.host.get_name(), str(self._get_item_label(result.result)))
        self._screen.update()

    def _ended(self, result: Any, state: str, note: str = "") -> None:
        self._view.end(result.host.get_name(), state, note)
        if self._screen is not None:
            self._screen.update()

    def _say_cause(self, result: Any, state: str) -> None:
        """On the screen at once, and once more below all, where it is looked for."""
        cause = _cause(result.result)
        self._ended(result, state, cause.splitlines()[0])
        text = f"{state}: {_who(result)}  {_name(result.task)}: {cause}"
        self._causes.append(text)
        self._display.display(text)


def _name(task: Any) -> str:
    return str(task.get_name(include_role_fqcn=False)).strip()


def _who(result: Any) -> str:
    delegated = (result.result.get("_ansible_delegated_vars") or {}).get("ansible_delegated_host")
    host = str(result.host.get_name())
    return f"{host} -> {delegated}" if delegated else host


def _cause(result: dict[str, Any]) -> str:
    """Why a task failed, in the words of its module."""
    said = result.get("msg") or result.get("stderr") or result.get("stdout") or "no message; -v shows the whole result"
    text = "\n".join(map(str, said)) if isinstance(said, list) else str(said)
    return text.strip() or "no message; -v shows the whole result"
