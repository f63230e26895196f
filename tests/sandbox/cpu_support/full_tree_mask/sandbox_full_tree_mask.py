"""A plugin of SGLang (entry point group ``sglang.srt.plugins``) for EAGLE-3 on a CPU with the triton attention backend.

On a CPU, SGLang builds the tree mask over the draft tokens alone, as its ``intel_amx`` backend reads it. The triton
backend reads a mask over context and draft tokens, and with the short one verifies nonsense without an error.
"""

from __future__ import annotations

from typing import Any


def register() -> None:
    """Called by SGLang in each of its processes."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    target = "sglang.srt.speculative.eagle_utils.default_tree_mask_mode"
    HookRegistry.register(target, _full_mask, HookType.REPLACE)


def _full_mask() -> Any:
    from sglang.srt.speculative.eagle_utils import TreeMaskMode

    return TreeMaskMode.FULL_MASK
