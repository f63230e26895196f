# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Patches in an environment or a checkout that its owner keeps: the logic of the module ``sglang_patch``."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from typing import Any

from ..errors import InferopsError
from ..files import read_json
from ..interpreter import call
from ..running import Runner, check
from . import worker
from .reference import dist_info
from .store import IN_GIT, IN_SITE_PACKAGES, Store


@dataclass(frozen=True)
class Wish:
    """What is asked of a tree. ``pristine`` is a wheel of the release on the host, for texts that nobody else has;
    ``integrity``: whether every file of the release is looked at."""

    target: str
    definitions: list[dict[str, Any]]
    state: str = "present"
    allow_foreign: bool = False
    verify_import: bool = False
    pristine: str | None = None
    integrity: bool = True


def bring(runner: Runner, wish: Wish, check_mode: bool) -> dict[str, Any]:
    """Bring the patches in or out; returns ``changed``, ``diff``, ``release``, ``patches``, ``integrity`` and
    ``unverified``.

    :raises InferopsError: when the target is none, is a sealed build, or a patch conflicts; nothing was written then.
    """
    python, roots = _locate(runner, wish)
    root = roots["sglang"]
    _refuse_sealed(root)
    if wish.pristine and not _is_zip(wish.pristine):
        raise InferopsError(
            f"pristine: {wish.pristine} is no wheel on this host; give the path of the wheel that was installed, or "
            "leave it out"
        )
    git = _git(runner, root)
    request: dict[str, Any] = {
        "root": root,
        "roots": roots,
        "store": os.path.join(git["dir"], IN_GIT) if git else os.path.join(root, IN_SITE_PACKAGES),
        "release": None,
        "definitions": wish.definitions,
        "state": wish.state,
        "allow_foreign": wish.allow_foreign,
        "git": git,
        "diff": True,
        "pristine": wish.pristine,
        "packages": _packages(wish.definitions),
    }
    answer = worker.unchanged(request) or call(runner, python, "patch.worker:plan", request)
    unverified: list[str] = []
    scratch = tempfile.mkdtemp(prefix="inferops-") if git and answer["pristine_wanted"] else None
    try:
        if scratch:
            archive = os.path.join(scratch, "pristine.tar")
            argv = [
                *_GIT,
                "-C",
                root,
                "archive",
                "--format=tar",
                "-o",
                archive,
                "HEAD",
                "--",
                *answer["pristine_wanted"],
            ]
            check(runner, argv, "reading the committed text of patched files")
            request["pristine"] = archive
            answer = call(runner, python, "patch.worker:plan", request)
        _raise(answer, wish)
        if wish.verify_import and answer["changed"] and wish.state == "present":
            unverified = _verify(runner, python, request)
        if answer["pending"] and not check_mode:
            answer = call(runner, python, "patch.worker:apply", request)
            _raise(answer, wish)
    finally:
        if scratch:
            shutil.rmtree(scratch)
    return {
        "changed": answer["changed"],
        "diff": [{"prepared": text} for text in answer["diffs"]],
        "release": answer["release"],
        "patches": answer["patches"],
        "integrity": worker.integrity(request) if wish.integrity else [],
        "unverified": unverified,
    }


def in_force(runner: Runner, python: str) -> list[dict[str, Any]]:
    """The definitions that are in force in the tree of an environment, in order.

    :raises InferopsError: when the environment has no SGLang.
    """
    dummy, roots = _locate(runner, Wish(python, []))
    root = roots["sglang"]
    git = _git(runner, root)
    store = Store(os.path.join(git["dir"], IN_GIT) if git else os.path.join(root, IN_SITE_PACKAGES))
    return list(store.state()["definitions"])


# the owner of a checkout is rarely the user that we run as
_GIT = ("git", "-c", "safe.directory=*")


def _is_zip(path: str) -> bool:
    import zipfile

    return zipfile.is_zipfile(path)


def _locate(runner: Runner, wish: Wish) -> tuple[str, dict[str, str]]:
    """The Python to use, and the folder that holds each package."""
    target = wish.target
    packages = list(_packages(wish.definitions))
    if os.path.isdir(target):
        for root in (target, os.path.join(target, "python")):
            if os.path.isdir(os.path.join(root, "sglang")):
                return _python_beside(root), {"sglang": root}
        raise InferopsError(
            f"{target} holds no package sglang; give the folder that does (site-packages, or the folder 'python' of a "
            "checkout), or the python of the environment that SGLang is installed in"
        )
    if not os.access(target, os.X_OK):
        raise InferopsError(
            f"{target} is neither a folder nor a program; give a source root or the python of an environment"
        )
    beside = _root_beside(target)
    roots = dict.fromkeys(packages, beside) if beside else call(runner, target, "patch.worker:locate", packages)
    if "sglang" not in roots:
        raise InferopsError(f"{target} does not find a package sglang; is this the python that the server runs with?")
    return target, roots


def _python_beside(root: str) -> str:
    """The interpreter of the environment that a ``site-packages`` belongs to; else the one that runs this."""
    prefix = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(root))))
    python = os.path.join(prefix, "bin", "python")
    if os.path.basename(os.path.abspath(root)) in ("site-packages", "dist-packages") and os.access(python, os.X_OK):
        return python
    return sys.executable


def _root_beside(python: str) -> str | None:
    """The ``site-packages`` of a virtual environment by its interpreter, if all of SGLang lies there."""
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(python)))
    if not os.path.exists(os.path.join(prefix, "pyvenv.cfg")):
        return None
    found = [os.path.join(prefix, "lib", name, "site-packages") for name in os.listdir(os.path.join(prefix, "lib"))]
    found = [root for root in found if os.path.isdir(os.path.join(root, "sglang"))]
    return found[0] if len(found) == 1 else None


def _packages(definitions: list[dict[str, Any]]) -> dict[str, str]:
    """Package -> distribution, of all edits; sglang is always among them."""
    edits = [edit for definition in definitions for edit in definition["edits"]]
    return {"sglang": "sglang", **{edit["package"]: edit["distribution"] for edit in edits}}


def _refuse_sealed(root: str) -> None:
    folder = os.path.abspath(root)
    while folder != "/":
        manifest = os.path.join(folder, "manifest.json")
        if os.path.exists(manifest) and "build_id" in (read_json(manifest) or {}):
            raise InferopsError(
                f"{root} belongs to the sealed build {folder}, and a sealed build is never changed; put the patch into "
                "'patches' of the instance and run deploy.yml, which makes a build with it"
            )
        folder = os.path.dirname(folder)


def _git(runner: Runner, root: str) -> dict[str, Any] | None:
    """What git knows of the package in a checkout; ``None`` where a wheel brought it, or git knows nothing of it."""
    if dist_info(root, "sglang"):
        return None
    folder = os.path.abspath(root)
    while not os.path.exists(os.path.join(folder, ".git")):
        if folder == "/":
            return None
        folder = os.path.dirname(folder)
    listed = check(
        runner, [*_GIT, "-C", root, "ls-tree", "-r", "-z", "HEAD", "--", "."], "listing the checkout's files"
    )
    blobs = {}
    for line in filter(None, listed.split("\0")):
        meta, dummy, path = line.partition("\t")
        mode, kind, blob = meta.split()
        if kind == "blob" and mode != "120000":
            blobs[path] = blob
    if not any(path.startswith("sglang/") for path in blobs):
        return None
    others = check(
        runner,
        [*_GIT, "-C", root, "ls-files", "-z", "--others", "--exclude-standard", "--", "."],
        "listing untracked files of the checkout",
    )
    where = check(runner, [*_GIT, "-C", root, "rev-parse", "--absolute-git-dir"], "finding the git folder").strip()
    return {"dir": where, "blobs": blobs, "others": [path for path in others.split("\0") if path]}


def _verify(runner: Runner, python: str, request: dict[str, Any]) -> list[str]:
    """Import the patched modules; returns those that could not be imported before either (a dependency is missing).

    :raises InferopsError: when the patches are at fault.
    """
    found = call(runner, python, "patch.worker:verify", request)
    before: list[str] = []
    if found["unimportable"]:
        before = call(runner, python, "patch.worker:verify", {**request, "as_is": True})["unimportable"]
    problems = [one for one in found["unimportable"] if one not in before] + found["missing"]
    if problems:
        raise InferopsError(
            f"the patched modules do not work in {python}: {'; '.join(problems)}. Nothing was changed",
            problems=problems,
        )
    return [one for one in found["unimportable"] if one in before]


def _raise(answer: dict[str, Any], wish: Wish) -> None:
    if answer["error"]:
        raise InferopsError(f"{wish.target}: {answer['error']}", patches=answer["patches"], release=answer["release"])
