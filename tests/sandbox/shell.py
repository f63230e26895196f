"""Run programs, and say what happens while they run."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path


class SandboxError(Exception):
    """Something that the person at the keyboard must know: what was found, where, and what to do."""


def say(message: str) -> None:
    """One line of progress on stderr; stdout belongs to results."""
    print(f"sandbox: {message}", file=sys.stderr, flush=True)


@contextmanager
def step(title: str, every: float = 15.0) -> Iterator[None]:
    """Announce a long step, remind every ``every`` seconds that it still runs, and report how long it took."""
    began = time.monotonic()
    over = threading.Event()

    def remind() -> None:
        while not over.wait(every):
            say(f"{title} … {time.monotonic() - began:.0f} s")

    say(f"{title} …")
    reminder = threading.Thread(target=remind, daemon=True)
    reminder.start()
    try:
        yield
    finally:
        over.set()
        reminder.join()
    say(f"{title}: {time.monotonic() - began:.1f} s")


def run(argv: Sequence[str], *, env: Mapping[str, str] | None = None, log: Path | None = None) -> str:
    """Run to the end and return stdout; with ``log``, both streams go to that file instead.

    Raises SandboxError with the end of what the program said when it fails or is not there.
    """
    full_env = {**os.environ, **(env or {})}
    try:
        if log is None:
            done = subprocess.run(argv, env=full_env, capture_output=True, text=True, check=False)
            said, code = (done.stderr or done.stdout), done.returncode
        else:
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("w", encoding="utf-8") as stream:
                code = subprocess.run(
                    argv, env=full_env, stdout=stream, stderr=stream, stdin=subprocess.DEVNULL, check=False
                ).returncode
            said = log.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError as error:
        raise SandboxError(f"{argv[0]} is not installed on this machine") from error
    if code != 0:
        tail = "\n  ".join(said.strip().splitlines()[-15:])
        where = f" (all of it: {log})" if log else ""
        raise SandboxError(f"{' '.join(argv)} ended with {code}{where}:\n  {tail}")
    return "" if log else done.stdout


def succeeds(argv: Sequence[str]) -> bool:
    """Whether a quiet probe ends with 0; a program that is not there does not."""
    try:
        return subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0
    except FileNotFoundError:
        return False
