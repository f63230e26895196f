"""Control groups: found in both versions, limited in the right order."""

from __future__ import annotations

from pathlib import Path

import pytest
from sandbox import cgroups
from sandbox.files import mounted_below
from sandbox.shell import SandboxError, run, succeeds

HYBRID = """\
tmpfs /sys/fs/cgroup tmpfs rw,mode=755 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,nosuid,nodev,noexec,relatime,nsdelegate 0 0
cgroup /sys/fs/cgroup/systemd cgroup rw,nosuid,nodev,noexec,relatime,xattr,name=systemd 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,nosuid,nodev,noexec,relatime,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0
"""


def test_own_groups_under_version_one_with_version_two_beside_it() -> None:
    own = "4:memory:/user/a:b\n3:cpu,cpuacct:/\n2:pids:/x\n1:name=systemd:/init.scope\n0::/\n"
    assert cgroups.hierarchies(HYBRID, own) == {
        "memory": Path("/sys/fs/cgroup/memory/user/a:b"),
        "cpu,cpuacct": Path("/sys/fs/cgroup/cpu,cpuacct"),
        "name=systemd": Path("/sys/fs/cgroup/systemd/init.scope"),
        "": Path("/sys/fs/cgroup/unified"),
    }


def test_own_group_under_version_two() -> None:
    mounts = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n"
    assert cgroups.hierarchies(mounts, "0::/user.slice/s.scope\n") == {"": Path("/sys/fs/cgroup/user.slice/s.scope")}


def files(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).write_text("before", encoding="utf-8")
    return folder


@pytest.mark.parametrize(("size", "stored"), [("1000", "1000"), ("max", "-1")])
def test_version_one_limits_memory_and_memory_with_swap(tmp_path: Path, size: str, stored: str) -> None:
    group = files(tmp_path, "memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
    assert cgroups.limit_memory({"memory": group}, size) == group / "memory.limit_in_bytes"
    assert [path.read_text(encoding="utf-8") for path in group.iterdir()] == [stored, stored]


def test_version_one_without_swap_accounting(tmp_path: Path) -> None:
    group = files(tmp_path, "memory.limit_in_bytes")
    cgroups.limit_memory({"memory": group}, "1000")
    assert [path.name for path in group.iterdir()] == ["memory.limit_in_bytes"]


def test_version_two_allows_no_swap_under_a_limit(tmp_path: Path) -> None:
    group = files(tmp_path, "memory.max", "memory.swap.max")
    cgroups.limit_memory({"": group}, "1000")
    assert (group / "memory.max").read_text(encoding="utf-8") == "1000"
    assert (group / "memory.swap.max").read_text(encoding="utf-8") == "0"


def test_no_memory_controller_is_said(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="no memory controller"):
        cgroups.limit_memory({"": tmp_path}, "1000")


def test_mounts_below_a_folder_innermost_first_and_no_neighbour() -> None:
    mounts = (
        "a /x/root ext4 rw 0 0\nproc /x/root/proc proc rw 0 0\nb /x/root2 ext4 rw 0 0\nc /x/root/a\\040b tmpfs rw 0 0\n"
    )
    assert mounted_below(Path("/x/root"), mounts) == ["/x/root/proc", "/x/root/a b", "/x/root"]


def test_a_program_that_fails_or_is_absent_is_reported_with_its_words(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match=r"(?s)ended with 3.*\n  no such thing"):
        run(["sh", "-c", "echo no such thing >&2; exit 3"])
    with pytest.raises(SandboxError, match=rf"(?s)ended with 4 .*{tmp_path}/log.*\n  half done"):
        run(["sh", "-c", "echo half done; exit 4"], log=tmp_path / "log")
    with pytest.raises(SandboxError, match="no-such-program is not installed"):
        run(["no-such-program"])
    assert not succeeds(["no-such-program"])
