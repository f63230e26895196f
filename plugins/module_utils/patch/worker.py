# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""What runs in the environment's own Python (``interpreter.call``): plan and apply, in JSON values.

A request::

    {"root": "…/site-packages",          # the folder that holds the package sglang
     "roots": {"flashinfer": "…"},       # other packages, where they lie elsewhere
     "store": "…/.inferops-patch",       # left out: the store of a site-packages
     "release": "0.5.9",                 # of SGLang; null: read from the tree
     "definitions": [...],               # checked definitions
     "state": "present",                 # or "absent"
     "allow_foreign": false,
     "git": {"blobs": {path: id}},       # of a checkout; null for a wheel
     "pristine": null}                   # a wheel, or the output of git archive, on this host

The answer has ``release``, ``changed``, ``patches`` (name, digest, state, was, by, files, notes), ``diffs`` (path,
before, after) and ``error`` (a message, or null). With an error nothing was written.

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

    from .plan import Planned


def plan(request: dict[str, Any]) -> dict[str, Any]:
    """What ``apply`` would do, without writing anything."""
    try:
        store = _store(request)
        return _unchanged(request, store) or _answer(_planned(request, store))
    except InferopsError as error:
        return _failure(error)


def apply(request: dict[str, Any]) -> dict[str, Any]:
    """Bring the patches in or out: all of them, or none."""
    try:
        store = _store(request)
        answer = _unchanged(request, store)
        if answer:
            return answer
        from .commit import locked, pending, write
        from .transaction import recover

        planned = _planned(request, store)
        answer = _answer(planned)
        if answer["error"] or not pending(store, planned):
            return answer
        with locked(store):
            recover(store.folder)
            planned = _planned(request, store)
            answer = _answer(planned)
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


def _unchanged(request: dict[str, Any], store: Store) -> dict[str, Any] | None:
    """The answer for a tree in which every patch that is asked for is as the last run left it; else ``None``."""
    from ..files import read_bytes, sha256
    from .fingerprint import digest

    if request.get("state", "present") != "present" or not os.path.exists(store.state_file):
        return None
    if any(name.startswith("journal.") for name in os.listdir(store.folder)):
        return None
    state = store.state()
    if request.get("release") not in (None, state["release"]):
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
    return {"release": state["release"], "changed": False, "patches": patches, "diffs": [], "error": None}


def _public(result: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in result.items() if key != "examined"}


def _answer(planned: Planned) -> dict[str, Any]:
    changes = [one for one in planned.files if one.changed]
    conflicts = planned.conflicts
    return {
        "release": planned.release,
        "changed": bool(changes),
        "patches": [_public(one) for one in planned.results],
        "diffs": [{"path": one.path, "before": _text(one.current), "after": _text(one.wanted)} for one in changes],
        "error": "; ".join(conflicts) or None,
    }


def _text(data: bytes | None) -> str:
    return "" if data is None else data.decode("utf-8", "replace")


def _failure(error: InferopsError) -> dict[str, Any]:
    return {"release": None, "changed": False, "patches": [], "diffs": [], "error": error.message}
