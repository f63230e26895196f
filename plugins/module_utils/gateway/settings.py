# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Where a gateway keeps what, and how it is reached from its own host."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from .. import layout
from ..errors import InferopsError
from ..files import read_json

CONFIG = os.path.join(layout.ETC, "gateway.json")


@dataclass(frozen=True)
class Settings:
    """``workers`` is the list that this collection keeps; ``manifest`` is derived from it and read by the gateway.

    ``admin_key`` opens the gateway's control plane; ``worker_key`` is what workers demand.
    """

    host: str
    port: int
    workers: str
    manifest: str
    admin_key: str | None = None
    worker_key: str | None = None

    @property
    def url(self) -> str:
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host)
        return f"http://{host}:{self.port}"


def load(path: str = CONFIG) -> Settings:
    """The settings of the gateway on this host.

    :raises InferopsError: when there is no gateway here.
    """
    config = read_json(path, "options", "workers", "secrets")
    if config is None:
        raise InferopsError(
            f"there is no gateway on this host: {path} does not exist; run the role inferops.sglang.sglang_gateway "
            "here, or delegate this task to the gateway's host"
        )
    secrets: dict[str, Any] = read_json(config["secrets"]) or {}
    return Settings(
        host=config["options"]["host"],
        port=config["options"]["port"],
        workers=config["workers"],
        manifest=config["options"]["discovery_file"],
        admin_key=secrets.get("admin_key"),
        worker_key=secrets.get("worker_key"),
    )
