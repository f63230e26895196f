# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Signs of life of a server's processes, as the kernel counts them.

Processor time is none: an idle scheduler, and a hung one, spin at 100 %. What counts is what moves in a phase: bytes
read and memory filled while weights load, compilers while kernels are built.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field

from .. import procfs
from ..running import Runner
from .unit import signal_name

COMPILERS = frozenset(
    {"nvcc", "cicc", "ptxas", "ninja", "cc1plus", "cc1", "c++", "g++", "gcc", "clang", "clang++", "ld", "as"}
    | {"cudafe++", "fatbinary", "nvlink", "tilelang", "triton-opt"}
)
# What SGLang calls its processes (the kernel keeps 15 letters of a name).
WORKER = "sglang::"
# Starts the workers itself, with data parallelism.
_CONTROLLER = "sglang::data_pa"
_CGROUPS = "/sys/fs/cgroup"
# Less than this in one look is the noise of an idle process (its event loops read a few bytes all the time).
_READ_NOISE = 1 << 20
_MEMORY_NOISE = 4 << 20
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Sample:
    """One look: bytes read and resident of all processes, memory in use on the GPUs, pids of compilers."""

    read: int
    resident: int
    gpu: int | None
    compilers: frozenset[int]

    def moved_since(self, earlier: Sample) -> bool:
        """Whether there is progress between the two."""
        if self.read - earlier.read > _READ_NOISE or self.resident - earlier.resident > _MEMORY_NOISE:
            return True
        if self.gpu is not None and earlier.gpu is not None and self.gpu - earlier.gpu > _MEMORY_NOISE:
            return True
        return bool(self.compilers)


@dataclass
class Processes:
    """The processes of a unit. ``main`` is the server; members come from its control group (cheap), or its tree."""

    main: int
    control_group: str = ""
    _folder: str | None = field(default=None, init=False)

    def members(self) -> set[int]:
        """Pids of all living processes of the unit."""
        folder = self._folder or self._find()
        if folder is None:
            return self._tree()
        try:
            with open(os.path.join(folder, "cgroup.procs"), encoding="ascii") as stream:
                return {int(line) for line in stream}
        except OSError:
            return set()

    def _tree(self) -> set[int]:
        found, queue = {self.main}, [self.main]
        while queue:
            below = {child.pid for child in procfs.children(queue.pop())} - found
            found |= below
            queue += below
        return found

    def _find(self) -> str | None:
        if not self.control_group:
            return None
        for root in (_CGROUPS, os.path.join(_CGROUPS, "unified"), os.path.join(_CGROUPS, "systemd")):
            folder = root + self.control_group
            if os.path.exists(os.path.join(folder, "cgroup.procs")):
                self._folder = folder
                return folder
        return None

    def workers(self) -> list[procfs.Process]:
        """The workers, ended or not, by where they hang in the tree.

        The name alone does not tell: whatever a worker starts (a compiler, ``ldconfig``) bears its name until it is
        another program.
        """
        found = [child for child in procfs.children(self.main) if child.name.startswith(WORKER)]
        for controller in [worker for worker in found if worker.name.startswith(_CONTROLLER)]:
            found += [child for child in procfs.children(controller.pid) if child.name.startswith(WORKER)]
        return found

    def dead_children(self) -> list[procfs.Process]:
        """Workers that ended and were not waited for."""
        return [worker for worker in self.workers() if worker.state == "Z"]

    def has_workers(self) -> bool:
        """Whether a worker lives."""
        return any(name_of(pid).startswith(WORKER) for pid in self.members())

    def stopped(self, members: Iterable[int]) -> list[str]:
        """Workers, and the main process, that a signal or a debugger holds."""
        found = (procfs.read(pid) for pid in sorted(members))
        return [
            f"{process.name} (pid {process.pid})"
            for process in found
            if process is not None and process.state in "Tt" and self._ours(process)
        ]

    def _ours(self, process: procfs.Process) -> bool:
        return process.pid == self.main or process.name.startswith(WORKER)

    def sample(self, members: Iterable[int], gpu: Gpu | None = None) -> Sample:
        """One look at the signs of life of these processes."""
        members = list(members)
        names = {pid: name_of(pid) for pid in members}
        return Sample(
            sum(_read_bytes(pid) for pid in members),
            sum(_resident(pid) for pid in members),
            gpu.used() if gpu is not None else None,
            frozenset(pid for pid, name in names.items() if name in COMPILERS),
        )

    def oom_kills(self) -> int | None:
        """How many processes of the unit the kernel has ended for memory, or ``None`` where it does not say."""
        if not self.control_group:
            return None
        for root, name in ((_CGROUPS, "memory.events"), (os.path.join(_CGROUPS, "memory"), "memory.oom_control")):
            count = _counter(root + self.control_group + "/" + name, "oom_kill")
            if count is not None:
                return count
        return None

    def own(self, port: int) -> bool:
        """Whether one of these processes listens on the port."""
        inodes = {f"socket:[{inode}]" for dummy, inode in procfs.listeners(port)}
        return bool(inodes) and any(_holds(pid, inodes) for pid in self.members())


def host_oom_kills() -> int | None:
    """How many processes the kernel has ended for memory since boot, on the whole machine."""
    return _counter("/proc/vmstat", "oom_kill")


def strangers(port: int, members: Iterable[int]) -> list[tuple[int, str]]:
    """Other processes that listen on the port: pid and name."""
    ours = set(members)
    found = []
    for pid in procfs.port_owners(port):
        process = procfs.read(pid)
        if pid not in ours and process is not None:
            found.append((pid, process.name))
    return found


class Gpu:
    """Memory in use on all GPUs, through the driver's management library, where there is one."""

    def __init__(self) -> None:
        self._library: ctypes.CDLL | None = None
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return
        if library.nvmlInit_v2() == 0:
            self._library = library

    def used(self) -> int | None:
        """Bytes, or ``None`` where it cannot be known."""
        if self._library is None:
            return None
        count = ctypes.c_uint()
        if self._library.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
            return None
        total = 0
        for index in range(count.value):
            handle, memory = ctypes.c_void_p(), (ctypes.c_ulonglong * 3)()
            if self._library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) != 0:
                continue
            if self._library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) == 0:
                total += memory[2]
        return total

    def close(self) -> None:
        if self._library is not None:
            self._library.nvmlShutdown()
            self._library = None


def exit_of(pid: int) -> str:
    """How a defunct process ended (``signal=KILL``, ``exit=1``), or nothing where the kernel does not say."""
    try:
        with open(f"{procfs.PROC}/{pid}/stat", "rb") as stream:
            code = int(stream.read().rpartition(b")")[2].split()[49])
    except (OSError, IndexError, ValueError):
        return ""
    return f"signal={signal_name(code & 0x7F)}" if code & 0x7F else f"exit={code >> 8}"


def stacks(runner: Runner, members: Iterable[int], main: int) -> list[str]:
    """Where the workers are: state and kernel wait of each, and their Python stacks where py-spy is at hand."""
    lines: list[str] = []
    spy = _py_spy(main)
    for pid in sorted(members):
        process = procfs.read(pid)
        if process is None or not (process.name.startswith(WORKER) or pid == main):
            continue
        waits = _text(pid, "wchan") or "running"
        state = {"T": "stopped (SIGSTOP)", "R": "running", "D": "in the kernel"}.get(process.state, process.state)
        lines.append(f"{process.name} (pid {pid}): {state}, {waits}, {process.cpu_ticks} ticks of processor time")
        if spy and process.state != "T":
            done = runner([spy, "dump", "--pid", str(pid)])
            lines += done.stdout.splitlines()[:60] if done.rc == 0 else done.stderr.splitlines()[-1:]
    if not spy:
        lines.append("py-spy is not installed in the build: no Python stacks")
    return lines


def _py_spy(main: int) -> str | None:
    argv = procfs.cmdline(main)
    beside = os.path.join(os.path.dirname(argv[0]), "py-spy") if argv and "/" in argv[0] else ""
    return beside if beside and os.access(beside, os.X_OK) else shutil.which("py-spy")


def _holds(pid: int, wanted: set[str]) -> bool:
    folder = f"{procfs.PROC}/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    for name in names:
        try:
            if os.readlink(f"{folder}/{name}") in wanted:
                return True
        except OSError:
            continue
    return False


def _counter(path: str, name: str) -> int | None:
    """The value in a line ``name value`` of a file of counters."""
    try:
        with open(path, encoding="ascii") as stream:
            match = re.search(rf"^{name} (\d+)$", stream.read(), re.MULTILINE)
    except OSError:
        return None
    return int(match[1]) if match else None


def name_of(pid: int) -> str:
    """The kernel's name of a process; empty where there is none."""
    return (_text(pid, "comm") or "").strip()


def _read_bytes(pid: int) -> int:
    match = re.search(r"^rchar: (\d+)", _text(pid, "io") or "", re.MULTILINE)
    return int(match[1]) if match else 0


def _resident(pid: int) -> int:
    words = (_text(pid, "statm") or "").split()
    return int(words[1]) * _PAGE if len(words) > 1 else 0


def _text(pid: int, name: str) -> str | None:
    try:
        with open(f"{procfs.PROC}/{pid}/{name}", encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return None
