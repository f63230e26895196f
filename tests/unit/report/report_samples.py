"""Results of ``sglang_plan`` and ``gateway_plan`` as the report gets them, for fleets of any size."""

from __future__ import annotations

from typing import Any

UNIT = "/etc/systemd/system/sglang-kimi.service"
NOW = 1796000000.0


def change(resource: str, what: str, before: Any, after: Any, consequence: str = "none") -> dict[str, Any]:
    return {"resource": resource, "what": what, "before": before, "after": after, "consequence": consequence}


EDITED = change("activation/kimi", UNIT, "[Service]\nNice=0\n", "[Service]\nNice=5\n")
OTHER_ARGV = change("process/kimi", "option --tp-size", "4", "8", "restart")
PATCHED = change("build/lock-1", "file sglang/x.py", "sha256 a", "sha256 b", "rebuild")
STRAY = change("gpus", "stray process 7", {"pid": 7, "cmd": "python3 train.py"}, None)

PHASES = [("import", 0.0, 20.0), ("weights", 20.0, 310.0), ("graph_capture", 330.0, 45.0), ("serving", 375.0, None)]


def planned(*plan: dict[str, Any], noticed: tuple[dict[str, Any], ...] = (), slower: float = 1.0) -> dict[str, Any]:
    """What ``sglang_plan`` returns, as far as the report reads it."""
    phases = [
        {"name": name, "started": started * slower, "seconds": None if seconds is None else seconds * slower}
        for name, started, seconds in PHASES
    ]
    kimi = {
        "state": "ready", "release": "0.5.9", "build_id": "lock-1", "activation": 3, "outcome": "good",
        "restored_from": None, "url": "http://127.0.0.1:30000", "main_pid": 10, "active_since": NOW - 86400,
        "restart_reasons": [], "patches": [], "start": {"ready_after_s": 375.4 * slower, "phases": phases},
    }  # fmt: skip
    return {"plan": list(plan), "noticed": list(noticed), "deferred": [], "observed": {"instances": {"kimi": kimi}}}


def fleet(count: int) -> dict[str, dict[str, Any]]:
    """Hosts of which some differ, in every way; a few do not answer."""
    kinds: list[tuple[dict[str, Any], ...]] = [
        (EDITED,),
        (EDITED, OTHER_ARGV),
        (PATCHED,),
        (PATCHED, EDITED, OTHER_ARGV),
    ]
    found: dict[str, dict[str, Any]] = {}
    for number in range(1, count + 1):
        name = f"gpu-{number:03d}"
        if number % 41 == 5:
            found[name] = {"unreachable": True, "msg": "ssh: connect to host port 22: No route to host"}
        elif number % 67 == 9:
            found[name] = {"failed": True, "msg": "instance 'kimi' has options that its SGLang would refuse"}
        elif number % 7 == 3:
            found[name] = planned(*kinds[number % 4], slower=1 + number % 5 / 10)
        else:
            noticed = (STRAY,) if number % 29 == 11 else ()
            found[name] = planned(noticed=noticed, slower=1 + number % 5 / 10)
    return found


def gateway(*plan: dict[str, Any], noticed: tuple[dict[str, Any], ...] = (), host: str = "gw-01") -> dict[str, Any]:
    """What ``gateway_plan`` returns for the hosts ``a`` and ``b``."""
    owners = {f"http://{name}:30000": name for name in ("a", "b")}
    return {"host": host, "plan": list(plan), "noticed": list(noticed), "observed": {"workers": {}}, "owners": owners}
