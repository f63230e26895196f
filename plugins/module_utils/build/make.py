# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Make a build: fill an environment from the lock, patch it, prove it, seal it.

A build is valid only by its manifest, which is written last. Whatever ends the work before leaves a folder without
one; the next run removes it.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Callable

from .. import layout
from ..errors import InferopsError
from ..files import write_atomic
from ..patch import engine
from ..running import Runner, check
from . import installed, proof, siblings, snapshot, store, uv
from .store import Build

Say = Callable[[str], None]


def apply(
    spec: Mapping[str, Any],
    runner: Runner,
    *,
    capabilities: Sequence[str] = (),
    say: Say = lambda text: None,
    root: str = layout.BUILDS,
    cache: str = layout.CACHE,
    tools: str = layout.TOOLS,
) -> Build:
    """The sealed and intact build that ``spec`` (of ``plugin_utils/builds.py``) wants; made where it is not there.

    ``capabilities`` are the compute capabilities ("12.0") that the kernels must serve. ``say`` is told what is being
    done. A build that drifted is marked as quarantined once its successor is sealed; processes in it go on.

    :raises InferopsError: when a step fails or the proof does; nothing is left of the attempt then.
    """
    with locked(root):
        clean(root)
        drifted = store.observe(spec["build_id"], root)
        if drifted is not None and drifted.intact:
            return drifted
        number = 1 + max((n for dummy, found, n in store.folders(root) if found == spec["build_id"]), default=0)
        path = os.path.join(root, f"{spec['build_id']}.{number}")
        mask = os.umask(0o022)
        try:
            build = _make(spec, runner, path, number, capabilities, say, cache, tools)
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise
        finally:
            os.umask(mask)
        if drifted is not None:
            quarantine(drifted, build)
        return build


@contextmanager
def locked(root: str) -> Iterator[None]:
    """Hold the lock on all builds of the host; it falls with the process."""
    os.makedirs(root, mode=0o755, exist_ok=True)
    with open(os.path.join(root, ".lock"), "w", encoding="ascii") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def clean(root: str) -> list[str]:
    """Remove what interrupted runs left: folders of builds without a manifest. Needs the lock."""
    left = [path for path, *dummy in store.folders(root) if not os.path.lexists(os.path.join(path, snapshot.MANIFEST))]
    for path in left:
        shutil.rmtree(path)
    return left


def quarantine(build: Build, successor: Build) -> None:
    """Mark a drifted build: no plan finds it any more, and what runs in it goes on."""
    note = {
        "at": _now(),
        "successor": successor.path,
        "files": [[drift.path, drift.state] for drift in build.drift[:100]],
        "packages": build.packages,
    }
    write_atomic(os.path.join(build.path, snapshot.QUARANTINED), _json(note))


def _make(
    spec: Mapping[str, Any],
    runner: Runner,
    path: str,
    number: int,
    capabilities: Sequence[str],
    say: Say,
    cache: str,
    tools: str,
) -> Build:
    lock = spec["lock"]
    python = _python(spec, runner)
    program = uv.ensure(
        runner, python=spec["python"], indexes=spec["indexes"], find_links=spec["find_links"], tools=tools
    )
    say(f"installing {len(installed.pins(lock['requirements']))} packages of {lock['name']}")
    os.makedirs(cache, mode=0o755, exist_ok=True)
    root = os.path.dirname(path)
    record = _install(spec, runner, program, path, cache, say, siblings.digests(root))
    interpreter = os.path.join(path, "bin", "python")
    site_packages = installed.site_packages(path)
    patches: list[dict[str, Any]] = []
    if spec["patches"]:
        say("patching: " + ", ".join(patch["name"] for patch in spec["patches"]))
        patches = engine.apply_in_build(
            runner, interpreter, os.path.join(path, site_packages), lock["release"], spec["patches"]
        )
    siblings.share_bytecode(root, path, site_packages)
    say("proving: imports, symbols, pins, CUDA")
    checks, options = proof.prove(spec, runner, path, site_packages, patches, program, capabilities)
    proof.require(checks, path)
    say("sealing")
    write_atomic(os.path.join(path, snapshot.OPTIONS), _json(options))
    record = snapshot.record(path, record)
    write_atomic(os.path.join(path, snapshot.FILES), _json(record))
    packages = snapshot.dist_infos(record, site_packages)
    manifest = {
        "format": 1,
        "build_id": spec["build_id"],
        "n": number,
        "path": path,
        "lock": {key: lock[key] for key in ("name", "release", "cuda", "sha256", "environment")},
        "python": python,
        "packages": packages,
        "owners": installed.owners(path, site_packages),
        "patches": patches,
        "site_packages": site_packages,
        "proof": {"checks": checks},
        "sealed_at": _now(),
    }
    # A manifest that survives a power cut must not vouch for files that did not.
    os.sync()
    write_atomic(os.path.join(path, snapshot.MANIFEST), _json(manifest))
    return Build(path, manifest, packages)


def _python(spec: Mapping[str, Any], runner: Runner) -> str:
    """The full version of the interpreter that the build is made with.

    :raises InferopsError: when it is not the version that the lock's pins are made for.
    """
    code = "import platform; print(platform.python_version())"
    version = check(runner, [spec["python"], "-I", "-c", code], f"asking {spec['python']} for its version").strip()
    wanted = spec["lock"]["python"]
    if version.split(".")[:2] != wanted.split(".")[:2]:
        raise InferopsError(
            f"{spec['python']} is Python {version}, and the pins of lock {spec['lock']['name']} are made for "
            f"Python {wanted}: set sglang_python to a Python {wanted} on this host, or choose another lock"
        )
    return version


def _install(
    spec: Mapping[str, Any],
    runner: Runner,
    program: str,
    path: str,
    cache: str,
    say: Say,
    known: dict[str, list[Any]],
) -> dict[str, list[Any]]:
    """Make the environment and fill it; the record of its files, each as its distribution says."""
    env = uv.environment(cache, spec["indexes"], spec["find_links"])
    argv = [program, "venv", "--no-project", "--python", spec["python"], path]
    _uv(runner, argv, f"making the environment {path}", spec, env)
    pins = os.path.join(path, "requirements.txt")
    write_atomic(pins, spec["lock"]["requirements"].encode())
    install = [program, "pip", "install", "--python", os.path.join(path, "bin", "python"), "--no-deps"]
    install += ["--require-hashes"] if installed.all_hashed(spec["lock"]["requirements"]) else []
    doing = f"installing the packages of lock {spec['lock']['name']}"
    _uv(runner, [*install, "--requirements", pins], doing, spec, env)
    # uv leaves a lock file that everyone may write
    os.unlink(os.path.join(path, ".lock"))
    record = snapshot.record(path, known)
    spoiled = installed.spoiled(path, installed.site_packages(path), record)
    if spoiled:
        # Files that were written through a hard link spoil the cache too, and all that is made from it.
        say("fetching again, since the cache was changed: " + ", ".join(sorted(spoiled)))
        _uv(runner, [program, "cache", "clean", *sorted(spoiled)], "cleaning the cache of uv", spec, env)
        again = [flag for name in sorted(spoiled) for flag in ("--reinstall-package", name)]
        _uv(runner, [*install, *again, "--requirements", pins], doing, spec, env)
        record = snapshot.record(path, record)
        spoiled = installed.spoiled(path, installed.site_packages(path), record)
    if spoiled:
        name, files = sorted(spoiled.items())[0]
        raise InferopsError(
            f"{len(spoiled)} packages are not what their own RECORD says even when fetched afresh: {name}: "
            f"{', '.join(files[:3])}; the wheel in the index or wheelhouse is damaged: replace it"
        )
    return record


def _uv(runner: Runner, argv: Sequence[str], doing: str, spec: Mapping[str, Any], env: Mapping[str, str]) -> None:
    done = runner(argv, env=env, cwd="/")
    if done.rc != 0:
        text = uv.said(done, uv.secrets(spec["indexes"], spec["find_links"]))
        sources = "wheels of find_links" if "UV_NO_INDEX" in env else "indexes and find_links"
        raise InferopsError(
            f"{doing} failed: {text} (packages come from the {sources}: add what is missing there, "
            "or correct the lock)",
            rc=done.rc,
        )


def _json(value: Any) -> bytes:
    return (json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True) + "\n").encode()


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
