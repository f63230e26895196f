"""A sandbox host for tests of units: a line to it that runs Python there, and a build of the stand-in server."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from ansible_collections.inferops.sglang.plugins.plugin_utils import agent_archive

ROOT = Path(__file__).resolve().parent.parent.parent
STAND_IN = Path(os.environ.get("INFEROPS_CACHE", "/var/cache/inferops")) / "stand-in"
SSH_CONFIG = "/var/lib/inferops-sandbox/ssh/config"
#: The host of these tests, so that two checkouts can test at once.
HOST = os.environ.get("INFEROPS_TEST_HOST", "unit1")

# Runs on the host: one JSON value a line in, one out; each names a function of the text given at the start.
_LINE = """
import json, sys, traceback
names = {}
exec(json.loads(sys.stdin.readline()), names)
for line in sys.stdin:
    function, arguments = json.loads(line)
    try:
        answer = {"value": names[function](*arguments)}
    except Exception:
        answer = {"error": traceback.format_exc()}
    print(json.dumps(answer), flush=True)
"""

_MAKE = """
import json, os, subprocess, sys, zipfile
told = json.loads(sys.argv[1])
root = f"/opt/sglang/builds/{told['build_id']}.{told['n']}"
if not os.path.exists(root + "/manifest.json"):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root], check=True)
    site = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    zipfile.ZipFile("/tmp/stand_in.whl").extractall(os.path.join(root, site))
    code = "import json, options_worker; print(json.dumps(options_worker.dump({})))"
    env = {"PYTHONPATH": "/tmp"}
    dump = subprocess.run([root + "/bin/python", "-c", code], env=env, check=True, capture_output=True, text=True)
    open(root + "/options.json", "w").write(dump.stdout)
    json.dump({
        "format": 1, "build_id": told["build_id"], "n": told["n"], "path": root, "packages": {}, "patches": [],
        "lock": {"name": "stand-in", "release": told["release"], "cuda": None, "sha256": ""}, "python": "3.11",
        "site_packages": site, "proof": {"checks": []}, "sealed_at": "2026-01-01T00:00:00Z",
    }, open(root + "/manifest.json", "w"))
"""


_OWN = """
set -e
test -x /root/tools/bin/uv || {{
  python3 -m venv /root/tools
  /root/tools/bin/pip -q install --no-index -f /srv/wheelhouse uv
}}
cat > /root/requirements-{release}.txt
rm -rf {env}
/root/tools/bin/uv -q venv {env}
/root/tools/bin/uv -q pip install --python {env}/bin/python --offline --no-index --find-links /srv/wheelhouse \\
  --no-deps -r /root/requirements-{release}.txt
"""


class Line:
    """Calls functions of a piece of Python on a host, over one SSH connection."""

    def __init__(self, host: str, source: str) -> None:
        argv = ["ssh", "-F", SSH_CONFIG, host, f"python3 -u -c {shlex.quote(_LINE)}"]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._send(source)

    def _send(self, value: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(value) + "\n")
        self._process.stdin.flush()

    def call(self, function: str, *arguments: Any) -> Any:
        self._send([function, arguments])
        assert self._process.stdout is not None
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer["error"]
        return answer["value"]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)


def up(name: str) -> str:
    """Create or repair a host and return its name."""
    sandbox("up", name)
    return name


def sandbox(*words: str) -> str:
    """Run a command of the sandbox; what it printed."""
    argv = [sys.executable, "-m", "tests.sandbox", *words]
    return subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def inventory(host: str) -> str:
    """The inventory of one host, as a path below the checkout."""
    path = ROOT / "tests" / "output" / f"{host}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(sandbox("inventory", host))
    return str(path.relative_to(ROOT))


def ssh(host: str, command: str, data: bytes | None = None) -> str:
    """Run a shell command on a host; fails the test with what it said."""
    done = subprocess.run(["ssh", "-F", SSH_CONFIG, host, command], input=data, capture_output=True, check=False)
    assert done.returncode == 0, f"{command}: {done.returncode}: {done.stderr.decode()} {done.stdout.decode()}"
    return done.stdout.decode()


def put_agent(host: str) -> str:
    """Put the host agent where units look for it; its version."""
    path, version = agent_archive.archive()
    ssh(host, f"mkdir -p /opt/sglang/agent && cat > /opt/sglang/agent/{version}.pyz", path.read_bytes())
    return version


def put_build(host: str, build_id: str, release: str, number: int = 1) -> dict[str, Any]:
    """Make a build of the stand-in server on a host, as sealed; what an instance carries of it."""
    wheel = (STAND_IN / f"sglang-{release}+standin-py3-none-any.whl").read_bytes()
    ssh(host, "cat > /tmp/stand_in.whl", wheel)
    worker = ROOT / "plugins" / "module_utils" / "server" / "options_worker.py"
    ssh(host, "cat > /tmp/options_worker.py", worker.read_bytes())
    told = json.dumps({"build_id": build_id, "n": number, "release": release})
    ssh(host, "python3 - " + shlex.quote(told), _MAKE.encode())
    return {"build_id": build_id, "release": release, "cuda": None, "environment": {}, "patches": []}


def own_environment(host: str, release: str, env: str) -> None:
    """An environment as people make them: a virtual environment in somebody's home, from a lock of the sandbox."""
    pins = (ROOT / f"locks/sglang-{release}-cpu/requirements.txt").read_bytes()
    ssh(host, _OWN.format(env=env, release=release), pins)


def clean(host: str) -> None:
    """Take every instance off a host, whatever state a test has left it in."""
    ssh(
        host,
        "for unit in $(systemctl list-units --all --plain --no-legend 'sglang-*.service' | cut -d' ' -f1); do"
        " systemctl kill -s KILL $unit || true; systemctl stop $unit || true; systemctl reset-failed $unit || true;"
        " done;"
        " rm -rf /etc/systemd/system/sglang-* /etc/systemd/system/multi-user.target.wants/sglang-*"
        " /etc/sglang /var/lib/sglang /var/log/sglang /run/sglang /etc/stand_in*.json;"
        " find /opt/sglang -mindepth 1 -maxdepth 1 ! -name builds ! -name agent -exec rm -rf {} + 2>/dev/null;"
        " mkdir -p /opt/sglang /etc/sglang; systemctl daemon-reload;"
        " id sglang >/dev/null 2>&1 || useradd --system --home-dir /var/lib/sglang --shell /usr/sbin/nologin sglang",
    )
