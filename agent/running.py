# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The runner of the agent: ``subprocess`` behind the interface of ``module_utils/running.py``."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

from ansible_collections.inferops.sglang.plugins.module_utils.running import Completed


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    data: str | None = None,
) -> Completed:
    try:
        # decoded as Ansible does for a module: whatever the locale, and whatever is printed
        done = subprocess.run(
            argv, env={**os.environ, **(env or {})}, cwd=cwd, input=data, capture_output=True, check=False,
            encoding="utf-8", errors="surrogateescape",
        )  # fmt: skip
    except OSError as error:
        return Completed(127, "", f"{argv[0]}: {error}")
    return Completed(done.returncode, done.stdout, done.stderr)
