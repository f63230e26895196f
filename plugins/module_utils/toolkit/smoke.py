# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Prove a toolkit by what servers do with it: compile a kernel, link it against the runtime."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Sequence

from ..errors import InferopsError
from ..running import Completed, Runner, check

#: The headers are those whose absence people meet after minutes of loading; the kernel uses what they declare, for a
#: header that is only included may be empty.
SOURCE = r"""
#include <cublas_v2.h>
#include <cuda_fp8.h>
#include <curand_kernel.h>

extern "C" __global__ void smoke(float *out, const __nv_fp8_e4m3 *in, unsigned long long seed) {
  curandStatePhilox4_32_10_t state;
  curand_init(seed, threadIdx.x, 0, &state);
  out[threadIdx.x] = static_cast<float>(in[threadIdx.x]) + curand_uniform(&state);
}

extern "C" int smoke_runtime(void) {
  static_assert(sizeof(cublasHandle_t) == sizeof(void *), "cublas_v2.h is not what it should be");
  int version = 0;
  return cudaRuntimeGetVersion(&version) == cudaSuccess ? version : -1;
}
"""


def nvcc_version(runner: Runner, path: str) -> str:
    """The compiler's own version (``13.0.88``).

    :raises InferopsError: when the compiler does not run.
    """
    text = check(runner, [os.path.join(path, "bin", "nvcc"), "--version"], f"asking the compiler in {path}")
    match = re.search(r"V(\d+\.\d+\.\d+)", text)
    if match is None:
        raise InferopsError(f"{path}/bin/nvcc --version names no version: {text.strip()!r}")
    return match.group(1)


def compile_for(runner: Runner, path: str, capabilities: Sequence[str]) -> None:
    """Compile and link one shared library with code for all the capabilities (``9.0``, ``12.0``).

    :raises InferopsError: when that fails, with the compiler's first complaint and what it means.
    """
    scratch = tempfile.mkdtemp(prefix="cuda-smoke-")
    try:
        source = os.path.join(scratch, "smoke.cu")
        with open(source, "w", encoding="ascii") as stream:
            stream.write(SOURCE)
        argv = [os.path.join(path, "bin", "nvcc"), "-shared", "-Xcompiler", "-fPIC", "-cudart", "shared"]
        for number in (capability.replace(".", "") for capability in capabilities):
            argv += ["-gencode", f"arch=compute_{number},code=sm_{number}"]
        argv += ["-o", os.path.join(scratch, "smoke.so"), source]
        done = runner(argv, cwd=scratch, env={"CUDA_HOME": path, "LC_ALL": "C"})
    finally:
        shutil.rmtree(scratch)
    if done.rc != 0:
        complaint = first_complaint(done)
        raise InferopsError(
            f"the CUDA toolkit in {path} does not compile for {', '.join(capabilities)}: {complaint}{hint(complaint)}",
            rc=done.rc,
            stderr=done.stderr[-4000:],
        )


def first_complaint(done: Completed) -> str:
    """The first line that names an error; later ones follow from it."""
    lines = [line.strip() for line in (done.stderr + "\n" + done.stdout).splitlines() if line.strip()]
    pattern = re.compile(r"error|fatal|cannot find|not found|No such file|Killed", re.IGNORECASE)
    return next((line for line in lines if pattern.search(line)), lines[0] if lines else f"status {done.rc}")


_HINTS: tuple[tuple[str, str], ...] = (
    (
        r"Unsupported gpu architecture|is not defined for option 'gpu-name'",
        "this CUDA release does not know that card, or no longer does: use one that does, or set capabilities",
    ),
    (
        r"exception specification is incompatible",
        "the C library of this system is newer than this CUDA release knows: use a newer release",
    ),
    (
        r"(cicc|ptxas|fatbinary|nvlink|cudafe\+\+).*(not found|No such file)",
        "a part of the compiler is missing; install the toolkit again",
    ),
    (r"Unsupported \.version", "nvvm is newer than ptxas: the toolkit mixes minor releases; install it again"),
    (r"unsupported GNU version|unsupported clang version", "the host compiler is too new for this CUDA release"),
    (r"(gcc|g\+\+|cc1plus).*(No such file|not found)", "install gcc and g++"),
    (r"cannot find -l", "the toolkit lacks a library's link name; install it again"),
    (r"\.h: No such file", "the toolkit's headers are incomplete; add the component that has them"),
    (r"Killed", "the compiler was killed: the host ran out of memory"),
)


def hint(complaint: str, hints: Iterable[tuple[str, str]] = _HINTS) -> str:
    return next((f" ({words})" for pattern, words in hints if re.search(pattern, complaint)), "")
