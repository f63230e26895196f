# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Start the gateway from its configuration file: keys must not stand in an argument vector that everybody can read.

Usage: launch.py CONFIG. Installed by the role sglang_gateway; runs in the gateway's own environment.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import sys

from smg.launch_router import launch_router
from smg.router_args import RouterArgs


def main(path: str) -> None:
    with open(path, encoding="utf-8") as stream:
        config = json.load(stream)
    with open(config["secrets"], encoding="utf-8") as stream:
        secrets = json.load(stream)
    options = dict(config["options"])
    known = [field.name for field in dataclasses.fields(RouterArgs)]
    for name in options:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            sys.exit(f"{path}: the gateway has no option {name!r}{hint} (set it in sglang_gateway_options)")
    options["control_plane_api_keys"] = [("inferops", "inferops.sglang", secrets["admin_key"], "admin")]
    if secrets.get("worker_key"):
        options["api_key"] = secrets["worker_key"]
    launch_router(RouterArgs(**options))


if __name__ == "__main__":
    main(sys.argv[1])
