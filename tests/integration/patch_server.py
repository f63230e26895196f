"""Runs on a sandbox host: a real, patched SGLang with planted API keys, and all that it prints, answers and dumps.

    python3 patch_server.py PYTHON USER_KEY ADMIN_KEY      # prints one JSON value

The server is started by hand, as in an environment that its owner keeps, with the keys on its command line.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

PORT = 31876
BASE = f"http://127.0.0.1:{PORT}"
PLAIN = ["--device=cpu", "--grammar-backend=none", "--max-total-tokens=4096", "--max-running-requests=8"]


def ask(path: str, key: str, body: Any = None) -> tuple[int, str]:
    """Status and text of an answer; status 0: nobody answered."""
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    request = urllib.request.Request(BASE + path, json.dumps(body).encode() if body else None, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def main(python: str, user_key: str, admin_key: str) -> None:
    folder = Path(tempfile.mkdtemp(prefix="patch-server-"))
    dumps = folder / "dumps"
    keys = [f"--api-key={user_key}", f"--admin-api-key={admin_key}", f"--crash-dump-folder={dumps}"]
    argv = [python, "-m", "sglang.launch_server", "--model-path=/srv/models/tiny-llama-echo", f"--port={PORT}"]
    environment = {**os.environ, "SGLANG_USE_CPU_ENGINE": "1", "HF_HUB_OFFLINE": "1", "HOME": str(folder)}
    with open(folder / "log", "w") as log:
        server = subprocess.Popen(
            [*argv, *PLAIN, *keys], stdout=log, stderr=log, env=environment, cwd=folder, start_new_session=True
        )
    result: dict[str, Any] = {}
    try:
        prompt = {"text": "The capital of France is", "sampling_params": {"max_new_tokens": 4, "temperature": 0}}
        until = time.monotonic() + 300
        while ask("/generate", user_key, prompt)[0] != 200:
            if server.poll() is not None or time.monotonic() > until:
                raise SystemExit("the server did not come up:\n" + (folder / "log").read_text()[-4000:])
            time.sleep(1)
        result["without_key"] = ask("/generate", "", prompt)[0]
        result["with_key"] = ask("/generate", user_key, prompt)[0]
        result["server_info"] = ask("/server_info", user_key)
        result["get_server_info"] = ask("/get_server_info", user_key)
        os.kill(server.pid, signal.SIGQUIT)  # what a dying scheduler sends: the requests are dumped first of all
        until = time.monotonic() + 120
        while "Dumped " not in (folder / "log").read_text(errors="replace") and time.monotonic() < until:
            time.sleep(0.5)
        result["dumps"] = [path.read_bytes().decode("latin-1") for path in dumps.rglob("*.pkl")]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        result["log"] = (folder / "log").read_text(errors="replace")
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
