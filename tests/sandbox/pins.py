"""Exact pins, and the wheels that satisfy them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .shell import SandboxError

_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Pin:
    """One exact requirement of a lock; ``hashes`` is empty where the lock gives none."""

    name: str
    version: str
    hashes: frozenset[str] = frozenset()

    @property
    def requirement(self) -> str:
        """As pip takes it."""
        return f"{self.name}=={self.version}"


def pins(requirements: str) -> list[Pin]:
    """The pins of a requirements file. Raises SandboxError for a line that is none."""
    found = []
    for line in re.sub(r"\\\n", " ", requirements).splitlines():
        text = line.split(" #")[0].strip()
        if not text or text.startswith("#"):
            continue
        match = _PIN.match(text)
        if match is None:
            raise SandboxError(f"a lock of the sandbox holds exact pins only; found {text!r}")
        found.append(Pin(normalise(match.group(1)), match.group(2), frozenset(_HASH.findall(text))))
    return found


def normalise(name: str) -> str:
    """A distribution's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def wheel_identity(filename: str) -> tuple[str, str]:
    """Normalised name and version from a wheel's file name."""
    name, version = filename.split("-")[:2]
    return normalise(name), version


def missing(wanted: Iterable[Pin], present: Iterable[str]) -> list[Pin]:
    """The pins that no file of ``present`` (names of wheels) satisfies."""
    there = {wheel_identity(name) for name in present if name.endswith(".whl")}
    return [pin for pin in wanted if (pin.name, pin.version) not in there]
