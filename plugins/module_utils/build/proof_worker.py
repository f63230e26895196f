# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Runs in a build's own interpreter: really imports what a server will import, and says what came of it."""

from __future__ import annotations

import importlib
import sys
import time
import traceback
from typing import Any

from ..server import options_worker


def imports(payload: dict[str, Any]) -> dict[str, Any]:
    """Import ``payload["modules"]`` in order.

    The result: ``modules``, each with ``name``, ``error`` (``None`` when it came) and ``seconds``; ``torch``: its
    ``version``, the ``cuda`` version that it is built for and the ``arch_list`` of its kernels, or ``None``;
    ``options``: the option schema of the release's own parser, or ``None`` where SGLang does not come. It is read
    here since this process has paid for the imports already.

    Bytecode is written on the way: the server runs as a user who may not, and would compile at each start.
    """
    sys.dont_write_bytecode = False
    modules = []
    for name in payload["modules"]:
        # the last line that is left when an import takes the whole process down
        sys.stderr.write(f"importing {name}\n")
        sys.stderr.flush()
        began = time.monotonic()
        error = None
        try:
            importlib.import_module(name)
        except BaseException as caught:  # some modules call sys.exit() or raise what is no Exception
            traceback.print_exc()
            error = f"{type(caught).__name__}: {caught}"
        modules.append({"name": name, "error": error, "seconds": round(time.monotonic() - began, 2)})
    there = {module["name"] for module in modules if module["error"] is None}
    options = options_worker.dump({}) if "sglang.launch_server" in there else None
    return {"modules": modules, "torch": _torch(), "options": options}


def _torch() -> dict[str, Any] | None:
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    # torch.cuda.get_arch_list() answers nothing on a machine without a GPU; what it asks answers everywhere
    flags = getattr(torch._C, "_cuda_getArchFlags", None)
    arch = flags() if flags is not None else None
    return {"version": torch.__version__, "cuda": torch.version.cuda, "arch_list": arch.split() if arch else []}
