# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""What is installed in an environment, read from its files: distributions, their records, the pins of a lock."""

from __future__ import annotations

import base64
import csv
import glob
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.parser import HeaderParser
from typing import Any

from ..errors import InferopsError
from ..files import read_text
from .snapshot import normalise
from .store import top

_NAME = r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*"
_PIN = re.compile(_NAME + r"={2,3}\s*([A-Za-z0-9.!+_-]+)\s*(;.*)?\Z")
_ADDRESS = re.compile(_NAME + r"@\s*\S")


@dataclass(frozen=True)
class Distribution:
    """One ``dist-info`` folder. ``requires`` are its ``Requires-Dist`` lines, ``folder_version`` what the name says."""

    folder: str
    name: str
    version: str
    folder_version: str
    requires: list[str] = field(default_factory=list)


def pins(requirements: str) -> dict[str, list[str]]:
    """The exact pins of a requirements file: normalised name -> versions, of which markers choose one."""
    found: dict[str, list[str]] = {}
    for match in filter(None, map(_PIN.match, _wanted(requirements))):
        found.setdefault(normalise(match.group(1)), []).append(match.group(2))
    return found


def conditional(requirements: str) -> set[str]:
    """The names that only pins with a marker ask for: a host may have none of them."""
    matches = list(filter(None, map(_PIN.match, _wanted(requirements))))
    always = {normalise(match.group(1)) for match in matches if not match.group(3)}
    return {normalise(match.group(1)) for match in matches} - always


def addresses(requirements: str) -> set[str]:
    """The names that are required by address (``name @ https://…``): their version is not known."""
    return {normalise(match.group(1)) for match in filter(None, map(_ADDRESS.match, _wanted(requirements)))}


def no_pins(requirements: str) -> list[str]:
    """The lines that a lock cannot have: neither an exact version nor an address (a range, an option of pip)."""
    return [line for line in _wanted(requirements) if not _PIN.match(line) and not _ADDRESS.match(line)]


def required(line: str) -> str:
    """The normalised name that a requirement begins with (``Torch[cuda]>=2; extra == …``)."""
    return normalise(re.split(r"[\s\[<>=!~;(@]", line, maxsplit=1)[0])


def all_hashed(requirements: str) -> bool:
    """Whether every requirement has a hash; options, comments and blank lines do not count."""
    wanted = [line for line in _lines(requirements) if not line.startswith("-")]
    return bool(wanted) and all("--hash=" in line for line in wanted)


def _lines(requirements: str) -> list[str]:
    """The lines of a requirements file as pip reads them: continued ones joined, without comments and blank ones."""
    joined = re.sub(r"\\\r?\n", " ", requirements)
    lines = (re.sub(r"(^|\s)#.*", "", line).strip() for line in joined.splitlines())
    return [line for line in lines if line]


def _wanted(requirements: str) -> list[str]:
    """The lines without their hashes."""
    return [re.split(r"\s--hash\b", line)[0].strip() for line in _lines(requirements)]


def site_packages(path: str) -> str:
    """The folder of packages, relative to the environment.

    :raises InferopsError: when the environment has none, or several.
    """
    found = glob.glob(os.path.join(path, "lib", "python3*", "site-packages"))
    if len(found) != 1:
        raise InferopsError(f"{path} is no environment of one Python: found {found or 'no lib/python3*/site-packages'}")
    return os.path.relpath(found[0], path)


def distributions(path: str, packages: str) -> list[Distribution]:
    """Every distribution in the environment, by name."""
    found = []
    for folder in glob.glob(os.path.join(path, packages, "*.dist-info")):
        text = read_text(os.path.join(folder, "METADATA"))
        if text is None:
            continue
        headers = HeaderParser().parsestr(text)
        stem = os.path.basename(folder)[: -len(".dist-info")]
        found.append(
            Distribution(
                folder,
                normalise(str(headers["Name"])),
                str(headers["Version"]),
                stem.rpartition("-")[2],
                [str(line) for line in headers.get_all("Requires-Dist") or []],
            )
        )
    return sorted(found, key=lambda item: item.name)


def owners(path: str, packages: str) -> dict[str, list[str]]:
    """Whose a file may be: its top folder in ``site-packages`` (or its path, elsewhere) -> distributions."""
    found: dict[str, set[str]] = {}
    for distribution in distributions(path, packages):
        for file, dummy in _records(distribution, packages):
            name = top(file, packages)
            if not name.endswith(".dist-info"):
                found.setdefault(name, set()).add(distribution.name)
    return {name: sorted(names) for name, names in sorted(found.items())}


def spoiled(path: str, packages: str, record: dict[str, list[Any]]) -> dict[str, list[str]]:
    """Files whose content is not what their distribution's ``RECORD`` says: distribution -> paths.

    ``record`` holds the digests as found. Two distributions may hold one path (namespace packages); a file is right
    when it is as one of them says.
    """
    wanted: dict[str, dict[str, str]] = {}
    for distribution in distributions(path, packages):
        for file, digest in _records(distribution, packages):
            if digest:
                wanted.setdefault(file, {})[digest] = distribution.name
    wrong: dict[str, list[str]] = {}
    for file, digests in wanted.items():
        entry = record.get(file)
        if entry is not None and entry[2] not in digests:
            for name in digests.values():
                wrong.setdefault(name, []).append(file)
    return wrong


def _records(distribution: Distribution, packages: str) -> Iterator[tuple[str, str]]:
    """The files of a distribution, relative to the environment, with their SHA-256 (empty where none is given)."""
    text = read_text(os.path.join(distribution.folder, "RECORD")) or ""
    for row in csv.reader(text.splitlines()):
        if len(row) >= 2:
            digest = ""
            if row[1].startswith("sha256="):
                raw = row[1][len("sha256=") :]
                digest = base64.urlsafe_b64decode(raw + "=" * (-len(raw) % 4)).hex()
            yield os.path.normpath(os.path.join(packages, row[0])), digest
