# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""``plan``: what the module ``sglang_plan`` does, for a controller that finds its own agent on the host.

A module travels with all that it imports, in every run; what is already here only has to be asked.
"""

from __future__ import annotations

import json
import os
import sys

from ansible_collections.inferops.sglang.plugins.module_utils import planning
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.files import readable

from agent.running import run


def main() -> None:
    """Read the module's parameters as JSON from standard input; write its result as JSON, in one line."""
    told = json.load(sys.stdin)
    # as for a module: programs are asked in the one language that is understood
    os.environ["LC_ALL"] = "C.UTF-8"
    try:
        result = planning.run(
            run,
            told["instances"],
            told["toolkit"],
            told["agent_version"],
            told["thorough"],
            told["described"],
            told["python"],
        )
    except InferopsError as error:
        result = {**error.result, "failed": True, "msg": error.message}
    print(json.dumps(readable(result)))
