"""A scheduler process: speaks the start, then turns requests into tokens at a given rate.

It talks with the main process over a socket, one JSON object a line. Requests wait when ``max_running_requests`` run;
each step gives every running request one token (or, with speculation on, ``accept_length`` on average).
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time

from sglang.stand_in import control, process, words


class Scheduler:
    def __init__(self, args: object, rank: int, link: socket.socket) -> None:
        self.args = args
        self.rank = rank
        self.tag = f"TP{rank}" if args.tp_size > 1 else ""
        self.link = link
        self.running: dict[str, dict] = {}
        self.waiting: list[dict] = []
        self.buffer = b""
        self.steps = 0
        self.sampled_once = False
        self.helped = False
        self.peers: list[socket.socket] = []

    @property
    def told(self) -> dict:
        return control.load(self.args.port)

    def run(self) -> None:
        """The whole life of the process."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        process.rename("sglang::scheduler" + (f"_TP{self.rank}" if self.args.tp_size > 1 else ""))
        self._start()
        self._send({"ready": True})
        self.ready_at = time.monotonic()
        while True:
            self._turn()

    # -- the start -------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        total = float(self.told.get("start_s", 1.0))
        shards = int(self.told.get("shards", 4))
        joined = False
        for phase, share, text in words.script(control.release(), self.args, shards):
            self._fault(phase)
            if text.startswith(("\r", "\n")):
                if self.rank == 0:
                    process.raw(text)
            else:
                process.say(text, self.tag)
            if not joined and text.startswith(("Init torch", "Init parallel")):
                self._join()
                joined = True
            time.sleep(share * total)

    def _fault(self, phase: str) -> None:
        told = self.told
        if int(told.get("fault_rank", 0)) != self.rank:
            return
        if told.get("crash") == phase:
            process.say(told.get("crash_text", words.crash_text(self.args)), self.tag)
            self._send({"sigquit": True})
            os._exit(1)
        if told.get("helper") == phase and not self.helped:
            self.helped = True
            helper = os.fork()
            if helper == 0:
                time.sleep(3)
                os._exit(0)
            os.waitpid(helper, 0)
        if told.get("killed") == phase:
            os.kill(os.getpid(), signal.SIGKILL)
        if told.get("stall") == phase:
            spin = told.get("stall_how", "silent") == "spin"
            while self.told.get("stall") == phase:
                if not spin:
                    time.sleep(0.1)

    def _join(self) -> None:
        """Meet the other hosts of a replica at ``dist_init_addr``: rank 0 listens, the others connect."""
        local = max(1, self.args.tp_size // self.args.nnodes)
        if self.args.nnodes < 2 or self.rank % local != 0:
            return
        host, dummy, port = self.args.dist_init_addr.rpartition(":")
        if self.args.node_rank == 0:
            with socket.create_server((host, int(port))) as server:
                self.peers = [server.accept()[0] for dummy in range(self.args.nnodes - 1)]
            return
        while True:
            try:
                self.peers = [socket.create_connection((host, int(port)), timeout=5)]
                self.peers[0].settimeout(None)
                return
            except OSError:
                time.sleep(0.2)

    # -- serving ---------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        told = self.told
        dead_after = told.get("dead_after_s")
        if dead_after is not None and time.monotonic() - self.ready_at > float(dead_after):
            os.kill(os.getpid(), signal.SIGKILL)
        if told.get("hang") == "spin":
            return
        if told.get("hang") == "silent":
            time.sleep(0.1)
            return
        pace = self._step_seconds(told) if self.running else 0.5
        readable = select.select([self.link, *self.peers], [], [], pace)[0]
        if any(not peer.recv(64) for peer in self.peers if peer in readable):
            process.say("Scheduler hit an exception: RuntimeError: connection to a peer rank was lost", self.tag)
            self._send({"sigquit": True})
            os._exit(1)
        if self.link in readable:
            self._receive()
            # the others must not be served faster because a request came in
            time.sleep(pace if self.running else 0)
        if self.running:
            self._step(told)
        self._admit(told)

    def _step_seconds(self, told: dict) -> float:
        rate = float(told.get("tok_s", 200.0)) * (1.0 - float(told.get("slowdown", 0.0)))
        return self._accept(told) / rate

    def _accept(self, told: dict) -> float:
        """Mean tokens in a step."""
        return float(told.get("accept_length", 1.9)) if self.args.speculative_algorithm else 1.0

    def _receive(self) -> None:
        data = self.link.recv(1 << 16)
        if not data:
            os._exit(0)
        self.buffer += data
        *lines, self.buffer = self.buffer.split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "abort" in message:
                self.running.pop(message["abort"], None)
                self.waiting = [request for request in self.waiting if request["id"] != message["abort"]]
            elif message.get("probe"):
                self._send({"id": message["id"], "tokens": 1, "done": True})
            else:
                self.waiting.append({**message, "made": 0, "verified": 0})

    def _admit(self, told: dict) -> None:
        if told.get("health_only"):
            return
        while self.waiting and len(self.running) < (self.args.max_running_requests or 48):
            request = self.waiting.pop(0)
            if request["temperature"] > 0 and not self.sampled_once:
                self.sampled_once = True
                time.sleep(float(told.get("first_sampled_s", 0.0)))
            cached = 0
            process.say(
                f"Prefill batch, #new-seq: 1, #new-token: {request['prompt_tokens']}, #cached-token: {cached}, "
                f"token usage: 0.00, #running-req: {len(self.running)}, #queue-req: {len(self.waiting)}, "
                "cuda graph: False, input throughput (token/s): 23.94",
                self.tag,
            )
            self.running[request["id"]] = request

    def _step(self, told: dict) -> None:
        accept = self._accept(told)
        for request in list(self.running.values()):
            request["verified"] += 1
            upto = min(request["max_new_tokens"], max(request["made"] + 1, int(request["verified"] * accept)))
            made, request["made"] = request["made"], upto
            done = upto >= request["max_new_tokens"]
            self._send({"id": request["id"], "tokens": upto - made, "done": done, "verify": request["verified"]})
            if done:
                del self.running[request["id"]]
        self.steps += 1
        if self.steps % self.args.decode_log_interval == 0:
            length = f"accept len: {accept:.2f}, accept rate: 0.06, " if self.args.speculative_algorithm else ""
            process.say(
                f"Decode batch, #running-req: {len(self.running)}, #token: {self.steps}, token usage: 0.00, {length}"
                f"cuda graph: True, gen throughput (token/s): {told.get('tok_s', 200.0)}, "
                f"#queue-req: {len(self.waiting)}",
                self.tag,
            )

    def _send(self, message: dict) -> None:
        self.link.sendall(json.dumps(message).encode() + b"\n")
