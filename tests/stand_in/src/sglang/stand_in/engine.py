"""The main process's side of the schedulers: starts them, hands requests over, knows who is dead."""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import threading
import time
import uuid

from sglang.stand_in import process
from sglang.stand_in.scheduler import Scheduler


class Died(Exception):
    """A scheduler ended before it was ready."""

    def __init__(self, rank: int, code: int) -> None:
        super().__init__(rank, code)
        self.rank = rank
        self.code = code


class Engine:
    def __init__(self, args: object) -> None:
        self.args = args
        self.links: list[socket.socket] = []
        self.pids: list[int] = []
        self.requests: dict[str, queue.SimpleQueue] = {}
        self.lock = threading.Lock()
        self.sigquit = threading.Event()
        self.tokens = 0
        self.finished = 0

    def start(self) -> None:
        """Fork the schedulers of this node and the detokenizer."""
        local = max(1, self.args.tp_size // max(1, self.args.nnodes))
        for index in range(local):
            ours, theirs = socket.socketpair()
            pid = os.fork()
            if pid == 0:
                ours.close()
                for link in self.links:
                    link.close()
                process.die_with_parent()
                try:
                    Scheduler(self.args, self.args.node_rank * local + index, theirs).run()
                finally:
                    os._exit(1)
            theirs.close()
            self.links.append(ours)
            self.pids.append(pid)
        self.detokenizer = os.fork()
        if self.detokenizer == 0:
            for link in self.links:
                link.close()
            process.die_with_parent()
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            process.rename("sglang::detokenizer")
            while True:
                signal.pause()

    def dead(self) -> tuple[int, int] | None:
        """(local index, status as subprocess counts) of a scheduler that ended; it stays defunct, as under SGLang."""
        for index, pid in enumerate(self.pids):
            found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is not None:
                return index, found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
        return None

    def wait_ready(self, notice_all: bool) -> None:
        """Until every scheduler is ready.

        :raises Died: when one ended; with ``notice_all`` false only rank 0's end is noticed (releases to 0.5.9).
        """
        waiting = {link: index for index, link in enumerate(self.links)}
        for link in self.links:
            link.settimeout(0.2)
        while waiting:
            for link, index in list(waiting.items()):
                try:
                    data = link.recv(4096)
                except TimeoutError:
                    data = b" "
                if b"sigquit" in data:
                    self.sigquit.set()
                    return
                if b"ready" in data:
                    del waiting[link]
                if not data and (notice_all or index == 0):
                    time.sleep(0.1)
                    dummy, code = self.dead() or (index, 1)
                    raise Died(self.args.node_rank * len(self.links) + index, code)
                if not data:
                    time.sleep(0.2)
        for link in self.links:
            link.settimeout(None)
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        buffer = b""
        while True:
            try:
                data = self.links[0].recv(1 << 16)
            except OSError:
                return
            if not data:
                return
            buffer += data
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                message = json.loads(line)
                if message.get("sigquit"):
                    self.sigquit.set()
                    continue
                self.tokens += message["tokens"]
                with self.lock:
                    waiting = self.requests.get(message["id"])
                if waiting is not None:
                    waiting.put(message)

    @property
    def running(self) -> int:
        with self.lock:
            return len(self.requests)

    def submit(self, max_new_tokens: int, temperature: float, prompt_tokens: int, probe: bool = False) -> Generation:
        return Generation(self, max_new_tokens, temperature, prompt_tokens, probe)


class Generation:
    """One running request: iterate for the messages of the scheduler; closes itself."""

    def __init__(self, engine: Engine, limit: int, temperature: float, prompt_tokens: int, probe: bool) -> None:
        self.engine = engine
        self.id = uuid.uuid4().hex
        self.queue: queue.SimpleQueue = queue.SimpleQueue()
        self.probe = probe
        with engine.lock:
            engine.requests[self.id] = self.queue
        message = {"id": self.id, "max_new_tokens": limit, "temperature": temperature, "prompt_tokens": prompt_tokens}
        self._send({**message, "probe": probe})

    def _send(self, message: dict) -> None:
        try:
            self.engine.links[0].sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            return  # the scheduler is dead: nothing comes back, exactly as under SGLang

    def next(self, timeout: float | None = None) -> dict | None:
        """The next message, or ``None`` when there was none in time."""
        try:
            message = self.queue.get(timeout=timeout)
        except queue.Empty:
            return None
        if message["done"]:
            self.close(abort=False)
        return message

    def close(self, abort: bool = True) -> None:
        with self.engine.lock:
            known = self.engine.requests.pop(self.id, None)
        if known is not None and abort:
            self._send({"abort": self.id})
        elif known is not None and not self.probe:
            self.engine.finished += 1
