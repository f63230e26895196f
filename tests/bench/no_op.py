"""What a run costs that finds nothing to do: deploy.yml and drift.yml beside ping, builtin modules and pyinfra.

    python tests/bench/no_op.py [--sizes 2,8,32] [--rounds 3] [--pyinfra VENV/bin/pyinfra] [--keep] [--settled]
                                 [--without builtin]

Makes light sandbox hosts (nb1 …) with the stand-in server, brings all of them into the state of each case once, then
runs the cases in turn in every round (the builtin playbook in the first alone: it takes minutes on 32 hosts); the least
wall time of all rounds counts. The hosts share this machine with the controller, so only ratios within one run say
anything. CPU seconds of a host are those of its control group, less what it uses while nothing is asked of it. Memory
is measured in a run of its own: the sum of the proportional set sizes of the controller's processes. Prints JSON; exit
status 1: out of bounds.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "collections"), str(ROOT / "tests"), str(ROOT / "tests" / "integration")]

from ansible_collections.inferops.sglang.plugins.plugin_utils import agent_archive
from fleet import SSH_CONFIG, STAND_IN, fill_caches, sandbox

BIN = ROOT / ".venv" / "bin"
HERE = Path(__file__).resolve().parent
#: Against ping; of the builtin playbook against ours; of a host's CPU, in seconds.
PING_BOUND, BUILTIN_BOUND, CPU_BOUND = 1.3, 6.0, 0.3
OURS = ("deploy", "drift")


class Fleet:
    """``size`` hosts, their inventories for Ansible and pyinfra, and the commands of all cases."""

    def __init__(self, size: int, folder: Path, pyinfra: str | None) -> None:
        self.hosts = [f"nb{number}" for number in range(1, size + 1)]
        self.folder = folder
        self.inventory = folder / f"inventory{size}.json"
        self.inventory.write_text(json.dumps(self._described(), indent=1))
        agent = str(agent_archive.archive()[0])
        playbook = [str(BIN / "ansible-playbook"), "-i", str(self.inventory)]
        self.cases = {
            "ping": [str(BIN / "ansible"), "-i", str(self.inventory), "sglang", "-m", "ansible.builtin.ping"],
            "deploy": [*playbook, "playbooks/deploy.yml"],
            "drift": [*playbook, "playbooks/drift.yml", "-e", f"reports={folder}/reports"],
            "builtin": [*playbook, str(HERE / "builtin_equivalent" / "site.yml"), "-e", f"agent_archive={agent}"],
        }
        # warm means warm for all: the modules of this Python keep their bytecode
        self.environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self.environment.update(ANSIBLE_CONFIG=str(ROOT / "ansible.cfg"), AGENT_ARCHIVE=agent)
        if pyinfra:
            hosts = folder / f"hosts{size}.py"
            data = {"ssh_config_file": SSH_CONFIG, "ssh_user": "root"}
            data["ssh_known_hosts_file"] = str(Path(SSH_CONFIG).with_name("known_hosts"))
            hosts.write_text(f"fleet = {[(name, data) for name in self.hosts]!r}\n")
            self.cases["pyinfra"] = [pyinfra, "-y", str(hosts), str(HERE / "pyinfra_equivalent" / "deploy.py")]

    def _described(self) -> dict[str, Any]:
        instance = {
            "model_path": "/srv/models/tiny-llama",
            "gpus": "none",
            "lock": str(ROOT / "tests" / "stand_in" / "locks" / "stand-in-0.5.23"),
            "patches": ["kimi_k25_eagle3_delegation", "sm120_symm_mem", "sm120_multimem"],
            "args": {"enable_metrics": True},
            "acknowledge": ["unit_limits"],
        }
        variables = {
            "ansible_user": "root",
            "ansible_ssh_common_args": f"-F {SSH_CONFIG}",
            "ansible_python_interpreter": "/usr/bin/python3",
            "sglang_find_links": ["/srv/stand-in"],
            "sglang_instances": {"tiny": instance},
        }
        return {"all": {"children": {"sglang": {"hosts": {host: {} for host in self.hosts}, "vars": variables}}}}

    def up(self) -> None:
        fill_caches()
        sandbox("up", *self.hosts, "--mount", f"{STAND_IN}:/srv/stand-in")

    def settle(self) -> None:
        """Bring the hosts into the state of every case; this warms caches and connections, too."""
        for case in self.cases:
            self.run(case)
            if not self.unchanged(case):
                self.run(case)

    def start(self, case: str) -> subprocess.Popen[str]:
        argv = self.cases[case]
        log = (self.folder / f"{case}.log").open("w")
        return subprocess.Popen(argv, cwd=ROOT, env=self.environment, stdout=log, stderr=log, text=True)

    def run(self, case: str) -> None:
        if self.start(case).wait():
            raise SystemExit(f"{case} failed: {(self.folder / f'{case}.log').read_text()[-3000:]}")

    def unchanged(self, case: str) -> bool:
        """Whether the last run of a case says that it changed nothing."""
        text = (self.folder / f"{case}.log").read_text()
        if case == "ping":
            return text.count('"ping": "pong"') + text.count("ping: pong") == len(self.hosts)
        if case == "pyinfra":
            return "Grand total" in text and text.rstrip().splitlines()[-3].split()[3] == "-"
        return all(f"{host} " in text for host in self.hosts) and text.count("changed=0") >= len(self.hosts)

    def cpu(self) -> float:
        """CPU seconds that all hosts have used so far."""
        return sum(_group_cpu(host) for host in self.hosts)

    def idle(self, seconds: float = 6.0) -> float:
        """CPU seconds that all hosts use in a second while nothing is asked of them."""
        before = self.cpu()
        time.sleep(seconds)
        return (self.cpu() - before) / seconds

    def measure(self, case: str) -> dict[str, float]:
        own, hosts, begin = resource.getrusage(resource.RUSAGE_CHILDREN), self.cpu(), time.perf_counter()
        self.run(case)
        wall = time.perf_counter() - begin
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - own.ru_utime - own.ru_stime
        return {"wall_s": wall, "controller_cpu_s": used, "hosts_cpu_s": self.cpu() - hosts}

    def memory(self, case: str) -> float:
        """The most memory that the controller's processes had together, in MiB."""
        most = 0.0
        child = self.start(case)
        while child.poll() is None:
            most = max(most, _memory(child.pid))
            time.sleep(0.1)
        return most


def _group_cpu(host: str) -> float:
    """CPU seconds of a host's control group (version 1 or 2)."""
    name = f"inferops-sandbox-{host}"
    for base, file in (("/sys/fs/cgroup/cpuacct", "cpuacct.usage"), ("/sys/fs/cgroup", "cpu.stat")):
        path = Path(base, name, file)
        if path.exists():
            text = path.read_text()
            return int(text.split()[1]) / 1e6 if file == "cpu.stat" else int(text) / 1e9
    raise SystemExit(f"there is no control group {name} that counts CPU time; its host does not run, or is a unit")


def _memory(pid: int) -> float:
    total, pending = 0, [pid]
    while pending:
        one = pending.pop()
        try:
            children = Path(f"/proc/{one}/task/{one}/children").read_text().split()
            rollup = Path(f"/proc/{one}/smaps_rollup").read_text()
        except OSError:
            continue  # it has ended
        pending += map(int, children)
        total += next((int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")), 0)
    return total / 1024


def bench(size: int, folder: Path, told: argparse.Namespace) -> dict[str, Any]:
    """The figures of one size: for each case the least of the rounds."""
    fleet = Fleet(size, folder, told.pyinfra)
    for case in filter(None, told.without.split(",")):
        del fleet.cases[case]
    fleet.up()
    if told.settled:
        fleet.run("ping")  # opens the connections
    else:
        fleet.settle()
    idle = fleet.idle()
    rows: dict[str, list[dict[str, float]]] = {case: [] for case in fleet.cases}
    for number in range(told.rounds):
        for case in fleet.cases:
            if case == "builtin" and number:
                continue  # minutes on many hosts, and far away from any bound
            rows[case].append(fleet.measure(case))
            if not fleet.unchanged(case):
                raise SystemExit(f"{case} found something to do: {(fleet.folder / f'{case}.log').read_text()[-2000:]}")
    best = {case: {key: min(row[key] for row in found) for key in found[0]} for case, found in rows.items()}
    for case, found in best.items():
        asked = min(row["hosts_cpu_s"] - idle * row["wall_s"] for row in rows[case])
        found["cpu_s_a_host"] = asked / size
        del found["hosts_cpu_s"]
        found["controller_mib"] = fleet.memory(case)
        found["to_ping"] = found["wall_s"] / best["ping"]["wall_s"]
    return {case: {key: round(value, 3) for key, value in found.items()} for case, found in best.items()}


def verdict(sizes: dict[int, dict[str, Any]]) -> list[str]:
    """Every target that is missed, in words."""
    missed = []
    for size, best in sizes.items():
        for case in OURS:
            wall, cpu = best[case]["wall_s"], best[case]["cpu_s_a_host"]
            if best[case]["to_ping"] > PING_BOUND:
                missed.append(f"{case} on {size} hosts takes {best[case]['to_ping']:.2f} of ping")
            if "builtin" in best and best["builtin"]["wall_s"] < BUILTIN_BOUND * wall:
                missed.append(f"{case} on {size} hosts: builtin takes {best['builtin']['wall_s'] / wall:.1f} of it")
            if "pyinfra" in best and best["pyinfra"]["wall_s"] <= wall:
                missed.append(f"{case} on {size} hosts: pyinfra takes {best['pyinfra']['wall_s'] / wall:.2f} of it")
            if cpu >= CPU_BOUND:
                missed.append(f"{case} on {size} hosts: {cpu:.2f} CPU s a host")
    for case, factor in growth(sizes).items():
        if factor > 1.0 and case in OURS:
            missed.append(f"{case} grows {factor:.2f} times as steeply as ping")
    return missed


def growth(sizes: dict[int, dict[str, Any]]) -> dict[str, float]:
    """How wall time grows from the second to the largest size, relative to ping."""
    if len(sizes) < 2:
        return {}
    small, large = sorted(sizes)[-2:]
    slope = {case: sizes[large][case]["wall_s"] - sizes[small][case]["wall_s"] for case in sizes[large]}
    return {case: round(value / slope["ping"], 2) for case, value in slope.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", default="2,8,32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pyinfra", help="the program of pyinfra, in an environment of its own")
    parser.add_argument("--keep", action="store_true", help="leave the hosts running")
    parser.add_argument("--settled", action="store_true", help="the hosts are in the state of every case")
    parser.add_argument("--without", default="", help="cases to leave out")
    told = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="no-op-bench-"))
    sizes: dict[int, dict[str, Any]] = {}
    try:
        for size in map(int, told.sizes.split(",")):
            sizes[size] = bench(size, folder, told)
            print(f"{size} hosts: {json.dumps(sizes[size])}", file=sys.stderr)
    finally:
        if not told.keep:
            sandbox("down", *(f"nb{number}" for number in range(1, max(map(int, told.sizes.split(","))) + 1)))
    missed = verdict(sizes)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
    report = {
        "commit": commit.strip(),
        "sizes": sizes,
        "growth_to_ping": growth(sizes),
        "load_average": os.getloadavg()[0],
        "missed": missed,
    }
    print(json.dumps(report, indent=2))
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
