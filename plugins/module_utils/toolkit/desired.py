# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The description of a CUDA toolkit, as the inventory's ``sglang_toolkit`` gives it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from ..errors import InferopsError, nearest
from ..gpu import capability

APT = "apt"
WHEELS = "wheels"
PRESENT = "present"
NONE = "none"
SOURCES = (APT, WHEELS, PRESENT, NONE)
KEEP = "keep"
SET = "set"
#: Hopper and RTX PRO Blackwell.
CAPABILITIES = ("9.0", "12.0")
#: What the kernels of SGLang and flashinfer include and link when they are compiled on the host.
COMPONENTS = ("nvcc", "cudart", "nvrtc", "cccl", "cublas", "curand")
#: Fingerprint of the key that signs the vendor's CUDA repositories since 2022 (its id there: 3bf863cc).
KEY_FINGERPRINT = "EB693B3035CD5710E231E123A4B469963BF863CC"


@dataclass(frozen=True)
class Desired:
    """What the host shall have.

    ``version`` is a release (``13.0.2``) or a minor release (``13.0``: any update of it is right, the newest is
    installed). ``path`` is where the toolkit lies; ``repository``, ``key`` and ``key_fingerprint`` are for ``apt``
    (an empty repository is the vendor's for this distribution; an empty key is the repository's own key file);
    ``components``, ``indexes`` and ``find_links`` are for ``wheels``.
    """

    source: str = NONE
    version: str = ""
    path: str = ""
    default_link: str = KEEP
    components: tuple[str, ...] = COMPONENTS
    capabilities: tuple[str, ...] = CAPABILITIES
    state: str = "present"
    repository: str = ""
    key: str = ""
    key_fingerprint: str = KEY_FINGERPRINT
    indexes: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()

    @property
    def minor(self) -> str:
        """``13.0`` of ``13.0.2``: one toolkit of each minor release is managed."""
        return ".".join(self.version.split(".")[:2])

    def satisfied_by(self, version: str | None) -> bool:
        """Whether a toolkit of this version is what is wanted; ``13.0`` alone may be all that a toolkit says."""
        return version is not None and f"{version}.".startswith(f"{self.version}.")


def parse(described: Mapping[str, Any] | None) -> Desired:
    """Check a description and fill in what it leaves out.

    :raises InferopsError: for an unknown key or a value that means nothing, naming it.
    """
    given = {key: value for key, value in dict(described or {}).items() if value is not None}
    names = [field.name for field in fields(Desired)]
    for key in given:
        if key not in names:
            raise InferopsError(f"toolkit: unknown key {key!r}{nearest(str(key), names)}; known: {', '.join(names)}")
    for key in ("components", "capabilities", "indexes", "find_links"):
        if key in given:
            given[key] = _list(given[key])
    given["version"] = str(given.get("version", ""))
    desired = Desired(**given)
    _check(desired)
    if desired.source == NONE:
        return desired
    return replace(desired, path=os.path.normpath(desired.path or f"/usr/local/cuda-{desired.minor}"))


def _list(value: Any) -> tuple[str, ...]:
    """A list as Ansible takes it: one text holds its entries with commas between."""
    entries = value if isinstance(value, (list, tuple)) else str(value).split(",")
    return tuple(str(entry).strip() for entry in entries)


def _check(desired: Desired) -> None:
    for key, known in (("source", SOURCES), ("default_link", (KEEP, SET)), ("state", ("present", "absent"))):
        value = getattr(desired, key)
        if value not in known:
            raise InferopsError(
                f"toolkit: {key} is {value!r}{nearest(str(value), known)}; it must be one of {', '.join(known)}"
            )
    if desired.source == NONE:
        return
    if not re.fullmatch(r"\d+\.\d+(\.\d+)?", desired.version):
        raise InferopsError(
            f"toolkit: version is {desired.version!r}; it must be a CUDA release such as '13.0' or '13.0.2', in quotes"
        )
    capability.require(desired.capabilities, "toolkit: capabilities", suffixes="af")
    if desired.path and not desired.path.startswith("/"):
        raise InferopsError(f"toolkit: path is {desired.path!r}; it must be absolute")
    if os.path.normpath(desired.path or "/") == "/usr/local/cuda" and desired.source != PRESENT:
        raise InferopsError(
            "toolkit: /usr/local/cuda is the default link, not a toolkit's folder; leave path out and use "
            "default_link: set to make this toolkit the default"
        )
