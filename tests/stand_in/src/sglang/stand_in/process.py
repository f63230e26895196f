"""Names of processes, and writing lines as SGLang does."""

from __future__ import annotations

import ctypes
import os
import sys
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15


def rename(title: str) -> None:
    """Change the process's name and command line (the kernel cuts the name to 15 characters)."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_NAME, title.encode(), 0, 0, 0)
    with open("/proc/self/stat", "rb") as stream:
        fields = stream.read().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])  # arg_start and arg_end of proc(5), counted from the state
    text = title.encode()[: end - start - 1]
    ctypes.memmove(start, text + b"\0" * (end - start - len(text)), end - start)


def die_with_parent() -> None:
    """Be killed when the main process is gone, as SGLang's children arrange it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0)


def raw(text: str) -> None:
    """Write to standard error as it is, in one system call."""
    os.write(2, text.encode())


def say(text: str, rank: str = "") -> None:
    """A log line: time, rank, no level, as SGLang logs."""
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    raw(f"[{stamp}{' ' + rank if rank else ''}] {text}\n")


def say_out(text: str) -> None:
    """An access line: these go to standard output."""
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    try:
        os.write(1, f"[{stamp}] {text}\n".encode())
    except OSError:
        sys.exit(1)
