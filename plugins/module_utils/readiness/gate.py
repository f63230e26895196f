# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The gate that a server passes before it is called ready: real generations, asked in the background.

One greedy token of every data-parallel rank; with speculation, one sampled request (on a cold cache the first one can
stall a server for more than a minute: better here than in front of users) and one longer greedy one, by which the
accept length is told (a sampled text is luck); then ``soak`` more, alternating.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from ..errors import InferopsError
from ..layout import Instance
from . import http
from .unit import Start

_FIRST_RETRY_S = 0.02
_LAST_RETRY_S = 1.0
_LONGEST_S = 600.0
_SAMPLED = {"max_new_tokens": 8, "temperature": 0.8}
_MEASURED = {"max_new_tokens": 16, "temperature": 0.0}
_NEVER = float("inf")


class _Probe:
    """One request in a thread; ``fd`` becomes readable when the answer is there."""

    def __init__(self, ask: Callable[[], http.Generation]) -> None:
        self.fd, self._end = os.pipe()
        self.answer: http.Generation | None = None
        self.at = 0.0
        self._ask = ask
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        self.answer = self._ask()
        self.at = time.time()
        os.close(self._end)

    def close(self) -> None:
        os.close(self.fd)


class Gate:
    """Asks, step by step, and remembers what came back. Never blocks."""

    def __init__(self, instance: Instance, start: Start, soak: int = 0) -> None:
        self.port = start.port
        self.dp_size = start.dp_size
        self.listening = False
        self.begun = False
        self.moved = 0.0
        self.first: http.Generation | None = None
        self.first_at = 0.0
        self.sampled: http.Generation | None = None
        self.measured: http.Generation | None = None
        self.soaked: list[float] = []
        self.failure = ""
        self.last_error = ""
        self._start = start
        self._soak = soak
        self._key = _key(instance)
        self._probe: _Probe | None = None
        self._greedy = 0
        self._retry_s = _FIRST_RETRY_S
        self._next = 0.0

    @property
    def fd(self) -> int | None:
        return self._probe.fd if self._probe is not None else None

    @property
    def passed(self) -> bool:
        """Everything that was to be asked has been answered."""
        return self._step() == "" and self._probe is None and not self.failure

    @property
    def accept_length(self) -> float | None:
        return self.measured.accept_length if self.measured is not None else None

    @property
    def doing(self) -> str:
        """What is being asked for, in words."""
        step = self._step()
        if step == "soak":
            return f"soak, {len(self.soaked)} of {self._soak} came back"
        return {
            "greedy": "one token of each rank",
            "sampled": "a sampled request",
            "measured": "its accept length",
        }.get(step, "generates")

    def answers(self) -> bool:
        """Whether the server's port is open, whoever has opened it; the kernel's table of sockets is dear to read."""
        return http.listens(self._start.host, self.port)

    def due(self) -> float:
        """When the next request is to be sent, on the monotonic clock."""
        waiting = self._probe is not None or not self.begun or self._step() == "" or self.failure
        return _NEVER if waiting else self._next

    def step(self, up: bool) -> None:
        """Take an answer that has come, and send the next request. ``up``: the log says that the server listens."""
        self.begun = self.begun or up or self.listening
        if self._probe is not None and self._probe.answer is not None:
            self._take(self._probe.answer, self._probe.at)
        if self.begun and self._probe is None and not self.failure and time.monotonic() >= self._next and self._step():
            self._probe = _Probe(self._question())

    # -- the steps -----------------------------------------------------------------------------------------------
    def _step(self) -> str:
        if self._greedy < self.dp_size:
            return "greedy"
        if self._start.speculative and self.sampled is None:
            return "sampled"
        if self._start.speculative and self.measured is None:
            return "measured"
        return "soak" if len(self.soaked) < self._soak else ""

    def _question(self) -> Callable[[], http.Generation]:
        step, count = self._step(), len(self.soaked)
        rank = None
        if self.dp_size > 1:
            rank = (self._greedy if step == "greedy" else count) % self.dp_size
        sampled = step == "sampled" or (step == "soak" and count % 2 == 1)
        greedy = (
            _MEASURED if step == "measured" else {"max_new_tokens": 1 if step == "greedy" else 4, "temperature": 0.0}
        )
        sampling = _SAMPLED if sampled else greedy

        def ask() -> http.Generation:
            return http.generate(
                self._start.host,
                self._start.port,
                key=self._key,
                dp_rank=rank,
                timeout=_LONGEST_S,
                max_new_tokens=int(sampling["max_new_tokens"]),
                temperature=float(sampling["temperature"]),
            )

        return ask

    def _take(self, answer: http.Generation, at: float) -> None:
        if self._probe is not None:
            self._probe.close()
            self._probe = None
        step = self._step()
        if not answer.ok:
            self._refused(answer, step)
            return
        self.moved, self._retry_s, self._next = time.monotonic(), _FIRST_RETRY_S, 0.0
        if step == "greedy":
            self._greedy += 1
            if self.first is None:
                self.first, self.first_at = answer, at
        elif step == "sampled":
            self.sampled = answer
        elif step == "measured":
            self.measured = answer
        else:
            self.soaked.append(answer.seconds)

    def _refused(self, answer: http.Generation, step: str) -> None:
        """Before the first token nothing but a wrong key is final: the server may not be up yet."""
        self.last_error = answer.error
        if answer.status in (401, 403):
            raise InferopsError(
                f"the server on port {self.port} refuses the API key that this host has for it (HTTP {answer.status}); "
                "it was started with another key: restart the instance"
            )
        if self.first is not None:
            done = {
                "greedy": f"a greedy token of rank {self._greedy}",
                "sampled": "the sampled request",
                "measured": "the longer greedy request",
            }
            self.failure = f"{done.get(step, f'soak request {len(self.soaked) + 1}')} failed: {answer.error}"
            return
        self._next = time.monotonic() + self._retry_s
        self._retry_s = min(2 * self._retry_s, _LAST_RETRY_S)


def _key(instance: Instance) -> str | None:
    try:
        return http.api_key(instance)
    except OSError as error:
        raise InferopsError(
            f"cannot read {instance.secrets_file} ({error.strerror}), where the server's API key would be; run as root"
        ) from error
