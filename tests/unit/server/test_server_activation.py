"""Activations: kept with content, put in force as one, restored, pruned."""

from __future__ import annotations

import dataclasses
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils import layout
from ansible_collections.inferops.sglang.plugins.module_utils.changes import Plan
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.server import activation, force, resource
from server_samples import instance, make_build

UNIT = {"LoadState": "not-found", "ActiveState": "inactive", "MainPID": "0", "UnitFileState": "", "InvocationID": ""}


def apply(described: dict[str, Any]) -> int:
    """What ``sglang_server`` writes, without systemd."""
    seen = resource.look(described, UNIT)
    assert seen.wanted is not None
    number = force.store("kimi", resource.describe(seen), seen.wanted.files)
    force.put_in_force("kimi", resource.describe(seen), seen.wanted.files)
    return number


def plan(described: dict[str, Any]) -> Plan:
    return resource.plan(resource.look(described, {**UNIT, "LoadState": "loaded", "UnitFileState": "enabled"}))


def parts(changes: Plan) -> set[str]:
    return {os.path.basename(change.what) for change in changes.changes if change.resource.startswith("activation")}


@pytest.fixture
def described(build: dict[str, Any], user: str) -> dict[str, Any]:
    return instance(build=build, run_as=user, api_key="sk-planted", secret_env={"T": "hf-planted"})


def test_the_ladder(described: dict[str, Any]) -> None:
    assert parts(plan(described)) == {
        "sglang-kimi.service", "kimi.env", "kimi.secret.env", "kimi.secrets.yaml", "current"
    }  # fmt: skip
    assert apply(described) == 1
    assert parts(plan(described)) == set()
    assert apply(described) == 1
    changed = {**described, "env": {"A": "1"}}
    assert parts(plan(changed)) == {"kimi.env"}
    assert apply(changed) == 2
    assert parts(plan(changed)) == set()


@pytest.mark.parametrize("name", ["env", "secret.env", "secrets.yaml"])
def test_an_edit_by_hand_is_seen_and_put_right(described: dict[str, Any], name: str) -> None:
    apply(described)
    path = Path(layout.ETC) / f"kimi.{name}"
    path.write_text(path.read_text() + "\nX=1\n")
    assert parts(plan(described)) == {f"kimi.{name}"}
    apply(described)
    assert parts(plan(described)) == set()


def test_a_mode_that_was_opened_is_seen_and_put_right(described: dict[str, Any]) -> None:
    apply(described)
    path = Path(layout.ETC) / "kimi.secrets.yaml"
    path.chmod(0o644)
    (change,) = plan(described).changes[:1]
    assert change.what == f"permissions of {path}"
    assert "0644" in change.before
    apply(described)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_secret_files_are_for_those_who_need_them(described: dict[str, Any]) -> None:
    apply(described)
    modes = {name: stat.S_IMODE((Path(layout.ETC) / f"kimi.{name}").stat().st_mode) for name in
             ("env", "secret.env", "secrets.yaml")}  # fmt: skip
    assert modes == {"env": 0o644, "secret.env": 0o600, "secrets.yaml": 0o640}
    kept = Path(layout.ROOT) / "kimi" / "activations" / "1"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o750
    assert all(stat.S_IMODE(path.stat().st_mode) & 0o007 == 0 for path in kept.iterdir())


def test_a_plan_shows_no_secret(described: dict[str, Any]) -> None:
    first = plan(described)
    apply(described)
    second = plan({**described, "api_key": "sk-planted-2", "secret_env": {"T": "hf-planted-2"}})
    assert parts(second) == {"kimi.secrets.yaml", "kimi.secret.env"}
    assert "planted" not in json.dumps([first.to_list(), first.diff(), second.to_list(), second.diff()])


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("env", 'HF_TOKEN="hf-typed"'),
        ("env", "DB_PASSWORD='typed in'"),
        ("unit", "Environment=HF_TOKEN=hf-typed OTHER=1"),
        ("unit", 'Environment="WANDB_API_KEY=typed"'),
        ("unit", "ExecStart=/bin/server --api-key typed --port 1"),
        ("unit", "ExecStart=/bin/server --admin-api-key=typed"),
    ],
)
def test_a_plan_shows_no_secret_that_was_typed_on_the_host(described: dict[str, Any], file: str, line: str) -> None:
    described["env"] = {"MY_TOKEN": "known-as-plain", "TOKENIZERS_PARALLELISM": "false"}
    apply(described)
    path = Path(layout.Instance("kimi").env_file if file == "env" else layout.Instance("kimi").unit_file)
    path.write_text(path.read_text() + f"A=1\n{line}\n")
    (change,) = (change for change in plan(described).changes if change.what == str(path))
    assert "typed" not in json.dumps(change.to_dict())
    assert "(secret, as found)" in change.before and "\nA=1\n" in change.before
    assert change.after in path.read_text(), "what did not change is shown as it is"


def test_the_edit_of_a_value_that_is_not_shown_is_told(described: dict[str, Any]) -> None:
    described["env"] = {"MY_TOKEN": "known-as-plain"}
    apply(described)
    path = Path(layout.Instance("kimi").env_file)
    path.write_text(path.read_text().replace("known-as-plain", "typed"))
    (change,) = (change for change in plan(described).changes if change.what == str(path))
    assert "MY_TOKEN=(secret, as found)\n" in change.before and "MY_TOKEN=(secret, as described)\n" in change.after


@pytest.mark.parametrize("text", ["[]", "{}", "1", '{"n": 1}', "{"])
@pytest.mark.parametrize(
    "which", ["kimi/activations/1/activation.json", "kimi/ready.json", "builds/lock-000000000000.1/manifest.json"]
)
def test_a_file_of_another_form_is_named_with_what_to_do(described: dict[str, Any], which: str, text: str) -> None:
    apply(described)
    (Path(layout.ROOT) / which).write_text(text)
    with pytest.raises(InferopsError, match=f"{which} is not .*remove it and run deploy.yml again"):
        plan(described)


def test_nothing_of_ours_looks_like_a_secret(described: dict[str, Any]) -> None:
    """A unit that is missing is shown whole."""
    for change in plan({**described, "liveness_interval": 60}).changes:
        if not change.what.endswith(("secret.env", "secrets.yaml")):
            assert "(secret" not in str(change.after)


def test_without_keys_the_old_file_goes(described: dict[str, Any]) -> None:
    apply(described)
    without = {**described, "api_key": None}
    assert "kimi.secrets.yaml" in parts(plan(without))
    apply(without)
    assert not (Path(layout.ETC) / "kimi.secrets.yaml").exists()


def test_a_run_that_was_killed_in_between_is_finished_by_the_next(described: dict[str, Any]) -> None:
    """The record is complete before the first file: whatever was written of the files, the plan sees the rest."""
    seen = resource.look(described, UNIT)
    assert seen.wanted is not None
    force.store("kimi", resource.describe(seen), seen.wanted.files)
    unit = layout.Instance("kimi").unit_file
    Path(unit).write_text(seen.wanted.files[unit])
    assert "kimi.env" in parts(plan(described))
    assert apply(described) == 1
    assert parts(plan(described)) == set()


def test_an_unfinished_record_is_no_activation(described: dict[str, Any]) -> None:
    unfinished = Path(layout.Instance("kimi").activations) / ".1"
    unfinished.mkdir(parents=True)
    (unfinished / "activation.json").write_text("{")
    assert activation.newest("kimi") is None
    assert apply(described) == 1
    assert not unfinished.exists()


def test_restore_brings_content_back_and_refuses_what_was_tampered_with(described: dict[str, Any]) -> None:
    apply(described)
    force.set_outcome("kimi", 1, activation.GOOD)
    apply({**described, "api_key": "sk-other", "args": {"tp_size": 2}})
    files = force.files_of("kimi", 1)
    assert "sk-planted" in files[layout.Instance("kimi").secrets_file]
    assert "--tp-size" not in files[layout.Instance("kimi").unit_file]
    (Path(layout.Instance("kimi").activations) / "1" / "unit").write_text("[Service]\n")
    with pytest.raises(InferopsError, match="is not as recorded"):
        force.files_of("kimi", 1)


def test_outcomes(described: dict[str, Any]) -> None:
    apply(described)
    assert resource.unproven(resource.look(described, UNIT)).changed
    assert force.set_outcome("kimi", 1, activation.GOOD)
    assert not force.set_outcome("kimi", 1, activation.GOOD)
    assert not resource.unproven(resource.look(described, UNIT)).changed
    assert not force.set_outcome("kimi", 7, activation.GOOD)


@pytest.mark.parametrize("seen_before", [None, "f" * 32])
def test_a_start_that_nobody_saw_serving_is_not_in_sync(described: dict[str, Any], seen_before: str | None) -> None:
    """systemd starts servers at boot and after a crash: such a one is waited for like any other."""
    apply(described)
    force.set_outcome("kimi", 1, activation.GOOD)
    running = {**UNIT, "LoadState": "loaded", "ActiveState": "active", "MainPID": str(os.getpid())}
    running["InvocationID"] = "0" * 32
    ready = Path(layout.Instance("kimi").ready)
    if seen_before:
        ready.write_text(json.dumps({"invocation": seen_before}))
    seen = resource.look(described, running)
    # this process is no server of ours, so the look finds reasons to restart it; of those the plan tells anyway
    seen = dataclasses.replace(seen, differences=[])
    assert [change.what for change in resource.unproven(seen).changes] == ["serves"]
    ready.write_text(json.dumps({"invocation": running["InvocationID"]}))
    seen = dataclasses.replace(resource.look(described, running), differences=[])
    assert not resource.unproven(seen).changed


def test_prune_keeps_the_last_good_one(described: dict[str, Any]) -> None:
    for number in range(1, 9):
        assert apply({**described, "env": {"A": str(number)}}) == number
    force.set_outcome("kimi", 2, activation.GOOD)
    assert force.prune("kimi") == [1, 3]
    assert activation.numbers("kimi") == [2, 4, 5, 6, 7, 8]
    good = activation.last_good("kimi")
    assert good is not None
    assert good["n"] == 2


def test_builds_in_use(described: dict[str, Any]) -> None:
    apply(described)
    root = os.path.join(layout.BUILDS, "lock-000000000000.1")
    assert activation.builds_in_use("kimi") == [root]
    assert os.readlink(layout.Instance("kimi").current) == root


def test_a_build_that_does_not_exist_is_deferred(host: Path, user: str) -> None:
    described = instance(build={"build_id": "lock-ffffffffffff"}, run_as=user)
    changes = plan(described)
    assert "build" in parts(changes)
    assert "known once lock-ffffffffffff" in changes.deferred[0]
    with pytest.raises(InferopsError, match="which is not there or not sealed"):
        resource.describe(resource.look(described, UNIT))


def test_the_newest_sealed_build_is_taken(described: dict[str, Any]) -> None:
    make_build("lock-000000000000", 2)
    quarantined = make_build("lock-000000000000", 3)
    (Path(layout.BUILDS) / "lock-000000000000.3" / "quarantined.json").write_text("{}")
    unsealed = Path(layout.BUILDS) / "lock-000000000000.4"
    unsealed.mkdir()
    seen = resource.look({**described, "build": quarantined}, UNIT)
    assert seen.environment is not None
    assert seen.environment.root.endswith(".2")


def test_an_option_that_the_release_would_refuse_stops_the_plan(described: dict[str, Any]) -> None:
    with pytest.raises(InferopsError, match=r"args\.tp_sise: .*did you mean '--tp-size'"):
        plan({**described, "args": {"tp_sise": 8}})


def test_a_kept_secret_that_was_opened_to_others_is_seen_and_closed(described: dict[str, Any]) -> None:
    described = {**described, "api_key": "sk-planted", "secret_env": {"T": "hf-planted"}}
    apply(described)
    kept = Path(activation.folder("kimi", 1)) / "secrets.yaml"
    kept.chmod(0o644)
    seen = resource.look(described, UNIT)
    changes = [change for change in resource.plan(seen).changes if str(kept) in change.what]
    assert [change.before.partition(",")[0] for change in changes] == ["0644"]
    apply(described)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640
    assert activation.exposed("kimi") == {}
