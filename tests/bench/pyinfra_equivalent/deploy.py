"""The state of ``builtin_equivalent`` for pyinfra, as its documentation writes such things."""

import io
import os

from pyinfra import host
from pyinfra.facts.files import File
from pyinfra.operations import files, pip, server, systemd

BASE = "/opt/pyinfra-equivalent"
PYTHON = f"{BASE}/builds/one/bin/python"
SITE = f"{BASE}/builds/one/lib/python3.11/site-packages"
ROOT = {"user": "root", "group": "root"}
UNIT = f"""[Unit]
Description=SGLang, kept by pyinfra
After=network-online.target

[Service]
User=pyinfra-sglang
EnvironmentFile={BASE}/etc/server.env
EnvironmentFile={BASE}/etc/secret.env
ExecStart={PYTHON} -m sglang.launch_server --model-path=/srv/models/tiny-llama --port=31500
SuccessExitStatus=SIGKILL
Restart=always

[Install]
WantedBy=multi-user.target
"""
ENVIRONMENT = f"""HOME={BASE}/state
LANG=C.UTF-8
PATH={BASE}/builds/one/bin:/usr/sbin:/usr/bin:/sbin:/bin
PYTHONUNBUFFERED=1
"""
METHOD = """    def set_eagle3_layers_to_capture(self, layer_ids=None):
        self.language_model.set_eagle3_layers_to_capture(layer_ids)"""

server.user(
    name="Service user",
    user="pyinfra-sglang",
    system=True,
    ensure_home=False,
    home=BASE,
    shell="/usr/sbin/nologin",
)
for folder in ("", "/builds", "/cache", "/tools", "/agent", "/etc", "/state", "/logs"):
    files.directory(name=f"Folder {BASE}{folder}", path=BASE + folder, mode="755", **ROOT)
files.put(
    name="Agent",
    src=os.environ["AGENT_ARCHIVE"],
    dest=f"{BASE}/agent/agent.pyz",
    mode="644",
    **ROOT,
)
pip.venv(name="Environment", path=f"{BASE}/builds/one", python="python3")
if not host.get_fact(File, path=f"{SITE}/sglang/version.py"):
    # asked for by the operation alone, a version with a local part (+standin) would be installed anew in every run
    pip.packages(
        name="Packages",
        packages=["sglang==0.5.23+standin"],
        virtualenv=f"{BASE}/builds/one",
        extra_install_args="--no-index --find-links /srv/stand-in",
    )
files.block(
    name="Patch",
    path=f"{SITE}/sglang/srt/models/kimi_k25.py",
    content=METHOD,
    marker="    # {mark} methods for EAGLE-3",
    after=True,
    line=".*return self.language_model.get_input_embeddings.*",
)
files.link(name="Current build", path=f"{BASE}/current", target=f"{BASE}/builds/one")
files.put(
    name="Environment of the unit",
    src=io.StringIO(ENVIRONMENT),
    dest=f"{BASE}/etc/server.env",
    mode="644",
    **ROOT,
)
files.put(
    name="Secret environment of the unit",
    src=io.StringIO("# no secrets\n"),
    dest=f"{BASE}/etc/secret.env",
    mode="600",
    **ROOT,
)
unit = files.put(
    name="Unit",
    src=io.StringIO(UNIT),
    dest="/etc/systemd/system/pyinfra-sglang.service",
    mode="644",
    **ROOT,
)
systemd.service(
    name="Enabled and started",
    service="pyinfra-sglang.service",
    running=True,
    enabled=True,
    daemon_reload=unit.changed,
)
