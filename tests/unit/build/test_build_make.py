"""Builds made for real: by uv, from small wheels, with every step from the lock to the seal."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.build import make, snapshot, store
from ansible_collections.inferops.sglang.plugins.module_utils.build.store import Build
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.running import Completed
from build_wheels import PATCH, SGLANG, Site, wheel
from support import run


def made(site: Site, **spec: Any) -> Build:
    return make.apply(site.spec(**spec), run, **site.places)


def seen(site: Site, build: Build) -> Build:
    found = store.observe(build.build_id, str(site.builds))
    assert found is not None
    return found


def changes(site: Site, build: Build) -> list[tuple[str, Any, Any]]:
    return [(c.what, c.before, c.after) for c in store.plan({"build_id": build.build_id}, seen(site, build)).changes]


def test_a_build_is_sealed_and_then_found_intact(site: Site) -> None:
    spec = site.spec()
    plan = store.plan(spec, store.observe(spec["build_id"], str(site.builds)))
    assert [(c.what, c.before, c.consequence) for c in plan.changes] == [("environment", None, "rebuild")]
    build = make.apply(spec, run, **site.places)
    assert build.path == str(site.builds / f"{spec['build_id']}.1")
    assert build.manifest["packages"] == {"sglang": "0.5.9", "extra-needs": "1.2"}
    assert run([build.python, "-c", "import sglang.launch_server, sys; print(sys.prefix)"]).stdout.strip() == build.path
    assert json.loads(Path(build.options_file).read_text())["options"][0]["names"] == ["--model-path"]
    assert not store.plan(spec, store.observe(spec["build_id"], str(site.builds))).changed


def test_making_it_again_returns_the_same_build(site: Site) -> None:
    first = made(site)
    stamp = os.stat(os.path.join(first.path, snapshot.MANIFEST)).st_mtime_ns
    assert made(site).path == first.path
    assert os.stat(os.path.join(first.path, snapshot.MANIFEST)).st_mtime_ns == stamp


def test_running_it_makes_no_drift(site: Site) -> None:
    build = made(site)
    command = [build.python, "-c", "import extra_needs, sglang.srt.models.tiny"]
    assert run(command, env={"PYTHONDONTWRITEBYTECODE": ""}).rc == 0
    assert list(Path(build.site_packages).glob("extra_needs/__pycache__/*.pyc"))
    assert seen(site, build).intact


def test_bytecode_without_a_source_is_a_module_that_somebody_put_there(site: Site) -> None:
    build = made(site)
    (Path(build.site_packages) / "sglang" / "hotfix.pyc").write_bytes(b"any")
    (Path(build.site_packages) / "sglang" / "__pycache__").mkdir(exist_ok=True)
    (Path(build.site_packages) / "sglang" / "__pycache__" / "version.cpython-311.pyc").write_bytes(b"any")
    assert changes(site, build) == [("file sglang/hotfix.pyc", "not part of the build", None)]


def test_a_touched_file_is_no_drift(site: Site) -> None:
    build = made(site)
    os.utime(os.path.join(build.site_packages, "sglang/srt/models/tiny.py"))
    assert seen(site, build).intact


def test_patches_are_applied_sealed_and_proved(site: Site) -> None:
    build = made(site, patches=[PATCH])
    [patch] = build.manifest["patches"]
    assert (patch["name"], patch["state"], patch["files"]) == ("twelve", "present", ["sglang/srt/models/tiny.py"])
    code = "from sglang.srt.models.tiny import SIZES; print(SIZES)"
    assert run([build.python, "-c", code]).stdout == "{9: 1, 12: 2}\n"
    assert "import:sglang.srt.models.tiny" in [check["name"] for check in build.manifest["proof"]["checks"]]
    plain = made(site)
    assert run([plain.python, "-c", code]).stdout == "{9: 1}\n", "never written through a link"
    path = Path(build.site_packages) / "sglang/srt/models/tiny.py"
    path.write_text(path.read_text() + "# by hand\n")
    assert [what for what, *dummy in changes(site, build)] == ["patched file (twelve) sglang/srt/models/tiny.py"]
    assert seen(site, plain).intact
    # named as well when its package changed by hand too
    info = Path(build.site_packages) / "sglang-0.5.9.dist-info"
    shutil.copytree(info, info.with_name("sglang-0.5.8.dist-info"))
    names = [what for what, *dummy in changes(site, build)]
    assert names == ["package sglang", "patched file (twelve) sglang/srt/models/tiny.py"]


def test_a_patch_that_does_not_apply_leaves_no_build(site: Site) -> None:
    edit = {"add_dict_entry": {"file": "srt/models/tiny.py", "dict": "SIZE", "key": "12", "value": "2"}}
    with pytest.raises(InferopsError, match=r"patches cannot be applied"):
        made(site, patches=[{**PATCH, "edits": [edit]}])
    assert list(store.folders(str(site.builds))) == []


@pytest.mark.parametrize("kind", ["changed", "same_size", "missing", "extra"])
def test_a_file_changed_by_hand_is_named(site: Site, kind: str) -> None:
    build = made(site)
    path = Path(build.site_packages) / "sglang/srt/models/tiny.py"
    expected = f"sha256 {snapshot.digest(str(path))}"
    text = path.read_text()
    path.unlink()
    if kind == "changed":
        path.write_text(text + "# by hand\n")
    elif kind == "same_size":
        path.write_text(text.replace("9", "8"))
    elif kind == "extra":
        path.write_text(text)
        (path.parent / "new.py").write_text("")
    [(what, before, after)] = changes(site, build)
    if kind == "extra":
        assert (what, before, after) == ("file sglang/srt/models/new.py", "not part of the build", None)
    else:
        assert (what, after) == ("file sglang/srt/models/tiny.py", expected)
        assert (before is None) == (kind == "missing")


def test_a_downgraded_package_is_one_change_with_its_files(site: Site) -> None:
    build = made(site)
    wheel(site.wheelhouse, "extra-needs", "1.1", {"extra_needs/__init__.py": "VALUE = 0\n", "extra_needs/old.py": ""})
    argv = [str(site.tools / "uv"), "pip", "install", "--offline", "--no-index", "--find-links", str(site.wheelhouse)]
    assert run([*argv, "--python", build.python, "extra-needs==1.1"], env={"UV_CACHE_DIR": str(site.cache)}).rc == 0
    assert changes(site, build) == [("package extra-needs", "1.1", "1.2")]


def test_a_removed_and_an_added_package_are_named(site: Site) -> None:
    build = made(site)
    site_packages = Path(build.site_packages)
    shutil.rmtree(site_packages / "extra_needs")
    shutil.rmtree(site_packages / "extra_needs-1.2.dist-info")
    (site_packages / "stray-3.dist-info").mkdir()
    (site_packages / "stray-3.dist-info" / "METADATA").write_text("Name: stray\nVersion: 3\n")
    assert changes(site, build) == [("package extra-needs", None, "1.2"), ("package stray", "3", None)]


def test_many_drifted_files_are_counted_by_folder(site: Site) -> None:
    build = made(site)
    for number in range(store.NAMED_FILES + 1):
        (Path(build.site_packages) / "sglang" / f"m{number}.py").write_text("")
    assert changes(site, build) == [("files of sglang", f"{store.NAMED_FILES + 1} extra", "as sealed")]


def test_a_drifted_build_is_quarantined_and_replaced(site: Site) -> None:
    first = made(site)
    (Path(first.site_packages) / "sglang/srt/models/tiny.py").unlink()
    second = made(site)
    assert second.path == first.path[:-1] + "2"
    assert seen(site, second).path == second.path and seen(site, second).intact
    note = json.loads((Path(first.path) / snapshot.QUARANTINED).read_text())
    assert note["successor"] == second.path
    assert note["files"] == [[f"{first.manifest['site_packages']}/sglang/srt/models/tiny.py", "missing"]]
    assert os.path.isdir(first.path), "what runs in it must go on"


def test_a_file_written_through_a_hard_link_does_not_come_back_from_the_cache(site: Site) -> None:
    first = made(site)
    path = Path(first.site_packages) / "sglang/srt/models/tiny.py"
    assert path.stat().st_nlink > 1, "uv links from its cache"
    with path.open("a") as stream:
        stream.write("SIZES[12] = 0  # by hand, in the cache too\n")
    second = made(site)
    assert second.path != first.path
    assert (Path(second.site_packages) / "sglang/srt/models/tiny.py").read_text() == SGLANG["sglang/srt/models/tiny.py"]
    assert seen(site, second).intact


@pytest.mark.parametrize(
    ("program", "part"),
    [("uv", "venv"), ("uv", "install"), ("uv", "check"), ("python", "proof_worker")],
)
@pytest.mark.parametrize("how", ["fails", "killed"])
def test_an_attempt_that_ends_early_leaves_nothing_valid(site: Site, program: str, part: str, how: str) -> None:
    def breaking(argv: Any, **kwargs: Any) -> Completed:
        if os.path.basename(argv[0]) == program and any(part in word for word in argv):
            if how == "killed":
                raise KeyboardInterrupt
            return Completed(1, "", "no space left on device")
        return run(argv, **kwargs)

    spec = site.spec()
    with pytest.raises((InferopsError, KeyboardInterrupt)) as caught:
        make.apply(spec, breaking, **site.places)
    if how == "fails":
        assert "no space left on device" in str(caught.value)
    assert list(store.folders(str(site.builds))) == []
    assert make.apply(spec, run, **site.places).n == 1


def test_the_leftover_of_a_killed_run_is_removed(site: Site) -> None:
    left = site.builds / "other-000000000000.4"
    (left / "lib").mkdir(parents=True)
    build = made(site)
    assert [path for path, *dummy in store.folders(str(site.builds))] == [build.path]


def test_another_python_than_the_locks_is_refused(site: Site) -> None:
    site.lock(["sglang==0.5.9", "extra-needs==1.2"], python="3.8")
    with pytest.raises(InferopsError, match=r"made for Python 3\.8: set sglang_python"):
        made(site)


def test_a_missing_wheel_is_named(site: Site) -> None:
    site.lock(["sglang==0.5.9", "extra-needs==1.3"])
    with pytest.raises(InferopsError, match=r"extra-needs==1\.3.*wheels of find_links"):
        made(site)


def test_a_wheel_with_another_hash_is_refused(site: Site) -> None:
    zeros = "0" * 64
    site.lock([f"{name} --hash=sha256:{zeros}" for name in ("sglang==0.5.9", "extra-needs==1.2")])
    with pytest.raises(InferopsError, match=r"(?i)hash mismatch"):
        made(site)


def test_two_builds_of_one_lock_share_their_files(site: Site) -> None:
    first = made(site)
    spec = {**site.spec(), "build_id": "second-000000000000"}
    second = make.apply(spec, run, **site.places)
    paths = ["sglang/srt/models/tiny.py", "extra_needs/__init__.py"]
    inodes = [[os.stat(os.path.join(build.site_packages, path)).st_ino for path in paths] for build in (first, second)]
    assert inodes[0] == inodes[1]
    [bytecode] = Path(first.site_packages).glob("sglang/srt/__pycache__/server_args.*.pyc")
    assert bytecode.samefile(Path(second.site_packages) / bytecode.relative_to(first.site_packages))


def test_bytecode_of_another_source_is_not_shared(site: Site) -> None:
    first = made(site)
    tiny = Path(first.site_packages) / "sglang/srt/server_args.py"
    text = tiny.read_text()
    tiny.unlink()
    tiny.write_text(text + "EXTRA = 1\n")
    run([first.python, "-c", "import sglang.srt.server_args"], env={"PYTHONDONTWRITEBYTECODE": ""})
    second = made(site)
    code = "import sglang.srt.server_args as module; print(hasattr(module, 'EXTRA'))"
    assert run([second.python, "-c", code]).stdout.strip() == "False"


def test_builds_are_readable_by_the_service_user_under_any_umask(site: Site) -> None:
    before = os.umask(0o077)
    try:
        build = made(site)
        assert os.umask(0o077) == 0o077, "the mask of the caller is as it was"
    finally:
        os.umask(before)
    for path in (build.path, build.site_packages, os.path.join(build.site_packages, "sglang/__init__.py")):
        assert os.stat(path).st_mode & 0o004, path
