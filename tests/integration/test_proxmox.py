"""A container that is reached through its Proxmox hypervisor: the shipped inventory's way; a double plays `pct`.

Two sandbox hosts: `pve1` is the hypervisor, `ct1` the container; the server is the stand-in. Four minutes.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.inferops.sglang.plugins.plugin_utils import agent_archive
from fleet import CACHE, CALM, ROOT, STAND_IN, fill_caches, sandbox

pytestmark = pytest.mark.sandbox
SSH = Path("/var/lib/inferops-sandbox/ssh")
SHIPPED = ROOT / "inventories" / "rtx-pro-6000-8x-proxmox" / "hosts.yml"
PCT = Path(__file__).parent / "proxmox" / "pct"
COLLECTIONS = CACHE / "collections"
INSTANCE = {
    "model_path": "/srv/models/tiny-llama",
    "gpus": "none",
    "lock": f"{ROOT}/tests/stand_in/locks/stand-in-0.5.9",
    "patches": ["kimi_k25_eagle3_delegation"],
    "api_key": "it's-a-$key",
    "acknowledge": ["unit_limits"],
}


def on(host: str, command: str, data: str | None = None) -> str:
    argv = ["ssh", "-F", str(SSH / "config"), host, command]
    return subprocess.run(argv, input=data, check=True, capture_output=True, text=True).stdout


def fetch_collection() -> None:
    """community.proxmox, out of the Ansible community package: that one is on the package index."""
    folder = "ansible_collections/community/proxmox/"
    if (COLLECTIONS / folder / "MANIFEST.json").exists():
        return
    wheels = COLLECTIONS / "wheels"
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "ansible>=12"]
    subprocess.run([*argv, "--dest", str(wheels)], check=True)
    with zipfile.ZipFile(next(wheels.glob("ansible-*.whl"))) as archive:
        names = [name for name in archive.namelist() if name.startswith(folder)]
        archive.extractall(COLLECTIONS, sorted(names, key=lambda name: name.endswith("MANIFEST.json")))
    shutil.rmtree(wheels)


@pytest.fixture(scope="module")
def hypervisor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The hypervisor's address. Its user `deployer` may run pct by sudo and nothing else."""
    fill_caches()
    fetch_collection()
    sandbox("up", "ct1", "--mount", f"{STAND_IN}:/srv/stand-in")
    address = sandbox("up", "pve1").split()[1]
    home = tmp_path_factory.mktemp("home")
    (home / ".ssh").mkdir()
    shutil.copy(SSH / "known_hosts", home / ".ssh")
    for name in ("id_ed25519", "known_hosts"):
        on("pve1", f"umask 077 && cat > /root/.ssh/{name}", (SSH / name).read_text())
    on("pve1", "cat > /usr/sbin/pct && chmod 755 /usr/sbin/pct", PCT.read_text())
    on("pve1", "mkdir -p /etc/pve/lxc && cat > /etc/pve/lxc/101.conf", "arch: amd64\nhostname: ct1\n")
    on("pve1", "id deployer 2>/dev/null || useradd --create-home --shell /bin/sh deployer")
    on("pve1", "install -d -o deployer -m 700 ~deployer/.ssh")
    on("pve1", "install -o deployer -m 600 -t ~deployer/.ssh /root/.ssh/authorized_keys")
    on("pve1", "echo 'deployer ALL = (root) NOPASSWD: /usr/sbin/pct' > /etc/sudoers.d/pct")
    on("ct1", "cat > /etc/stand_in.json", json.dumps(CALM))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("ANSIBLE_COLLECTIONS_PATH", f"{ROOT}/collections:{COLLECTIONS}")
        yield address
    for name in ("ct1", "pve1"):
        sandbox("down", name)


def inventory(folder: Path, address: str, **variables: Any) -> str:
    """The shipped inventory with another address, another server, and where packages come from."""
    described = yaml.safe_load(SHIPPED.read_text())
    (host,) = described["all"]["children"]["sglang"]["hosts"].values()
    host.update(ansible_host=address, ansible_private_key_file=str(SSH / "id_ed25519"), **variables)
    described["all"]["vars"] = {
        "sglang_instances": {"tiny": INSTANCE},
        "sglang_find_links": ["/srv/stand-in"],
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    path = folder / "hosts.json"
    path.write_text(json.dumps(described))
    return str(path)


def generate() -> Any:
    body = json.dumps({"text": "ha", "sampling_params": {"max_new_tokens": 8}})
    key = shlex.quote(f"Authorization: Bearer {INSTANCE['api_key']}")
    words = f"curl -sS -H 'Content-Type: application/json' -H {key} -d {shlex.quote(body)} 127.0.0.1:30000/generate"
    return json.loads(on("ct1", words))["meta_info"]["completion_tokens"]


def test_the_whole_deploy_goes_through_the_hypervisor(hypervisor: str, play: Any, tmp_path: Path) -> None:
    described = inventory(tmp_path, hypervisor)
    run = play("deploy.yml", inventory=described)
    assert run.status == "successful", run.stdout[-3000:]
    assert generate() == 8
    agent, version = agent_archive.archive()
    copied = on("ct1", f"sha256sum /opt/sglang/agent/{version}.pyz").split()[0]
    assert copied == hashlib.sha256(agent.read_bytes()).hexdigest()
    assert on("pve1", "ls -A /opt /etc/sglang 2>/dev/null || true") == "/opt:\n", "something went to the hypervisor"
    again = play("deploy.yml", inventory=described)
    assert again.count("changed", "gpu01") == 0, again.stdout[-3000:]


def test_sudo_on_the_hypervisor_and_in_the_container(hypervisor: str, play: Any, tmp_path: Path) -> None:
    """A user that may run pct alone, and `become` inside the container."""
    described = inventory(tmp_path, hypervisor, ansible_user="deployer", ansible_become=True)
    on("ct1", "sed -i s/--port/--prot/ /etc/systemd/system/sglang-tiny.service")
    run = play("deploy.yml", inventory=described)
    assert run.status == "successful", run.stdout[-3000:]
    assert run.count("changed", "gpu01") > 0
    assert generate() == 8
    again = play("deploy.yml", inventory=described)
    assert again.count("changed", "gpu01") == 0, again.stdout[-3000:]
    assert on("ct1", "ls -A / /root | grep deployer || true") == "", "a home that is not there was taken for a folder"


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "container '101' not running!"),
        ({"proxmox_vmid": 999}, "lxc/999.conf' does not exist"),
    ],
    ids=["stopped", "another number"],
)
def test_a_container_that_cannot_be_entered_is_named(
    hypervisor: str, play: Any, tmp_path: Path, variables: dict[str, Any], said: str
) -> None:
    sandbox("stop", "ct1")
    run = play("deploy.yml", inventory=inventory(tmp_path, hypervisor, **variables))
    assert run.status == "failed"
    assert run.count("dark", "gpu01") == 1
    reason = run.unreachable("gpu01")
    assert reason.startswith("Task failed: the host cannot be entered") and said in reason
