"""An environment in place: its patches belong to the activation, and come back with it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils import layout
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.patch import in_place
from ansible_collections.inferops.sglang.plugins.module_utils.running import Completed
from ansible_collections.inferops.sglang.plugins.module_utils.server import activation, force, service, tree
from ansible_collections.inferops.sglang.plugins.plugin_utils import desired
from server_samples import instance
from support import run as really

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "patch"))
import patch_trees as trees

FILES = {"__init__.py": b"", "a.py": trees.GREETER, "b.py": trees.GREETER}
BYE = trees.patch("bye", trees.add_method())
CIAO = trees.patch("bye", trees.add_method(body="return 'ciao'"))
LIMIT = trees.patch("limit", trees.add_entry(file="b.py"))


class Systemd:
    """Stands for systemd; every other command is run."""

    def __init__(self) -> None:
        self.active = False

    def __call__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        data: str | None = None,
    ) -> Completed:
        if argv[0] != "systemctl":
            return really(argv, env=env, cwd=cwd, data=data)
        self.active = {"start": True, "stop": False}.get(argv[1], self.active)
        state = "active" if self.active else "inactive"
        return Completed(0, f"LoadState=loaded\nActiveState={state}\nMainPID=0\nResult=success\nInvocationID=", "")


class Owned:
    """An environment of one's own with a server that runs from it."""

    def __init__(self, root: Path, user: str) -> None:
        self.root = root / "lib/python3.11/site-packages"
        trees.site_packages(self.root, FILES)
        (root / "pyvenv.cfg").write_text("")
        (root / "bin").mkdir()
        self.python = root / "bin/python"
        self.python.symlink_to(sys.executable)
        self.systemd = Systemd()
        self.told = {"run_as": user, "mode": "in_place", "python": str(self.python), "build": None, "gpus": ["none"]}

    def described(self, *definitions: dict[str, Any], **more: Any) -> dict[str, Any]:
        return instance(**{**self.told, "name": "own", "port": 39111, "definitions": list(definitions), **more})

    def patch(self, *definitions: dict[str, Any]) -> None:
        """What the role does before it starts the server."""
        in_place.bring(self.systemd, in_place.Wish(str(self.python), list(definitions)), False)

    def bring(self, state: str, described: dict[str, Any], check: bool = False) -> Any:
        holder = {"id": "run", "controller": "here"}
        told = {"state": state, "enabled": True, "adopting": False, "holder": holder, "check_mode": check}
        return service.run(self.systemd, [described], **told)[0]

    def deploy(self, *definitions: dict[str, Any], outcome: str, **more: Any) -> None:
        self.patch(*definitions)
        self.systemd.active = False  # an edited source is a reason to restart
        self.bring("started", self.described(*definitions, **more))
        force.set_outcome("own", activation.newest("own")["n"], outcome)

    @property
    def text(self) -> str:
        return (self.root / "sglang/a.py").read_text() + (self.root / "sglang/b.py").read_text()


@pytest.fixture
def owned(host: Path, user: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Owned:
    from server_samples import schema

    (Path(layout.AGENT) / "0123456789abcdef.pyz").touch()
    monkeypatch.setattr(service.options, "dump", lambda *dummy: schema("0.5.9"))
    return Owned(tmp_path_factory.mktemp("ml-env"), user)


def changes(plan: Any) -> list[tuple[str, str, Any, Any]]:
    return [
        (one["resource"], one["what"], one["before"], one["after"])
        for one in plan.to_list()
        if one["resource"].startswith("patches/")
    ]


def test_the_plan_names_the_patches_that_the_tree_lacks(owned: Owned) -> None:
    wanted = owned.described(BYE, LIMIT)
    owned.patch(LIMIT)
    assert changes(tree.plan(owned.systemd, wanted)) == [("patches/own", "bye", "absent", "present")]
    owned.patch(BYE)
    assert changes(tree.plan(owned.systemd, wanted)) == []
    assert changes(tree.plan(owned.systemd, owned.described())) == []


def test_a_restore_takes_out_the_patches_that_came_in_since(owned: Owned) -> None:
    before = trees.snapshot(owned.root)
    owned.deploy(outcome="good")
    owned.deploy(BYE, LIMIT, outcome="pending")
    foretold = owned.bring("restored", owned.described(BYE, LIMIT), check=True)
    assert changes(foretold) == [
        ("patches/own", "bye", "present", "absent"),
        ("patches/own", "limit", "present", "absent"),
    ]
    assert "def bye" in owned.text
    owned.bring("restored", owned.described(BYE, LIMIT))
    assert trees.snapshot(owned.root) == before
    assert activation.newest("own")["restored_from"] == 1


def test_a_restore_brings_back_a_definition_as_it_was(owned: Owned) -> None:
    owned.deploy(BYE, outcome="good")
    good = trees.snapshot(owned.root)
    owned.deploy(CIAO, LIMIT, outcome="pending")
    assert "'ciao'" in owned.text
    owned.bring("restored", owned.described(CIAO, LIMIT))
    assert trees.snapshot(owned.root) == good
    assert changes(owned.bring("restored", owned.described(CIAO, LIMIT), check=True)) == []


def test_patches_alone_are_another_activation(owned: Owned) -> None:
    owned.deploy(outcome="good")
    owned.deploy(BYE, outcome="good")
    assert activation.numbers("own") == [1, 2]
    owned.deploy(BYE, outcome="good")
    assert activation.numbers("own") == [1, 2]


def test_a_patch_that_came_in_without_a_deploy_is_taken_out_too(owned: Owned) -> None:
    owned.deploy(BYE, outcome="good")
    good = trees.snapshot(owned.root)
    owned.patch(LIMIT)
    owned.bring("restored", owned.described(BYE))
    assert trees.snapshot(owned.root) == good


def test_a_tree_that_cannot_be_brought_back_is_named_before_anything_is_stopped(owned: Owned) -> None:
    owned.deploy(outcome="good")
    path = owned.root / "sglang/a.py"
    path.write_text(path.read_text().replace("def hello", "def hello_by_hand"))
    in_place.bring(owned.systemd, in_place.Wish(str(owned.python), [BYE], allow_foreign=True), False)
    patched = trees.snapshot(owned.root)
    owned.bring("started", owned.described(BYE))
    with pytest.raises(InferopsError, match="cannot be put back"):
        owned.bring("restored", owned.described(BYE))
    assert owned.systemd.active
    assert trees.snapshot(owned.root) == patched


def test_patches_in_place_are_read_on_the_controller() -> None:
    words = {"name": "own", "model_path": "/m", "mode": "in_place", "python": "/p", "patches": ["sm120_multimem"]}
    (completed,) = desired.complete([words])
    assert completed["patches"] == ["sm120_multimem"]
    assert [one["name"] for one in completed["definitions"]] == ["sm120_multimem"]
    with pytest.raises(InferopsError, match="did you mean 'sm120_multimem'"):
        desired.complete([{**words, "patches": ["sm120_multimen"]}])
