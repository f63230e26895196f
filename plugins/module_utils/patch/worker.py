# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Plan and apply, in JSON values: what runs in the environment's own Python (``interpreter.call``).

``unchanged`` and ``integrity`` parse nothing, so they run in any Python, and need no process of their own.

A request::

    {"root": "…/site-packages",          # the folder that holds the package sglang
     "roots": {"flashinfer": "…"},       # other packages, where they lie elsewhere
     "store": "…/.inferops-patch",       # left out: the store of a site-packages
     "release": "0.5.9",                 # of SGLang; null: read from the tree
     "definitions": [...],               # checked definitions
     "state": "present",                 # or "absent"
     "allow_foreign": false,
     "git": {"blobs": {path: id}},       # of a checkout; null for a wheel
     "diff": true,                       # whether the answer shows the changes
     "pristine": null}                   # a wheel, or the output of git archive, on this host

The answer has ``release``, ``changed``, ``pending`` (there is something to write, if only in the store), ``patches``
(name, digest, state, was, by, files, notes), ``diffs`` (a unified diff a file), ``pristine_wanted`` (files whose
released text would help and is not at hand) and ``error`` (a message, or null). With an error nothing was written.

Modules are imported late: the plan of a tree in which nothing has changed is a few hashes, and importing the engine
would cost more than that.
"""

from __future__ import annotations

import os

from ..errors import InferopsError
from .store import IN_SITE_PACKAGES, Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .plan import FilePlan, Planned

_NOTHING = {"changed": False, "pending": False, "diffs": [], "pristine_wanted": [], "error": None}


def plan(request: dict[str, Any]) -> dict[str, Any]:
    """What ``apply`` would do, without writing anything."""
    try:
        store = _store(request)
        return _settled(request, store) or _answer(_planned(request, store), store, request)
    except InferopsError as error:
        return _failure(error)


def apply(request: dict[str, Any]) -> dict[str, Any]:
    """Bring the patches in or out: all of them, or none."""
    try:
        store = _store(request)
        answer = _settled(request, store)
        if answer:
            return answer
        from .commit import locked, write
        from .transaction import recover

        planned = _planned(request, store)
        answer = _answer(planned, store, request)
        if answer["error"] or not answer["pending"]:
            return answer
        with locked(store):
            recover(store.folder)
            planned = _planned(request, store)
            answer = _answer(planned, store, request)
            if not answer["error"]:
                write(store, planned)
            return answer
    except InferopsError as error:
        return _failure(error)


def _planned(request: dict[str, Any], store: Store) -> Planned:
    from .plan import Planner

    return Planner(request, store).run()


def _store(request: dict[str, Any]) -> Store:
    root = request["root"]
    if not os.path.isdir(os.path.join(root, "sglang")):
        raise InferopsError(
            f"{root} holds no package sglang; give the site-packages folder or the source root that does"
        )
    return Store(request.get("store") or os.path.join(root, IN_SITE_PACKAGES))


def unchanged(request: dict[str, Any]) -> dict[str, Any] | None:
    """The answer of ``plan`` where hashes alone can tell that there is nothing to do; else ``None``."""
    return _settled(request, _store(request))


def _settled(request: dict[str, Any], store: Store) -> dict[str, Any] | None:
    """The answer for a tree in which every patch that is asked for is as the last run left it; else ``None``."""
    from ..files import read_bytes, sha256
    from .fingerprint import digest

    if request.get("state", "present") != "present" or not os.path.exists(store.state_file):
        return None
    if any(name.startswith("journal.") for name in os.listdir(store.folder)):
        return None
    state = store.state()
    if not _is_release(request, state["release"]):
        return None
    patches = []
    seen: dict[str, str | None] = {}
    for definition in request["definitions"]:
        result = state["results"].get(definition["name"])
        if not result or result["digest"] != digest(definition):
            return None
        for key, expected in result["examined"].items():
            if key not in seen:
                root = request.get("roots", {}).get(key.partition("/")[0], request["root"])
                data = read_bytes(os.path.join(root, key))
                seen[key] = None if data is None else sha256(data)
            if seen[key] != expected:
                return None
        patches.append({**_public(result), "was": result["state"]})
    return {"release": state["release"], "patches": patches, **_NOTHING}


def _is_release(request: dict[str, Any], release: str | None) -> bool:
    """Whether the tree is still of the release that was planned for: an upgrade leaves the store where it is, and a
    patch that is out of range in one release may be needed in another."""
    from ..files import read_bytes

    if request.get("release") or release is None:
        return request.get("release") == release
    root = request.get("roots", {}).get("sglang", request["root"])
    if os.path.isdir(os.path.join(root, f"sglang-{release}.dist-info")):
        return True
    said = read_bytes(os.path.join(root, "sglang", "_version.py")) or b""
    return any(f"{quote}{release}{quote}".encode() in said for quote in "'\"")


def _public(result: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in result.items() if key != "examined"}


def _answer(planned: Planned, store: Store, request: dict[str, Any]) -> dict[str, Any]:
    from .commit import pending

    error = "; ".join(planned.conflicts) or None
    changes = [] if error else [one for one in planned.files if one.changed]
    return {
        "release": planned.release,
        "patches": [_public(one) for one in planned.results],
        "changed": bool(changes),
        "pending": not error and pending(store, planned),
        "diffs": [_diff(one) for one in changes] if request.get("diff") else [],
        "pristine_wanted": [one.key for one in planned.files if one.pristine_lacking],
        "error": error,
    }


def _diff(plan: FilePlan) -> str:
    """The change of a file; its whole text, twice, would be megabytes for a few lines."""
    from difflib import unified_diff

    before, after = (
        [] if data is None else data.decode("utf-8", "replace").splitlines() for data in (plan.current, plan.wanted)
    )
    lines = unified_diff(before, after, f"{plan.path} (before)", f"{plan.path} (after)", lineterm="")
    return "\n".join([*lines, ""])


def _failure(error: InferopsError) -> dict[str, Any]:
    return {"release": None, "patches": [], **_NOTHING, "error": error.message}


def integrity(request: dict[str, Any]) -> list[dict[str, str]]:
    """Files of the packages that differ from their release and that no patch explains."""
    from .integrity import strangers
    from .reference import References

    patched = _store(request).state()["files"]
    git: dict[str, Any] = request.get("git") or {"blobs": {}, "others": []}
    found = []
    for package, distribution in request["packages"].items():
        root = request.get("roots", {}).get(package, request["root"])
        references = References(root, package, distribution, git)
        others = [path for path in git["others"] if path.startswith(package + "/")] if references.from_git else None
        found += strangers(references, patched, others)
    return found


def verify(request: dict[str, Any]) -> dict[str, list[str]]:
    """What this Python finds wrong when it imports the patched modules (or, with ``as_is``, the present ones):
    ``unimportable`` and ``missing`` attributes. Nothing is written."""
    from .prove import problems

    planned = _planned(request, _store(request))
    concerned = [one for one in planned.files if one.parts and one.wanted is not None]
    texts = {one.path: one.wanted for one in concerned if one.wanted is not None}
    keys = {one.path: one.key for one in concerned}
    return problems(request["definitions"], {} if request.get("as_is") else texts, keys)


def locate(packages: list[str]) -> dict[str, str]:
    """The folder that holds each top-level package which this Python can import; nothing is imported for it."""
    from importlib.util import find_spec

    found = {}
    for package in packages:
        spec = find_spec(package)
        if spec is not None and spec.submodule_search_locations:
            found[package] = os.path.dirname(next(iter(spec.submodule_search_locations)))
    return found
