"""``python -m sglang.launch_server``: start, serve, drain and die as SGLang does."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import sys
import threading
import time

from sglang.srt.server_args import prepare_server_args
from sglang.stand_in import control, process
from sglang.stand_in.engine import Died, Engine


class Main:
    def __init__(self, args: object) -> None:
        self.args = args
        self.release = control.release()
        self.engine = Engine(args)
        self.server = None
        self.event = threading.Event()
        self.term = self.interrupt = False

    @property
    def told(self) -> dict:
        return control.load(self.args.port)

    def run(self) -> None:
        self._launch()
        self.engine.start()
        try:
            self.engine.wait_ready(notice_all=self.release >= (0, 5, 10))
        except Died as died:
            self._died_in_start(died)
        if self.engine.sigquit.is_set():
            self._child_failed("Received sigquit from a child process. It usually means the child failed.")
        self._phase("http")
        self._serve()
        self._watch()

    # -- the start -------------------------------------------------------------------------------------------------

    def _launch(self) -> None:
        self._phase("launch")
        time.sleep(float(self.told.get("start_s", 1.0)) * 0.1)
        if self.release >= (0, 5, 14):
            process.raw(
                "sglang/launch_server.py:55: UserWarning: 'python -m sglang.launch_server' is still supported, but "
                "'sglang serve' is the recommended entrypoint.\n  warnings.warn(\n"
            )
        shown = vars(self.args)
        if self.release >= (0, 5, 22):
            process.say(f"server_args={shown!r}")
        else:
            process.say(f"server_args=ServerArgs({', '.join(f'{key}={value!r}' for key, value in shown.items())})")
        process.say("Using default HuggingFace chat template with detected content format: string")

    def _phase(self, phase: str) -> None:
        """Faults of the phases that belong to this process."""
        told = self.told
        if told.get("crash") == phase:
            process.raw(told.get("crash_text", "ModuleNotFoundError: No module named 'stand_in_fault'") + "\n")
            os._exit(int(told.get("exit_code", 1)))
        while self.told.get("stall") == phase:
            time.sleep(0.1)

    def _died_in_start(self, died: Died) -> None:
        if self.release < (0, 5, 10):
            process.say(f"Rank {died.rank} scheduler is dead. Please check if there are relevant logs.")
            process.say(f"Exit code: {died.code}")
            process.raw("Traceback (most recent call last):\nEOFError\n")
        else:
            process.raw(
                "Traceback (most recent call last):\n"
                f"RuntimeError: Rank {died.rank} scheduler died during initialization (exit code: {died.code}). "
                "If exit code is -9 (SIGKILL), a common cause is the OS OOM killer.\n"
            )
        os._exit(1)

    def _child_failed(self, text: str) -> None:
        process.say(text)
        self._kill_tree(include_parent=True)

    def _kill_tree(self, include_parent: bool) -> None:
        if self.release >= (0, 5, 13):
            pid = os.getpid()
            process.say(f"kill_process_tree called: parent_pid={pid}, include_parent={include_parent}, pid={pid}")
        for pid in [*self.engine.pids, self.engine.detokenizer]:
            os.kill(pid, signal.SIGKILL)
        if include_parent:
            os.kill(os.getpid(), signal.SIGKILL)

    # -- serving ---------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        from sglang.stand_in.api import Server

        if self.args.node_rank == 0 or self.release >= (0, 5, 21):
            signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        pid, host, port = os.getpid(), self.args.host, self.args.port
        if self.args.node_rank > 0:
            self._serve_dummy(Server)
            return
        process.say(f"INFO:     Started server process [{pid}]")
        process.say("INFO:     Waiting for application startup.")
        process.say("INFO:     Application startup complete.")
        warmup = threading.Thread(target=self._warm_up, daemon=True)
        try:
            self.server = Server(self.args, self.engine)
        except OSError as error:
            process.say(
                f"ERROR:    [Errno {error.errno}] error while attempting to bind on address ('{host}', {port}): "
                "address already in use"
            )
            process.say("INFO:     Waiting for application shutdown.")
            warmup.start()
            warmup.join()
            process.say("INFO:     Application shutdown complete.")
            self._kill_tree(include_parent=False)
            os._exit(3)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 5}, daemon=True).start()
        process.say(f"INFO:     Uvicorn running on http://{host}:{port} (Press CTRL+C to quit)")
        warmup.start()

    def _serve_dummy(self, kind: type) -> None:
        """A node other than the first answers health, whatever happens, and nothing else; a taken port is no matter."""
        with contextlib.suppress(OSError):
            self.server = kind(self.args, self.engine)
            threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 5}, daemon=True).start()
        address = f"{self.args.host}:{self.args.port}"
        process.say(f"Dummy health check server started in background thread at {address}")

    def _warm_up(self) -> None:
        """One generation over HTTP to whoever has the port; then the famous line."""
        self._phase("warmup")
        limit = time.monotonic() + float(self.told.get("warmup_s", 120))
        while True:
            try:
                self._ask("GET", "/model_info", None)
                self._ask(
                    "POST",
                    "/generate",
                    {
                        "text": "The capital city of France is",
                        "sampling_params": {"max_new_tokens": 2, "temperature": 0},
                    },
                )
                break
            except (OSError, ValueError, http.client.HTTPException) as error:
                if time.monotonic() > limit:
                    process.say(f"Initialization failed. warmup error: {error!r}")
                    self._kill_tree(include_parent=True)
                time.sleep(0.5)
        if self.server is not None:
            self.server.status = "ready"
        process.say("The server is fired up and ready to roll!")

    def _ask(self, method: str, path: str, body: object) -> None:
        connection = http.client.HTTPConnection(self.args.host, self.args.port, timeout=600)
        headers = {"content-type": "application/json"}
        if self.args.api_key:
            headers["Authorization"] = f"Bearer {self.args.api_key}"
        connection.request(method, path, json.dumps(body) if body else None, headers)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        if answer.status != 200:
            raise ValueError(f"<Response [{answer.status}]>")

    # -- the end ---------------------------------------------------------------------------------------------------

    def _on_signal(self, number: int, dummy: object) -> None:
        if number == signal.SIGTERM:
            self.term = True
        else:
            self.interrupt = True
        self.event.set()

    def _watch(self) -> None:
        """Until a signal or the death of a child ends the server."""
        while True:
            self.event.wait(0.5)
            self.event.clear()
            if self.interrupt:
                self._kill_tree(include_parent=False)
                os._exit(0)
            if self.term and self.args.node_rank > 0:
                self.term = False
                process.say(
                    f"SIGTERM received on node_rank {self.args.node_rank}; waiting for the rank-0 ShutdownReq "
                    "broadcast to stop the schedulers."
                )
            if self.term:
                self.term = False
                process.say("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
                if not self.told.get("ignore_sigterm"):
                    self._drain()
            if self.engine.sigquit.is_set():
                self._child_failed("Received sigquit from a child process. It usually means the child failed.")
            dead = self.engine.dead()
            if dead and self.args.node_rank > 0:
                self._followed(*dead)
            elif dead and self.release >= (0, 5, 10):
                self._crashed(*dead)

    def _followed(self, index: int, code: int) -> None:
        """A node other than the first waits for its schedulers in their order, and ends when they have ended."""
        if index == 0:
            pid = self.engine.pids[index]
            process.say(f"Scheduler or DataParallelController {pid} terminated with {code}")
            self._kill_tree(include_parent=False)
            os._exit(0)

    def _crashed(self, index: int, code: int) -> None:
        process.say(
            f"Subprocess scheduler_{index} (pid={self.engine.pids[index]}) crashed with exit code {code}. "
            "Triggering SIGQUIT for cleanup..."
        )
        process.say("SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
        time.sleep(float(self.told.get("crash_wait_s", 5)))
        self._kill_tree(include_parent=True)

    def _drain(self) -> None:
        """Releases to 0.5.15 end by SIGKILL to themselves, later ones with status 0; no release has a bound."""
        if self.server.status != "ready":
            time.sleep(125)
        self.server.stopping = True
        while self.engine.running and not self.engine.dead():
            time.sleep(0.05)
        time.sleep(float(self.told.get("drain_s", 0.3)))
        process.say("Gracefully exiting... Remaining number of requests 0. Remaining requests remaining_rids=[].")
        if self.release < (0, 5, 16):
            self._kill_tree(include_parent=True)
        self._kill_tree(include_parent=False)
        process.say("INFO:     Shutting down")
        process.say("INFO:     Application shutdown complete.")
        process.say(f"INFO:     Finished server process [{os.getpid()}]")
        os._exit(0)


if __name__ == "__main__":
    Main(prepare_server_args(sys.argv[1:])).run()
