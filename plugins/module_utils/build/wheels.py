# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""A folder of wheels on a host that was filled from the controller, part by part.

A wheel is cut into parts of one size. A part that came whole stays in ``.incoming`` when a transfer is cut, so the next
one goes on from there. A wheel gets its name when its digest is right, and never before.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from ..adapter import outcome
from ..changes import Plan
from ..errors import InferopsError
from ..files import read_json, sha256_file, write_atomic

INCOMING = ".incoming"
#: Name -> [size, mtime_ns, sha256] of wheels that were read once and found right.
VERIFIED = ".verified.json"


def parts(size: int, part_size: int) -> int:
    """How many parts a wheel of ``size`` bytes has."""
    return max(1, -(-size // part_size))


def observe(folder: str, wanted: Sequence[Mapping[str, Any]]) -> dict[str, str | None]:
    """The digest of each wanted wheel that is there; one whose size and time are as verified is not read again."""
    verified: dict[str, list[Any]] = read_json(os.path.join(folder, VERIFIED)) or {}
    found: dict[str, str | None] = {}
    for wheel in wanted:
        path = os.path.join(folder, wheel["name"])
        try:
            status = os.stat(path)
        except OSError:
            found[wheel["name"]] = None
            continue
        known = verified.get(wheel["name"])
        if known is not None and known[:2] == [status.st_size, status.st_mtime_ns]:
            found[wheel["name"]] = known[2]
        else:
            found[wheel["name"]] = sha256_file(path)
    return found


def plan(folder: str, wanted: Sequence[Mapping[str, Any]], found: Mapping[str, str | None]) -> Plan:
    """The wheels that are missing or not what they should be."""
    changes = Plan()
    for wheel in wanted:
        changes.add(f"wheelhouse/{folder}", wheel["name"], found[wheel["name"]], wheel["sha256"])
    return changes


def lacking(
    folder: str, wanted: Sequence[Mapping[str, Any]], found: Mapping[str, str | None], part_size: int
) -> dict[str, list[int]]:
    """For each wheel that is not there: the numbers of the parts that have not come yet."""
    missing = {}
    for wheel in wanted:
        if found[wheel["name"]] != wheel["sha256"]:
            numbers = range(parts(wheel["size"], part_size))
            missing[wheel["name"]] = [n for n in numbers if not os.path.exists(_part(folder, wheel, n, part_size))]
    return missing


def take(folder: str, wheel: Mapping[str, Any], number: int, source: str, digest: str, part_size: int) -> None:
    """Take the part that lies at ``source``; with the last one the wheel is put together.

    :raises InferopsError: when the part did not come as it was sent.
    """
    if sha256_file(source) != digest:
        raise InferopsError(f"part {number + 1} of {wheel['name']} was changed on its way to {folder}: run it again")
    target = _part(folder, wheel, number, part_size)
    os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
    # across file systems, so under another name first
    shutil.move(source, target + ".new")
    os.replace(target + ".new", target)
    complete(folder, wheel, part_size)


def complete(folder: str, wheel: Mapping[str, Any], part_size: int) -> bool:
    """Put the wheel together if all of its parts are there; whether it was.

    :raises InferopsError: when the whole has another digest than it should; its parts are removed then.
    """
    numbers = range(parts(wheel["size"], part_size))
    pieces = [_part(folder, wheel, number, part_size) for number in numbers]
    if not all(os.path.exists(piece) for piece in pieces):
        return False
    whole = pieces[0]
    with open(whole, "r+b") as stream:
        for number, piece in zip(numbers, pieces):
            if number:
                stream.seek(number * part_size)
                with open(piece, "rb") as more:
                    shutil.copyfileobj(more, stream, 1 << 20)
        stream.truncate(wheel["size"])
    try:
        if sha256_file(whole) != wheel["sha256"]:
            raise InferopsError(f"{wheel['name']} in {folder} is not what was sent: run it again")
        target = os.path.join(folder, wheel["name"])
        os.chmod(whole, 0o644)
        os.replace(whole, target)
    finally:
        _forget_parts(folder, [wheel], part_size)
    _remember(folder, wheel["name"], wheel["sha256"])
    return True


def _forget_parts(folder: str, there: Sequence[Mapping[str, Any]], part_size: int) -> None:
    """Remove what a run left that was killed just after it had put a wheel together."""
    for wheel in there:
        for number in range(parts(wheel["size"], part_size)):
            piece = _part(folder, wheel, number, part_size)
            if os.path.exists(piece):
                os.unlink(piece)


def _remember(folder: str, name: str, digest: str) -> None:
    path = os.path.join(folder, VERIFIED)
    status = os.stat(os.path.join(folder, name))
    verified = {**(read_json(path) or {}), name: [status.st_size, status.st_mtime_ns, digest]}
    write_atomic(path, (json.dumps(verified, indent=0, sort_keys=True) + "\n").encode())


def _part(folder: str, wheel: Mapping[str, Any], number: int, part_size: int) -> str:
    """The digest of the whole is in the name: parts of another wheel of this name are never taken for its own."""
    return os.path.join(folder, INCOMING, f"{wheel['sha256'][:16]}.{part_size}.{number}")


def run(params: Mapping[str, Any], check_mode: bool) -> dict[str, Any]:
    """What the module returns: with ``parts``, those are taken first; then what is there and what is lacking.

    :raises InferopsError: when it is called without its action plugin, or a part did not come as it was sent.
    """
    folder, wanted, part_size = params["dest"], params["wheels"], params["part_size"]
    if wanted is None:
        raise InferopsError("wheelhouse runs through its action plugin: call it as inferops.sglang.wheelhouse")
    by_name = {wheel["name"]: wheel for wheel in wanted}
    for part in params["parts"]:
        take(folder, by_name[part["wheel"]], part["number"], part["path"], part["sha256"], part_size)
    found = observe(folder, wanted)
    changes = plan(folder, wanted, found)
    missing = lacking(folder, wanted, found, part_size)
    if not check_mode:
        # a run that ended between the last part and the whole
        missing = {
            name: left for name, left in missing.items() if left or not complete(folder, by_name[name], part_size)
        }
        _forget_parts(folder, [wheel for wheel in wanted if wheel["name"] not in missing], part_size)
    return outcome(changes, dest=folder, wheels=sorted(by_name), missing=missing, transferred=0)
