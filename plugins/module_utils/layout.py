# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Where everything lies on a managed host (docs/architecture.md, "On a managed host")."""

from __future__ import annotations

import os

ROOT = "/opt/sglang"
BUILDS = "/opt/sglang/builds"
CACHE = "/opt/sglang/cache"
TOOLS = "/opt/sglang/tools"
TOOLKITS = "/opt/sglang/toolkits"
AGENT = "/opt/sglang/agent"
ETC = "/etc/sglang"
UNITS = "/etc/systemd/system"
STATE = "/var/lib/sglang"
LOGS = "/var/log/sglang"
RUN = "/run/sglang"
SERVICE_USER = "sglang"


class Instance:
    """The paths that belong to one SGLang server."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.unit = f"sglang-{name}.service"
        self.unit_file = os.path.join(UNITS, self.unit)
        self.liveness_file = os.path.join(UNITS, f"sglang-{name}-liveness.service")
        self.timer = f"sglang-{name}-liveness.timer"
        self.timer_file = os.path.join(UNITS, self.timer)
        self.env_file = os.path.join(ETC, f"{name}.env")
        self.secret_env_file = os.path.join(ETC, f"{name}.secret.env")
        self.secrets_file = os.path.join(ETC, f"{name}.secrets.yaml")
        self.root = os.path.join(ROOT, name)
        self.activations = os.path.join(self.root, "activations")
        self.current = os.path.join(self.root, "current")
        self.ready = os.path.join(self.root, "ready.json")
        self.lease = os.path.join(self.root, "lease.json")
        self.state = os.path.join(STATE, name)
        self.logs = os.path.join(LOGS, name)
        self.run = os.path.join(RUN, name)
