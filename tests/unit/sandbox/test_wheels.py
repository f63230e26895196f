"""The sandbox's own wheels: always the same bytes, and such that a package manager takes them."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.metadata
import zipfile
from pathlib import Path

import pytest
from sandbox.pins import pins, wheel_identity
from sandbox.wheelhouse import lock_files
from sandbox.wheels import LOCAL_WHEELS, LocalWheel, build

each_wheel = pytest.mark.parametrize("wheel", LOCAL_WHEELS, ids=lambda wheel: wheel.filename)


@each_wheel
def test_the_record_lists_every_member_with_its_digest(wheel: LocalWheel, tmp_path: Path) -> None:
    with zipfile.ZipFile(build(wheel, tmp_path)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    record = f"{wheel.info_folder()}/RECORD"
    rows = {row[0]: row[1:] for row in csv.reader(members[record].decode().splitlines())}
    assert rows.keys() == members.keys()
    for name, data in members.items():
        if name != record:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert rows[name] == [f"sha256={digest}", str(len(data))]
    assert any(name.endswith(".py") for name in members)


@each_wheel
def test_locks_name_the_hash_of_the_wheel_as_it_is_built_today(wheel: LocalWheel, tmp_path: Path) -> None:
    """Fails when a source changed: raise its version in ``wheels.py`` and put version and hash into the lock."""
    digest = hashlib.sha256(build(wheel, tmp_path).read_bytes()).hexdigest()
    named = [
        pin
        for path in lock_files()
        for pin in pins(path.read_text(encoding="utf-8"))
        if (pin.name, pin.version) == wheel_identity(wheel.filename)
    ]
    assert [pin.hashes for pin in named] == [{digest}]


def test_the_plugin_is_found_by_its_entry_point_group(tmp_path: Path) -> None:
    wheel = next(wheel for wheel in LOCAL_WHEELS if wheel.entry_points)
    zipfile.ZipFile(build(wheel, tmp_path)).extractall(tmp_path / "site")
    (found,) = importlib.metadata.distributions(path=[str(tmp_path / "site")])
    assert (found.name, found.version) == (wheel.name, wheel.version)
    (entry,) = found.entry_points
    assert entry.group == "sglang.srt.plugins"
    module, function = entry.value.split(":")
    assert f"def {function}(" in (tmp_path / "site" / f"{module}.py").read_text(encoding="utf-8")
