"""What an instance comes to on a host."""

from __future__ import annotations

import configparser
import shlex

import pytest
import yaml
from ansible_collections.inferops.sglang.plugins.module_utils.server import quoting, render
from hypothesis import given
from hypothesis import strategies as st
from server_samples import environment, instance

SPECULATIVE = {"draft_model_path": "/data/draft", "num_steps": 2, "eagle_topk": 4, "num_draft_tokens": 16}


def unit_of(rendered: render.Rendered) -> dict[str, list[str]]:
    """The settings of a unit, each with its values; continued lines joined."""
    text = next(text for path, text in rendered.files.items() if path.endswith(".service"))
    settings: dict[str, list[str]] = {}
    for line in text.replace("\\\n", "").splitlines():
        name, separator, value = line.partition("=")
        if separator and not line.startswith("#"):
            settings.setdefault(name, []).append(value)
    return settings


def test_the_unit_shows_the_whole_command() -> None:
    wanted = render.render(instance(speculative=SPECULATIVE, args={"tp_size": 8}), environment(), speculate=True)
    assert wanted.argv == [
        "/opt/sglang/builds/lock-000000000000.1/bin/python", "-m", "sglang.launch_server",
        "--host=127.0.0.1", "--model-path=/shared/kimi", "--port=30000", "--speculative-algorithm=EAGLE3",
        "--speculative-draft-model-path=/data/draft", "--speculative-eagle-topk=4",
        "--speculative-num-draft-tokens=16", "--speculative-num-steps=2", "--tp-size=8",
    ]  # fmt: skip
    start = shlex.split(unit_of(wanted)["ExecStart"][0])
    assert start[start.index("--") + 1 :] == wanted.argv


@pytest.mark.parametrize(("policy", "speculate"), [("never", True), ("always", False), ("measured", False)])
def test_no_speculation_leaves_no_option_of_it(policy: str, speculate: bool) -> None:
    described = instance(speculative={**SPECULATIVE, "policy": policy})
    wanted = render.render(described, environment(), speculate=speculate)
    assert not [word for word in wanted.argv if "speculative" in word]


def test_stopping_leaves_room_for_the_drain() -> None:
    settings = unit_of(render.render(instance(drain_timeout=600), environment(), speculate=False))
    assert int(settings["TimeoutStopSec"][0]) > 600
    assert "--drain=600" in settings["ExecStop"][0]


def test_keys_are_nowhere_but_in_their_files() -> None:
    described = instance(api_key="sk-planted", admin_api_key='ad"min\\', secret_env={"HF_TOKEN": "hf-planted"})
    wanted = render.render(described, environment(), speculate=False)
    assert yaml.safe_load(wanted.files["/etc/sglang/kimi.secrets.yaml"]) == {
        "api-key": "sk-planted",
        "admin-api-key": 'ad"min\\',
    }
    open_text = "".join(text for path, text in wanted.files.items() if path not in wanted.secret) + repr(wanted)
    assert "planted" not in open_text
    assert 'ad"min' not in open_text
    assert wanted.argv[-2:] == ["--config", "/etc/sglang/kimi.secrets.yaml"]


def test_without_keys_there_is_no_config_file() -> None:
    wanted = render.render(instance(), environment(), speculate=False)
    assert "--config" not in wanted.argv
    assert "/etc/sglang/kimi.secrets.yaml" not in wanted.files


def test_environment_of_the_unit() -> None:
    described = instance(env={"NCCL_DEBUG": "INFO", "N": 1}, cuda_home=None)
    variables = render.plain_variables(described, environment(variables={"SGLANG_X": "1", "NCCL_DEBUG": "WARN"}))
    assert variables["HOME"] == "/var/lib/sglang/kimi"
    assert variables["CUDA_HOME"] == "/usr/local/cuda-13.0"
    assert variables["PATH"].split(":")[:2] == [
        "/opt/sglang/builds/lock-000000000000.1/bin",
        "/usr/local/cuda-13.0/bin",
    ]
    assert variables["SGLANG_X"] == "1"
    assert variables["NCCL_DEBUG"] == "INFO"
    assert variables["N"] == "1"
    assert "CUDA_HOME" not in render.plain_variables(instance(), environment(cuda=None))


def test_only_what_a_process_keeps_changes_the_shape() -> None:
    def shape(**options: object) -> str:
        return render.render(instance(**options), environment(), speculate=False).shape

    assert shape() == shape(drain_timeout=5, restart_delay=99, args={"tp_size": 2})
    assert len({shape(), shape(memory_max="64G"), shape(run_as="me"), shape(core_dumps=True)}) == 4


def test_in_place_lies_anywhere_and_loses_only_what_that_forbids() -> None:
    described = instance(mode="in_place", python="/root/ml-env/bin/python", run_as="root")
    settings = unit_of(render.render(described, environment(python="/root/ml-env/bin/python"), speculate=False))
    assert settings["User"] == ["root"]
    assert "ProtectHome" not in settings
    assert settings["NoNewPrivileges"] == ["yes"]


def test_paths_with_specifiers_and_blanks() -> None:
    described = instance(model_path="/data/my models/100%", writable_paths=["/data/a b"])
    settings = unit_of(render.render(described, environment(), speculate=False))
    assert '"/data/my models/100%%"' in settings["RequiresMountsFor"]
    assert settings["ReadWritePaths"] == ['"/data/a b"']


def test_a_refused_option_is_reported_and_the_rest_is_written() -> None:
    wanted = render.render(instance(args={"tp_sise": 8}), environment(), speculate=False)
    assert [problem.option for problem in wanted.problems] == ["tp_sise"]
    assert "--model-path=/shared/kimi" in wanted.argv


@given(st.lists(st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"))))
def test_a_command_stays_on_continued_lines_of_its_own(arguments: list[str]) -> None:
    """No argument can end the line, begin a comment, or add a setting."""
    lines = quoting.command(["/bin/true", *arguments]).split("\n")
    assert all(line.endswith("\\") for line in lines[:-1])
    assert not lines[-1].endswith("\\") or lines[-1].endswith("\\\\")
    assert all(not line.lstrip().startswith(("#", ";")) for line in lines)
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.read_string("[Service]\nExecStart=" + " ".join(line.rstrip("\\") for line in lines) + "\n")
    assert list(parser["Service"]) == ["execstart"]
