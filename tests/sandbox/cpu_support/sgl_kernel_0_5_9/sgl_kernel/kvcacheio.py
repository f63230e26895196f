"""The names that SGLang 0.5.9 imports on every platform (``mem_cache/memory_pool_host.py``): copies between the GPU's
KV cache and host memory. A server without a GPU makes no such copy; whoever calls one learns why it is not here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn


def _needs_gpu(name: str) -> Callable[..., NoReturn]:
    def transfer(*dummy: Any, **dummy_named: Any) -> NoReturn:
        raise NotImplementedError(f"{name} copies from GPU memory; this host has the CPU stand-in of sgl_kernel")

    transfer.__name__ = transfer.__qualname__ = name
    return transfer


transfer_kv_all_layer = _needs_gpu("transfer_kv_all_layer")
transfer_kv_all_layer_direct_lf_pf = _needs_gpu("transfer_kv_all_layer_direct_lf_pf")
transfer_kv_all_layer_lf_pf = _needs_gpu("transfer_kv_all_layer_lf_pf")
transfer_kv_all_layer_lf_ph = _needs_gpu("transfer_kv_all_layer_lf_ph")
transfer_kv_all_layer_mla = _needs_gpu("transfer_kv_all_layer_mla")
transfer_kv_all_layer_mla_lf_pf = _needs_gpu("transfer_kv_all_layer_mla_lf_pf")
transfer_kv_direct = _needs_gpu("transfer_kv_direct")
transfer_kv_per_layer = _needs_gpu("transfer_kv_per_layer")
transfer_kv_per_layer_direct_pf_lf = _needs_gpu("transfer_kv_per_layer_direct_pf_lf")
transfer_kv_per_layer_mla = _needs_gpu("transfer_kv_per_layer_mla")
transfer_kv_per_layer_mla_pf_lf = _needs_gpu("transfer_kv_per_layer_mla_pf_lf")
transfer_kv_per_layer_pf_lf = _needs_gpu("transfer_kv_per_layer_pf_lf")
transfer_kv_per_layer_ph_lf = _needs_gpu("transfer_kv_per_layer_ph_lf")
