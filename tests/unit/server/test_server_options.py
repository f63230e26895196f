"""Arguments against the options that real releases have."""

from __future__ import annotations

import argparse
import json
import shlex

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.server import options, options_worker
from hypothesis import given, settings
from hypothesis import strategies as st
from server_samples import schema

OLD, NEW = schema("0.5.9"), schema("0.5.23")


def words(args: dict, release: dict = OLD) -> list[str]:
    rendered, problems = options.render(args, release)
    assert [problem for problem in problems if problem.severity == options.ERROR] == []
    return rendered


def refused(args: dict, release: dict = OLD) -> str:
    problems = [problem for problem in options.check(args, release) if problem.severity == options.ERROR]
    assert len(problems) == 1, problems
    return problems[0].message


def test_the_founding_configuration_is_written_as_sglang_takes_it() -> None:
    args = {
        "tp_size": 8,
        "trust_remote_code": True,
        "cuda_graph_max_bs": 128,
        "disable_custom_all_reduce": True,
        "attention_backend": "flashinfer",
        "enable_flashinfer_allreduce_fusion": True,
        "mem_fraction_static": 0.88,
    }
    assert words(args) == [
        "--attention-backend=flashinfer",
        "--cuda-graph-max-bs=128",
        "--disable-custom-all-reduce",
        "--enable-flashinfer-allreduce-fusion",
        "--mem-fraction-static=0.88",
        "--tp-size=8",
        "--trust-remote-code",
    ]


def test_the_order_of_the_description_does_not_matter() -> None:
    assert words({"tp_size": 2, "dp_size": 1}) == words({"dp_size": 1, "tp_size": 2})


@pytest.mark.parametrize("key", ["tp_size", "tp-size", "--tp-size", "tensor_parallel_size", "tp"])
@pytest.mark.parametrize("release", [OLD, NEW], ids=["0.5.9", "0.5.23"])
def test_names_aliases_and_unique_prefixes(key: str, release: dict) -> None:
    name, option = options.find(key, release)
    assert "--tp-size" in option["names"]
    assert words({key: 2}, release) == [f"{name}=2"]


@pytest.mark.parametrize(
    ("args", "release", "said"),
    [
        ({"tp_sise": 2}, OLD, "did you mean '--tp-size'?"),
        ({"mem_fraction": 0.8, "mem_fraction_statik": 0.8}, OLD, "did you mean '--mem-fraction-static'?"),
        ({"cuda_graph_max_bs": 128}, NEW, "ambiguous"),
        ({"cuda_graph_max_bs": 128}, NEW, "this release has it as --cuda-graph-max-bs-decode"),
        ({"cuda_graph_max_bs_decode": 128}, OLD, "this release has it as --cuda-graph-max-bs"),
        ({"nsa_decode_backend": "x"}, NEW, "--dsa-decode-backend"),
        ({"tp_size": "eight"}, OLD, "takes an int, but 'eight' was given"),
        ({"tp_size": 1.5}, OLD, "takes an int"),
        ({"context_length": "32 thousand"}, NEW, "takes a whole number, with a unit if one likes (32k, 32Ki)"),
        ({"context_length": "32K"}, NEW, "takes a whole number"),
        ({"context_length": "1.5Ki"}, NEW, "takes a whole number"),
        ({"context_length": "32k"}, OLD, "takes an int"),
        ({"mem_fraction_static": "most"}, OLD, "takes a float"),
        ({"attention_backend": "flashinfre"}, OLD, "did you mean 'flashinfer'?"),
        ({"trust_remote_code": 1}, OLD, "takes no value, but 1 was given; set it to true or false"),
        ({"trust_remote_code": "please"}, OLD, "takes no value"),
        ({"cuda_graph_bs": []}, OLD, "at least one value"),
        ({"cuda_graph_bs": [1, "two"]}, OLD, "takes an int"),
        ({"forward_hooks": "{broken"}, OLD, "is not JSON"),
        ({"tp_size": [1, 2]}, OLD, "takes one int"),
        ({"served_model_name": "a\0b"}, OLD, "NUL"),
        ({"lora_paths": ["-x"]}, OLD, "reads a word with '-' as an option"),
    ],
)
def test_what_a_release_would_refuse_is_said(args: dict, release: dict, said: str) -> None:
    problems = options.check(args, release)
    assert said in " ".join(problem.message for problem in problems)
    assert any(release["release"] in problem.message for problem in problems)


def test_the_same_option_twice_under_two_names() -> None:
    assert "are the same option" in refused({"tp_size": 2, "tensor_parallel_size": 4})


@pytest.mark.parametrize(
    ("args", "instead"),
    [
        ({"disable_cuda_graph": True}, "--cuda-graph-backend-{decode,prefill}=disabled"),
        ({"enable_flashinfer_allreduce_fusion": True}, "--flashinfer-allreduce-fusion-backend"),
    ],
)
def test_deprecated_options_work_and_name_their_replacement(args: dict, instead: str) -> None:
    problems = options.check(args, NEW)
    assert [problem.severity for problem in problems] == [options.WARNING]
    assert instead in problems[0].message


def test_values_of_every_kind() -> None:
    assert words({"trust_remote_code": False}) == []
    assert words({"trust_remote_code": "yes"}) == ["--trust-remote-code"]
    assert words({"chat_template": None}) == []
    assert words({"json_model_override_args": {"a": [1, "ü"]}}) == ['--json-model-override-args={"a": [1, "ü"]}']
    assert words({"cuda_graph_bs": [1, 2, 4]}) == ["--cuda-graph-bs", "1", "2", "4"]
    assert words({"served_model_name": "-x"}) == ["--served-model-name=-x"]
    assert words({"enable_tf32_matmul": False}, NEW) == ["--no-enable-tf32-matmul"]
    assert words({"max_total_tokens": "64k"}, NEW) == ["--max-total-tokens=64k"]


@pytest.mark.parametrize("length", [32768, "32768", "32k", "25.6k", "32Ki"])
def test_whole_numbers_with_a_unit(length: object) -> None:
    assert options.render({"context_length": length}, NEW) == ([f"--context-length={length}"], [])


def test_a_retired_option_is_refused_in_the_words_of_the_release() -> None:
    entry = {**OLD["options"][0], "names": ["--gone"], "dest": "gone", "retired": "use --new"}
    assert "use --new" in refused({"gone": "x"}, {**OLD, "options": [entry]})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=True)
    parser.add_argument("--text", type=str)
    parser.add_argument("--number", "--num", type=int)
    parser.add_argument("--choice", choices=["a", "b"])
    parser.add_argument("--json", type=json.loads)
    parser.add_argument("--many", nargs="+")
    parser.add_argument("--any", nargs="*", type=int)
    parser.add_argument("--flag", action="store_true")
    parser.add_argument("--switch", action=argparse.BooleanOptionalAction)
    parser.add_argument("--more", action="append")
    parser.add_argument("--perhaps", nargs="?", const="c")
    return parser


def _schema() -> dict:
    described = [options_worker.describe(action) for action in _parser()._actions]
    return {"format": 1, "release": "test", "options": described}


scalar = st.one_of(st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",))), st.integers())
value = st.one_of(scalar, st.booleans(), st.none(), st.floats(), st.lists(scalar, max_size=3), st.just({"k": "v"}))


@settings(deadline=None)  # a busy machine is no fault of the parser
@given(st.dictionaries(st.sampled_from(["text", "number", "choice", "json", "many", "any", "flag", "switch", "more",
                                        "perhaps"]), value))  # fmt: skip
def test_what_is_let_through_the_real_argparse_takes_and_understands(args: dict) -> None:
    rendered, problems = options.render(args, _schema())
    bad = {problem.option for problem in problems}
    parsed = vars(_parser().parse_args(rendered))
    for name, given_value in args.items():
        if name in bad or given_value is None:
            continue
        if name in ("flag", "switch"):
            assert parsed[name] is options_truth(given_value)
        elif name == "text" and isinstance(given_value, str):
            assert parsed[name] == given_value
        elif name == "number":
            assert parsed[name] == int(str(given_value))
        elif name in ("many", "more") and isinstance(given_value, list) and given_value:
            assert parsed[name] == [str(item) for item in given_value]


def options_truth(text: object) -> bool:
    return text if isinstance(text, bool) else str(text).lower() in ("true", "yes")


def test_the_worker_describes_every_kind_of_option() -> None:
    kinds = {option["dest"]: option["kind"] for option in _schema()["options"]}
    assert kinds == {
        "text": "value", "number": "value", "choice": "value", "json": "value", "many": "list", "any": "list",
        "flag": "flag", "switch": "boolean", "more": "append", "perhaps": "optional",
    }  # fmt: skip


def test_unknown_interpreter_is_an_error_that_names_it() -> None:
    from support import run

    with pytest.raises(InferopsError, match="/no/such/python"):
        options.dump(run, "/no/such/python")


def test_rendered_words_need_no_shell() -> None:
    assert shlex.join(words({"served_model_name": "a b"})) == "'--served-model-name=a b'"
