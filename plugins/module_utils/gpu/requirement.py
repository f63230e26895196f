# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Which driver a CUDA release needs."""

from __future__ import annotations

import re

#: Lowest driver branch by CUDA major: within a major, any minor release runs on it ("minor version compatibility",
#: CUDA Toolkit Release Notes, table of minimum required driver versions).
MINIMUM = {11: "450.80.02", 12: "525.60.13", 13: "580"}
WHERE = "docs/troubleshooting-cuda.md"


def carries(driver: str, cuda: str) -> bool:
    """Whether the driver can run programs built for this CUDA release; unknown majors need the newest known."""
    return _key(driver) >= _key(minimum(cuda))


def minimum(cuda: str) -> str:
    """The lowest driver version for a CUDA release (``13.0``)."""
    major = int(cuda.partition(".")[0])
    return MINIMUM.get(major, MINIMUM[max(MINIMUM)])


def judge(driver: str | None, cuda: str, container: str | None = None) -> str | None:
    """What is wrong with the driver for this CUDA release, in a sentence; ``None`` when it carries it.

    ``driver`` is ``None`` where there is no driver: that is for the caller to judge, so it is not a fault here.
    """
    if driver is None or carries(driver, cuda):
        return None
    where = "the hypervisor's" if container else "this host's"
    return (
        f"CUDA {cuda} needs driver {minimum(cuda)} or newer and {where} driver is {driver}: upgrade the driver there "
        f"(this collection never touches it; {WHERE}) or choose a lock built for an older CUDA"
    )


def _key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))
