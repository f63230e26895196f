"""How soon each way of waiting knows: sglang_ready against ``uri``/``wait_for`` with ``until`` and a 15 s grep loop.

    python tests/bench/ready_waits.py INVENTORY HOST INSTANCE [--rounds 1] [--cases ready,main,scheduler]

All wait for the same start of one instance at the same time, each in a play of its own; a prober on the host asks for
one token every 20 ms and is what they are measured against. The other cases kill the main process, or a scheduler, in
the middle of the start. Prints JSON: seconds from the event until each one knew, on one clock (host and controller
must be one machine, or keep the same time). The instance must be deployed; it is restarted many times.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
#: The first token against the prober, the verdict against a death (idle machine), and the wait's own load.
READY_BOUND, DEATH_BOUND, LOAD_BOUND = 0.3, 1.0, 0.01

_PROBER = """
import http.client, json, sys, time
port, until = int(sys.argv[1]), time.time() + 600
body = json.dumps({"text": "The capital of France is", "sampling_params": {"max_new_tokens": 1, "temperature": 0}})
while time.time() < until:
    try:
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        link.request("POST", "/generate", body, {"Content-Type": "application/json"})
        answer = link.getresponse()
        answer.read()
        if answer.status == 200:
            print(time.time())
            break
    except OSError:
        pass
    time.sleep(0.02)
"""

_KILL = """
pid=$(systemctl show -p MainPID --value sglang-{instance});
while [ {who} = scheduler ] && [ -z "$found" ]; do sleep 0.1;
for c in $(cat /proc/$pid/task/*/children); do grep -q sglang::sched /proc/$c/comm && found=$c; done; done;
pid=${{found:-$pid}};
date +%s.%N; kill -KILL $pid
"""

# What people write. Each ends as soon as it knows, or after its own patience.
_WAITS = {
    "sglang_ready": """
    - inferops.sglang.sglang_ready: {instance: "{{ instance }}", timeout: 600}
      register: done
      failed_when: false
""",
    "uri_until": """
    - ansible.builtin.uri: {url: "http://127.0.0.1:{{ port }}/health", timeout: 5}
      register: done
      until: done.status | default(0) == 200
      retries: 60
      delay: 5
      failed_when: false
""",
    "wait_for": """
    - ansible.builtin.wait_for: {host: 127.0.0.1, port: "{{ port }}", timeout: 300}
      register: done
      failed_when: false
""",
    "grep_loop": """
    - ansible.builtin.shell: >-
        for i in $(seq 20); do
        grep -q 'fired up' "$(ls -t /var/log/sglang/{{ instance }}/*.log | head -1)" && exit 0;
        grep -q Traceback "$(ls -t /var/log/sglang/{{ instance }}/*.log | head -1)" && exit 1;
        sleep 15; done; exit 2
      register: done
      failed_when: false
""",
}
_PLAY = """
- hosts: "{{ host }}"
  gather_facts: false
  tasks:
    - ansible.builtin.file: {path: "{{ out }}.here", state: touch, mode: "0600"}
      delegate_to: localhost
      vars: {ansible_connection: local}
    - ansible.builtin.wait_for: {path: "{{ gate }}"}
      delegate_to: localhost
      vars: {ansible_connection: local}
%s
    - ansible.builtin.copy:
        dest: "{{ out }}"
        content: "{{ {'at': lookup('pipe', 'date +%%s.%%N') | float, 'done': done} | to_json }}"
        mode: "0600"
      delegate_to: localhost
      vars: {ansible_connection: local}
"""


class Bench:
    def __init__(self, inventory: str, host: str, instance: str) -> None:
        self.inventory, self.host, self.instance = inventory, host, instance
        self.folder = Path(tempfile.mkdtemp(prefix="ready-bench-"))
        record = self.sh(f"cat $(ls -t /var/log/sglang/{instance}/*.json | head -1)")
        self.port = int(json.loads(record)["port"])

    def sh(self, command: str) -> str:
        """What a shell command on the host prints, whatever its status."""
        argv = [str(ROOT / ".venv/bin/ansible"), "-i", self.inventory, self.host, "-m", "ansible.builtin.shell"]
        options = ["-e", json.dumps({"ansible_callback_result_format": "json"}), "-o", "-a", command]
        done = subprocess.run([*argv, *options], capture_output=True, text=True, check=False, cwd=ROOT)
        return re.split(r"\(stdout\) ", done.stdout, maxsplit=1)[-1].replace("\\n", "\n")

    def round(self, event: str) -> dict[str, Any]:
        """One start with all waits on it; seconds from the event until each knew."""
        gate = self.folder / "gate"
        gate.unlink(missing_ok=True)
        self.sh(f"systemctl stop sglang-{self.instance}")
        waits = {name: self.play(name, tasks, gate) for name, tasks in _WAITS.items()}
        prober = self.prober() if event == "ready" else None
        while not all((self.folder / f"{name}.json.here").exists() for name in waits):
            time.sleep(0.1)
        self.sh(f"systemctl start sglang-{self.instance}")
        gate.touch()
        load = os.getloadavg()[0]
        at = self.happen(event, prober)
        found = {}
        for name, process in waits.items():
            process.wait(timeout=700)
            told = json.loads((self.folder / f"{name}.json").read_text())
            found[name] = self.row(name, told, at)
        # figures from a busy machine are to be read with its load
        found["load"] = [load, os.getloadavg()[0]]
        return found

    def happen(self, event: str, prober: subprocess.Popen[str] | None) -> float:
        """Wait for the first token, or bring the death about; when that was."""
        if prober is not None:
            return float(prober.communicate(timeout=700)[0].split()[-1])
        time.sleep(4)
        printed = self.sh(_KILL.format(instance=self.instance, who=event))
        return float(re.findall(r"\d{10}\.\d+", printed)[-1])

    def prober(self) -> subprocess.Popen[str]:
        script = self.folder / "prober.py"
        script.write_text(_PROBER)
        argv = ["ssh", *self.ssh_options(), self.host, "python3", "-", str(self.port)]
        return subprocess.Popen(argv, stdin=script.open(), stdout=subprocess.PIPE, text=True)

    def ssh_options(self) -> list[str]:
        shown = [str(ROOT / ".venv/bin/ansible-inventory"), "-i", self.inventory, "--host", self.host]
        printed = json.loads(subprocess.run(shown, capture_output=True, text=True, check=True, cwd=ROOT).stdout)
        return str(printed.get("ansible_ssh_common_args", "")).split()

    def play(self, name: str, tasks: str, gate: Path) -> subprocess.Popen[bytes]:
        path = self.folder / f"{name}.yml"
        path.write_text(_PLAY % tasks)
        out = self.folder / f"{name}.json"
        for left in (out, Path(f"{out}.here")):
            left.unlink(missing_ok=True)
        more = {"host": self.host, "instance": self.instance, "port": self.port, "gate": str(gate), "out": str(out)}
        argv = [str(ROOT / ".venv/bin/ansible-playbook"), "-i", self.inventory, str(path), "-e", json.dumps(more)]
        log = (self.folder / f"{name}.log").open("wb")
        return subprocess.Popen(argv, stdout=log, stderr=log, cwd=ROOT)

    def row(self, name: str, told: dict[str, Any], at: float) -> dict[str, Any]:
        done = told["done"]
        row: dict[str, Any] = {"knew_after_s": round(told["at"] - at, 3), "right": True}
        if name == "sglang_ready":
            first = done.get("first_generation") or {}
            row["first_generation_after_s"] = round(first["at"] - at, 3) if first else None
            row["verdict_on_host_after_s"] = round(done["verdict_at"] - at, 3)
            row["state"] = done["state"]
            row["cpu_share"] = round(done["cpu_s"] / max(done["waited_s"], 0.001), 5)
            sampled = done.get("sampled_generation")
            row["sampled_s"] = sampled["seconds"] if sampled else None
        else:
            row["said"] = done.get("status", done.get("rc", done.get("state", done.get("msg"))))
        return row


def summary(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over the rounds, for each wait."""
    names = [name for name in rounds[0] if name != "load"]
    return {
        name: {
            key: statistics.median(row[name][key] for row in rounds)
            for key, value in rounds[0][name].items()
            if isinstance(value, float)
        }
        for name in names
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inventory")
    parser.add_argument("host")
    parser.add_argument("instance")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--cases", default="ready,main,scheduler")
    told = parser.parse_args()
    bench = Bench(told.inventory, told.host, told.instance)
    found: dict[str, Any] = {}
    for case in told.cases.split(","):
        rounds = [bench.round(case) for dummy in range(told.rounds)]
        found[case] = {"median": summary(rounds), "rounds": rounds}
        print(json.dumps({case: found[case]}, indent=1), flush=True)
    ours = {case: entry["median"]["sglang_ready"] for case, entry in found.items()}
    missed = []
    if "ready" in ours and ours["ready"]["first_generation_after_s"] > READY_BOUND:
        missed.append("first generation")
    missed += [
        case for case in ("main", "scheduler") if ours.get(case, {}).get("verdict_on_host_after_s", 0) > DEATH_BOUND
    ]
    missed += [case for case, row in ours.items() if row["cpu_share"] > LOAD_BOUND]
    print("missed: " + (", ".join(missed) or "nothing"), file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
