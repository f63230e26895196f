"""Logs of starts, written in the words of any SGLang release, for variants that nobody has recorded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

SITE = "/opt/sglang/builds/a-1/lib/python3.12/site-packages"
RELEASES = ("0.5.7", "0.5.8", "0.5.9", *(f"0.5.{minor}" for minor in range(10, 24)))

_FRAMES = (
    ("sglang/srt/managers/scheduler.py", 3130, "run_scheduler_process", "scheduler = Scheduler("),
    ("sglang/srt/managers/scheduler.py", 368, "__init__", "self.init_model_worker()"),
    ("sglang/srt/managers/tp_worker.py", 247, "__init__", "self._init_model_runner()"),
    ("sglang/srt/model_executor/model_runner.py", 413, "__init__", "self.initialize(min_per_gpu_memory)"),
)
DRAFT_FRAMES = (
    ("sglang/srt/managers/scheduler.py", 550, "maybe_init_draft_worker", "self.draft_worker = DraftWorkerClass("),
    ("sglang/srt/speculative/eagle_worker.py", 141, "__init__", "super().__init__("),
)
MAIN_FRAMES = (
    ("sglang/launch_server.py", 32, "<module>", "server_args = prepare_server_args(sys.argv[1:])"),
    ("sglang/srt/server_args.py", 5589, "prepare_server_args", "return ServerArgs.from_cli_args(raw_args)"),
)


def minor(release: str) -> int:
    return int(release.split(".")[2])


def frames(*more: tuple[str, int, str, str], base: Sequence[tuple[str, int, str, str]] = _FRAMES) -> list[str]:
    """The indented lines of a traceback."""
    found = []
    for path, line, name, code in (*base, *more):
        found += [f'  File "{SITE}/{path}", line {line}, in {name}', f"    {code}"]
    return found


class Log:
    """A log under construction; ``at`` is its clock. Methods return the log, so that they can be chained."""

    def __init__(self, release: str = "0.5.9", tp: int = 1, spec: bool = False, dp: int = 1) -> None:
        self.release, self.tp, self.spec, self.dp = release, tp, spec, dp
        self.at = datetime(2026, 11, 20, 10, 0, 0)
        self.text = ""
        self.local = range(tp)  # the tensor-parallel ranks of this host

    # -- lines ---------------------------------------------------------------------------------------------------
    @property
    def data(self) -> bytes:
        return self.text.encode()

    @property
    def lines(self) -> int:
        """The number of the line that is written next."""
        return self.text.count("\n") + 1

    @property
    def now(self) -> str:
        return self.at.strftime("%Y-%m-%d %H:%M:%S")

    def later(self, seconds: float) -> Log:
        self.at += timedelta(seconds=seconds)
        return self

    def raw(self, *lines: str) -> Log:
        """Lines without a prefix."""
        self.text += "".join(line + "\n" for line in lines)
        return self

    def put(self, text: str) -> Log:
        """Text without a line end."""
        self.text += text
        return self

    def say(self, message: str, rank: str = "") -> Log:
        """A record."""
        return self.raw(f"[{self.now}{' ' + rank if rank else ''}] {message}")

    def all(self, message: str) -> Log:
        """A record of every rank."""
        for rank in self.ranks:
            self.say(message, rank)
        return self

    @property
    def ranks(self) -> list[str]:
        if self.tp * self.dp == 1:
            return [""]
        head = [f"DP{dp} " for dp in range(self.dp)] if self.dp > 1 else [""]
        return [f"{prefix}TP{tp}" for prefix in head for tp in self.local]

    # -- a healthy start -----------------------------------------------------------------------------------------
    def arguments(self, **more: object) -> Log:
        values = {
            "model_path": "/srv/models/m",
            "tp_size": self.tp,
            "dp_size": self.dp,
            "speculative_algorithm": "EAGLE3" if self.spec else None,
            "speculative_draft_model_path": "/srv/models/draft" if self.spec else None,
            "served_model_name": "error traceback killed: CUDA out of memory",
            **more,
        }
        if minor(self.release) >= 22:
            body = "{" + ", ".join(f"{key!r}: {value!r}" for key, value in values.items()) + "}"
        else:
            body = "ServerArgs(" + ", ".join(f"{key}={value!r}" for key, value in values.items()) + ")"
        return self.say("server_args=" + body).later(20)

    def dist(self, missing: Iterable[str] = ()) -> Log:
        word = "parallel" if minor(self.release) >= 21 else "torch distributed"
        self.all(f"Init {word} begin.").later(5)
        for rank in self.ranks:
            if rank not in set(missing):
                self.say(f"Init {word} ends. elapsed=4.70 s, mem usage=1.30 GB", rank)
        return self

    def weights(self, kind: str = "LlamaForCausalLM", upto: int = 4, ends: bool = True, free: str = "137.90") -> Log:
        self.all(f"Load weight begin. avail mem={free} GB")
        multi = minor(self.release) >= 13
        label = "Multi-thread loading shards" if multi else "Loading safetensors checkpoint shards"
        for done in range(upto + 1):
            left = "?" if done == 0 else f"00:{(4 - done) * 2:02d}"
            bar = f"{label}: {25 * done:3d}% Completed | {done}/4 [00:{2 * done:02d}<{left},  2.00s/it]"
            self.put(f"\r{bar}" + ("" if multi else "\n"))
        if ends:
            self.put("\n").later(2 * upto)
            self.all(f"Load weight end. elapsed=8.31 s, type={kind}, avail mem=123.03 GB, mem usage=15.07 GB.")
        return self

    def pool(self) -> Log:
        dtype = "dtype: torch.bfloat16, " if minor(self.release) >= 13 else ""
        rank = self.ranks[0]
        self.say(f"KV Cache is allocated. {dtype}#tokens: 39021, K size: 2.38 GB, V size: 2.38 GB", rank)
        return self.say("Memory pool end. avail mem=23.10 GB", rank)

    def capture(self, draft: bool = False, upto: int = 2, ends: bool = True, memory: str = "22.60") -> Log:
        rank, new = self.ranks[0], minor(self.release) >= 14
        if new:
            name = "draft decode" if draft else ("target verify" if self.spec else "target decode")
            self.say(f"Capture {name} CUDA graph begin. backend=full, bs=[1, 2], avail mem={memory} GB", rank)
        else:
            name = "draft cuda graph" if draft else "cuda graph"
            self.say(f"Capture {name} begin. This can take up to several minutes. avail mem={memory} GB", rank)
        self.put("\r  0%|          | 0/2 [00:00<?, ?it/s]")
        for done in range(upto + 1):
            self.put(
                f"\rCapturing batches (bs=2 avail_mem=22.50 GB): {50 * done:3d}%|█ | {done}/2 [00:{done:02d}<00:02]"
            )
        if ends:
            self.put("\n").later(upto)
            tail = "elapsed=3.18 s, mem usage=0.07 GB, avail mem=61.78 GB." if new else "Time elapsed: 9.02 s."
            self.say(f"Capture {name} {'CUDA graph ' if new else ''}end. {tail}", rank)
        return self

    def loaded(self) -> Log:
        """Everything up to the HTTP server, in the order of the release."""
        self.dist()
        if self.spec and minor(self.release) >= 15:
            self.weights().weights("LlamaForCausalLMEagle3").pool().pool().capture().capture(draft=True)
        elif self.spec:
            self.weights().pool().capture().weights("LlamaForCausalLMEagle3").pool().capture(draft=True)
        else:
            self.weights().pool().capture()
        return self.say("max_total_num_tokens=39021, chunked_prefill_size=8192, context_len=4096", self.ranks[0])

    def http(self, port: int = 30000) -> Log:
        self.say("INFO:     Started server process [4121]").say("INFO:     Waiting for application startup.")
        self.say("INFO:     Application startup complete.")
        return self.say(f"INFO:     Uvicorn running on http://127.0.0.1:{port} (Press CTRL+C to quit)")

    def fired_up(self) -> Log:
        self.later(1).say('INFO:     127.0.0.1:5142 - "GET /model_info HTTP/1.1" 200 OK')
        self.batch("Prefill").later(1).say('INFO:     127.0.0.1:5143 - "POST /generate HTTP/1.1" 200 OK')
        return self.say("The server is fired up and ready to roll!")

    def batch(self, kind: str = "Decode", running: int = 1) -> Log:
        return self.say(f"{kind} batch, #running-req: {running}, #token: 184, token usage: 0.00", self.ranks[0])

    def ready(self) -> Log:
        return self.arguments().loaded().http().fired_up()

    # -- trouble -------------------------------------------------------------------------------------------------
    def hit(self, error: str, *more: tuple[str, int, str, str], rank: str | None = None, who: str = "Scheduler") -> int:
        """A manager's exception; returns the number of the line with the (first line of the) error."""
        rank = self.ranks[0] if rank is None else rank
        self.say(f"{who} hit an exception: Traceback (most recent call last):", rank).raw(*frames(*more))
        number = self.lines
        self.raw(*error.split("\n"), "")
        return number

    def bare(self, error: str, *more: tuple[str, int, str, str], base: Sequence[tuple[str, int, str, str]] = ()) -> int:
        """A traceback that nobody logged, of the main process."""
        self.raw("Traceback (most recent call last):", *frames(*more, base=base or MAIN_FRAMES))
        number = self.lines
        self.raw(*error.split("\n"))
        return number

    def sigquit(self) -> Log:
        self.say("Received sigquit from a child process. It usually means the child failed.")
        if minor(self.release) >= 13:
            self.say("kill_process_tree called: parent_pid=1667, include_parent=True, pid=1667")
        return self
