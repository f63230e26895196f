"""Locks of the sandbox: exact pins, and wheels that satisfy them."""

from __future__ import annotations

import pytest
from sandbox.pins import Pin, missing, normalise, pins, wheel_identity
from sandbox.shell import SandboxError
from sandbox.wheelhouse import TOOLS, groups_of, lock_files

HASH = "0" * 63


def test_pins_are_read_with_all_their_hashes_and_normalised_names() -> None:
    hashes = f"--hash=sha256:{HASH}a \\\n    --hash=sha256:{HASH}b"
    text = f"# a comment\n\nPartial_JSON.parser==1 \\\n    {hashes}\ntorch==2.13.0+cpu\n"
    assert pins(text) == [
        Pin("partial-json-parser", "1", frozenset({f"{HASH}a", f"{HASH}b"})),
        Pin("torch", "2.13.0+cpu"),
    ]


@pytest.mark.parametrize("line", ["numpy", "numpy>=2", "-r other.txt", "numpy @ file:///x.whl", "https://x/y.whl"])
def test_what_is_no_exact_pin_is_refused_by_name(line: str) -> None:
    with pytest.raises(SandboxError, match="exact pins only"):
        pins(f"{line}\n")


def test_a_wheel_satisfies_the_pin_of_its_own_name_and_version_only() -> None:
    present = [
        "PyYAML-6.0.4-cp311-cp311-linux_x86_64.whl",
        "torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl",
        "notes.txt",
    ]
    wanted = [Pin("pyyaml", "6.0.4"), Pin("pyyaml", "6.0.3"), Pin("torch", "2.13.0+cpu"), Pin("torch", "2.13.0")]
    assert [pin.requirement for pin in missing(wanted, present)] == ["pyyaml==6.0.3", "torch==2.13.0"]
    assert wheel_identity("partial_json_parser-0.2.1-py3-none-any.whl") == ("partial-json-parser", "0.2.1")
    assert normalise("Ruamel.yaml__x") == "ruamel-yaml-x"


def test_the_shipped_locks_have_a_hash_for_everything_but_torch() -> None:
    assert [path.parent.name for path in lock_files()] == ["sglang-0.5.15-cpu", "sglang-0.5.23-cpu", "sglang-0.5.9-cpu"]
    for path in lock_files():
        found = pins(path.read_text(encoding="utf-8"))
        assert {pin.name for pin in found if not pin.hashes} == {"torch"}
        assert len({pin.name for pin in found}) == len(found)
        release = path.parent.name.split("-")[1]
        assert ("sglang", release) in {(pin.name, pin.version) for pin in found}


def testgroups_of_fetch_each_pin_once_never_two_versions_of_a_name_together_and_torch_alone() -> None:
    texts = {path.parent.name: path.read_text(encoding="utf-8") for path in lock_files()}
    groups = groups_of({**texts, "tools": TOOLS})
    fetched = [pin for group in groups.values() for pin in group]
    assert len(fetched) == len(set(fetched))
    for group in groups.values():
        assert len({pin.name for pin in group}) == len(group)
    assert [pin.requirement for pin in groups["torch"]] == ["torch==2.13.0+cpu"]
    wanted = {pin for text in (*texts.values(), TOOLS) for pin in pins(text) if not pin.name.startswith("sandbox-")}
    assert set(fetched) == wanted
