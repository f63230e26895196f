"""What a failed compile is said to mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.running import Completed
from ansible_collections.inferops.sglang.plugins.module_utils.toolkit import smoke


class Compiler:
    def __init__(self, rc: int, stderr: str = "", stdout: str = "") -> None:
        self.answer = Completed(rc, stdout, stderr)
        self.argv: list[str] = []

    def __call__(self, argv: Sequence[str], **dummy: Any) -> Completed:
        self.argv = list(argv)
        return self.answer


# each text as a real compiler printed it
COMPLAINTS = [
    (
        "ptxas /tmp/x.ptx, line 9; fatal   : Unsupported .version 9.5; current version is '9.0'\n"
        "ptxas fatal   : Ptx assembly aborted due to errors",
        "Unsupported .version 9.5",
        "mixes minor releases",
    ),
    ("nvcc fatal   : Unsupported gpu architecture 'compute_120'", "compute_120", "does not know that card"),
    (
        "smoke.cu:2:10: fatal error: cublas_v2.h: No such file or directory\n    2 | #include <cublas_v2.h>\n"
        "compilation terminated.",
        "cublas_v2.h",
        "headers are incomplete",
    ),
    ("sh: 1: gcc: not found", "gcc", "install gcc"),
    ("sh: 1: cicc: not found", "cicc", "a part of the compiler is missing"),
    ("ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'", "sm_121a", "does not know that card"),
    (
        "/usr/include/bits/mathcalls.h(206): error: exception specification is incompatible with that of previous "
        'function "rsqrtf" (declared at line 653 of /usr/local/cuda/include/crt/math_functions.h)',
        "mathcalls.h(206)",
        "the C library of this system is newer",
    ),
    (
        "/usr/bin/ld: cannot find -lcudadevrt: No such file or directory\ncollect2: error: ld returned 1 exit status",
        "-lcudadevrt",
        "link name",
    ),
]


@pytest.mark.parametrize(("stderr", "quoted", "meaning"), COMPLAINTS)
def test_the_first_complaint_and_its_meaning(stderr: str, quoted: str, meaning: str) -> None:
    with pytest.raises(InferopsError) as raised:
        smoke.compile_for(Compiler(255, stderr), "/usr/local/cuda-13.0", ["12.0"])
    assert quoted in raised.value.message and meaning in raised.value.message
    assert "does not compile for 12.0" in raised.value.message


def test_code_for_every_capability_in_one_compile() -> None:
    compiler = Compiler(0)
    smoke.compile_for(compiler, "/usr/local/cuda-13.0", ["9.0", "12.0", "12.0a"])
    text = " ".join(compiler.argv)
    for number in ("90", "120", "120a"):
        assert f"arch=compute_{number},code=sm_{number}" in text


def test_compiler_version() -> None:
    printed = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 13.0, V13.0.88\nBuild x\n"
    assert smoke.nvcc_version(Compiler(0, stdout=printed), "/c") == "13.0.88"
    with pytest.raises(InferopsError, match="names no version"):
        smoke.nvcc_version(Compiler(0, stdout="?"), "/c")
