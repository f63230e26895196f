"""Wheels into a folder in the shape of a toolkit."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.toolkit import wheels
from ansible_collections.inferops.sglang.plugins.module_utils.toolkit.desired import parse


def test_the_compilers_parts_are_always_asked_for() -> None:
    """cuda-toolkit pins only what is asked for by name: nvcc alone brings nvvm of a later minor release."""
    for version, tail in (("13.0", "==13.0.*"), ("13.0.2", "==13.0.2")):
        text = wheels.requirement(parse({"source": "wheels", "version": version, "components": ["nvcc", "cudart"]}))
        assert text == f"cuda-toolkit[crt,cudart,nvcc,nvvm]{tail}"


@pytest.mark.parametrize(
    ("packages", "culprit"),
    [
        ({"nvidia-cuda-nvcc": "13.0.88", "nvidia-nvvm": "13.0.88", "nvidia-cublas": "13.1.0.3"}, None),
        ({"nvidia-cuda-nvcc": "13.0.88", "nvidia-nvvm": "13.5.37"}, "nvidia-nvvm"),
        ({"nvidia-cuda-nvcc": "13.0.88", "nvidia-cuda-crt": "13.5.37"}, "nvidia-cuda-crt"),
    ],
)
def test_a_mix_of_minor_releases_is_refused(packages: dict[str, str], culprit: str | None) -> None:
    if culprit is None:
        wheels.require_one_release("13.0.2", packages)
        return
    with pytest.raises(InferopsError, match=f"{culprit} came as {packages[culprit]} and the toolkit is 13.0.2"):
        wheels.require_one_release("13.0.2", packages)


def place(site: Path, names: list[str]) -> None:
    for name in names:
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


NVCC = ["bin/nvcc", "nvvm/bin/cicc", "include/crt/host_config.h"]
RUNTIME = ["include/cuda_runtime_api.h", "lib/libcudart.so.13", "lib/libcudart_static.a"]


def test_wheels_make_one_tree(tmp_path: Path) -> None:
    site, tree = tmp_path / "site", tmp_path / "tree"
    place(site, [f"nvidia/cu13/{name}" for name in [*NVCC, *RUNTIME, "__init__.py", "include/__init__.py"]])
    place(
        site,
        ["nvidia/__init__.py", "nvidia_cuda_nvcc-13.0.88.dist-info/METADATA", "cuda_toolkit-13.0.2.dist-info/WHEEL"],
    )
    assert wheels.distributions(str(site)) == {"nvidia-cuda-nvcc": "13.0.88", "cuda-toolkit": "13.0.2"}
    wheels.arrange(str(site), str(tree))
    for name in [*NVCC, *RUNTIME]:
        assert (tree / name).is_file()
    assert (tree / "lib64/libcudart.so").resolve() == (tree / "lib/libcudart.so.13").resolve()
    assert not list(tree.rglob("__init__.py"))
    assert (tree / "dist-info/nvidia_cuda_nvcc-13.0.88.dist-info/METADATA").is_file()  # licences stay with it


def test_link_names() -> None:
    names = [
        "libcublas.so.13",
        "libnvrtc.alt.so.13",
        "libnvrtc-builtins.so.13.0",
        "libcurand.so",
        "libcurand.so.10",
        "x.a",
    ]
    assert wheels.link_names(names) == {
        "libcublas.so": "libcublas.so.13",
        "libnvrtc-builtins.so": "libnvrtc-builtins.so.13.0",
    }
