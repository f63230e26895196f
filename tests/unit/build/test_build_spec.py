"""The specification of a build, made on the controller: what names it, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.build import cuda, installed, python_env
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.running import Completed
from ansible_collections.inferops.sglang.plugins.plugin_utils import builds
from build_wheels import PATCH, Site


def shipped(lock: str, **options: Any) -> dict[str, Any]:
    return builds.resolve(lock, [], python="/usr/bin/python3", collection_root=builds.COLLECTION, **options)


@pytest.mark.parametrize("lock", builds.shipped(builds.COLLECTION))
def test_each_shipped_lock_is_valid_and_holds_its_release(lock: str) -> None:
    described = shipped(lock)["lock"]
    pins = installed.pins(described["requirements"])
    assert pins["sglang"] == [described["release"]]
    majors = {cuda.cuda_major(name, version) for name, [version] in pins.items()}
    wanted = described["cuda"] and described["cuda"].partition(".")[0]
    # both are required by one package that chooses when it is imported
    assert majors - {None} - ({"12"} if "nvidia-cutlass-dsl-libs-cu12" in pins else set()) <= {wanted}


@pytest.mark.parametrize("lock", [name for name in builds.shipped(builds.COLLECTION) if name.endswith("cu130")])
def test_pins_without_a_hash_are_those_for_this_cuda_version_alone(lock: str) -> None:
    text = shipped(lock)["lock"]["requirements"].replace("\\\n", " ")
    bare = [line for line in text.splitlines() if "==" in line and not line.startswith("#") and "--hash" not in line]
    assert all(line.endswith("+cu130") for line in bare), bare
    assert "://" not in text, "where packages come from is configuration"


def test_the_name_follows_from_content_and_nothing_else(site: Site, tmp_path: Path) -> None:
    first = site.spec()
    assert first["build_id"].startswith("tiny-") and len(first["build_id"]) == len("tiny-") + 12
    shutil.copytree(site.collection, tmp_path / "moved")
    moved = builds.resolve("tiny", [], python="/other", indexes=["https://x"], collection_root=tmp_path / "moved")
    assert moved["build_id"] == first["build_id"]
    assert site.spec([PATCH])["build_id"] != first["build_id"]
    site.lock(["sglang==0.5.9", "extra-needs==1.1"])
    assert site.spec()["build_id"] != first["build_id"]


def test_the_order_of_patches_counts(site: Site) -> None:
    other = {**PATCH, "name": "other"}
    assert site.spec([PATCH, other])["build_id"] != site.spec([other, PATCH])["build_id"]


def test_a_lock_of_the_users_is_found_by_path_and_beside_the_playbook(site: Site) -> None:
    folder = site.collection / "locks" / "tiny"
    for lock, search in ((str(folder), []), ("tiny", [str(site.collection)]), ("locks/tiny", [str(site.collection)])):
        assert shipped(lock, search=search)["lock"]["name"] == "tiny"


def test_an_unknown_lock_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InferopsError, match=r"did you mean 'sglang-0\.5\.9-cu130'"):
        shipped("sglang-0.5.9-cu13")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"realease": "0.5.9"}, "unknown key 'realease'.*did you mean 'release'"),
        ({"release": 0.5}, "release must be a quoted version"),
        ({"python": 3.12}, "python must be a quoted version"),
        ({"cuda": 13.0}, "cuda must be null .* or a quoted version"),
        ({"cuda": "cu130"}, "cuda must be null .* or a quoted version"),
        ({"waivers": [{"check": "nvcc"}]}, "each waiver has 'check' and 'reason'"),
        ({"waivers": [{"check": "nvcc", "reason": ""}]}, "each waiver has 'check' and 'reason'"),
        ({"waivers": [{"check": "nvcc", "reason": "  "}]}, "each waiver has 'check' and 'reason'"),
        ({"waivers": [{"check": "nvcc", "reason": 7}]}, "each waiver has 'check' and 'reason'"),
        ({"environment": {"A": 1}}, "environment must map names to quoted texts"),
    ],
)
def test_a_lock_that_says_what_no_lock_may_say_is_refused(site: Site, change: dict[str, Any], message: str) -> None:
    site.lock(["sglang==0.5.9"], **change)
    with pytest.raises(InferopsError, match=message):
        site.spec()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("numpy>=2", r"'numpy>=2': a lock names each version"),
        ("numpy", r"'numpy': a lock names each version"),
        ("numpy==2.*", r"'numpy==2\.\*': a lock names each version"),
        ("numpy==2.4,!=2.4.1", r"a lock names each version"),
        ("-r more.txt", r"'-r more\.txt': only this file travels to a host.*write out what a file that it names holds"),
        ("-e .", r"only this file travels"),
        ("--extra-index-url https://someone:hidden@host/simple", r"//…@host/simple'.*sglang_indexes"),
    ],
)
def test_a_line_that_leaves_open_what_is_installed_or_from_where_is_refused(
    site: Site, line: str, message: str
) -> None:
    site.lock(["sglang==0.5.9"])
    pins = site.collection / "locks" / "tiny" / "requirements.txt"
    pins.write_text(pins.read_text() + f"{line}\n")
    with pytest.raises(InferopsError, match=message) as caught:
        site.spec()
    assert "hidden" not in caught.value.message


def test_every_form_of_an_exact_pin_is_one(site: Site) -> None:
    site.lock(["sglang==0.5.9"])
    pins = site.collection / "locks" / "tiny" / "requirements.txt"
    more = [
        "flashinfer_python[cu13] == 0.6.12  # a comment",
        "torch==2.9.1+cu130 ; platform_machine == 'x86_64' \\\n    --hash=sha256:00",
        "  old===1.0rc1",
        "wheel @ https://host/wheel-1.0%2Bcu130-py3-none-any.whl#sha256=00",
    ]
    pins.write_text("\r\n".join([pins.read_text(), "# said once", *more]))
    read = site.spec()["lock"]["requirements"]
    assert {name: versions for name, versions in installed.pins(read).items() if name != "sglang"} == {
        "flashinfer-python": ["0.6.12"],
        "torch": ["2.9.1+cu130"],
        "old": ["1.0rc1"],
    }
    assert installed.addresses(read) == {"wheel"} and installed.conditional(read) == {"torch"}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"capabilities": ["sm_120"]}, r"capabilities: 'sm_120' is no compute capability; write '12\.0'"),
        ({"waivers": [{"check": "nvcc", "reason": " "}]}, "waivers: each has 'check' and 'reason', both filled"),
    ],
)
def test_wrong_parameters_are_refused_before_anything_is_made(site: Site, wrong: dict[str, Any], message: str) -> None:
    def no_program(argv: Any, **dummy: Any) -> Any:
        pytest.fail(f"{argv} was run")

    site.lock(["sglang==0.5.9"])
    params = {"spec": site.spec(), "waivers": [], "capabilities": None, "verify": False, "keep": 2, "progress": None}
    with pytest.raises(InferopsError, match=message):
        python_env.run({**params, **wrong}, no_program, False)


@pytest.mark.parametrize("rc", [0, 15])
def test_the_cards_that_answer_are_proved_for_though_one_is_lost(rc: int) -> None:
    said = "Unable to determine the device handle for GPU1: 0000:44:00.0: Unknown Error\n12.0\n9.0\n12.0\n"
    assert python_env.present_capabilities(lambda argv, **dummy: Completed(rc, said, "")) == ["12.0", "9.0"]
    assert python_env.present_capabilities(lambda argv, **dummy: Completed(127, "", "not found")) == []


def test_a_lock_without_its_pins_or_with_broken_yaml_is_refused(site: Site) -> None:
    folder = site.collection / "locks" / "tiny"
    (folder / "requirements.txt").unlink()
    with pytest.raises(InferopsError, match=r"not complete: .*requirements\.txt"):
        site.spec()
    (folder / "lock.yml").write_text("release: [\n")
    (folder / "requirements.txt").write_text("")
    with pytest.raises(InferopsError, match="not valid YAML"):
        site.spec()
    (folder / "lock.yml").write_text("- a\n")
    with pytest.raises(InferopsError, match="must be a mapping"):
        site.spec()
