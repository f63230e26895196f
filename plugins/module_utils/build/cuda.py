# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""For which CUDA major version a distribution is, as far as it says so."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .installed import Distribution, required

#: nvidia-cudnn-cu13, tensorrt-cu12-libs, cupy-cuda12x, nvidia-dali-cuda120.
_NAMED = re.compile(r"-(cu(?:da)?)(\d\d)\d?x?(?=-|\Z)")
#: cu130, pt29cu130, cu12torch2.9cxx11abitrue, cuda12.4 (after the plus sign).
_LOCAL = re.compile(r"(?<![a-z])cu(?:da)?(\d\d)")
#: Distributions without a CUDA version in their name whose own version is that of CUDA.
_VERSIONED = re.compile(r"(cuda-toolkit|nvidia-(cuda-(runtime|nvrtc|nvcc|crt|cupti|cccl)|nvvm|nvjitlink|nvtx))\Z")


def cuda_major(name: str, version: str) -> str | None:
    """The CUDA major version in a distribution's name, in its local version, or as its own version."""
    named = _NAMED.search(name)
    if named:
        return named.group(2)
    local = _LOCAL.search(version.partition("+")[2].lower())
    if local:
        return local.group(1)
    return version.partition(".")[0] if _VERSIONED.match(name) else None


def twin(name: str, major: str) -> str:
    """What a distribution that is named for one CUDA major version is called for another."""
    return _NAMED.sub(rf"-\g<1>{major}", name)


def on_purpose(name: str, wanted: str, found: Sequence[Distribution]) -> bool:
    """Whether a distribution for another major version belongs to the set all the same.

    It does where the one that asks for it, whatever else is chosen, asks for its twin for the wanted major version as
    well (by an extra, say) and that is there: the package has both and chooses when it is imported
    (nvidia-cutlass-dsl).
    """
    other = twin(name, wanted)
    if other == name or other not in {item.name for item in found}:
        return False
    for item in found:
        always = {required(line) for line in item.requires if not re.search(r"\bextra\s*==", line)}
        if name in always and other in {required(line) for line in item.requires}:
            return True
    return False
