"""Which builds go, and which never do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.build import prune, snapshot


class Host:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.builds = root / "builds"

    def build(self, name: str, sealed: int = 0, quarantined: bool = False) -> str:
        path = self.builds / f"{name}.1"
        (path / "bin").mkdir(parents=True)
        (path / snapshot.MANIFEST).write_text(json.dumps({"sealed_at": f"2026-01-{sealed + 1:02}T00:00:00Z"}))
        if quarantined:
            (path / snapshot.QUARANTINED).write_text("{}")
        return str(path)

    def activation(self, instance: str, number: int, build: str) -> None:
        folder = self.root / instance / "activations" / str(number)
        folder.mkdir(parents=True)
        (folder / "activation.json").write_text(json.dumps({"n": number, "build": {"path": build}}))

    def prune(self, keep: int, dry: bool = False) -> list[str]:
        gone = prune.prune(keep, str(self.builds), str(self.root), dry)
        assert all(os.path.exists(path) == dry for path in gone)
        return gone


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_the_newest_are_kept(host: Host) -> None:
    old, middle, new = (host.build(f"b{number}", number) for number in (1, 2, 3))
    assert host.prune(2, dry=True) == [old]
    assert host.prune(2) == [old]
    assert host.prune(2) == []
    assert host.prune(0) == [middle, new]


def test_quarantined_ones_are_not_the_newest(host: Host) -> None:
    good, drifted = host.build("good", 1), host.build("drifted", 2, quarantined=True)
    assert host.prune(1) == [drifted]
    assert os.path.exists(good)


def test_what_the_last_three_activations_name_stays(host: Host) -> None:
    builds = [host.build(f"b{number}", number) for number in range(5)]
    for number, build in enumerate(builds[:4], 1):
        host.activation("kimi", number * 5, build)
    assert host.prune(0) == [builds[0], builds[4]]


def test_a_build_whose_name_begins_like_another_is_not_taken_for_it(host: Host) -> None:
    host.build("b", 1)
    host.activation("kimi", 1, str(host.builds / "b.11"))
    assert host.prune(0) == [str(host.builds / "b.1")]


def test_a_build_with_a_live_process_stays_whatever_the_process_calls_itself(host: Host) -> None:
    build = host.build("b", 1)
    interpreter = Path(build) / "bin" / "python"
    interpreter.symlink_to(sys.executable)
    library = Path(build) / "lib.so"
    library.write_bytes(b"x" * 4096)
    mapping = (
        f"import mmap, time; f = open({str(library)!r}, 'r+b'); m = mmap.mmap(f.fileno(), 0); print(1, flush=True)"
    )
    for argv in (
        [str(interpreter), "-c", "print(1, flush=True); import time; time.sleep(60)"],
        [sys.executable, "-c", f"{mapping}; time.sleep(60)"],
    ):
        process = subprocess.Popen(argv, stdout=subprocess.PIPE)
        try:
            assert process.stdout is not None and process.stdout.readline() == b"1\n"
            assert host.prune(0, dry=True) == []
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
    assert host.prune(0) == [build]


def test_an_unfinished_build_is_not_pruned_but_left_to_the_next_build(host: Host) -> None:
    path = Path(host.build("b"))
    (path / snapshot.MANIFEST).unlink()
    assert host.prune(0) == [] and path.exists()


def test_the_age_is_that_of_the_seal_and_not_of_the_folder(host: Host) -> None:
    new, old = host.build("new", 9), host.build("old", 1)
    os.utime(old, (time.time() + 60, time.time() + 60))
    assert host.prune(1) == [old]
    assert os.path.exists(new)
