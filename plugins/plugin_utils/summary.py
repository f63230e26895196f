# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One screen of what a run came to: pure text from the results of ``sglang_plan``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_WIDTH = 118
_INDENT = " " * 4


def lines(planned: Mapping[str, Mapping[str, Any] | None]) -> list[str]:
    """The screen: for each host its instances, or what kept it from having an answer."""
    out: list[str] = [""]
    for host, result in planned.items():
        if not result or "observed" not in result:
            reason = (result or {}).get("msg") or "no answer: see the failure of this host above"
            out += _wrapped(f"{host}  not deployed: {reason}", "")
            continue
        for name, instance in result["observed"]["instances"].items():
            out += _instance(host, name, instance)
        if not result.get("in_sync", True):
            out += _wrapped("differs    " + ", ".join(_change(c) for c in result["plan"]), _INDENT)
            out += _wrapped("meaning    " + _meaning(result), _INDENT)
        out += [line for c in result.get("noticed") or [] for line in _wrapped("noticed    " + _noticed(c), _INDENT)]
    return [*out, ""]


def _meaning(result: Mapping[str, Any]) -> str:
    """What putting it right would do to the servers, with the reasons."""
    plan = result["plan"]
    touched = {c["resource"].partition("/")[2] for c in plan if c.get("consequence", "none") != "none"}
    rebuilt = any(c["resource"].startswith("build/") for c in plan)
    parts = ["a new build"] if rebuilt else []
    for name, instance in result["observed"]["instances"].items():
        reasons = instance.get("restart_reasons") or []
        if instance.get("main_pid"):
            if rebuilt or name in touched:
                parts.append(f"a restart of {name}" + (f" ({'; '.join(reasons)})" if reasons else ""))
        elif any(c["resource"] == f"process/{name}" for c in plan):
            parts.append(f"a start of {name}")
    return ", ".join(parts) or "no restart"


def _noticed(change: Mapping[str, Any]) -> str:
    """What nothing here puts right; with what was found and what to do where those are words."""
    before, after = change.get("before"), change.get("after")
    return _change(change) + (f" ({before}); wanted: {after}" if isinstance(before, str) and after else "")


def _change(change: Mapping[str, Any]) -> str:
    return f"{change['resource']}: {change['what']}"


def _instance(host: str, name: str, instance: Mapping[str, Any]) -> Iterable[str]:
    start = instance.get("start") or {}
    state = instance["state"]
    if state == "ready" and start.get("ready_after_s") is not None:
        state = f"ready in {start['ready_after_s']:.1f} s"
    yield f"{host}  {name}  {state}  SGLang {instance.get('release') or '?'}  {instance.get('url') or ''}".rstrip()
    if instance.get("build_id"):
        yield from _wrapped(f"build      {instance['build_id']}, activation {instance.get('activation')}", _INDENT)
    if instance.get("patches"):
        states = ", ".join(f"{patch['name']} {patch['state']}" for patch in instance["patches"])
        yield from _wrapped(f"patches    {states}", _INDENT)
    if start.get("phases"):
        phases = " · ".join(
            f"{phase['name']} {phase['seconds']:.1f} s" for phase in start["phases"] if phase["seconds"] is not None
        )
        yield from _wrapped(f"phases     {phases}", _INDENT)
    if start.get("generation") is not None:
        yield from _wrapped(f"generated  {start['generation']!r}", _INDENT)
    speculative = start.get("speculative") or {}
    if speculative.get("accept_length") is not None:
        text = f"accepted   {speculative['accept_length']:.2f} tokens a step of at most {speculative['most']}"
        yield from _wrapped(text, _INDENT)


def _wrapped(text: str, indent: str) -> list[str]:
    """``text`` on as many lines as the width asks for, the later ones indented under the first."""
    import textwrap

    return textwrap.wrap(
        text, _WIDTH, initial_indent=indent, subsequent_indent=indent + " " * 11, break_on_hyphens=False
    )
