# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Run a function of this package in another Python: the interpreter of a build.

SGLang's sources are parsed, and its option parser is read, by the interpreter that the build itself uses: a target's
own Python may be years older (Python 3.9 cannot parse SGLang 0.5.23). The other interpreter imports this package from
wherever it was imported here: a checkout, Ansible's module archive, or the host agent's archive. In a module, only
what the module imports travels, so the caller must import the worker module too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from .errors import InferopsError
from .running import Runner

_PACKAGE = "ansible_collections.inferops.sglang.plugins.module_utils"

# The result leaves through a copy of standard output: what imports print must not mix with it.
_BOOT = """
import json, os, sys
out = os.fdopen(os.dup(1), "w"); os.dup2(2, 1)
sys.path.insert(0, sys.argv[1])
name, function = sys.argv[2].split(":")
__import__(name)
value = getattr(sys.modules[name], function)(json.load(sys.stdin))
json.dump(value, out)
"""


def call(
    runner: Runner,
    python: str,
    entry: str,
    payload: Any,
    *,
    env: Mapping[str, str] | None = None,
    prefix: tuple[str, ...] = (),
) -> Any:
    """Return what ``entry`` (``patch.worker:plan``, relative to ``module_utils``) returns for ``payload``.

    Both are JSON values. ``prefix`` is put before the command (``systemd-run`` with its options, say).

    :raises InferopsError: when the interpreter cannot be run or the function raises; its message is the last line
        of the traceback, and ``stderr`` in the result is the whole of it.
    """
    base = os.path.abspath(__file__)
    for dummy in [*_PACKAGE.split("."), "interpreter.py"]:
        base = os.path.dirname(base)
    argv = [*prefix, python, "-I", "-B", "-c", _BOOT, base, f"{_PACKAGE}.{entry}"]
    done = runner(argv, env=env, data=json.dumps(payload))
    if done.rc != 0:
        said = done.stderr.strip().splitlines() or [f"ended with status {done.rc}"]
        raise InferopsError(f"{python} could not run {entry}: {said[-1]}", rc=done.rc, stderr="\n".join(said[-60:]))
    return json.loads(done.stdout)
