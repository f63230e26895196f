# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The command line of the agent. Units call the first four commands, people the others."""

from __future__ import annotations

import argparse
import subprocess
import sys

from ansible_collections.inferops.sglang.plugins.module_utils import layout
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.server import force

#: What the unit says when the agent itself is at fault; systemd shows it.
FAILED = 70


def main(words: list[str]) -> int:
    """Run one command; the exit status is its own, or 70 with a message on standard error."""
    words, server = _split(words)
    told = _parser().parse_args(words)
    try:
        return _run(told, server)
    except (InferopsError, OSError) as error:
        print(f"sglang agent: {told.command} {told.instance}: {error}", file=sys.stderr)
        return FAILED


def _run(told: argparse.Namespace, server: list[str]) -> int:
    # each command starts a process of its own, so each imports only what it needs
    if told.command == "launch":
        from agent import launch

        launch.run(launch.Told(told.instance, told.gpus, told.release, told.shape, told.pin_nccl_port), server)
    if told.command == "stop":
        from agent import stop

        return stop.run(told.instance, told.drain)
    if told.command == "breaker":
        return _breaker(told.instance)
    if told.command == "liveness":
        from agent import liveness

        return liveness.run(told.instance, told.quiet)
    if told.command == "retry":
        unit = layout.Instance(told.instance).unit
        force.ask(told.instance)
        return subprocess.run(["systemctl", "start", unit], check=False).returncode
    from agent import status

    return status.show(told.instance) if told.command == "status" else status.diagnose(told.instance)


def _breaker(instance: str) -> int:
    """Whether to start. What goes wrong in deciding keeps no server down: whatever it is, the start goes on."""
    try:
        from agent import breaker

        return breaker.run(instance)
    except Exception as error:
        print(f"sglang agent: the starts before could not be judged ({error!r}); starting", file=sys.stderr)
        return 0


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """What is for the agent, and after ``--`` the server's own command."""
    if "--" not in words:
        return words, []
    index = words.index("--")
    return words[:index], words[index + 1 :]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sglang-agent", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    launch = commands.add_parser("launch", help="become the server (ExecStart)")
    launch.add_argument("instance")
    launch.add_argument("--gpus", default="all")
    launch.add_argument("--release", required=True)
    launch.add_argument("--shape", default="")
    launch.add_argument("--pin-nccl-port", action="store_true")
    stop = commands.add_parser("stop", help="end the main process after its running requests (ExecStop)")
    stop.add_argument("instance")
    stop.add_argument("--drain", type=float, default=120)
    commands.add_parser("breaker", help="whether another start makes sense (ExecCondition)").add_argument("instance")
    liveness = commands.add_parser("liveness", help="restart the server if it is dead, and only then")
    liveness.add_argument("instance")
    liveness.add_argument("--quiet", type=float, default=60, help="seconds without traffic before it is asked")
    commands.add_parser("retry", help="start the server although the breaker gave it up").add_argument("instance")
    commands.add_parser("status", help="what runs").add_argument("instance", nargs="?", default="")
    commands.add_parser("diagnose", help="what became of the last start").add_argument("instance")
    return parser
