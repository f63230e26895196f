"""A CUDA toolkit from a signed apt repository: its key, one exact version, the hold, and the driver left alone."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cuda_wheels
import pytest
from apt_repository import Repository, Signer, toolkit
from conftest import Play, Run
from toolkit_host import PROVIDE, Host, changes

pytestmark = [pytest.mark.sandbox, pytest.mark.index]

LINK = "/usr/local/cuda-12.8"
DEBS = Path(os.environ.get("INFEROPS_CACHE", "/var/cache/inferops")) / "debs"
#: What Debian's own automatic upgrader needs on a minimal host.
UPGRADER = [
    *("unattended-upgrades", "python3-apt", "python-apt-common", "python3-distro-info", "distro-info-data"),
    *("lsb-release", "ucf", "sensible-utils", "python3-dbus", "libglib2.0-0"),
]
VERSIONS = "dpkg-query -W -f '${Package} ${Version}\\n' 'cuda-*' 'lib*-13-0'"


@dataclass
class World:
    host: Host
    repository: Repository
    ours: Signer
    other: Signer
    address: str
    play: Play | None = None

    def run(self, check: bool = False, **toolkit: Any) -> Run:
        wanted = {"source": "apt", "version": "13.0", "repository": self.address, **toolkit}
        wanted.setdefault("key_fingerprint", self.ours.fingerprint)
        assert self.play is not None
        return self.play(PROVIDE, inventory=self.host.inventory, check=check, sglang_toolkit=wanted)

    def provide(self, check: bool = False, **toolkit: Any) -> dict[str, Any]:
        run = self.run(check, **toolkit)
        assert run.status == "successful", run.stdout
        return run.results(self.host.name, "cuda_toolkit")[-1]

    def refused(self, **toolkit: Any) -> str:
        run = self.run(**toolkit)
        assert run.status == "failed"
        return run.failure(self.host.name)

    def held(self) -> set[str]:
        return set(self.host.run("apt-mark showhold").split())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    root = tmp_path_factory.mktemp("apt")
    ours, other = Signer(root / "ours", "cudatools"), Signer(root / "other", "somebody else")
    repository = Repository(root / "served", root / "scratch")
    toolkit(repository, cuda_wheels.folder("13.0.2"))
    DEBS.mkdir(parents=True, exist_ok=True)
    missing = [name for name in UPGRADER if not list(DEBS.glob(f"{name}_*.deb"))]
    if missing:
        subprocess.run(["apt-get", "download", *missing], cwd=DEBS, check=True, capture_output=True)
    for deb in DEBS.glob("*.deb"):
        shutil.copy(deb, repository.folder)
    repository.publish(ours)
    host = Host("cudaapt", root / "hosts.json", {})
    with repository.served() as address:
        yield World(host, repository, ours, other, address)
    host.down()
    shutil.rmtree(root)


@pytest.fixture
def world(made: World, play: Play) -> World:
    made.play = play
    return made


def configuration(host: Host) -> str:
    return host.run("find /etc/apt /usr/share/keyrings -name '*inferops*'").strip()


def test_another_key_than_the_expected_is_refused_before_anything_is_written(world: World) -> None:
    said = world.refused(key_fingerprint=world.other.fingerprint)
    assert f"found {world.ours.fingerprint}, wanted {world.other.fingerprint}" in said
    assert "nothing was installed" in said
    vendor = world.refused(key_fingerprint="EB69 3B30 35CD 5710 E231 E123 A4B4 6996 3BF8 63CC")
    assert "wanted EB693B3035CD5710E231E123A4B469963BF863CC" in vendor
    assert "fetching the repository's key" in world.refused(key=world.address + "none.pub")
    assert "no key at /nowhere.pub on this host" in world.refused(key="/nowhere.pub")
    assert configuration(world.host) == ""


def test_a_repository_signed_by_another_key_is_refused_and_leaves_no_trace(world: World) -> None:
    world.repository.publish(world.other, key=world.ours.public)
    said = world.refused()
    world.repository.publish(world.ours)
    assert "NO_PUBKEY" in said and "reading the repository http://controller:" in said
    assert configuration(world.host) == ""


def test_ladder(world: World) -> None:
    host = world.host
    # an alternative in automatic mode, which the packages' own scripts would move
    host.run(f"mkdir -p {LINK} && update-alternatives --install /usr/local/cuda cuda {LINK} 128")
    foretold = world.provide(check=True)
    assert set(changes(foretold)) == {"toolkit", "capabilities"} and configuration(host) == ""
    result = world.provide()
    assert set(changes(result)) == set(changes(foretold))
    assert result["version"] == "13.0.2" and result["nvcc_version"] == "13.0.88"
    assert result["packages"]["cuda-toolkit-13-0"] == "13.0.2-1"
    assert result["smoke"]["capabilities"] == ["9.0", "12.0"]
    assert host.default_link() == LINK == result["default_link"]
    assert world.held() == set(result["packages"]) and "libcublas-dev-13-0" in world.held()
    assert not world.provide()["changed"]
    assert not world.provide(check=True)["changed"]

    # released by hand: seen, and held again without anything else
    host.run("apt-mark unhold cuda-nvcc-13-0")
    assert set(changes(world.provide(check=True))) == {"hold"}
    assert set(changes(world.provide())) == {"hold"}
    assert "cuda-nvcc-13-0" in world.held()

    # a header is gone
    host.run("rm /usr/local/cuda-13.0/include/cublas_v2.h")
    assert {"files", "capabilities"} == set(changes(world.provide()))
    assert not world.provide()["changed"]

    # the pins were edited
    host.run("echo '# edited' >> /etc/apt/preferences.d/inferops-cuda-13-0")
    assert "apt configuration" in changes(world.provide())
    assert not world.provide()["changed"]


def test_no_upgrade_moves_it(world: World) -> None:
    """Neither by hand nor the unattended one: the repository has got newer packages meanwhile."""
    host = world.host
    before = host.run(VERSIONS)
    world.repository.package("cuda-nvcc-13-0", "13.0.95-1")
    world.repository.package("cuda-toolkit-13-0", "13.0.3-1", depends=["cuda-nvcc-13-0 (>= 13.0.88)"])
    world.repository.publish(world.ours)
    only = "-o Dir::Etc::sourcelist=/etc/apt/sources.list.d/inferops-cuda.sources -o Dir::Etc::sourceparts=-"
    host.run(f"apt-get -q update {only}")
    # without hold and pins it would be moved: what is shown here is their doing
    free = host.run("apt-get -s --ignore-hold -o Dir::Etc::PreferencesParts=/nowhere dist-upgrade")
    assert "Inst cuda-nvcc-13-0 [13.0.88-1] (13.0.95-1" in free
    host.run("DEBIAN_FRONTEND=noninteractive apt-get -q -y upgrade && apt-get -q -y dist-upgrade")
    host.run("DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install unattended-upgrades")
    host.run("echo 'Unattended-Upgrade::Origins-Pattern { \"origin=NVIDIA\"; };' > /etc/apt/apt.conf.d/52test")
    # the same, with the pins away: the hold alone stops it
    host.run("mv /etc/apt/preferences.d/inferops-cuda-13-0 /tmp/pins")
    log = host.run("unattended-upgrade --verbose 2>&1")
    host.run("mv /tmp/pins /etc/apt/preferences.d/inferops-cuda-13-0")
    assert "cuda-nvcc-13-0" in log, log  # it was looked at, and left
    assert host.run(VERSIONS) == before
    assert not world.provide()["changed"]


def test_another_release_is_installed_when_it_is_asked_for(world: World) -> None:
    assert world.refused(version="13.0.9").count("found 13.0.3-1, 13.0.2-1, 13.0.1-1") == 1
    assert "toolkit" in changes(world.provide(version="13.0.3"))
    assert "cuda-toolkit-13-0" in world.held()
    assert not world.provide(version="13.0.3")["changed"]
    assert not world.provide()["changed"]  # 13.0 is satisfied by it


def test_the_driver_is_never_touched(world: World) -> None:
    said = world.refused(version="13.1")
    assert "would touch the driver (cuda-drivers), so it was not run" in said
    assert world.host.run("dpkg -l cuda-drivers 2>/dev/null | grep -c ^ii || true").strip() == "0"


def test_absent(world: World) -> None:
    foretold = world.provide(check=True, state="absent")
    assert foretold["changed"] and "cuda-toolkit-13-0" in world.held()
    gone = world.provide(state="absent")
    assert gone["changed"] and gone["installed"] == []
    assert configuration(world.host) == "" and world.held() == set()
    assert (
        world.host.run("dpkg-query -W -f '${Package} ${Status}\\n' '*-13-0*' | grep -c ' installed' || true").strip()
        == "0"
    )
    assert world.host.default_link() == LINK
    assert not world.provide(state="absent")["changed"]
