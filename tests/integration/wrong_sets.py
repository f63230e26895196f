"""Sets of packages that a proof must refuse, one for each kind of check: tiny wheels of the real names."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from unit.build.build_wheels import wheel

#: The function that a kernel asks its torch for; a release later its argument has another type.
_TORCH = 'namespace c10 { __attribute__((visibility("default"))) void check(%s) {} }\n'
_KERNEL = 'namespace c10 { void check(%s); }\nextern "C" void run() { c10::check(1); }\n'


@dataclass(frozen=True)
class WrongSet:
    """What ``pins`` (beside SGLang) in a lock for ``cuda`` make the proof say under ``check``."""

    name: str
    pins: tuple[str, ...]
    check: str
    says: str
    cuda: str | None = None
    capabilities: list[str] = field(default_factory=list)


SETS = (
    WrongSet("import", ("sglang-kernel==0.4.1",), "import:sgl_kernel", "ImportError: no kernel"),
    WrongSet(
        "abi",
        ("torch==2.14.1", "sglang-kernel==0.4.4"),
        "abi:sgl_kernel",
        "sgl_kernel/common_ops.abi3.so needs c10::check",
        cuda="13.0",
    ),
    WrongSet(
        "cuda-majors",
        ("nvidia-cudnn-cu12==9.1",),
        "cuda",
        "the lock is for CUDA 13, but nvidia-cudnn-cu12 9.1 is for CUDA 12",
        cuda="13.0",
    ),
    WrongSet("broken-pin", ("needy==1.0",), "pin:needy:absent", "needy requires absent>=2"),
    WrongSet(
        "leftover-kernel",
        ("sgl-kernel==0.3.21", "sglang-kernel==0.4.10"),
        "leftover:sgl-kernel",
        "sgl-kernel is the old name of sglang-kernel",
    ),
    WrongSet(
        "leftover-cubin",
        ("flashinfer-python==0.6.14", "flashinfer-cubin==0.6.3"),
        "leftover:flashinfer-cubin",
        "flashinfer-cubin 0.6.3 beside flashinfer-python 0.6.14",
    ),
    WrongSet(
        "flashinfer-cache",
        ("flashinfer-python==0.6.14", "flashinfer-jit-cache==0.6.3"),
        "leftover:flashinfer-jit-cache",
        "flashinfer-jit-cache 0.6.3 beside flashinfer-python 0.6.14",
    ),
    WrongSet("torch-cuda", ("torch==2.9.1",), "cuda:torch", "torch 2.9.1 is built for CUDA 12.8", cuda="13.0"),
    WrongSet(
        "architectures",
        ("torch==2.14.1",),
        "arch:torch:12.0",
        "torch has no code for capability 12.0",
        cuda="13.0",
        capabilities=["9.0", "12.0"],
    ),
    WrongSet(
        "compiler",
        ("nvidia-cuda-nvcc==13.0.88", "nvidia-nvvm==13.5.1"),
        "nvcc",
        "the compiler's parts are of different versions",
        cuda="13.0",
    ),
)


def fill(folder: Path) -> None:
    """Write the wheels of all sets."""
    with tempfile.TemporaryDirectory() as scratch:
        torch, kernel = Path(scratch, "libc10.so"), Path(scratch, "common_ops.abi3.so")
        _compile(torch, _TORCH % "int")
        _compile(kernel, _KERNEL % "unsigned", "-L", scratch, "-lc10", "-Wl,--unresolved-symbols=ignore-all")
        for version, cuda in (("2.14.1", "13.0"), ("2.9.1", "12.8")):
            files = {
                "torch/__init__.py": "from . import _C, version\n__version__ = version.__version__\n",
                "torch/_C.py": "def _cuda_getArchFlags():\n    return 'sm_80 sm_90'\n",
                "torch/version.py": f"__version__ = '{version}'\ncuda = '{cuda}'\n",
                "torch/lib/libc10.so": torch.read_bytes(),
            }
            wheel(folder, "torch", version, files)
        kernels = {"sgl_kernel/__init__.py": "", "sgl_kernel/common_ops.abi3.so": kernel.read_bytes()}
        wheel(folder, "sglang-kernel", "0.4.4", kernels)
    wheel(folder, "sglang-kernel", "0.4.1", {"sgl_kernel/__init__.py": "raise ImportError('no kernel')\n"})
    wheel(folder, "sglang-kernel", "0.4.10", {"sgl_kernel/__init__.py": ""})
    wheel(folder, "sgl-kernel", "0.3.21", {"sgl_kernel/old.py": ""})
    wheel(folder, "flashinfer-python", "0.6.14", {"flashinfer/__init__.py": ""})
    wheel(folder, "flashinfer-cubin", "0.6.3", {"flashinfer_cubin/__init__.py": ""})
    wheel(folder, "flashinfer-jit-cache", "0.6.3", {"flashinfer_jit_cache/__init__.py": ""})
    wheel(folder, "needy", "1.0", {"needy.py": ""}, ["absent>=2"])
    for name, version in (("nvidia-cudnn-cu12", "9.1"), ("nvidia-cuda-nvcc", "13.0.88"), ("nvidia-nvvm", "13.5.1")):
        wheel(folder, name, version, {f"{name.replace('-', '_')}_files/readme.txt": name})


def _compile(target: Path, source: str, *flags: str) -> None:
    argv = ["g++", "-shared", "-fPIC", "-xc++", "-", "-o", str(target), "-xnone", f"-Wl,-soname,{target.name}", *flags]
    subprocess.run(argv, input=source, text=True, check=True)
