"""Where the sandbox keeps its things, and the few numbers that it is built on."""

from __future__ import annotations

import os
from pathlib import Path

#: Costly to make, safe to lose: base images, wheels, models.
CACHE = Path(os.environ.get("INFEROPS_CACHE") or "/var/cache/inferops").resolve() / "sandbox"
#: The hosts, their disks and the keys that reach them.
STATE = Path("/var/lib/inferops-sandbox")

HOSTS = STATE / "hosts"
SSH = STATE / "ssh"
#: Mounted read-only in every host at ``/srv/sandbox``; holds the hosts file that they share.
SHARED = STATE / "shared"
LOCKS = STATE / "locks"

IMAGES = CACHE / "images"
PACKAGES = CACHE / "debs"
WHEELHOUSE = CACHE / "wheelhouse"
MODELS = CACHE / "models"
TOOLS = CACHE / "tools"

#: Folders of the controller that every host sees, read-only: path on the controller -> path on the host.
MOUNTS = {SHARED: "/srv/sandbox", WHEELHOUSE: "/srv/wheelhouse", MODELS: "/srv/models"}

BRIDGE = "inferops0"
#: Tried in this order; the first that overlaps with no route of this machine is kept for good.
NETWORKS = ("10.213.66.0/24", "10.167.89.0/24", "172.29.213.0/24", "192.168.213.0/24")
#: The first address that a host gets; those below are left to people.
FIRST_HOST = 10

#: A host name is a part of interface names, cgroups and unit names.
NAME_PATTERN = r"[a-z][a-z0-9-]{0,40}"

#: The release of the hosts: its Python (3.11) is the one that the CPU locks are made for.
SUITE = "bookworm"
PYTHON = "3.11"
