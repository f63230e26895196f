"""Killed at every step, on a full disk, on a read-only file system: a tree is wholly old or wholly new."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import patch_trees as trees
import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.patch import transaction

FILES = {"__init__.py": b"", **{f"{name}.py": trees.GREETER for name in ("a", "b", "c", "d")}}
FOUR = trees.patch("four", *(trees.add_method(file=f"{name}.py") for name in ("a", "b", "c", "d")))
OTHER = trees.patch("other", trees.add_entry(file="a.py"), trees.add_entry(file="d.py"))
_WRITING = ("os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.chown", "shutil.rmtree")


def killed_after(steps: int, action: Callable[[], Any]) -> bool:
    """Run the action in a child that is killed before its file-system operation number ``steps``; whether it was."""
    child = os.fork()
    if child == 0:
        left = [steps]

        def count(event: str, args: tuple[Any, ...]) -> None:
            writes = event in _WRITING or (event == "open" and isinstance(args[2], int) and args[2] & 3)
            if writes and "__pycache__" not in str(args[0]):
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        status = 1
        try:
            action()
            status = 0
        finally:
            os._exit(status)
    dummy, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL), f"the child failed by itself: {status}"
    return status != 0


def every_kill(
    tmp_path: Path, prepare: Callable[[Path], Any], action: Callable[[Path], Any], stride: int = 1
) -> Iterator[tuple[int, Path]]:
    """A fresh tree for each step at which the action can be killed, killed there."""
    for steps in range(0, 1000, stride):
        root = tmp_path / str(steps)
        root.mkdir()
        trees.site_packages(root, FILES)
        prepare(root)
        if not killed_after(steps, lambda root=root: action(root)):
            assert steps > 20, "the enumeration saw too few operations to be one of them all"
            return
        yield steps, root


def leftovers(root: Path) -> list[str]:
    return [str(path) for path in root.rglob("*") if ".inferops-" in path.name and path.name != ".inferops-patch"]


@pytest.fixture
def old_and_new(tmp_path: Path) -> tuple[dict[str, bytes], dict[str, bytes]]:
    root = tmp_path / "whole"
    root.mkdir()
    trees.site_packages(root, FILES)
    old = trees.snapshot(root)
    trees.apply(root, FOUR)
    return old, trees.snapshot(root)


def test_killed_while_patching(tmp_path: Path, old_and_new: tuple[dict[str, bytes], dict[str, bytes]]) -> None:
    old, new = old_and_new
    seen = set()
    for steps, root in every_kill(tmp_path, lambda root: None, lambda root: trees.apply(root, FOUR)):
        foreseen = trees.plan(root, FOUR)
        assert foreseen["error"] is None
        transaction.recover(str(root / ".inferops-patch"))
        after = trees.snapshot(root)
        assert after in (old, new), f"a mixture after a kill before operation {steps}"
        assert not leftovers(root)
        seen.add(after == new)
        assert foreseen["changed"] == (after == old)
        answer = trees.apply(root, FOUR)
        assert trees.snapshot(root) == new and trees.states(answer) == [("four", "present", "inferops")]
        assert not trees.apply(root, FOUR)["changed"]
        trees.apply(root, FOUR, state="absent")
        assert trees.snapshot(root) == old and not leftovers(root)
        shutil.rmtree(root)
    assert seen == {True, False}


def test_killed_while_reverting(tmp_path: Path, old_and_new: tuple[dict[str, bytes], dict[str, bytes]]) -> None:
    old, new = old_and_new

    def revert(root: Path) -> Any:
        return trees.apply(root, FOUR, state="absent")

    for steps, root in every_kill(tmp_path, lambda root: trees.apply(root, FOUR), revert):
        transaction.recover(str(root / ".inferops-patch"))
        assert trees.snapshot(root) in (old, new), f"a mixture after a kill before operation {steps}"
        assert not revert(root)["error"]
        assert trees.snapshot(root) == old and not leftovers(root)
        shutil.rmtree(root)


def test_killed_while_a_second_patch_comes_in_and_again_while_that_is_finished(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    trees.site_packages(whole, FILES)
    trees.apply(whole, FOUR)
    old = trees.snapshot(whole)
    trees.apply(whole, OTHER)
    new = trees.snapshot(whole)
    for steps, root in every_kill(
        tmp_path, lambda root: trees.apply(root, FOUR), lambda root: trees.apply(root, OTHER), stride=3
    ):
        for again in range(steps % 7, 40, 7):
            if not killed_after(again, lambda root=root: trees.apply(root, OTHER)):
                break
        transaction.recover(str(root / ".inferops-patch"))
        assert trees.snapshot(root) in (old, new)
        trees.apply(root, OTHER)
        assert trees.snapshot(root) == new and not leftovers(root)
        shutil.rmtree(root)


def test_a_file_that_cannot_be_replaced_puts_all_others_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trees.site_packages(tmp_path, FILES)
    before = trees.snapshot(tmp_path)
    inodes = {name: (tmp_path / "sglang" / name).stat().st_ino for name in FILES}
    replace = os.replace

    def refusing(source: str, target: str) -> None:
        if source.endswith(".c.py.inferops-new"):
            raise PermissionError(1, "Operation not permitted", source, None, target)
        replace(source, target)

    monkeypatch.setattr(os, "replace", refusing)
    answer = trees.apply(tmp_path, FOUR)
    assert f"cannot write {tmp_path}/sglang/c.py: Operation not permitted; nothing was changed" in answer["error"]
    assert trees.snapshot(tmp_path) == before and not leftovers(tmp_path)
    assert inodes == {name: (tmp_path / "sglang" / name).stat().st_ino for name in FILES}
    monkeypatch.undo()
    assert trees.apply(tmp_path, FOUR)["changed"]


def test_a_file_changed_between_a_kill_and_the_next_run_is_left_alone(tmp_path: Path) -> None:
    for steps, root in every_kill(tmp_path, lambda root: None, lambda root: trees.apply(root, FOUR)):
        if (root / ".inferops-patch/journal.commit").exists():
            (root / "sglang/d.py").write_bytes(b"MINE = 1\n")
            transaction.recover(str(root / ".inferops-patch"))
            assert (root / "sglang/d.py").read_bytes() == b"MINE = 1\n", steps
            assert all((root / "sglang" / name).read_bytes() == FILES[name] for name in ("a.py", "b.py", "c.py"))
            assert not leftovers(root)
        shutil.rmtree(root)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("needs the right to mount a file system")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_changes_nothing_and_says_so(small_disk: Path) -> None:
    trees.site_packages(small_disk, FILES)
    before = trees.snapshot(small_disk)
    filler = small_disk / "filler"
    failures = 0
    for free in range(64):
        stat = os.statvfs(small_disk)
        filler.write_bytes(b"\0" * (stat.f_bavail * stat.f_frsize - free * stat.f_frsize))
        answer = trees.apply(small_disk, FOUR)
        filler.unlink()
        if not answer["error"]:
            break
        assert "No space left on device" in answer["error"] and "nothing was changed" in answer["error"]
        assert {k: v for k, v in trees.snapshot(small_disk).items() if k != "filler"} == before
        assert not leftovers(small_disk)
        failures += 1
    assert failures > 3 and answer["changed"]


def test_a_read_only_file_system_changes_nothing_and_says_so(small_disk: Path) -> None:
    trees.site_packages(small_disk, FILES)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    answer = trees.apply(small_disk, FOUR)
    assert "Read-only file system" in answer["error"] and "nothing was changed" in answer["error"]
    assert trees.plan(small_disk, FOUR)["changed"]
