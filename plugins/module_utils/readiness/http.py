# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""One real generation, asked of a server directly: never through a proxy, whatever the environment says."""

from __future__ import annotations

import http.client
import json
import re
import socket
import time
from dataclasses import dataclass
from typing import Any

from ..files import read_text
from ..layout import Instance

PROMPT = "The capital of France is"
# For a server without a tokenizer: any small token ids do.
PROMPT_IDS = [1, 2, 3, 4]
_KEY = re.compile(r'^(?P<name>api-key|admin-api-key): *(?P<value>".*")\s*$', re.MULTILINE)


@dataclass(frozen=True)
class Generation:
    """What came back. ``status`` is 0 where nothing did; ``error`` says why, without any key.

    ``seconds``: from the request to the end of the answer. ``accept_length``: mean tokens of a verify step, where the
    server speculates. ``refused``: nobody listens.
    """

    status: int
    seconds: float
    text: str = ""
    tokens: int = 0
    accept_length: float | None = None
    error: str = ""
    refused: bool = False

    @property
    def ok(self) -> bool:
        return self.status == 200 and self.tokens > 0


def generate(
    host: str,
    port: int,
    *,
    key: str | None = None,
    max_new_tokens: int = 1,
    temperature: float = 0.0,
    prompt: str = PROMPT,
    dp_rank: int | None = None,
    timeout: float = 60.0,
) -> Generation:
    """One generation through ``/generate``; a failure is an answer, nothing is raised.

    ``dp_rank`` asks one data-parallel rank (every release from 0.5.7 to 0.5.23 knows this name of the field).
    """
    sampling = {"max_new_tokens": max_new_tokens, "temperature": temperature, "ignore_eos": True}
    body: dict[str, Any] = {"text": prompt, "sampling_params": sampling}
    if dp_rank is not None:
        body["data_parallel_rank"] = dp_rank
    answer = _ask(host, port, body, key, timeout)
    if answer.status == 400 and re.search(r"token|input_ids", answer.error):
        del body["text"]
        answer = _ask(host, port, {**body, "input_ids": PROMPT_IDS}, key, timeout)
    return answer


def _ask(host: str, port: int, body: dict[str, Any], key: str | None, timeout: float) -> Generation:
    began = time.monotonic()
    try:
        status, answer = request(host, port, "POST", "/generate", body, key, timeout)
    except ConnectionRefusedError:
        return Generation(0, time.monotonic() - began, error="nobody listens on the port", refused=True)
    except OSError as error:
        return Generation(0, time.monotonic() - began, error=f"{type(error).__name__}: {error}")
    seconds = time.monotonic() - began
    if status != 200:
        return Generation(status, seconds, error=f"HTTP {status}: {_said(answer)}")
    return _read(answer, seconds)


def _read(answer: Any, seconds: float) -> Generation:
    if isinstance(answer, list) and answer:
        answer = answer[0]
    if not isinstance(answer, dict) or "meta_info" not in answer:
        return Generation(200, seconds, error="the answer is none of SGLang's: " + _said(answer))
    meta = answer["meta_info"]
    reason = meta.get("finish_reason") or {}
    if isinstance(reason, dict) and reason.get("type") == "abort":
        return Generation(200, seconds, error=f"the request was aborted: {reason.get('message', '')}")
    accept = meta.get("spec_accept_length")
    tokens = int(meta.get("completion_tokens") or len(answer.get("output_ids") or []))
    return Generation(200, seconds, str(answer.get("text", "")), tokens, None if accept is None else float(accept), "")


def _said(answer: Any) -> str:
    if isinstance(answer, dict):
        answer = answer.get("error", answer)
        answer = answer.get("message", answer) if isinstance(answer, dict) else answer
    return str(answer)[:300]


def request(
    host: str, port: int, method: str, path: str, body: Any = None, key: str | None = None, timeout: float = 10.0
) -> tuple[int, Any]:
    """One request; status and the parsed JSON answer, or its text where it is none.

    :raises OSError: when no answer comes.
    """
    connection = http.client.HTTPConnection(reachable(host), port, timeout=timeout)
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        raw = answer.read().decode("utf-8", "replace")
    except http.client.HTTPException as error:
        raise ConnectionError(f"{type(error).__name__}: {error}") from error
    finally:
        connection.close()
    try:
        return answer.status, json.loads(raw)
    except ValueError:
        return answer.status, raw


def reachable(host: str) -> str:
    """The address to connect to for a server that was told to listen on ``host``."""
    if host in ("0.0.0.0", "", "localhost"):
        return "127.0.0.1"
    return "::1" if host in ("::", "[::]") else host.strip("[]")


def listens(host: str, port: int, timeout: float = 1.0) -> bool:
    """Whether anybody accepts connections there."""
    try:
        with socket.create_connection((reachable(host), port), timeout):
            return True
    except OSError:
        return False


def api_key(instance: Instance) -> str | None:
    """The key that users of the instance must present; an admin key does where there is only that.

    :raises OSError: when the file is there and cannot be read.
    """
    text = read_text(instance.secrets_file)
    if text is None:
        return None
    keys = {match["name"]: str(json.loads(match["value"])) for match in _KEY.finditer(text)}
    return keys.get("api-key") or keys.get("admin-api-key")
