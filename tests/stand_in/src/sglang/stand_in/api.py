"""The HTTP API, as recorded from real servers: paths, statuses, bodies, streams, counters."""

from __future__ import annotations

import json
import sys
import time
import zlib
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from sglang.stand_in import control, process
from sglang.stand_in.engine import Engine

_OPEN = ("/health", "/health_generate", "/metrics", "/ready")


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, args: object, engine: Engine) -> None:
        self.args = args
        self.engine = engine
        self.status = "starting"
        self.stopping = False
        self.accepted_tokens = 0
        self.verifies = 0
        super().__init__((args.host, args.port), Handler)

    def server_bind(self) -> None:
        """Bind without asking a resolver for the host's name."""
        import socketserver

        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args: object) -> None:
        """The access line is written by :meth:`_reply` in uvicorn's form."""

    def version_string(self) -> str:
        return "uvicorn"

    # -- replies ---------------------------------------------------------------------------------------------------

    def _access(self, status: int) -> None:
        host, port = self.client_address[:2]
        line = f'INFO:     {host}:{port} - "{self.command} {self.path} HTTP/1.1" {status} {HTTPStatus(status).phrase}'
        process.say_out(line)

    def _reply(self, status: int, body: object = b"", kind: str = "application/json") -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._access(status)
        self.send_response(status)
        if data:
            self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _error(self, status: int, message: str) -> None:
        process.say(f"[http_server] Error: {message}")
        self._reply(status, {"error": {"message": message}})

    def _stream(self, chunks: Iterator[object]) -> None:
        """Server-sent events, closed by ``[DONE]``."""
        self._access(200)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for chunk in chunks:
            self._chunk(f"data: {json.dumps(chunk)}\n\n".encode())
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    # -- requests --------------------------------------------------------------------------------------------------

    def _allowed(self) -> bool:
        key = self.server.args.api_key
        if not key or self.path.startswith(_OPEN) or self.headers.get("authorization") == f"Bearer {key}":
            return True
        self._reply(401, {"error": "Unauthorized"})
        return False

    def do_GET(self) -> None:
        if not self._allowed():
            return
        args = self.server.args
        path = self.path.partition("?")[0]
        if path in ("/health", "/health_generate"):
            self._health()
        elif path == "/ready" and control.release() >= (0, 5, 20):
            self._reply(200 if self.server.status == "ready" else 503)
        elif path in ("/model_info", "/get_model_info"):
            self._reply(200, _model_info(args))
        elif path == "/v1/models":
            model = {"id": args.served_model_name, "object": "model", "created": int(time.time()), "owned_by": "sglang"}
            self._reply(200, {"object": "list", "data": [{**model, "root": args.model_path, "max_model_len": 4096}]})
        elif path in ("/server_info", "/get_server_info"):
            self._reply(200, self._server_info())
        elif path == "/get_load" and control.release() < (0, 5, 21):
            load = {"dp_rank": 0, "num_reqs": self.server.engine.running, "num_waiting_reqs": 0, "num_tokens": 0}
            self._reply(200, [load])
        elif path == "/v1/loads" and control.release() >= (0, 5, 10):
            load = {"dp_rank": 0, "num_running_reqs": self.server.engine.running, "num_waiting_reqs": 0}
            self._reply(200, {"version": control.release_name(), "dp_rank_count": 1, "loads": [load]})
        elif path == "/metrics" and args.enable_metrics:
            self._reply(200, self._metrics().encode(), "text/plain; version=0.0.4; charset=utf-8")
        else:
            self._reply(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        if not self._allowed():
            return
        path = self.path.partition("?")[0]
        if path == "/freeze_gc" or path == "/flush_cache":
            self._reply(200, b"ok", "text/plain")
            return
        served = ("/generate", "/v1/chat/completions", "/v1/completions") if self.server.args.node_rank == 0 else ()
        if path not in served:
            self._reply(404, {"detail": "Not Found"})
            return
        try:
            body = json.loads(raw)
        except ValueError:
            self._error(400, "the body is not JSON")
            return
        if path == "/generate":
            self._generate(body)
        else:
            self._openai(body, chat="chat" in path)

    def _health(self) -> None:
        """A probe goes through the scheduler; without an answer in 20 s the server is unhealthy."""
        told = control.load(self.server.args.port)
        if self.server.args.node_rank > 0:
            self._reply(200)  # the dummy answer of a node that is not the first
            return
        if self.server.status != "ready" or self.server.stopping:
            if self.server.stopping:
                process.say("Health check request received during shutdown. Returning 503.")
            self._reply(503)
            return
        started = time.monotonic()
        probe = self.server.engine.submit(1, 0.0, 1, probe=True)
        answer = probe.next(timeout=float(told.get("health_timeout_s", 20.0)))
        probe.close()
        if answer is None:
            process.say("Health check failed. Server couldn't get a response from detokenizer for last 20 seconds.")
            self._reply(503)
            return
        time.sleep(max(0.0, float(told.get("health_s", 1.0)) - (time.monotonic() - started)))
        self._reply(200)

    def _bad(self, prompt_tokens: int, temperature: float) -> str | None:
        limit = self.server.args.context_length or 4096
        if temperature < 0:
            return f"temperature must be a non-negative finite number, got {temperature:g}."
        if prompt_tokens > limit:
            return f"The input ({prompt_tokens} tokens) is longer than the model's context length ({limit} tokens)."
        return None

    def _pieces(self, prompt: str, count: int, limit: int, temperature: float) -> Iterator[tuple]:
        """(new words, all token ids so far, meta) for each scheduler message; aborts when not read to the end."""
        engine, args = self.server.engine, self.server.args
        started, made, ids = time.time(), 0, []
        seed = zlib.crc32(prompt.encode())
        generation = engine.submit(limit, temperature, count)
        try:
            done = False
            while not done:
                message = generation.next()
                done = message["done"]
                fresh = [(seed + 31 * (made + i)) % 32000 for i in range(message["tokens"])]
                made += len(fresh)
                ids += fresh
                meta = {
                    "id": generation.id,
                    "finish_reason": {"type": "length", "length": limit} if done else None,
                    "prompt_tokens": count,
                    "weight_version": "default",
                    "completion_tokens": made,
                    "cached_tokens": 0,
                    "e2e_latency": time.time() - started,
                }
                if args.speculative_algorithm:
                    verify = message["verify"]
                    meta.update(spec_accept_length=made / verify, spec_verify_ct=verify, spec_accept_rate=0.06)
                if done:
                    self.server.accepted_tokens += made
                    self.server.verifies += message["verify"]
                yield "".join(f" w{number}" for number in fresh), ids, meta
        finally:
            generation.close()

    def _generate(self, body: dict) -> None:
        sampling = body.get("sampling_params") or {}
        ids = body.get("input_ids")
        prompt = body.get("text") if ids is None else " ".join(map(str, ids))
        if not isinstance(prompt, str):
            self._error(400, "text or input_ids (one prompt) must be given")
            return
        limit = int(sampling.get("max_new_tokens") or 128)
        temperature = float(sampling.get("temperature", 1.0))
        count = len(ids) if ids else max(1, len(prompt.split()))
        bad = self._bad(count, temperature)
        if bad:
            self._error(400, bad)
            return
        pieces = self._pieces(prompt, count, limit, temperature)
        if body.get("stream"):
            self._stream(_cumulative(pieces))
        else:
            self._reply(200, list(_cumulative(pieces))[-1])

    def _openai(self, body: dict, chat: bool) -> None:
        if chat:
            prompt = " ".join(str(message.get("content", "")) for message in body.get("messages", []))
        else:
            prompt = str(body.get("prompt", ""))
        limit = int(body.get("max_completion_tokens") or body.get("max_tokens") or 16)
        temperature = float(body.get("temperature", 1.0))
        count = max(1, len(prompt.split()))
        bad = self._bad(count, temperature)
        if bad:
            self._reply(400, {"object": "error", "message": bad, "type": "BadRequestError", "code": 400})
            return
        pieces = self._pieces(prompt, count, limit, temperature)
        kind = "chat.completion" if chat else "text_completion"
        base = {"object": kind, "created": int(time.time()), "model": self.server.args.served_model_name}
        if body.get("stream"):
            base["object"] += ".chunk" if chat else ""
            self._stream(_openai_chunks(pieces, base, chat))
            return
        parts = list(pieces)
        text = "".join(new for new, dummy, dummy in parts)
        meta = parts[-1][2]
        answer = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        usage = {"prompt_tokens": count, "completion_tokens": limit, "total_tokens": count + limit}
        choices = [{"index": 0, **answer, "finish_reason": "length"}]
        self._reply(200, {"id": meta["id"], **base, "choices": choices, "usage": usage})

    # -- what the server says of itself ----------------------------------------------------------------------------

    def _server_info(self) -> dict:
        """Everything, keys included: SGLang returns them too."""
        args = self.server.args
        state = {"effective_max_running_requests_per_dp": args.max_running_requests or 48, "last_gen_throughput": 0.0}
        if args.speculative_algorithm and self.server.verifies:
            state["avg_spec_accept_length"] = self.server.accepted_tokens / self.server.verifies
        status = {"status": "ready", "max_req_input_len": 4090, "version": control.release_name()}
        return {**vars(args), **status, "internal_states": [state]}

    def _metrics(self) -> str:
        labels = f'{{engine_type="unified",model_name="{self.server.args.served_model_name}",tp_rank="0"}}'
        length = self.server.accepted_tokens / self.server.verifies if self.server.verifies else 0.0
        engine = self.server.engine
        limit = self.server.args.max_running_requests or 48
        values = {
            "num_running_reqs": ("gauge", min(engine.running, limit)),
            "num_queue_reqs": ("gauge", max(0, engine.running - limit)),
            "gen_throughput": ("gauge", 0.0),
            "spec_accept_length": ("gauge", length if self.server.args.speculative_algorithm else 0.0),
            "generation_tokens_total": ("counter", engine.tokens),
            "num_requests_total": ("counter", engine.finished),
        }
        lines = []
        for name, (kind, value) in values.items():
            lines += [f"# TYPE sglang:{name} {kind}", f"sglang:{name}{labels} {float(value)}"]
        return "\n".join(lines) + "\n"


def _model_info(args: object) -> dict:
    return {
        "model_path": args.model_path,
        "tokenizer_path": args.tokenizer_path,
        "is_generation": True,
        "preferred_sampling_params": None,
        "weight_version": args.weight_version,
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
    }


def _cumulative(pieces: Iterator[tuple]) -> Iterator[dict]:
    """Chunks of ``/generate``: each carries the whole text so far."""
    text = ""
    for new, ids, meta in pieces:
        text += new
        yield {"text": text, "output_ids": list(ids), "meta_info": meta}


def _openai_chunks(pieces: Iterator[tuple], base: dict, chat: bool) -> Iterator[dict]:
    for new, dummy, meta in pieces:
        done = "length" if meta["finish_reason"] else None
        part = {"delta": {"role": "assistant", "content": new}} if chat else {"text": new}
        yield {"id": meta["id"], **base, "choices": [{"index": 0, **part, "finish_reason": done}]}
