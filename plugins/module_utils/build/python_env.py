# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The logic of the module ``python_env``: observe, plan, apply, prune."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from typing import Any, Callable

from .. import layout
from ..adapter import outcome
from ..errors import InferopsError
from ..gpu import capability
from ..running import Runner
from . import make, proof, store, uv
from .prune import prune


def run(params: Mapping[str, Any], runner: Runner, check_mode: bool) -> dict[str, Any]:
    """What the module returns for its parameters.

    :raises InferopsError: when a build cannot be made or does not hold.
    """
    spec = params["spec"]
    if spec is None:
        raise InferopsError(
            "python_env runs through its action plugin: call it by its full name, inferops.sglang.python_env"
        )
    for waiver in params["waivers"]:
        if not (waiver["check"].strip() and waiver["reason"].strip()):
            raise InferopsError(f"waivers: each has 'check' and 'reason', both filled; found {waiver!r}")
    spec["lock"]["waivers"] = [*spec["lock"]["waivers"], *params["waivers"]]
    capabilities = params["capabilities"]
    capability.require(capabilities or (), "capabilities")
    observed = store.observe(spec["build_id"], thorough=params["verify"])
    changes = store.plan(spec, observed)
    if capabilities is None:
        capabilities = present_capabilities(runner)
    if observed is not None and params["verify"]:
        _verify(spec, observed, runner, capabilities)
    build = observed
    if changes.changed and not check_mode:
        build = make.apply(spec, runner, capabilities=capabilities, say=_teller(params["progress"]))
    removed = prune(params["keep"], dry=check_mode) if os.path.isdir(layout.BUILDS) else []
    for path in removed:
        changes.add(f"build/{os.path.basename(path)}", "unused environment", path, None)
    if build is None or (changes.changed and check_mode):
        changes.deferred.append(
            f"the proof of {spec['build_id']} and the options of its release: it must be built first"
        )
    return outcome(changes, build_id=spec["build_id"], removed=removed, **_described(build))


def secrets(params: Mapping[str, Any]) -> set[str]:
    """The texts that no result may show."""
    return uv.secrets(params["indexes"], params["find_links"])


def present_capabilities(runner: Runner) -> list[str]:
    """The compute capabilities of the host's GPUs; none where there is no driver.

    Whether the program ended well does not count: where one card is lost, it still lists the others.
    """
    done = runner(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"])
    return sorted(set(re.findall(r"^\d+\.\d+$", done.stdout, re.MULTILINE)))


def _verify(spec: Mapping[str, Any], build: store.Build, runner: Runner, capabilities: list[str]) -> None:
    """Prove a build that is there once more.

    :raises InferopsError: when it is not as sealed, or the proof fails now.
    """
    if not build.intact:
        what = "; ".join(change.what for change in store.plan(spec, build).changes)
        raise InferopsError(f"{build.path} is not as it was sealed: {what}; run without verify to have it replaced")
    program = os.path.join(layout.TOOLS, "uv")
    manifest = build.manifest
    checks, dummy = proof.prove(
        spec, runner, build.path, manifest["site_packages"], manifest["patches"], program, capabilities
    )
    proof.require(checks, build.path)


def _teller(path: str | None) -> Callable[[str], None]:
    """Writes each step, with the time, as a line that the action plugin reads."""

    def tell(text: str) -> None:
        if path is not None:
            with open(path, "a", encoding="utf-8") as stream:
                stream.write(f"{time.strftime('%H:%M:%S')} {text}\n")

    return tell


def _described(build: store.Build | None) -> dict[str, Any]:
    if build is None:
        return {"path": None, "packages": {}, "patches": [], "proof": {"checks": []}}
    manifest = build.manifest
    return {"path": build.path, "packages": build.packages, "patches": manifest["patches"], "proof": manifest["proof"]}
