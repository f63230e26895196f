"""What the shipped patches claim, shown on the real sources: the patched lines are run, with stand-ins around them."""

from __future__ import annotations

import ast
import builtins
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
from patch_extracts import node, run, source
from releases import RELEASES

UP_TO_13 = RELEASES[:7]
pytestmark = pytest.mark.index


# -- the three that make a start possible ---------------------------------------------------------------------------


def test_kimi_passes_the_eagle3_calls_on_to_its_language_model() -> None:
    names = ("get_embed_and_head", "set_embed_and_head", "set_eagle3_layers_to_capture")
    assert not any(f"def {name}" in source("0.5.9", "srt/models/kimi_k25.py") for name in names)
    text = source("0.5.9", "srt/models/kimi_k25.py", "kimi_k25_eagle3_delegation")
    methods = [node(text, "KimiK25ForConditionalGeneration", name) for name in names]
    namespace = run(methods, {name: mock.MagicMock() for name in ("Tuple", "Optional", "List", "torch")})
    wrapper = mock.Mock()
    wrapper.language_model.get_embed_and_head.return_value = ("embed", "head")
    assert namespace["get_embed_and_head"](wrapper) == ("embed", "head")
    namespace["set_embed_and_head"](wrapper, "e", "h")
    wrapper.language_model.set_embed_and_head.assert_called_once_with("e", "h")
    namespace["set_eagle3_layers_to_capture"](wrapper)
    namespace["set_eagle3_layers_to_capture"](wrapper, [1, 2])
    assert wrapper.language_model.set_eagle3_layers_to_capture.call_args_list == [mock.call(None), mock.call([1, 2])]


@pytest.fixture
def torch() -> Iterator[mock.MagicMock]:
    """A stand-in for torch that says: a card of capability 12, eight ranks, no multicast."""
    fake = mock.MagicMock()
    fake.cuda.get_device_capability.return_value = (12, 0)
    fake.distributed.get_world_size.return_value = 8
    symmetric = fake.distributed._symmetric_memory
    symmetric.rendezvous.return_value.multicast_ptr = 0
    utils = mock.MagicMock()
    utils.is_cuda.return_value = True
    modules = {
        "torch": fake,
        "torch.distributed": fake.distributed,
        "torch.distributed._symmetric_memory": symmetric,
        "sglang": types.ModuleType("sglang"),
        "sglang.srt": types.ModuleType("sglang.srt"),
        "sglang.srt.utils": utils,
        "sglang.srt.distributed": types.ModuleType("d"),
        "sglang.srt.distributed.device_communicators": types.ModuleType("c"),
    }
    with mock.patch.dict(sys.modules, modules):
        yield fake


COMMUNICATORS = "srt/distributed/device_communicators/"


def communicator(release: str, sizes: str | None, multimem: str | None) -> Any:
    tables = types.ModuleType("all_reduce_utils")
    exec(source(release, COMMUNICATORS + "all_reduce_utils.py", sizes), tables.__dict__)
    namespace: dict[str, Any] = {"__name__": "torch_symm_mem"}
    with mock.patch.dict(sys.modules, {"sglang." + COMMUNICATORS.replace("/", ".") + "all_reduce_utils": tables}):
        exec(source(release, COMMUNICATORS + "torch_symm_mem.py", multimem), namespace)
    return namespace["TorchSymmMemCommunicator"]


@pytest.mark.parametrize("release", UP_TO_13)
def test_symmetric_memory_on_capability_12_is_a_warning_instead_of_a_crash(release: str, torch: mock.MagicMock) -> None:
    with pytest.raises(KeyError, match="12"):
        communicator(release, None, None)(mock.Mock(), 0)
    made = communicator(release, "sm120_symm_mem", None)(mock.Mock(), 0)
    assert made.disabled and made.max_size == 128 * 1024 * 1024


@pytest.mark.parametrize("release", UP_TO_13)
def test_an_all_reduce_on_capability_12_takes_the_two_shot_kernel(release: str, torch: mock.MagicMock) -> None:
    torch.distributed._symmetric_memory.rendezvous.return_value.multicast_ptr = 1
    with pytest.raises(KeyError, match="12"):
        communicator(release, "sm120_symm_mem", None)(mock.Mock(), 0).all_reduce(mock.MagicMock())
    communicator(release, "sm120_symm_mem", "sm120_multimem")(mock.Mock(), 0).all_reduce(mock.MagicMock())
    assert torch.ops.symm_mem.two_shot_all_reduce_.called and not torch.ops.symm_mem.multimem_all_reduce_.called


# -- hidden states for the draft, with two ranks ----------------------------------------------------------------------


class Number:
    """A tensor of one number, which takes attributes as torch's tensors do."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __add__(self, other: Number) -> Number:
        return Number(self.value + other.value)


class Ranks:
    """All-reduce between two threads."""

    def __init__(self) -> None:
        self.barrier = threading.Barrier(2, timeout=20)
        self.parts: dict[int, float] = {}

    def all_reduce(self, rank: int, tensor: Number) -> Number:
        self.parts[rank] = tensor.value
        self.barrier.wait()
        total = sum(self.parts.values())
        self.barrier.wait()
        return Number(total)


def captured_by_two_ranks(text: str, defers: bool) -> list[tuple[list[float], float]]:
    """Run the layer loop of DeepseekV2Model.forward on two ranks; what each captures, and its final output.

    Layer ``i`` adds its reduced input to the residual, as the fused norm does, and gives out its own part of the sum:
    ``i + 1`` on rank 0, ten times that on rank 1.
    """
    forward = node(text, "DeepseekV2Model", "forward")
    loop = next(
        one for one in ast.walk(forward) if isinstance(one, ast.For) and "layers_to_capture" in ast.unparse(one)
    )
    gives_topk = any(
        isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Tuple) and len(one.targets[0].elts) == 3
        for one in ast.walk(loop)
    )
    ranks = Ranks()
    results: dict[int, tuple[list[float], float]] = {}

    def rank_main(rank: int) -> None:
        def layer(index: int) -> Any:
            def call(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
                hidden, residual = args[1], args[3]
                if getattr(hidden, "_sglang_needs_allreduce_fusion", False):
                    hidden = ranks.all_reduce(rank, hidden)
                part = Number((index + 1.0) * (1 if rank == 0 else 10))
                if defers:
                    part._sglang_needs_allreduce_fusion = True  # type: ignore[attr-defined]
                else:
                    part = ranks.all_reduce(rank, part)
                return (part, residual + hidden, None) if gives_topk else (part, residual + hidden)

            return call

        model = mock.MagicMock(layers_to_capture=[1, 3], enable_a2a_moe=False, layers=[layer(i) for i in range(5)])
        namespace: dict[str, Any] = {
            "self": model,
            "normal_start_layer": 0,
            "normal_end_layer": 5,
            "aux_hidden_states": [],
            "hidden_states": Number(1.0),
            "residual": Number(0.0),
            "tensor_model_parallel_all_reduce": lambda tensor: ranks.all_reduce(rank, tensor),
        }
        used = {one.id for one in ast.walk(loop) if isinstance(one, ast.Name)}
        namespace.update({name: mock.MagicMock() for name in used - set(namespace) - set(dir(builtins))})
        run([loop], namespace)
        final = namespace["hidden_states"]
        if getattr(final, "_sglang_needs_allreduce_fusion", False):
            final = ranks.all_reduce(rank, final)
        results[rank] = ([one.value for one in namespace["aux_hidden_states"]], (final + namespace["residual"]).value)

    threads = [threading.Thread(target=rank_main, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return [results[0], results[1]]


@pytest.mark.parametrize("release", UP_TO_13)
def test_the_draft_gets_reduced_hidden_states(release: str) -> None:
    file = "srt/models/deepseek_v2.py"
    plain, patched = source(release, file), source(release, file, "deepseek_eagle3_aux_after_allreduce")
    right = captured_by_two_ranks(plain, defers=False)
    assert right[0] == right[1]
    wrong = captured_by_two_ranks(plain, defers=True)
    assert wrong[0][0] != right[0][0] and wrong[0][0] != wrong[1][0], "the fault is not in this release"
    assert captured_by_two_ranks(patched, defers=True) == right
    assert captured_by_two_ranks(patched, defers=False) == right
    assert [one[1] for one in wrong] == [one[1] for one in right]


# -- drafts without lm_head -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", ["0.5.7", "0.5.9", "0.5.12", "0.5.23"])
def test_a_draft_without_lm_head_takes_the_targets_or_fails(release: str) -> None:
    text = source(release, "srt/models/llama_eagle3.py", "eagle3_draft_lm_head")
    parts = [node(text, "LlamaForCausalLMEagle3", name) for name in ("watch_for_lm_head", "load_weights")]
    namespace = {"Iterable": mock.MagicMock(), "Tuple": mock.MagicMock(), "torch": mock.MagicMock()}
    namespace = run(parts, {**namespace, "default_weight_loader": lambda param, weight: None})

    def loaded(*names: str, draft_vocab_size: int = 100, borrowed: bool = False) -> Any:
        draft = mock.MagicMock(load_lm_head_from_target=borrowed, hot_token_id=None)
        draft.config = types.SimpleNamespace(
            tie_word_embeddings=False, draft_vocab_size=draft_vocab_size, vocab_size=100
        )
        draft.watch_for_lm_head = types.MethodType(namespace["watch_for_lm_head"], draft)
        draft.named_parameters.return_value = []
        namespace["load_weights"](draft, [(name, mock.MagicMock()) for name in names])
        return draft

    assert loaded("fc.weight", "lm_head.weight").load_lm_head_from_target is False
    assert loaded("fc.weight", "lm_head.weight", draft_vocab_size=32).load_lm_head_from_target is False
    assert loaded("fc.weight").load_lm_head_from_target is True
    assert loaded("fc.weight", borrowed=True).load_lm_head_from_target is True
    with pytest.raises(ValueError, match="no lm_head"):
        loaded("fc.weight", draft_vocab_size=32)
    with pytest.raises(ValueError, match="no lm_head"):
        loaded("fc.weight", "d2t")
