"""The vendor's wheels of CUDA releases, fetched once into a folder that sandbox hosts get read-only.

A release takes 0.7 to 0.9 GB there; nothing of it is ever in the repository.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CACHE = Path(os.environ.get("INFEROPS_CACHE", "/var/cache/inferops")) / "cuda-wheels"
_EXTRAS = "nvcc,nvvm,crt,cudart,nvrtc,cccl,cublas,curand"
#: Sandbox hosts run Debian 12.
_PYTHON = "3.11"


def folder(*releases: str) -> Path:
    """A folder with all wheels of these releases (``13.0.2``) and one of uv; fetched where they are missing."""
    CACHE.mkdir(parents=True, exist_ok=True)
    uv = str(Path(sys.executable).with_name("uv"))
    for release in releases:
        stamp = CACHE / f".complete-{release}"
        if stamp.exists():
            continue
        wanted = f"cuda-toolkit[{_EXTRAS}]=={release}\nuv\n"
        argv = [uv, "pip", "compile", "--quiet", "--no-annotate", "--no-header", "--python-version", _PYTHON, "-"]
        pins = subprocess.run(argv, input=wanted, check=True, capture_output=True, text=True).stdout
        argv = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary=:all:",
            "-d",
            str(CACHE),
        ]
        subprocess.run([*argv, *pins.split()], check=True, capture_output=True)
        stamp.touch()
    return CACHE
