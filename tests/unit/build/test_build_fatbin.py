"""Device code in libraries, told from the file: on what nvcc writes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.build import elf, fatbin

KERNEL = 'extern "C" __global__ void k(float *p) { p[0] = 1; }\nextern "C" void go(float *p) { k<<<1, 1>>>(p); }\n'


def compiled(folder: Path, *code: tuple[str, str]) -> Path:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("needs nvcc")
    source = folder / "k.cu"
    source.write_text(KERNEL)
    target = folder / "k.so"
    flags = [f"-gencode=arch={arch},code={real}" for arch, real in code]
    argv = [nvcc, "-shared", "-Xcompiler", "-fPIC", "-cudart", "none", *flags, str(source), "-o", str(target)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this nvcc does not compile for {code}: {done.stderr[-200:]}")
    return target


def test_every_architecture_and_suffix_is_read(tmp_path: Path) -> None:
    code = [
        ("compute_90", "sm_90"),
        ("compute_100a", "sm_100a"),
        ("compute_120f", "sm_120f"),
        ("compute_90", "compute_90"),
    ]
    assert fatbin.architectures(str(compiled(tmp_path, *code))) == {"sm_90", "sm_100a", "sm_120f", "compute_90"}


def test_a_library_without_device_code_has_none(tmp_path: Path) -> None:
    import _ctypes

    assert fatbin.architectures(_ctypes.__file__) == set()
    path = tmp_path / "x.so"
    path.write_bytes(b"nothing")
    with pytest.raises(elf.NotElf):
        fatbin.architectures(str(path))
