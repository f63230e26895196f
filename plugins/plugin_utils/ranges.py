# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What numbers an instance may hold: bounds that are the same in every release, so that no host need be asked.

SGLang's parsers take any number; a wrong one ends a start minutes later, or is never said to be wrong.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Any

_MANY = float("inf")
_PORT = (1, 65535)
#: Keys of an instance, with the least and the most that they can be.
INSTANCE = {
    "port": _PORT,
    "drain_timeout": (0, _MANY),
    "restart_delay": (0, _MANY),
    "liveness_interval": (0, _MANY),
}
SPECULATIVE = dict.fromkeys(("num_steps", "eagle_topk", "num_draft_tokens"), (1, _MANY))
_COUNTS = """
    tp_size pp_size dp_size ep_size attn_dp_size attn_cp_size moe_dp_size nnodes page_size context_length
    max_total_tokens max_running_requests max_prefill_tokens stream_interval decode_log_interval
    num_continuous_decode_steps tokenizer_worker_num detokenizer_worker_num gpu_id_step dist_timeout max_lora_rank
    max_loras_per_batch speculative_ngram_max_bfs_breadth
"""
_NOT_NEGATIVE = """
    node_rank base_gpu_id schedule_conservativeness cpu_offload_gb hicache_ratio hicache_size
    ep_num_redundant_experts mamba_full_memory_ratio cuda_graph_max_bs cuda_graph_max_bs_decode
    cuda_graph_max_bs_prefill torch_compile_max_bs
"""
_SHARES = """
    mem_fraction_static swa_full_tokens_ratio speculative_accept_threshold_single speculative_accept_threshold_acc
"""
#: Options of SGLang by the name of their field.
ARGS = {
    **dict.fromkeys(_COUNTS.split(), (1, _MANY)),
    **dict.fromkeys(_NOT_NEGATIVE.split(), (0, _MANY)),
    **dict.fromkeys(_SHARES.split(), (0, 1)),
    **dict.fromkeys(("nccl_port", "grpc_port", "disaggregation_bootstrap_port"), _PORT),
}
#: Other names that the parsers take for a field.
_ALIASES = {
    **{name: f"{name}_size" for name in ("tp", "pp", "dp", "ep")},
    "tensor_parallel_size": "tp_size",
    "pipeline_parallel_size": "pp_size",
    "data_parallel_size": "dp_size",
    "expert_parallel_size": "ep_size",
}
# 1k and 1Ki are numbers in later releases
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_NUMBER = re.compile(r"\s*([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)\s*([kMGT]i?)?\s*")
# systemd passes over a setting that it cannot read
_MEMORY = re.compile(r"\d+(\.\d+)?([KMGTPE]|%)?|infinity")
_LABEL = re.compile(r"(?!-)[\w-]{1,63}(?<!-)")


def problems(instance: Mapping[str, Any]) -> Iterable[str]:
    """What is out of range in one instance, in words; what is no number is for others to say."""
    yield from _bounds(instance, INSTANCE, "")
    speculative = instance.get("speculative")
    if isinstance(speculative, Mapping):
        yield from _bounds(speculative, SPECULATIVE, "speculative.")
    args = instance.get("args")
    if isinstance(args, Mapping):
        yield from _bounds(args, ARGS, "args.")
    if isinstance(instance.get("host"), str):
        yield from _host(instance["host"])
    memory = instance.get("memory_max")
    if memory is not None and not _MEMORY.fullmatch(str(memory)):
        yield f"'memory_max' is {memory!r}; wanted bytes as systemd takes them (500G, 80%, infinity)"


def _bounds(given: Mapping[str, Any], known: Mapping[str, tuple[float, float]], where: str) -> Iterable[str]:
    for key, value in given.items():
        name = str(key).lstrip("-").replace("-", "_")
        least, most = known.get(_ALIASES.get(name, name), (-_MANY, _MANY))
        found = number(value)
        if found is not None and not least <= found <= most:
            wanted = f"between {least:g} and {most:g}" if most < _MANY else f"{least:g} or more"
            yield f"'{where}{key}' is {value}; it must be {wanted}"


def number(value: Any) -> float | None:
    """A value as a number; ``None`` for what is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value)
    match = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    return float(match.group(1)) * _UNITS[match.group(2) or ""] if match else None


def _host(host: str) -> Iterable[str]:
    """An address to listen on: IPv4, IPv6 or a host name. Digits and dots alone are no name."""
    if re.fullmatch(r"[\d.]+", host) or ":" in host:
        try:
            ipaddress.ip_address(host)
        except ValueError:
            more = re.search(r"[/\[]|:\d+$", host)
            hint = "; give the address alone, the port is an option of its own" if more else ""
            yield f"'host' is {host!r}, which is no IP address{hint}"
    elif not all(_LABEL.fullmatch(label) for label in host.rstrip(".").split(".")):
        yield f"'host' is {host!r}; wanted an address of the host that the server is to listen on, or 0.0.0.0 for all"
