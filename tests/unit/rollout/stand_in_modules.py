"""Stands for the modules that touch hosts and gateways, as an action plugin under each of their names.

A fleet is a JSON file (``PLAY_WORLD``): what is in force on each host, what each gateway sends where, and what is to go
wrong (``faults``). Every call is noted there.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from typing import Any

from ansible.plugins.action import ActionBase

LEVEL = {"concurrency": 1, "output_tok_s": {"median": 9.0, "min": 8.0, "max": 10.0, "spread": 0.1}}
FIGURES = {
    "levels": [{**LEVEL, "ttft_ms": {"median": 20.0}, "itl_ms": None, "accept_length": None}],
    "accept_length": None,
    "accept_length_most": None,
}


class ActionModule(ActionBase):
    _requires_connection = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        variables = task_vars or {}
        module = str(self._task.action).rpartition(".")[2]
        host, place = variables["inventory_hostname"], str(self._task.delegate_to or "")
        args = json.loads(json.dumps(self._task.args, default=str))
        with open(os.environ["PLAY_WORLD"], "r+", encoding="utf-8") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            world = json.load(stream)
            world["calls"].append({"module": module, "host": host, "place": place, "args": args})
            fault = _fault(world, module, host, place, args)
            if not {"failed", "unreachable"} & (fault or {}).keys():
                result.update(getattr(self, module)(world, host, place, args))
            result.update(fault or {})
            stream.seek(0)
            stream.truncate()
            json.dump(world, stream)
        if result.pop("kill", False):
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(60)
        return result

    def sglang_plan(self, world: Any, host: str, place: str, args: Any) -> dict[str, Any]:
        seen = world["hosts"][host]
        changes = [] if seen["release"] == world["described"] else [_change("activation/tiny", "build", "restart")]
        changes += [_change("activation/tiny", path, "none") for path in seen.get("edited", [])]
        tiny = {
            "state": "ready" if seen["ready"] else "starting",
            "activation": seen["activation"],
            "restored_from": seen.get("restored_from"),
            "main_pid": seen["pid"],
        }
        return {
            "plan": changes,
            "noticed": [],
            "deferred": [],
            "in_sync": not changes,
            "consequence": "restart" if any(c["consequence"] == "restart" for c in changes) else "none",
            "observed": {"host": {}, "instances": {"tiny": tiny}},
            "builds": [],
            "trees": [],
        }

    def sglang_server(self, world: Any, host: str, place: str, args: Any) -> dict[str, Any]:
        seen, state = world["hosts"][host], args["state"]
        if self._task.check_mode:
            return {"changed": False}
        if state == "started":
            new = seen["release"] != world["described"]
            seen["edited"] = []
            if new:
                self._switch(world, host, world["described"])
            return {"changed": new, "servers": [{"name": "tiny", "activation": seen["activation"]}]}
        if state == "restarted":
            self._switch(world, host, seen["release"], seen["activation"])
        elif state == "restored" and (args.get("reject") or {}).get("tiny") == seen["activation"]:
            self._switch(world, host, world["before"])
            seen["restored_from"] = 1
        elif state == "restored" and not seen["ready"]:
            self._switch(world, host, world["before"])
        return {"changed": state in ("restored", "restarted")}

    def _switch(self, world: Any, host: str, release: str, activation: int = 0) -> None:
        """Stop what runs, which cuts what a gateway still sends there."""
        seen = world["hosts"][host]
        urls = world["urls"][host]
        cut = [
            f"{name} {url}" for name, listed in world["gateways"].items() for url in urls if listed[url] == "present"
        ]
        world["cut"] += cut
        seen.update(release=release, activation=activation or seen["activation"] + 1, pid=seen["pid"] + 1, ready=False)

    def sglang_ready(self, world: Any, host: str, place: str, args: Any) -> dict[str, Any]:
        world["hosts"][host]["ready"] = True
        return {"changed": False}

    def sglang_preflight(self, world: Any, host: str, place: str, args: Any) -> dict[str, Any]:
        return {"changed": False}

    def sglang_bench(self, world: Any, host: str, place: str, args: Any) -> dict[str, Any]:
        return {**FIGURES, "changed": False, "conditions": {}, "problems": []}

    def gateway_worker(self, world: Any, host: str, place: str, args: Any) -> dict[str, Any]:
        listed, url = world["gateways"][place], args["url"]
        changed = listed[url] != args["state"]
        listed[url] = args["state"]
        return {"changed": changed, "url": url, "in_flight": 0}

    def gateway_plan(self, world: Any, host: str, place: str, args: Any) -> dict[str, Any]:
        listed = world["gateways"][place]
        owners = {url: name for name, urls in world["urls"].items() for url in urls if name in args["hosts"]}
        changes = [
            {**_change("gateway", f"worker {url}", "none"), "before": listed[url], "after": "present"}
            for url in owners
            if listed[url] != "present"
        ]
        keys = world.get("keys", {}).get(place)
        if keys:
            changes.append({**_change("gateway", "permissions of /keys.json", "none"), "before": keys})
        return {"plan": changes, "noticed": [], "observed": {"workers": listed}, "owners": owners}


def _fault(world: Any, module: str, host: str, place: str, args: Any) -> dict[str, Any] | None:
    """What is to go wrong with this call: the first fault that fits and is not used up."""
    for fault in world["faults"]:
        wanted = {"module": module, "host": host, "place": place, "state": args.get("state")}
        if fault["times"] > 0 and all(wanted[key] == value for key, value in fault["when"].items()):
            if fault.get("after", 0) > 0:
                fault["after"] -= 1
                return None
            fault["times"] -= 1
            return dict(fault["result"])
    return None


def _change(resource: str, what: str, consequence: str) -> dict[str, Any]:
    return {"resource": resource, "what": what, "before": "old", "after": "new", "consequence": consequence}
