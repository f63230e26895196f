# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Small facts that the installed sources state, beside the interface: tables, gates, and what a class insists on."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from typing import Any

from .package import Found, Function, FunctionNode, Module, Sources, dotted

# The gate's name until 0.5.21, and since.
_FUSION_GATES = ("apply_flashinfer_allreduce_fusion", "flashinfer_ar_fusion_applies")
_FUSION_HOMES = ("sglang.srt.layers.communicator", "sglang.srt.layers.layer_boundary.residual.add_norm")
_DRAFT_BACKENDS = "sglang.srt.speculative.draft_utils"
_MLA_BACKEND = "sglang.srt.layers.attention.flashinfer_mla_backend"
_SYMM_MEM = "sglang.srt.distributed.device_communicators"
_ARGUMENTS = ("sglang.srt.server_args", "sglang.srt.arg_groups.speculative_hook")


def fusion_capabilities(sources: Sources) -> list[int] | None:
    """The major compute capabilities that the all-reduce fusion gate lets through; ``None`` where there is no gate."""
    for home in _FUSION_HOMES:
        text = sources.text(home)
        for gate in _FUSION_GATES:
            for found in _functions(sources.module(home) if f"def {gate}" in text else None, gate):
                names = {dotted(node) for node in ast.walk(found) if isinstance(node, (ast.Name, ast.Attribute))}
                numbers = (re.search(r"sm(\d+)", name) for name in names)
                return sorted({int(match.group(1)) // 10 for match in numbers if match})
    return None


def flashinfer_fusion_capabilities(sources: Sources) -> list[int] | None:
    """The major capabilities for which the installed flashinfer builds its all-reduce fusion kernel.

    From ``supported_major_versions`` of the function that makes the module; ``None`` where it does not say.
    """
    for name in ("flashinfer.jit.comm", "flashinfer.comm.trtllm_ar"):
        for node in ast.walk(ast.parse(sources.text(name))):
            if isinstance(node, Function) and "trtllm_comm" in node.name:
                for call in ast.walk(node):
                    if isinstance(call, ast.keyword) and call.arg == "supported_major_versions":
                        value = _literal(call.value)
                        if isinstance(value, list):
                            return sorted(value)
    return None


def symmetric_memory(sources: Sources) -> dict[str, Any] | None:
    """Which major capabilities torch's symmetric memory has sizes for, and whether another one ends in a KeyError."""
    table = sources.module(f"{_SYMM_MEM}.all_reduce_utils")
    user = sources.module(f"{_SYMM_MEM}.torch_symm_mem")
    if table is None or user is None:
        return None
    name = "TORCH_SYMM_MEM_ALL_REDUCE_MAX_SIZES"
    sizes = [value for value in table.bindings.get(name, []) if isinstance(value, ast.Dict)]
    indexed = any(
        isinstance(node, ast.Subscript) and dotted(node.value) == name and not isinstance(node.ctx, ast.Store)
        for node in ast.walk(user.tree)
    )
    multimem: list[int] = []
    for node in ast.walk(user.tree):
        if isinstance(node, ast.Assign) and any(dotted(t) == "_WORLD_SIZES_MULTIMEM" for t in node.targets):
            multimem = _keys(node.value)
    return {"capabilities": _keys(sizes[0]) if sizes else [], "multimem": multimem, "raises": indexed}


def draft_backends(sources: Sources) -> dict[str, list[str]]:
    """The attention backends that the draft model may use, for its decode steps and for extending its cache."""
    found = {}
    module = sources.module(_DRAFT_BACKENDS)
    for purpose, name in (("decode", "create_decode_backend"), ("extend", "create_draft_extend_backend")):
        for function in _functions(module, name):
            for node in ast.walk(function):
                if isinstance(node, ast.Dict) and node.keys:
                    found[purpose] = [str(key.value) for key in node.keys if isinstance(key, ast.Constant)]
                    break
    return found


def mla_verify_masked(sources: Sources) -> bool | None:
    """Whether flashinfer's MLA backend hands a verify step's tree mask to its kernel; ``None``: no such backend."""
    module = sources.module(_MLA_BACKEND)
    if module is None:
        return None
    return any(
        isinstance(argument, ast.Name) and argument.id == "custom_mask"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] in ("plan", "begin_forward")
        for argument in [*node.args, *[keyword.value for keyword in node.keywords]]
    )


def page_tree_backends(sources: Sources) -> list[str] | None:
    """The attention backends that take topk > 1 with a page size > 1."""
    for name in reversed(_ARGUMENTS):
        text = sources.text(name)
        match = re.search(r"_PAGE_TREE_SPEC_BACKENDS\s*=\s*\(([^)]*)\)", text)
        match = match or re.search(r"page_size > 1\s+and \S*attention_backend not in \[([^\]]*)\]", text)
        if match:
            return re.findall(r"\"(\w+)\"", match.group(1))
    return None


def automatic_speculation(sources: Sources, architecture: str, algorithm: str) -> list[int] | None:
    """Steps, topk and draft tokens that the release chooses where none of them is given."""
    for name in reversed(_ARGUMENTS):
        if "auto_choose_speculative_params" not in sources.text(name):
            continue
        module = sources.module(name)
        for function in [
            *_functions(module, "auto_choose_speculative_params"),
            *_functions(module, "_auto_choose_speculative_params"),
        ]:
            return _chosen(function.body, (architecture, algorithm))
    return None


def _chosen(body: list[ast.stmt], asked: tuple[str, str]) -> list[int] | None:
    for node in body:
        if isinstance(node, ast.Return):
            value = _literal(node.value)
            return list(value) if isinstance(value, tuple) else None
        if isinstance(node, ast.If):
            test = node.test
            listed = _literal(test.comparators[0]) if isinstance(test, ast.Compare) else None
            inside = any(name in listed if isinstance(listed, list) else name == listed for name in asked)
            chosen = _chosen(node.body if inside else node.orelse, asked)
            if chosen is not None:
                return chosen
    return None


def draft_from_target(sources: Sources, architecture: str) -> bool:
    """Whether the release takes the target itself as the draft where no draft is given (models with MTP layers)."""
    for name in _ARGUMENTS:
        module = sources.module(name) if "speculative_draft_model_path" in sources.text(name) else None
        for node in ast.walk(module.tree) if module is not None else ():
            if isinstance(node, ast.If) and isinstance(node.test, ast.Compare):
                listed = _literal(node.test.comparators[0])
                sets = any(
                    isinstance(inner, ast.If) and "speculative_draft_model_path" in dotted(_left(inner.test))
                    for inner in node.body
                )
                if sets and isinstance(listed, list) and architecture in listed:
                    return True
    return False


def quantization(sources: Sources) -> dict[str, Any]:
    """Which methods a release takes for weights in another (``compatible``), and which for any (``requantized``)."""
    found: dict[str, Any] = {"compatible": {}, "requantized": []}
    module = sources.module("sglang.srt.configs.model_config")
    for node in ast.walk(module.tree) if module is not None else ():
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            name = dotted(node.targets[0])
            if name == "compatible_quantization_methods":
                found["compatible"] = _literal(node.value) or {}
            elif name == "REQUANTIZATION_METHODS":
                found["requantized"] = _literal(node.value) or []
    return found


def hides_keys(sources: Sources) -> bool:
    """Whether the server's configuration is shown without its API keys: what the patch redact_api_keys adds.

    No release up to 0.5.23 does so by itself.
    """
    return "def without_api_keys" in sources.text(_ARGUMENTS[0])


def captures_before_allreduce(sources: Sources, found: Found) -> str | None:
    """Where a model takes the auxiliary hidden states before a deferred all-reduce; ``None`` where it does not.

    With all-reduce fusion, a layer leaves its output as this rank's partial sum and marks it; what is captured from
    it then is no hidden state. A model that looks at the mark, or leaves the capture to a helper, is right.
    """
    text = sources.text(found.module.name)
    if "layers_to_capture" not in text or "_sglang_needs_allreduce_fusion" not in text:
        return None
    for node in ast.walk(found.module.tree):
        if not isinstance(node, ast.If) or not _asks_for_capture(node.test):
            continue
        names = {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}
        names |= {str(inner.value) for inner in ast.walk(node) if isinstance(inner, ast.Constant)}
        names |= {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
        sums = any(isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Add) for inner in ast.walk(node))
        if sums and not any("allreduce" in name or "all_reduce" in name for name in names):
            return f"{sources.relative(found.module)}:{node.lineno}"
    return None


def _asks_for_capture(test: ast.expr) -> bool:
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], ast.In)
        and dotted(test.comparators[0]).endswith("layers_to_capture")
    )


def release(sources: Sources) -> str | None:
    """The release by the metadata beside the package; ``None`` in a checkout that was never installed."""
    for name in sorted(os.listdir(sources.root)):
        match = re.fullmatch(r"sglang-(.+)\.dist-info", name)
        if match:
            return match.group(1)
    return None


def _functions(module: Module | None, name: str) -> Iterator[FunctionNode]:
    """The functions of that name at the top level of a module, and the methods of its classes."""
    for node in module.tree.body if module is not None else ():
        for item in [node, *(node.body if isinstance(node, ast.ClassDef) else [])]:
            if isinstance(item, Function) and item.name == name:
                yield item


def _left(test: ast.expr) -> ast.expr | None:
    return test.left if isinstance(test, ast.Compare) else None


def _keys(node: ast.expr) -> list[int]:
    keys = node.keys if isinstance(node, ast.Dict) else []
    return sorted(key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, int))


def _literal(node: ast.expr | None) -> Any:
    try:
        return ast.literal_eval(node) if node is not None else None
    except ValueError:
        return None
