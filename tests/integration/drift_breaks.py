"""Every way in which the test of drift breaks a host, and what must be said of it. Shell, run as root on the host."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

HOST, GATEWAY = "dr1", "dr2"
UNIT = "/etc/systemd/system/sglang-tiny.service"
URL = f"http://{HOST}:30000"
#: The description's own words; ``$B`` is the build in force, ``$P`` its site-packages, ``$A`` the newest activation.
PRELUDE = """set -e
B=$(readlink /opt/sglang/tiny/current); P=$B/lib/python3.11/site-packages
A=/opt/sglang/tiny/activations/$(ls /opt/sglang/tiny/activations | sort -n | tail -1)
"""
WAIT = """
for i in $(seq 100); do curl -sf -m 2 http://127.0.0.1:30000/health >/dev/null && break; sleep 0.2; done
"""
#: A server that was started otherwise, under files that are right again.
OTHERWISE = "cp {file} /root/kept; {edit}; systemctl daemon-reload; systemctl restart sglang-tiny;" + WAIT
OTHERWISE += "cat /root/kept > {file}; systemctl daemon-reload"

_DIGEST = re.compile(r"sha256 [0-9a-f]{64}")
_HEX = re.compile(r"[0-9a-f]{64}")
_TEXT = re.compile(r".+", re.DOTALL)


@dataclass(frozen=True)
class Said:
    """One difference; ``what``, ``before`` and ``after`` are values, or patterns that the whole text matches."""

    resource: str
    what: Any
    before: Any
    after: Any
    host: str = HOST

    def matches(self, host: str, found: dict[str, Any]) -> bool:
        pairs = ((self.resource, found["resource"]), (self.what, found["what"]))
        values = ((self.before, found["before"]), (self.after, found["after"]))
        return host == self.host and all(_same(wanted, value) for wanted, value in (*pairs, *values))


def _same(wanted: Any, value: Any) -> bool:
    if isinstance(wanted, re.Pattern):
        return isinstance(value, str) and wanted.fullmatch(value) is not None
    return wanted is ANY or bool(wanted == value)


ANY = object()
BUILD, IN_FORCE, PROCESS, GATE = re.compile("build/.*"), "activation/tiny", "process/tiny", f"gateway/{GATEWAY}"


@dataclass(frozen=True)
class Break:
    """``how`` breaks; ``restarts`` says whether putting it right starts another process; ``noticed`` ones are never put
    right, but undone by ``undo``; ``apart`` are those that would hide others when all come together."""

    name: str
    how: str
    said: tuple[Said, ...]
    restarts: bool = False
    on: str = HOST
    noticed: bool = False
    undo: str = ""
    apart: bool = False


def _files(change: str) -> str:
    """Change the list of workers and the manifest of the gateway."""
    return f"""python3 - <<'END'
import json
def change(path, edit):
    value = json.load(open(path)); edit(value); json.dump(value, open(path, "w"))
{change}
END"""


_LIST, _MANIFEST = "/etc/sglang/gateway.workers.json", "/etc/sglang/gateway.manifest.json"
_NOT_NAMED = f'change("{_MANIFEST}", lambda v: v.update(workers=[]))'
_PERMISSIONS = re.compile(r"0644, user 0, group \d+")

BREAKS = (
    # first what needs a start of the server otherwise; a later one of these would undo an earlier one
    Break("process_argv", OTHERWISE.format(file=UNIT, edit=f"sed -i s/--host=0.0.0.0/--host=127.0.0.1/ {UNIT}"),
          (Said(PROCESS, "option --host", "127.0.0.1", "0.0.0.0"),), restarts=True, apart=True),
    Break("process_user",
          "id other >/dev/null 2>&1 || useradd --system --gid sglang other;"
          + OTHERWISE.format(file=UNIT, edit=f"sed -i s/^User=.*/User=other/ {UNIT}"),
          (Said(PROCESS, "user", "other", "sglang"),), restarts=True, apart=True),
    Break("process_variable",
          OTHERWISE.format(file="/etc/sglang/tiny.env", edit="sed -i /^XDG_CACHE_HOME=/d /etc/sglang/tiny.env"),
          (Said(PROCESS, "environment variable XDG_CACHE_HOME", None, "/var/lib/sglang/tiny/.cache"),), restarts=True),
    Break("process_older_than_its_files", "sleep 1; sed -i '1s/{/{\"edited\": true,/' /srv/model/config.json",
          (Said(PROCESS, "loaded file /srv/model/config.json", _HEX, _HEX),), restarts=True),
    Break("process_drop_in",
          f"sleep 1; mkdir -p {UNIT}.d; printf '[Service]\\nNice=1\\n' > {UNIT}.d/nice.conf; systemctl daemon-reload",
          (Said(PROCESS, f"drop-in {UNIT}.d/nice.conf", re.compile("started .*"), re.compile("changed .*")),),
          restarts=True, undo=f"rm -r {UNIT}.d; systemctl daemon-reload"),
    Break("process_drop_in_not_read",
          f"sleep 1; mkdir -p {UNIT}.d; printf '[Service]\\nNice=1\\n' > {UNIT}.d/nice.conf",
          (Said(PROCESS, f"drop-in {UNIT}.d/nice.conf", re.compile("started .*"), re.compile("changed .*")),
           Said(IN_FORCE, "loaded by systemd", False, True)),
          restarts=True, apart=True, undo=f"rm -r {UNIT}.d; systemctl daemon-reload"),
    Break("process_stopped", "systemctl stop sglang-tiny", (Said(PROCESS, "state", "stopped", "started"),),
          restarts=True, apart=True),
    Break("process_died",
          "kill -KILL $(systemctl show -P MainPID sglang-tiny); sleep 3; "
          "until [ $(systemctl show -P ActiveState sglang-tiny) = active ]; do sleep 0.2; done" + WAIT,
          (Said(PROCESS, "serves", "not seen since its start", True),), apart=True),
    # the build
    Break("package_changed",
          "mv $P/sglang-0.5.9+standin.dist-info $P/sglang-0.5.8.dist-info; "
          "sed -i 's/^Version:.*/Version: 0.5.8/' $P/sglang-0.5.8.dist-info/METADATA",
          (Said(BUILD, "package sglang", "0.5.8", "0.5.9+standin"),), restarts=True, apart=True),
    Break("package_missing", "rm -r $P/sglang-*.dist-info",
          (Said(BUILD, "package sglang", None, "0.5.9+standin"),), restarts=True, apart=True),
    Break("package_extra",
          "mkdir $P/attrs-1.0.dist-info; printf 'Name: attrs\\nVersion: 1.0\\n' > $P/attrs-1.0.dist-info/METADATA",
          (Said(BUILD, "package attrs", "1.0", None),), restarts=True),
    Break("file_edited", "echo '# by hand' >> $P/sglang/version.py",
          (Said(BUILD, "file sglang/version.py", _DIGEST, _DIGEST),), restarts=True),
    Break("file_missing", "rm $P/sglang/stand_in/words.py",
          (Said(BUILD, "file sglang/stand_in/words.py", None, _DIGEST),), restarts=True),
    Break("file_foreign", "echo 1 > $P/sglang/hotfix.py",
          (Said(BUILD, "file sglang/hotfix.py", "not part of the build", None),), restarts=True),
    Break("bytecode_alone", "echo 1 > $P/sglang/hotfix.pyc",
          (Said(BUILD, "file sglang/hotfix.pyc", "not part of the build", None),), restarts=True),
    Break("patch_undone", "echo '# by hand' >> $P/sglang/srt/models/kimi_k25.py",
          (Said(BUILD, "patched file (kimi_k25_eagle3_delegation) sglang/srt/models/kimi_k25.py", _DIGEST, _DIGEST),),
          restarts=True),
    # what is in force
    Break("unit_edited", f"sed -i s/^RestartSec=.*/RestartSec=77/ {UNIT}", (Said(IN_FORCE, UNIT, _TEXT, _TEXT),)),
    Break("unit_missing", f"rm {UNIT}", (Said(IN_FORCE, UNIT, None, _TEXT),), apart=True),
    Break("unit_not_loaded", f"sleep 1; touch {UNIT}", (Said(IN_FORCE, "loaded by systemd", False, True),), apart=True),
    Break("config_edited", "echo 'x: 1' >> /etc/sglang/tiny.secrets.yaml",
          (Said(IN_FORCE, "/etc/sglang/tiny.secrets.yaml", "(secret, as found)", "(secret, as described)"),)),
    Break("environment_edited", "echo 'X=\"1\"' >> /etc/sglang/tiny.env",
          (Said(IN_FORCE, "/etc/sglang/tiny.env", _TEXT, _TEXT),)),
    Break("secret_environment_missing", "rm /etc/sglang/tiny.secret.env",
          (Said(IN_FORCE, "/etc/sglang/tiny.secret.env", None, "(secret, as described)"),)),
    Break("disabled", "systemctl disable sglang-tiny", (Said(IN_FORCE, "enabled", False, True),)),
    Break("secret_opened", "chmod 644 /etc/sglang/tiny.secrets.yaml",
          (Said(IN_FORCE, "permissions of /etc/sglang/tiny.secrets.yaml", _PERMISSIONS, re.compile("0640, .*")),)),
    Break("kept_secret_opened", "chmod 644 $A/secrets.yaml",
          (Said(IN_FORCE, re.compile("permissions of /opt/.*/secrets.yaml"), _PERMISSIONS, _TEXT),)),
    Break("activation_link", "ln -sfn /opt/sglang/builds/other /opt/sglang/tiny/current",
          (Said(IN_FORCE, "current", "/opt/sglang/builds/other", re.compile("/opt/sglang/builds/stand-in.*")),)),
    Break("activation_outcome", "sed -i 's/\"outcome\": \"[a-z]*\"/\"outcome\": \"pending\"/' $A/activation.json",
          (Said(IN_FORCE, "outcome", "pending", "good"),), apart=True),
    # the host
    Break("agent_edited", "for file in /opt/sglang/agent/*.pyz; do echo x >> $file; done",
          (Said("agent", "archive", None, re.compile("[0-9a-f]+")),)),
    Break("agent_opened", "chmod 666 /opt/sglang/agent/*.pyz",
          (Said("agent", "archive", re.compile("[0-9a-f]+, root:0666"), re.compile("[0-9a-f]+")),), apart=True),
    Break("looks_stopped", "systemctl stop sglang-tiny-liveness.timer",
          (Said(IN_FORCE, "state of sglang-tiny-liveness.timer", "stopped", "started"),)),
    Break("folder_opened", "chmod 777 /opt/sglang/tools",
          (Said("host", "/opt/sglang/tools", "root:0777", "root:0755"),)),
    Break("toolkit_damaged", "echo '# by hand' >> /usr/local/cuda-13.0/bin/nvcc",
          (Said("toolkit/13.0", "files", ["bin/nvcc"], []),
           # what is not as it was proved is proved again
           Said("toolkit/13.0", "capabilities", [], ["9.0", "12.0"]))),
    # the gateway
    Break("worker_lost", _files(f'change("{_LIST}", lambda v: v.update(workers={{}}))\n{_NOT_NAMED}'),
          (Said(GATE, f"worker {URL}", "absent", "present"),), on=GATEWAY),
    Break("worker_drained",
          _files(f'change("{_LIST}", lambda v: v.update(workers={{"{URL}": "drained"}}))\n{_NOT_NAMED}'),
          (Said(GATE, f"worker {URL}", "drained", "present"),), on=GATEWAY, apart=True),
    Break("manifest_edited", _files(_NOT_NAMED),
          (Said(GATE, f"worker {URL}", "present in the list, missing in the manifest", "present"),),
          on=GATEWAY, apart=True),
    # said of the gateway's own host; the whole fleet's break looks at the servers' host alone
    Break("gateway_keys_opened", "chmod 644 /etc/sglang/gateway.secrets.json",
          (Said(GATE, "permissions of /etc/sglang/gateway.secrets.json", "root:sglang-gateway 0644",
                "root:sglang-gateway 0640", GATEWAY),), on=GATEWAY, apart=True),
    # what is reported and never put right
    Break("worker_foreign",
          _files(f'change("{_LIST}", lambda v: v["workers"].update({{"http://old:30000": "drained"}}))'),
          (Said(GATE, "worker http://old:30000", "drained", "absent", GATEWAY),), on=GATEWAY, noticed=True, apart=True,
          undo=_files(f'change("{_LIST}", lambda v: v["workers"].pop("http://old:30000"))')),
    Break("driver_libraries", "touch /usr/lib/x86_64-linux-gnu/libcuda.so.580.105.08;"
          " ln -sfn libcuda.so.580.105.08 /usr/lib/x86_64-linux-gnu/libcuda.so.1",
          (Said("gpus", "driver libraries", {"/usr/lib/x86_64-linux-gnu/libcuda.so.1": "580.105.08"},
                {"/usr/lib/x86_64-linux-gnu/libcuda.so.1": "580.95.05"}),),
          noticed=True, undo="ln -sfn libcuda.so.580.95.05 /usr/lib/x86_64-linux-gnu/libcuda.so.1"),
    Break("driver_moved",
          "sed -i s/580.95.05/580.105.08/ /proc/driver/nvidia/version;"
          " touch /usr/lib/x86_64-linux-gnu/libcuda.so.580.105.08;"
          " ln -sfn libcuda.so.580.105.08 /usr/lib/x86_64-linux-gnu/libcuda.so.1",
          (Said("gpus", "driver", "580.105.08", "580.95.05"),), noticed=True, apart=True,
          undo="sed -i s/580.105.08/580.95.05/ /proc/driver/nvidia/version;"
          " ln -sfn libcuda.so.580.95.05 /usr/lib/x86_64-linux-gnu/libcuda.so.1"),
    Break("stray",
          "touch /dev/nvidia0; setsid python3 -c 'import time; held = open(\"/dev/nvidia0\"); time.sleep(3600)'"
          " </dev/null >/dev/null 2>&1 & echo $! > /run/stray; sleep 1",
          (Said("gpus", re.compile(r"stray process \d+"), ANY, None),),
          noticed=True, undo="pid=$(fuser /dev/nvidia0 2>/dev/null || cat /run/stray); kill $pid; rm /dev/nvidia0"),
)  # fmt: skip
