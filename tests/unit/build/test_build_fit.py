"""What the proof says of sets of distributions: each case is one that people met."""

from __future__ import annotations

from email.parser import HeaderParser
from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.build import cuda, fit, installed, proof
from ansible_collections.inferops.sglang.plugins.module_utils.build.installed import Distribution
from ansible_collections.inferops.sglang.plugins.module_utils.build.versions import same_version
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.running import Completed
from releases import RELEASES, release_tree


def found(*versions: str, **requires: list[str]) -> list[Distribution]:
    parts = [text.split("==") for text in versions]
    return [
        Distribution("", name, version, version, requires.get(name.replace("-", "_"), [])) for name, version in parts
    ]


def lock(cuda: str | None = "13.0", release: str = "0.5.15", requirements: str = "") -> dict[str, Any]:
    return {"cuda": cuda, "release": release, "requirements": requirements}


def test_f3_a_resolver_that_took_an_old_release_is_caught() -> None:
    check = fit.release(lock(), found("sglang==0.5.2"))
    assert not check["ok"] and "found sglang 0.5.2, the lock is for 0.5.15" in check["detail"]
    assert not fit.release(lock(), found("torch==2.9.1"))["ok"]
    assert fit.release(lock(), found("sglang==0.5.15+local"))["ok"]


def test_f17_packages_that_are_not_as_pinned_are_named() -> None:
    pins = "torch==2.9.1+cu130\nnumpy==2.4.6 \\\n    --hash=sha256:00\nother==1 ; python_version < '3'\n"
    check = fit.pins_hold(lock(requirements=pins), found("torch==2.9.1+cu129", "numpy==2.4.6", "stray==1"))
    assert check["detail"] == "torch 2.9.1+cu129 in place of 2.9.1+cu130; stray 1 is not in the lock"
    assert fit.pins_hold(lock(requirements=pins), found("torch==2.9.1+cu130", "numpy==2.4.6"))["ok"]


def test_pins_under_markers_are_those_of_one_name() -> None:
    """What a resolver writes for several platforms at once: uv takes the one whose marker holds."""
    pins = "numpy==1.26 ; python_version < '3.10'\nnumpy==2.4 ; python_version >= '3.10'\n"
    for version in ("1.26", "2.4"):
        assert fit.pins_hold(lock(requirements=pins), found(f"numpy=={version}"))["ok"]
    check = fit.pins_hold(lock(requirements=pins), found("numpy==2.5"))
    assert check["detail"] == "numpy 2.5 in place of 1.26 or 2.4"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2023.7.22", "2023.07.22", True),
        ("0.5.10rc0", "0.5.10-rc.0", True),
        ("1.0a1", "1.0alpha1", True),
        ("1.0rc1", "1.0c1", True),
        ("1.0.post1", "1.0-1", True),
        ("1.0.post1", "1.0.rev1", True),
        ("1.0.dev0", "1.0dev", True),
        ("v1.0", "1", True),
        ("1!2.0", "1!2", True),
        ("1!2.0", "2.0", False),
        ("0.6.8.post1", "0.6.8", False),
        ("1.0rc1", "1.0", False),
        ("1.10", "1.1", False),
        ("2.9.1+cu130", "2.9.1+CU130", True),
        ("1.0+cu130.abi3", "1.0+cu130-abi3", True),
        ("2.9.1+cu130", "2.9.1+cu128", False),
        ("2.9.1+cu130", "2.9.1", True),
        ("0.0.0-unknown", "0.0.0-unknown", True),
        ("0.0.0-unknown", "0.0.0-other", False),
    ],
)
def test_two_spellings_of_one_version(one: str, other: str, same: bool) -> None:
    assert same_version(one, other) is same and same_version(other, one) is same


@pytest.mark.parametrize(
    ("version", "major"),
    [
        ("cupy-cuda12x==13.6.0", "12"),
        ("tensorrt-cu12-libs==10.9", "12"),
        ("jax-cuda12-plugin==0.8", "12"),
        ("nvidia-dali-cuda120==1.50", "12"),
        ("mooncake-transfer-engine-cuda13==0.3.8", "13"),
        ("flash-attn==2.8.3+cu12torch2.9cxx11abitrue", "12"),
        ("torch-scatter==2.1.2+pt29cu130", "13"),
        ("something==1.0+cuda12.4", "12"),
        ("something==1.0+git.cu126", "12"),
        ("cuda-python==12.9.0", None),
        ("nvidia-cublas==13.1.0.3", None),
        ("torch==2.9.1+cpu", None),
        ("focus12==1", None),
    ],
)
def test_f2_every_way_in_which_a_package_names_its_cuda(version: str, major: str | None) -> None:
    assert cuda.cuda_major(*version.split("==")) == major


@pytest.mark.parametrize(
    ("versions", "wrong"),
    [
        (["nvidia-cudnn-cu13==9", "flashinfer-jit-cache==0.6.13+cu129"], ["flashinfer-jit-cache"]),
        (["nvidia-cudnn-cu12==9", "nvidia-cudnn-cu13==9"], ["nvidia-cudnn-cu12"]),
        (["nvidia-cuda-runtime==12.8.90", "torch==2.9.1+cu130"], ["nvidia-cuda-runtime"]),
        (["nvidia-cublas==13.1.0.3", "nvidia-nvjitlink==13.0.88", "nvidia-cufile==1.15.1.6", "cuda-python==12.9"], []),
    ],
)
def test_f2_two_cuda_majors_in_one_environment_are_named(versions: list[str], wrong: list[str]) -> None:
    check = fit.cuda_majors(lock(), found(*versions))
    assert check["ok"] == (not wrong) and all(name in check["detail"] for name in wrong)


def test_a_package_that_brings_both_majors_on_purpose_is_no_mix() -> None:
    both = ["nvidia-cutlass-dsl-libs-cu12==4.8.0", "nvidia-cutlass-dsl-libs-cu13==4.8.0"]
    asked = {"nvidia_cutlass_dsl": [text.replace("==", " (==") + ")" for text in both]}
    assert fit.cuda_majors(lock(), found("nvidia-cutlass-dsl==4.8.0", *both, **asked))["ok"]
    only_extra = {"nvidia_cutlass_dsl": [f'{text.split("==")[0]} ; extra == "all"' for text in both]}
    assert not fit.cuda_majors(lock(), found("nvidia-cutlass-dsl==4.8.0", *both, **only_extra))["ok"]


def test_the_twin_may_come_by_an_extra_but_has_to_be_there() -> None:
    both = ["nvidia-cutlass-dsl-libs-cu12==4.8.0", "nvidia-cutlass-dsl-libs-cu13==4.8.0"]
    asked = {"nvidia_cutlass_dsl": [both[0], f'{both[1]} ; extra == "cu13"']}
    assert fit.cuda_majors(lock(), found("nvidia-cutlass-dsl==4.8.0", *both, **asked))["ok"]
    assert not fit.cuda_majors(lock(), found("nvidia-cutlass-dsl==4.8.0", both[0], **asked))["ok"]


def test_a_cpu_lock_with_cuda_packages_is_caught() -> None:
    assert not fit.cuda_majors(lock(cuda=None), found("nvidia-cudnn-cu13==9"))["ok"]


def test_f4_a_wheel_that_calls_itself_another_version_is_named() -> None:
    wrong = Distribution("", "sgl-kernel", "0.3.20", "0.3.21+cu130")
    fine = Distribution("", "sgl-kernel", "0.3.21", "0.3.21+cu130")
    [check] = fit.metadata([wrong])
    assert (check["name"], check["ok"]) == ("metadata:sgl-kernel", False)
    assert fit.metadata([fine]) == []


def test_f7_leftovers_of_an_upgrade_are_named() -> None:
    def names(*versions: str) -> list[str]:
        return [check["name"] for check in fit.leftovers(lock(), found(*versions)) if not check["ok"]]

    assert names("sgl-kernel==0.3.21", "sglang-kernel==0.4.4") == ["leftover:sgl-kernel"]
    assert names("flashinfer==0.1.6", "flashinfer-python==0.6.12") == ["leftover:flashinfer"]
    assert names("pytorch-triton==3.5.0+git1", "triton==3.5.1") == ["leftover:pytorch-triton"]
    assert names("flashinfer-cubin==0.6.12.post1", "flashinfer-python==0.6.12") == ["leftover:flashinfer-cubin"]
    assert names("flashinfer-cubin==0.6.12", "flashinfer-python==0.7.2") == ["leftover:flashinfer-cubin"]
    assert names("flashinfer-cubin==0.6.12") == ["leftover:flashinfer-cubin"]
    assert names("flashinfer-cubin==0.6.12", "flashinfer-python==0.6.12") == []
    # flashinfer itself compares a prefix only, and "0.6.1" would do for it
    assert names("flashinfer-jit-cache==0.6.12+cu130", "flashinfer-python==0.6.1") == ["leftover:flashinfer-jit-cache"]


def test_a_compiler_of_parts_that_do_not_fit_is_named() -> None:
    assert not fit.compiler(found("nvidia-cuda-nvcc==13.0.88", "nvidia-nvvm==13.5.37", "nvidia-cuda-crt==13.0.88"))[
        "ok"
    ]
    assert fit.compiler(found("nvidia-cuda-nvcc==13.0.88", "nvidia-nvvm==13.0.88", "nvidia-cuda-crt==13.0.88"))["ok"]
    assert fit.compiler(found("numpy==1"))["ok"]


def test_broken_pins_get_names_that_a_lock_can_waive() -> None:
    said = (
        "Checked 3 packages in 0.24ms\nFound 2 incompatibilities\n"
        "The package `flask` requires `Werkzeug>=3.0.0`, but `2.0.0` is installed\n"
        "The package `sglang` requires `flashinfer-python[cu13]==0.6.12`, but it's not installed\n"
    )
    checks = fit.broken_pins(lambda argv, **kwargs: Completed(1, "", said), "uv", "python")
    assert [check["name"] for check in checks] == ["pin:flask:werkzeug", "pin:sglang:flashinfer-python"]
    assert checks[0]["detail"] == "flask requires Werkzeug>=3.0.0, but 2.0.0 is installed"
    failed = fit.broken_pins(lambda argv, **kwargs: Completed(2, "", "error: no interpreter"), "uv", "python")
    assert [(check["name"], check["ok"]) for check in failed] == [("pins", False)]


def test_what_is_wrong_with_a_distribution_itself_is_named_beside_broken_pins() -> None:
    said = (
        "The package `odd` was built for a different platform\n"
        "The package `flask` requires `werkzeug>=3.0`, but `2.0` is installed\n"
        "The package `torch` has multiple installed distributions: \n"
        "  - /x/site-packages/torch-2.11.0.dist-info\n"
        "  - /x/site-packages/torch-2.9.1+cu128.dist-info\n"
        "The package `New_Py` requires Python >=3.13, but `3.11.2` is installed\n"
    )
    checks = fit.broken_pins(lambda argv, **kwargs: Completed(1, "", said), "uv", "python")
    names = ["package:odd", "pin:flask:werkzeug", "package:torch", "package:new-py"]
    assert [check["name"] for check in checks] == names and not any(check["ok"] for check in checks)
    assert "torch-2.11.0.dist-info torch-2.9.1+cu128.dist-info" in checks[2]["detail"]
    assert checks[3]["detail"] == "New_Py requires Python >=3.13, but 3.11.2 is installed"


def test_torch_for_another_cuda_is_named() -> None:
    [check] = fit.torch_cuda(lock(), {"version": "2.9.1", "cuda": "12.8", "arch_list": []})
    assert not check["ok"] and "torch 2.9.1 is built for CUDA 12.8, the lock is for CUDA 13.0" in check["detail"]
    assert fit.torch_cuda(lock(cuda=None), {"version": "2.13.0+cpu", "cuda": None, "arch_list": []})[0]["ok"]


@pytest.mark.parametrize(
    ("listed", "capability", "serves"),
    [
        ("sm_75 sm_90 sm_120", "12.0", True),
        ("sm_75 sm_90 sm_120", "12.1", True),
        ("sm_75 sm_90 sm_100", "12.0", False),
        ("sm_90 compute_90", "12.0", True),
        ("sm_90a", "9.0", True),
        ("sm_90a", "12.0", False),
        ("sm_100a", "10.3", False),
        ("sm_100f", "10.3", True),
        ("sm_120f", "12.0", True),
        ("sm_100f", "12.0", False),
        ("compute_100f", "12.0", False),
        ("compute_90a", "9.0", True),
        ("compute_90a", "12.0", False),
        ("sm_121", "12.0", False),
        ("compute_121", "12.0", False),
        ("", "9.0", False),
    ],
)
def test_which_code_serves_which_card(listed: str, capability: str, serves: bool) -> None:
    assert fit.runs_on(listed.split(), capability) is serves


def test_a_kernel_package_without_code_for_the_card_is_named() -> None:
    code = {
        "sgl_kernel/sm100/common_ops.abi3.so": {"sm_90", "sm_100f"},
        "sgl_kernel/flash_ops.abi3.so": {"sm_80", "sm_90a"},
        "sgl_kernel/helper.so": set(),
    }
    checks = {check["name"]: check for check in fit.kernel_architectures(code, ["12.0", "10.3"])}
    assert not checks["arch:sgl_kernel:12.0"]["ok"] and "sm_100f, sm_90" in checks["arch:sgl_kernel:12.0"]["detail"]
    assert checks["arch:sgl_kernel:10.3"]["ok"]
    assert "sgl_kernel/flash_ops.abi3.so: what needs" in checks["arch:sgl_kernel:10.3"]["detail"]
    assert fit.kernel_architectures({}, ["12.0"]) == [], "a stand-in for the CPU has no libraries"


def test_torch_without_code_for_the_card_is_named() -> None:
    torch = {"version": "2.9.1", "cuda": "13.0", "arch_list": ["sm_90", "sm_100"]}
    [check] = fit.torch_architectures(torch, ["12.0"])
    assert (check["name"], check["ok"]) == ("arch:torch:12.0", False) and "sm_90, sm_100" in check["detail"]
    assert fit.torch_architectures({**torch, "cuda": None}, ["12.0"]) == []


@pytest.mark.index
@pytest.mark.parametrize("version", RELEASES)
def test_the_table_of_kernels_is_what_the_releases_pin(version: str) -> None:
    text = (release_tree(version) / f"sglang-{version}.dist-info" / "METADATA").read_text()
    pins = [line.partition(";")[0] for line in HeaderParser().parsestr(text).get_all("Requires-Dist") or []]
    exact = dict(pin.replace(" ", "").split("==") for pin in pins if "==" in pin and "," not in pin)
    kernel = "sgl-kernel" if "sgl-kernel" in exact else "sglang-kernel"
    assert fit.KERNEL_TORCH[kernel][exact[kernel]] == exact["torch"]


def test_hard_checks_cannot_be_waived_and_unneeded_waivers_are_reported() -> None:
    checks = [proof.failed("pin:a:b", "broken"), proof.failed("abi:sgl_kernel", "broken"), proof.passed("nvcc", "")]
    waivers = [{"check": name, "reason": "known"} for name in ("pin:a:b", "abi:sgl_kernel", "pin:gone:x")]
    judged = {check["name"]: check for check in proof.judged(checks, waivers)}
    assert judged["pin:a:b"]["waived"] == "known" and "waived" not in judged["abi:sgl_kernel"]
    assert "no longer needed" in judged["waiver:pin:gone:x"]["detail"] and judged["waiver:pin:gone:x"]["ok"]
    assert not judged["waiver:abi:sgl_kernel"]["ok"]
    with pytest.raises(InferopsError) as caught:
        proof.require(list(judged.values()), "/opt/x")
    assert "2 of 5 checks failed" in caught.value.message and "pin:a:b" not in caught.value.message
    assert caught.value.result["proof"]["checks"]


@pytest.mark.parametrize("written", ["pin:sglang:cuda_python", "pin:SGLang:CUDA-Python", "pin:sglang:cuda.python"])
def test_a_waiver_may_spell_names_as_people_do(written: str) -> None:
    broken = [proof.failed("pin:sglang:cuda-python", "one"), proof.failed("pin:sglang:cuda-python", "two")]
    checks = proof.judged(broken, [{"check": written, "reason": "known"}])
    assert [check.get("waived") for check in checks] == ["known", "known"]


def test_a_waiver_of_a_misspelt_name_says_which_one_is_meant() -> None:
    checks = [proof.failed("pin:sglang:cuda-python", ""), proof.failed("abi:sgl_kernel", "")]
    waivers = [{"check": name, "reason": "known"} for name in ("pin:sglang:cuda-pyhton", "ABI:sgl-kernel")]
    judged = {check["name"]: check for check in proof.judged(checks, waivers)}
    assert judged["waiver:pin:sglang:cuda-pyhton"]["detail"].endswith("did you mean 'pin:sglang:cuda-python'?")
    assert "cannot be waived" in judged["waiver:ABI:sgl-kernel"]["detail"]
    assert "waived" not in judged["abi:sgl_kernel"]


def test_f6_the_telling_line_of_a_kernel_that_does_not_load() -> None:
    error = (
        "ImportError: \n[sgl_kernel] CRITICAL: Could not load any common_ops library!\nExpected variant: SM120\n"
        "Error details: /x/common_ops.abi3.so: undefined symbol: _ZN3c104cuda5checkEi\n"
    )
    assert proof.telling_line(error).endswith("undefined symbol: _ZN3c104cuda5checkEi")
    without_driver = "ImportError:\n- libcuda.so.1: cannot open shared object file: No such file or directory"
    assert proof.telling_line(without_driver).endswith("install the driver first")
    assert proof.telling_line("ModuleNotFoundError: No module named 'x'") == "ModuleNotFoundError: No module named 'x'"


def test_the_modules_of_patched_files_are_imported_too() -> None:
    patches = [{"files": ["sglang/srt/models/kimi_k25.py", "sglang/srt/layers/__init__.py"]}, {"files": []}, {}]
    assert proof.patched_modules(patches) == ["sglang.srt.layers", "sglang.srt.models.kimi_k25"]


@pytest.mark.parametrize(
    ("text", "every"),
    [
        ("a==1 --hash=sha256:0\nb==2 \\\n    --hash=sha256:1 \\\n    --hash=sha256:2\n", True),
        ("# comment\n\n-i x\na==1 --hash=sha256:0\n", True),
        ("a==1 --hash=sha256:0\nb==2\n", False),
        ("", False),
    ],
)
def test_hashes_are_required_only_where_all_have_them(text: str, every: bool) -> None:
    assert installed.all_hashed(text) is every
