"""``python3 -m tests.sandbox``: make, reach and remove test hosts on this machine."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from . import compare, container, controller, host, image, models, network, records, settings, ssh, wheelhouse
from .files import remove_tree
from .shell import SandboxError, say


def _up(options: argparse.Namespace) -> int:
    controller.prepare()
    _ensure(image.ensure, *((models.ensure, wheelhouse.ensure) if options.serving else ()))
    network.ensure_bridge()
    ssh.public_key()
    hosts = [host.up(name, options.mount) for name in options.name]
    ssh.publish()
    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(host.await_ssh, hosts))
    for record in hosts:
        print(f"{record.name} {record.address}")
    return 0


def _fill(dummy: argparse.Namespace) -> int:
    controller.prepare()
    _ensure(models.ensure, wheelhouse.ensure)
    return 0


def _ensure(*parts: Callable[[], object]) -> None:
    """Side by side: the image waits for one mirror, the wheelhouse for another."""
    with ThreadPoolExecutor(max_workers=len(parts)) as pool:
        for done in [pool.submit(part) for part in parts]:
            done.result()


def _stop(options: argparse.Namespace) -> int:
    for name in options.name:
        host.stop(name, hard=options.hard)
    return 0


def _down(options: argparse.Namespace) -> int:
    known = {record.name for record in records.everyone()}
    for name in options.name:
        if records.checked(name) in known:
            host.down(name)
        else:
            say(f"there is no host {name}")
    return 0


def _clean(options: argparse.Namespace) -> int:
    for record in records.everyone():
        host.down(record.name)
    network.remove_bridge()
    controller.restore()
    for folder in (settings.STATE, *([settings.CACHE] if options.cache else [])):
        remove_tree(folder)
    if settings.CACHE.exists():
        say(f"kept {settings.CACHE} (images, wheels, models); `clean --cache` removes it too")
    return 0


def _list(options: argparse.Namespace) -> int:
    rows = [
        {"name": record.name, "address": record.address, "running": container.running(record) is not None}
        for record in records.everyone()
    ]
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        for row in rows:
            print(f"{row['name']:<20} {row['address']:<16} {'running' if row['running'] else 'stopped'}")
    return 0


def _ssh(options: argparse.Namespace) -> int:
    records.require(options.name)
    ssh.become(options.name, options.command)
    return 0


def _inventory(options: argparse.Namespace) -> int:
    hosts = {record.name: {"ansible_host": record.address} for record in map(records.require, options.name)}
    common = {"ansible_ssh_common_args": f"-F {ssh.CONFIG}", "ansible_user": "root"}
    common["ansible_python_interpreter"] = "/usr/bin/python3"
    print(json.dumps({"all": {"vars": common, "hosts": hosts}}, indent=1))
    return 0


def _limit(options: argparse.Namespace) -> int:
    print(host.limit_memory(options.name, options.size))
    return 0


def _compare(options: argparse.Namespace) -> int:
    records.require(options.name)
    rows = compare.compare(options.name, options.port)
    for row in rows:
        verdict = "same" if row["got"] == row["wanted"] else f"DIFFERENT: {row['got']} instead of {row['wanted']}"
        print(f"{row['prompt']!r}: {verdict} (accept length {row['accept_length']})")
    return 0 if all(row["got"] == row["wanted"] for row in rows) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m tests.sandbox", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    up = commands.add_parser("up", help="create or repair hosts; prints a line NAME ADDRESS for each")
    up.add_argument("name", nargs="+")
    up.add_argument("--mount", action="append", default=[], metavar="SOURCE:TARGET", help="one more read-only folder")
    up.add_argument("--serving", action="store_true", help="with all that a server needs: `fill` first")
    up.set_defaults(run=_up)

    fill = commands.add_parser("fill", help="fill the wheelhouse and make the models; quick when that is done")
    fill.set_defaults(run=_fill)

    stop = commands.add_parser("stop", help="power hosts off; their disks stay")
    stop.add_argument("name", nargs="+")
    stop.add_argument("--hard", action="store_true", help="cut the power instead")
    stop.set_defaults(run=_stop)

    down = commands.add_parser("down", help="remove hosts and their disks")
    down.add_argument("name", nargs="+")
    down.set_defaults(run=_down)

    clean = commands.add_parser("clean", help="remove all hosts and every other trace, except the cache")
    clean.add_argument("--cache", action="store_true", help="remove the cache (images, wheels, models) too")
    clean.set_defaults(run=_clean)

    listing = commands.add_parser("list", help="the hosts that there are")
    listing.add_argument("--json", action="store_true")
    listing.set_defaults(run=_list)

    reach = commands.add_parser("ssh", help="a shell or a command on a host")
    reach.add_argument("name")
    reach.add_argument("command", nargs=argparse.REMAINDER)
    reach.set_defaults(run=_ssh)

    inventory = commands.add_parser("inventory", help="an Ansible inventory of these hosts, as JSON (which is YAML)")
    inventory.add_argument("name", nargs="+")
    inventory.set_defaults(run=_inventory)

    limit = commands.add_parser("limit", help="limit a host's memory from outside, until it is stopped")
    limit.add_argument("name")
    limit.add_argument("size", help="bytes, or max")
    limit.set_defaults(run=_limit)

    greedy = commands.add_parser("compare", help="a server's greedy tokens with those of transformers")
    greedy.add_argument("name")
    greedy.add_argument("port", nargs="?", type=int, default=30000)
    greedy.set_defaults(run=_compare)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; 1 with a message when something is wrong."""
    options = _parser().parse_args(argv)
    try:
        return int(options.run(options))
    except SandboxError as error:
        say(str(error))
        return 1


if __name__ == "__main__":
    sys.exit(main())
