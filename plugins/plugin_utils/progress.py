# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Show what a module is doing while it runs: it writes a line a step to a file on the host, which is read from here.

The file is read over a connection of its own: two commands at once on one connection object would share the state
in which it answers a password prompt.
"""

from __future__ import annotations

import copy
import threading
import time
from types import TracebackType
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

#: The file is read so often, and where it says nothing new, the running step is shown again after so long.
INTERVAL_S = 3.0
REMIND_S = 15.0


class Progress:
    """While the block runs, new lines of the file ``path`` are shown. In check mode there is no file.

    A module that itself says every so often what it does needs no reminders of the last line (``remind_s``).
    """

    def __init__(
        self, action: ActionBase, task_vars: dict[str, Any], check_mode: bool, remind_s: float = REMIND_S
    ) -> None:
        self._remind_s = remind_s
        self._host = str(task_vars.get("inventory_hostname", "host"))
        self._action = action
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._shown: list[str] = []
        self._last = time.monotonic()
        self._began = self._last
        self.path: str | None = None
        self._check_mode = check_mode

    def __enter__(self) -> Progress:
        if not self._check_mode:
            # the folder goes with the task: ActionBase.cleanup() removes it
            self.path = self._action._connection._shell.join_path(self._action._make_tmp_path(), "progress")
            peer = copy.copy(self._action)
            peer._connection = copy.copy(self._action._connection)
            if peer._connection.become is not None:
                peer._connection.become = copy.copy(peer._connection.become)
            self._thread = threading.Thread(target=self._follow, args=(peer,), daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join(timeout=INTERVAL_S)

    def _follow(self, peer: Any) -> None:
        while not self._ended.wait(INTERVAL_S):
            try:
                done = peer._low_level_execute_command(f"cat {self.path} 2>/dev/null", sudoable=True)
            except AnsibleError:
                # the module's own connection reports what is wrong with the host
                return
            self._show(str(done.get("stdout", "")).splitlines())

    def _show(self, lines: list[str]) -> None:
        fresh = lines[len(self._shown) :]
        now = time.monotonic()
        for line in fresh:
            Display().display(f"{self._host}: {line}")
        if fresh:
            self._shown, self._last, self._began = lines, now, now
        elif lines and now - self._last >= self._remind_s:
            self._last = now
            Display().display(f"{self._host}: {lines[-1].partition(' ')[2]} ({now - self._began:.0f} s)")
