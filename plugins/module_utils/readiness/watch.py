# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Wait for a server, event by event: its log, the ends of its processes, its answers; and a slow look at the rest.

Nothing is polled in a fixed rhythm: the wait sleeps until the log grows, a process ends, a probe comes back, or the
next slow look (evidence of progress, new processes) is due.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import InferopsError
from ..layout import Instance
from ..running import Runner
from . import evidence, report
from . import milestones as ms
from . import unit as units
from .categories import CATEGORIES
from .gate import Gate
from .inotify import FolderWatch
from .story import Reader
from .verdict import FAILED, READY, STALLED, STOPPED, Observation, State, judge

TIMEOUT = "timeout"
# Seconds without any evidence of progress, where the host is watched (see ``evidence``).
PATIENCE = {**dict.fromkeys(ms.PHASES, 180.0), ms.CAPTURE: 300.0, ms.CAPTURE_DRAFT: 300.0, ms.WARMUP: 240.0}
_LOOK_S = 2.0
_GATHER_S = 0.02
# How long the last words of a process, and systemd's account of its end, may take.
_LAST_WORDS_S = 0.3
_ACCOUNT_S = 3.0
# A debugger may hold a process for a moment.
_STOPPED_S = 10.0
_SURVIVES = "0.5.9"


class Abandoned(InferopsError):
    """Nobody waits for the answer any more."""


@dataclass
class Options:
    """How to wait. Times in seconds; ``stall_timeout`` overrides the patience of every phase.

    ``report`` gets a line on each change of phase and every so often; ``alive`` is called often; ``hangup`` is a file
    descriptor whose other end is closed when nobody waits any more.
    """

    timeout: float = 1800.0
    stall_timeout: float | None = None
    extend_while_progressing: bool = True
    max_timeout: float = 7200.0
    soak: int = 0
    report: Callable[[str], None] | None = None
    alive: Callable[[], None] = lambda: None
    hangup: int | None = None


@dataclass
class Result:
    """What the wait came to. ``verdict`` is that of ``state``, or ``timeout``; ``cpu_s`` is what waiting cost."""

    verdict: str
    state: State
    start: units.Start | None
    gate: Gate | None
    phases: list[dict[str, Any]]
    waited_s: float
    cpu_s: float
    stacks: list[str] = field(default_factory=list)


class Watch:
    """Watches the present start of one instance."""

    def __init__(self, runner: Runner, name: str, options: Options) -> None:
        self._runner = runner
        self._instance = Instance(name)
        self._options = options
        self._reader = Reader()
        self._began = self._moved = time.monotonic()
        self._spent = time.process_time()
        self._host_oom = evidence.host_oom_kills()
        self._gpu = evidence.Gpu()
        self._unit = units.Unit("inactive")
        self._processes = evidence.Processes(0)
        self._has_workers = False
        self._start: units.Start | None = None
        self._gate: Gate | None = None
        self._log: int | None = None
        self._sample: evidence.Sample | None = None
        self._ends: dict[int, tuple[int, str]] = {}
        self._dead: list[tuple[str, str]] = []
        self._stopped: list[str] = []
        self._stopped_since = 0.0
        self._gone = False
        self._oom_kills: int | None = None
        self._next_look = 0.0
        self._line = report.Line(name, options.report)

    def wait(self) -> Result:
        """Until there is a verdict or the time is over.

        :raises InferopsError: when there is no such unit, or its key or log cannot be read.
        :raises Abandoned: when nobody waits any more.
        """
        self._unit = units.observe(self._runner, self._instance)
        if not self._unit.found:
            raise InferopsError(f"there is no unit {self._instance.unit} on this host: deploy.yml makes and starts it")
        folder = FolderWatch(self._instance.logs)
        try:
            while True:
                folder.drain()
                self._read()
                result = self._result()
                if result is not None:
                    return result
                self._line.tell(self._reader.story, self._gate)
                self._options.alive()
                self._sleep(folder)
        finally:
            folder.close()
            self._close()

    # -- sleeping ------------------------------------------------------------------------------------------------
    def _sleep(self, folder: FolderWatch) -> None:
        now = time.monotonic()
        due = [self._next_look]
        if folder.fd is None or self._log is None:
            due.append(now + 0.25)
        if self._gate is not None:
            due.append(self._gate.due())
        poll = select.poll()
        for fd in [folder.fd, *self._ends, self._gate.fd if self._gate else None]:
            if fd is not None:
                poll.register(fd, select.POLLIN)
        if self._options.hangup is not None:
            poll.register(self._options.hangup, 0)
        woken = {fd for fd, dummy in poll.poll(max(0.0, min(due) - now) * 1000)}
        if self._options.hangup in woken:
            raise Abandoned("nobody waits for the answer any more")
        for fd in woken & set(self._ends):
            self._ended(fd)
        if folder.fd in woken:
            # a burst of lines is one reason to wake up, not many
            time.sleep(_GATHER_S)

    # -- what comes in -------------------------------------------------------------------------------------------
    def _read(self) -> None:
        if self._start is None and self._unit.invocation:
            self._start = units.start_of(self._instance, self._unit.invocation)
            if self._start is not None and self._start.node == 0:
                self._gate = Gate(self._instance, self._start, self._options.soak)
        self._read_log()
        if time.monotonic() >= self._next_look:
            self._look()
        if self._gate is not None:
            self._gate.dp_size = max(self._gate.dp_size, int(self._reader.story.arguments.get("dp_size", "1") or 1))
            self._gate.step(self._reader.story.phase in (ms.WARMUP, ms.SERVING))

    def _read_log(self) -> None:
        if self._log is None and self._unit.invocation:
            path = self._start.log if self._start else os.path.join(self._instance.logs, self._unit.invocation + ".log")
            if os.path.exists(path):
                self._log = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        while self._log is not None:
            data = os.read(self._log, 1 << 20)
            if not data:
                break
            self._reader.feed(data)
            self._moved = time.monotonic()

    def _look(self) -> None:
        """The slow look: the unit until it has a process, processes that are new, evidence of progress."""
        self._next_look = time.monotonic() + _LOOK_S
        if self._unit.pid == 0:
            self._unit = units.observe(self._runner, self._instance)
            if self._unit.pid == 0:
                return
        if self._processes.main != self._unit.pid:
            self._processes = evidence.Processes(self._unit.pid, self._unit.control_group)
        members = self._processes.members()
        followed = {pid for pid, dummy in self._ends.values()}
        for pid in (members | {self._unit.pid}) - followed:
            self._follow(pid)
        workers = {worker.pid: worker for worker in self._processes.workers()}
        for fd, (pid, name) in self._ends.items():
            self._ends[fd] = (pid, workers[pid].name if pid in workers else name)
        sample = self._processes.sample(members, self._gpu)
        if self._sample is not None and sample.moved_since(self._sample):
            self._moved = time.monotonic()
        self._sample = sample
        self._oom_kills = self._processes.oom_kills()
        stopped = self._processes.stopped(members)
        if stopped != self._stopped:
            self._stopped, self._stopped_since = stopped, time.monotonic()
        for process in workers.values():
            if process.state == "Z":
                self._note_dead(process.pid, process.name)
        self._has_workers = bool(workers)
        if self._gate is not None and not self._gate.begun:
            self._gate.listening = self._gate.answers() and self._processes.own(self._gate.port)

    def _follow(self, pid: int) -> None:
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            self._gone = self._gone or pid == self._unit.pid
        else:
            self._ends[fd] = (pid, "")

    def _ended(self, fd: int) -> None:
        pid, name = self._ends.pop(fd)
        os.close(fd)
        if pid == self._unit.pid:
            self._gone = True
        elif name:
            self._note_dead(pid, name)
        else:
            self._next_look = 0.0  # a worker that is not known as one yet, or what a worker had started

    def _note_dead(self, pid: int, name: str) -> None:
        known = f"{name} (pid {pid})"
        if known not in {entry for entry, dummy in self._dead}:
            self._dead.append((known, evidence.exit_of(pid)))

    # -- what it means -------------------------------------------------------------------------------------------
    def _result(self) -> Result | None:
        if self._gone or (self._unit.pid == 0 and self._unit.state not in ("active", "activating")):
            return self._over()
        if self._dead:
            time.sleep(_LAST_WORDS_S)
            self._read_log()
        state = judge(self._reader.story, self._seen("active"))
        if state.verdict in (FAILED, STALLED, STOPPED):
            return self._came_to(state)
        if self._gate is not None and self._gate.failure:
            return self._came_to(self._failed(state, "generation_failed", self._gate.failure))
        if state.verdict == READY and self._follower and self._workers_live():
            return self._came_to(self._unasked(state))
        if state.verdict == READY and self._gate is not None and self._gate.passed:
            return self._came_to(self._owned(state))
        if state.verdict == READY and self._silent() > self._patience(ms.WARMUP):
            return self._came_to(replace(self._failed(state, "no_generation"), verdict=STALLED))
        if self._stopped and time.monotonic() - self._stopped_since > _STOPPED_S:
            said = "stopped by a signal or a debugger: " + ", ".join(self._stopped)
            return self._came_to(replace(self._failed(state, "process_stopped", said), verdict=STALLED))
        return self._out_of_time(state)

    def _seen(self, unit: str) -> Observation:
        release = self._start.release.partition("+")[0] if self._start else ""
        return Observation(
            unit=unit,
            silent_s=self._silent(),
            patience={phase: self._patience(phase) for phase in ms.PHASES},
            stop_asked=units.stop_asked(self._instance, self._unit.invocation),
            dead_children=tuple(self._dead),
            workers_live=self._has_workers and not self._dead and not self._gone,
            outlives=not release or _version(release) <= _version(_SURVIVES) or self._follower,
            oom_kills=self._killed_for_memory(),
        )

    def _silent(self) -> float:
        last = self._moved
        if self._gate is not None:
            last = max(last, self._gate.moved)
        return time.monotonic() - last

    def _patience(self, phase: str) -> float:
        if self._options.stall_timeout is not None:
            return self._options.stall_timeout
        return ms.patience_of(PATIENCE[phase], self._start.nodes if self._start is not None else 1)

    def _killed_for_memory(self) -> int | None:
        """By the unit's own counter; where it has none, by the whole host's, if the death was in our time."""
        if self._oom_kills:
            return self._oom_kills
        before, now = self._host_oom, evidence.host_oom_kills()
        if before is None or now is None or self._sample is None:
            return self._oom_kills
        return now - before

    def _over(self) -> Result:
        """The main process is gone: hear the rest, and systemd's account of it."""
        until = time.monotonic() + _ACCOUNT_S
        time.sleep(_LAST_WORDS_S)
        unit = self._unit
        while self._gone:
            unit = units.observe(self._runner, self._instance)
            if unit.pid != self._unit.pid or time.monotonic() > until:
                break
            time.sleep(_LAST_WORDS_S)
        self._read_log()
        self._reader.finish()
        if unit.oom_killed:
            self._oom_kills = max(1, self._oom_kills or 0)
        state = judge(self._reader.story, self._seen(unit.ended or "inactive"))
        if not self._gone and not unit.ended:
            state = self._failed(state, "not_running")
        return self._came_to(state)

    @property
    def _follower(self) -> bool:
        return self._start is not None and self._start.node > 0

    def _workers_live(self) -> bool:
        self._look()
        return not self._dead and not self._gone and self._processes.has_workers()

    def _unasked(self, state: State) -> State:
        """A node other than the first: it has no tokenizer, and its health answer is 200 whatever happens."""
        said = "the workers of this node live; generations are asked of node 0, which answers for all"
        return replace(state, findings=(*state.findings, said))

    def _owned(self, state: State) -> State:
        """A generation came back; but from whom?"""
        if self._gate is None or self._processes.own(self._gate.port):
            return state
        others = evidence.strangers(self._gate.port, self._processes.members())
        named = ", ".join(f"pid {pid} ({name})" for pid, name in others) or "another process"
        return self._failed(state, "http_port_in_use", f"port {self._gate.port} belongs to {named}, not to this unit")

    def _failed(self, state: State, category: str, finding: str = "") -> State:
        findings = (*state.findings, finding) if finding else state.findings
        return replace(state, verdict=FAILED, category=category, hint=CATEGORIES[category].advice, findings=findings)

    def _out_of_time(self, state: State) -> Result | None:
        waited = time.monotonic() - self._began
        if waited < self._options.timeout:
            return None
        moving = self._silent() < min(60.0, self._patience(state.phase))
        if self._options.extend_while_progressing and moving and waited < self._options.max_timeout:
            return None
        return self._came_to(state, TIMEOUT)

    def _came_to(self, state: State, verdict: str = "") -> Result:
        stacks: list[str] = []
        if (verdict or state.verdict) in (STALLED, TIMEOUT):
            stacks = evidence.stacks(self._runner, self._processes.members(), self._unit.pid)
        waited = time.monotonic() - self._began
        phases = report.timeline(self._reader.story, self._start)
        spent = time.process_time() - self._spent
        return Result(verdict or state.verdict, state, self._start, self._gate, phases, waited, spent, stacks)

    def _close(self) -> None:
        for fd in self._ends:
            os.close(fd)
        if self._log is not None:
            os.close(self._log)
        self._gpu.close()


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:3] if part.isdigit())
