"""A CUDA toolkit from wheels, for real: side by side, proved by compiles, repaired, removed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import cuda_wheels
import pytest
from conftest import Play
from toolkit_host import PROVIDE, ROOT, Host, changes

pytestmark = [pytest.mark.sandbox, pytest.mark.index]

NEW = {"source": "wheels", "version": "13.0"}
OTHER = {"source": "wheels", "version": "13.1.1"}
KERNEL = """
cat > /tmp/k.cu <<'E'
#include <cuda_fp8.h>
extern "C" __global__ void k(float *o, const __nv_fp8_e4m3 *i) { o[threadIdx.x] = static_cast<float>(i[threadIdx.x]); }
E
for arch in sm_90 sm_120; do PATH_TO/bin/nvcc -cubin -arch=$arch -o /tmp/k.$arch /tmp/k.cu || exit 1; done
od -An -tx1 -N4 /tmp/k.sm_120
"""
# a uv that stays after its work, so that there is a middle to be killed in
SLOW_UV = """
cd /opt/sglang/tools && mv uv uv-fast
cat > uv <<'END'
#!/bin/sh
/opt/sglang/tools/uv-fast "$@" || exit 1
test "$1" = pip && echo $PPID > /run/uv-parent && sleep 300
exit 0
END
chmod 755 uv
"""
KILL = """
for i in $(seq 300); do test -s /run/uv-parent && break; sleep 0.2; done
kill -KILL $(cat /run/uv-parent)
mv /opt/sglang/tools/uv-fast /opt/sglang/tools/uv
ls -d /usr/local/.cuda-13.0.*/site/nvidia
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    wheels = cuda_wheels.folder("13.0.2", "13.1.1")
    inventory = tmp_path_factory.mktemp("inventory") / "hosts.json"
    made = Host("cudawheels", inventory, {wheels: "/srv/cuda-wheels"})
    yield made
    made.down()


def test_ladder(host: Host, play: Play) -> None:
    def provide(toolkit: dict[str, Any], check: bool = False) -> dict[str, Any]:
        variables = {"sglang_toolkit": toolkit, "sglang_toolkit_find_links": ["/srv/cuda-wheels"]}
        run = play(PROVIDE, inventory=host.inventory, check=check, **variables)
        assert run.status == "successful", run.stdout
        return run.results(host.name, "cuda_toolkit")[-1]

    # another toolkit is there and is the default, as on most hosts
    first = provide(OTHER)
    assert first["changed"] and first["nvcc_version"].startswith("13.1.")
    host.run("ln -s /usr/local/cuda-13.1 /usr/local/cuda")

    foretold = provide(NEW, check=True)
    assert foretold["changed"] and foretold["version"] is None
    assert host.run("ls /usr/local").count("cuda-13.0") == 0
    made = provide(NEW)
    assert set(changes(made)) == set(changes(foretold)) == {"toolkit", "capabilities"}
    assert made["version"] == "13.0.2" and made["nvcc_version"] == "13.0.88"
    assert made["packages"]["nvidia-nvvm"] == made["packages"]["nvidia-cuda-crt"] == "13.0.88"
    assert made["smoke"]["capabilities"] == ["9.0", "12.0"]
    compiled = host.run(KERNEL.replace("PATH_TO", "/usr/local/cuda-13.0"))
    assert compiled.strip() == "7f 45 4c 46"  # an ELF object, that is a cubin
    assert host.default_link() == "/usr/local/cuda-13.1"
    listed = [(entry["version"], entry["default"]) for entry in made["installed"]]
    assert listed == [("13.0.2", False), ("13.1.1", True)]

    for toolkit in (OTHER, NEW):
        assert not provide(toolkit)["changed"]
        assert not provide(toolkit, check=True)["changed"]

    # a header is gone, which people meet in graph capture after the whole load
    host.run("rm /usr/local/cuda-13.0/include/cublas_v2.h")
    foretold = provide(NEW, check=True)
    assert "files" in changes(foretold) and "capabilities" in changes(foretold)
    assert host.run("test -e /usr/local/cuda-13.0/include/cublas_v2.h || echo missing").strip() == "missing"
    repaired = provide(NEW)
    assert repaired["changed"] and repaired["version"] == "13.0.2"
    assert not provide(NEW)["changed"]

    # one capability more is only proved, nothing is installed again
    more = provide({**NEW, "capabilities": ["9.0", "12.0", "10.0"]})
    assert set(changes(more)) == {"capabilities"}

    assert set(changes(provide({**NEW, "default_link": "set"}))) == {"default_link"}
    assert host.default_link() == "/usr/local/cuda-13.0"
    assert not provide({**NEW, "default_link": "set"})["changed"]

    gone = provide({**NEW, "state": "absent"})
    assert gone["changed"] and [entry["version"] for entry in gone["installed"]] == ["13.1.1"]
    assert host.run("ls -A /usr/local /opt/sglang/toolkits").count("13.0") == 0
    assert host.run("ls -d /usr/local/cuda 2>/dev/null || echo gone").strip() == "gone"
    assert not provide({**NEW, "state": "absent"})["changed"]
    assert host.run("/usr/local/cuda-13.1/bin/nvcc --version").count("V13.1.") == 1


def test_killed_in_the_middle_it_is_made_by_the_next_run(host: Host, play: Play) -> None:
    argv = [str(ROOT / ".venv/bin/ansible"), "-i", host.inventory, "all", "-m", "inferops.sglang.cuda_toolkit"]
    host.run(SLOW_UV)
    arguments = "source=wheels version=13.0 find_links=/srv/cuda-wheels"
    with subprocess.Popen(
        [*argv, "-a", arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as running:
        host.run(KILL)
        running.communicate()
    assert running.returncode != 0
    assert host.run("ls /usr/local/cuda-13.0 2>/dev/null | wc -l").strip() == "0"
    variables = {"sglang_toolkit": NEW, "sglang_toolkit_find_links": ["/srv/cuda-wheels"]}
    result = play(PROVIDE, inventory=host.inventory, **variables).results(host.name, "cuda_toolkit")[-1]
    assert result["changed"] and result["version"] == "13.0.2"
    assert host.run("ls -A /usr/local").count(".cuda-13.0") == 0


@pytest.mark.parametrize(
    ("toolkit", "words"),
    [
        ({"source": "wheels", "version": "12.8"}, "hold no nvcc"),
        ({"source": "wheels", "version": "13.9"}, "the wheels of CUDA 13.9 could not be installed"),
        (
            {"source": "present", "version": "11.8"},
            "found there: no toolkit (toolkits on this host: /usr/local/cuda-13.0",
        ),
        ({"source": "wheels", "version": "13.0", "path": "/usr/share"}, "did not come from source 'wheels'"),
        ({"source": "wheels", "version": "13.1.1", "capabilities": ["13.0"]}, "does not know that card"),
    ],
)
def test_what_cannot_be_is_said(host: Host, play: Play, toolkit: dict[str, Any], words: str) -> None:
    variables = {"sglang_toolkit": toolkit, "sglang_toolkit_find_links": ["/srv/cuda-wheels"]}
    run = play(PROVIDE, inventory=host.inventory, **variables)
    assert run.status == "failed"
    assert words in run.failure(host.name)


def test_what_is_there_is_adopted_and_only_forgotten(host: Host, play: Play) -> None:
    host.run("mv /usr/local/cuda-13.0 /opt/cuda-13 && rm -f /opt/sglang/toolkits/13.0.json")
    toolkit = {"source": "present", "version": "13.0", "path": "/opt/cuda-13"}

    def provide(**more: Any) -> dict[str, Any]:
        run = play(PROVIDE, inventory=host.inventory, sglang_toolkit={**toolkit, **more})
        assert run.status == "successful", run.stdout
        return run.results(host.name, "cuda_toolkit")[-1]

    adopted = provide()
    assert adopted["changed"] and adopted["home"] == "/opt/cuda-13" and adopted["nvcc_version"] == "13.0.88"
    assert not provide()["changed"]
    assert provide(state="absent")["changed"]
    assert host.run("/opt/cuda-13/bin/nvcc --version").count("V13.0.88") == 1
