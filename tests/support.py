"""What tests of all kinds share."""

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
    """The runner of tests: ``subprocess`` behind the interface of ``module_utils/running.py``."""
    try:
        done = subprocess.run(
            argv, env={**os.environ, **(env or {})}, cwd=cwd, input=data, capture_output=True, text=True, check=False
        )
    except OSError as error:
        return Completed(127, "", f"{argv[0]}: {error}")
    return Completed(done.returncode, done.stdout, done.stderr)
