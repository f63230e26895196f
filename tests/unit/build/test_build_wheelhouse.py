"""Wheels on their way to a host: cut, resumed, damaged; the action's part is played by ``send``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.build import wheels
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.plugin_utils import wheelhouse
from build_wheels import wheel

PART = 1000
PINS = "big==1.0 \\\n    --hash=sha256:00\nsmall==2\n"


class Transfer:
    def __init__(self, root: Path) -> None:
        self.source = root / "source"
        self.dest = root / "dest"
        self.scratch = root / "scratch"
        self.scratch.mkdir()
        wheel(self.source, "big", "1.0", {"big/data.bin": bytes(range(256)) * 20})
        wheel(self.source, "small", "2", {"small/__init__.py": ""})
        wheel(self.source, "stranger", "2", {"stranger/__init__.py": ""})
        self.wanted = wheelhouse.needed(self.source, PINS, "3.12")

    def ask(self, parts: list[dict[str, Any]] | None = None, check_mode: bool = False) -> dict[str, Any]:
        params = {"dest": str(self.dest), "wheels": self.wanted, "part_size": PART, "parts": parts or []}
        return wheels.run(params, check_mode)

    def send(self, limit: int = 1000, damage: bool = False) -> int:
        """Send what is missing, ``limit`` parts at most; how many were sent."""
        sent = 0
        for portion in wheelhouse.portions(wheelhouse.pieces(self.source, self.ask()["missing"], PART), PART):
            parts = []
            for piece in portion[: limit - sent]:
                path = self.scratch / f"part{len(parts)}"
                path.write_bytes(piece.data[:-1] + b"!" if damage else piece.data)
                parts.append({"wheel": piece.wheel, "number": piece.number, "path": str(path), "sha256": piece.sha256})
            self.ask(parts)
            sent += len(parts)
            if sent >= limit:
                break
        return sent

    def same(self) -> bool:
        names = [each["name"] for each in self.wanted]
        return all((self.dest / name).read_bytes() == (self.source / name).read_bytes() for name in names)


@pytest.fixture
def transfer(tmp_path: Path) -> Transfer:
    return Transfer(tmp_path)


def test_what_the_lock_pins_arrives_and_nothing_else(transfer: Transfer) -> None:
    first = transfer.ask(check_mode=True)
    assert first["changed"] and not transfer.dest.exists()
    transfer.send()
    assert transfer.same()
    assert sorted(path.name for path in transfer.dest.glob("*.whl")) == sorted(each["name"] for each in transfer.wanted)
    assert list((transfer.dest / wheels.INCOMING).iterdir()) == []
    again = transfer.ask()
    assert not again["changed"] and again["missing"] == {}


def test_a_cut_transfer_goes_on_where_it_was(transfer: Transfer) -> None:
    total = transfer.send(limit=3)
    assert transfer.ask()["changed"]
    total += transfer.send()
    assert transfer.same()
    assert total == sum(wheels.parts(each["size"], PART) for each in transfer.wanted), "no part was sent twice"


def test_a_part_that_was_damaged_is_refused_and_sent_again(transfer: Transfer) -> None:
    with pytest.raises(InferopsError, match="was changed on its way"):
        transfer.send(damage=True)
    transfer.send()
    assert transfer.same()


def test_a_run_killed_between_the_last_part_and_the_whole_is_repaired_without_sending(transfer: Transfer) -> None:
    [big] = [each for each in transfer.wanted if each["name"].startswith("big")]
    for piece in wheelhouse.pieces(transfer.source, transfer.ask()["missing"], PART):
        if piece.wheel == big["name"]:
            path = Path(wheels._part(str(transfer.dest), big, piece.number, PART))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(piece.data)
    assert big["name"] not in transfer.ask()["missing"]
    assert (transfer.dest / big["name"]).read_bytes() == (transfer.source / big["name"]).read_bytes()


def test_parts_that_rot_on_the_host_do_not_become_a_wheel(transfer: Transfer) -> None:
    transfer.send(limit=3)
    rotten = next((transfer.dest / wheels.INCOMING).iterdir())
    rotten.write_bytes(b"?" * rotten.stat().st_size)
    with pytest.raises(InferopsError, match="is not what was sent"):
        transfer.send()
    transfer.send()
    assert transfer.same()


def test_a_wheel_changed_on_the_host_is_replaced(transfer: Transfer) -> None:
    transfer.send()
    victim = next(transfer.dest.glob("big*.whl"))
    victim.write_bytes(victim.read_bytes() + b"x")
    assert transfer.ask(check_mode=True)["changed"]
    transfer.send()
    assert transfer.same()


def test_a_folder_that_lacks_a_pin_is_refused(transfer: Transfer) -> None:
    with pytest.raises(InferopsError, match=r"lacks 1 of 2 wheels: big==1\.1; fill it"):
        wheelhouse.needed(transfer.source, "big==1.1\nsmall==2\n", "3.12")


@pytest.mark.parametrize(
    ("file", "fits"),
    [
        ("a_b-1.0-py3-none-any.whl", True),
        ("a_b-1.0-cp312-cp312-manylinux_2_28_x86_64.whl", True),
        ("a_b-1.0-cp311-cp311-manylinux_2_28_x86_64.whl", False),
        ("a_b-1.0-cp310-abi3-manylinux2014_x86_64.whl", True),
        ("a_b-1.0-cp313-abi3-manylinux2014_x86_64.whl", False),
        ("a_b-1.0+cu130-1-cp38.cp312-none-any.whl", True),
        ("broken.whl", False),
    ],
)
def test_which_wheels_are_for_this_python(file: str, fits: bool) -> None:
    assert wheelhouse._read(file, "cp312")[2] is fits


def test_a_pin_under_a_marker_is_sent_where_it_is_there_and_missed_by_nobody(tmp_path: Path) -> None:
    """A resolver for several platforms pins what only some need (``colorama`` on Windows), or one name twice."""
    for version in ("1.26", "2.4"):
        wheel(tmp_path, "numpy", version, {"numpy/__init__.py": ""})
    twice = "numpy==1.26 ; python_version < '3.10'\nnumpy==2.4 ; python_version >= '3.10'\n"
    wanted = wheelhouse.needed(tmp_path, twice + "colorama==0.4.6 ; sys_platform == 'win32'\n", "3.12")
    assert [entry["name"].split("-")[1] for entry in wanted] == ["1.26", "2.4"]
    with pytest.raises(InferopsError, match=r"lacks 1 of 2 wheels: colorama==0\.4\.6"):
        wheelhouse.needed(tmp_path, twice + "colorama==0.4.6\n", "3.12")
