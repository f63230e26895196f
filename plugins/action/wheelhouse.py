# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Controller side of ``wheelhouse``: asks the host what it lacks, and sends that part by part."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.plugin_utils import builds, wheelhouse

REPORT_S = 15.0
PART_SIZE = 64 << 20


class ActionModule(ActionBase):
    TRANSFERS_FILES = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        variables = task_vars or {}
        args = dict(self._task.args)
        if isinstance(args.get("lock"), str) and isinstance(args.get("src"), str):
            search = [str(variables["playbook_dir"])] if variables.get("playbook_dir") else []
            try:
                lock = builds.load(builds.find(args["lock"], builds.COLLECTION, search))
                folder = Path(self._loader.path_dwim(args["src"]))
                args["wheels"] = wheelhouse.needed(folder, lock["requirements"], lock["python"])
            except InferopsError as error:
                return {**result, "failed": True, "msg": error.message}
        asked = self._execute_module(module_args=args, task_vars=variables)
        if not asked.get("failed") and not self._task.check_mode and asked["missing"]:
            part_size = int(args.get("part_size") or PART_SIZE)
            sent = self._send(folder, asked["missing"], args, part_size, variables)
            # what changed is what the first answer said; the last one says that it is there
            asked = {**sent, "changed": True, "diff": asked["diff"]} if not sent.get("failed") else sent
        return {**result, **asked}

    def _send(
        self,
        folder: Path,
        missing: dict[str, list[int]],
        args: dict[str, Any],
        part_size: int,
        variables: dict[str, Any],
    ) -> dict[str, Any]:
        total = sum(len(numbers) for numbers in missing.values())
        # made by TRANSFERS_FILES, removed by ActionBase.cleanup()
        place = self._connection._shell.tmpdir
        done, transferred, told = 0, 0, time.monotonic()
        answer: dict[str, Any] = {}
        for portion in wheelhouse.portions(wheelhouse.pieces(folder, missing, part_size), part_size):
            parts = []
            for index, piece in enumerate(portion):
                remote = self._connection._shell.join_path(place, f"part{index}")
                self._put(piece.data, remote)
                parts.append({"wheel": piece.wheel, "number": piece.number, "path": remote, "sha256": piece.sha256})
            self._fixup_perms2([place, *(part["path"] for part in parts)], execute=False)
            answer = self._execute_module(module_args={**args, "parts": parts}, task_vars=variables)
            if answer.get("failed"):
                break
            done += len(portion)
            transferred += sum(len(piece.data) for piece in portion)
            if time.monotonic() - told >= REPORT_S:
                told = time.monotonic()
                host = variables.get("inventory_hostname", "host")
                Display().display(f"{host}: wheels: {done} of {total} parts, {transferred >> 20} MB sent")
        return {**answer, "transferred": transferred}

    def _put(self, data: bytes, remote: str) -> None:
        handle, local = tempfile.mkstemp(prefix="inferops-part-")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
            self._transfer_file(local, remote)
        finally:
            os.unlink(local)
