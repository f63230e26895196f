# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""What the installed sources say of attention backends, in the words with which they refuse one.

Read as text: the largest file of all is among these, and what is looked for stands in a few lines of each.
"""

from __future__ import annotations

import re
from typing import Any

from .package import Sources

_REGISTRY = "sglang.srt.layers.attention.attention_registry"
_HANDLERS = (
    "sglang.srt.server_args",
    "sglang.srt.arg_groups.attention_hook",
    "sglang.srt.arg_groups.overrides",
)
_REFUSAL = re.compile(r"raise ValueError\(\s*\"(TRTLLM MHA|TRTLLM MLA|CuteDSL MLA) backend([^\"]*)\"")
_NAMES = {"TRTLLM MHA": "trtllm_mha", "TRTLLM MLA": "trtllm_mla", "CuteDSL MLA": "cutedsl_mla"}
_BLACKWELL = [10, 11, 12]


def rules(sources: Sources) -> dict[str, Any] | None:
    """``mla_only`` and ``mha_only`` backends; ``cards``: the major capabilities of a backend for ``prefill`` and
    ``decode``; ``fa3_bounded``: fa3 is for 8.x (without latent attention) and 9.x. ``None`` where there is no registry.
    """
    text = sources.text(_REGISTRY)
    if not text:
        return None
    found: dict[str, Any] = {"mla_only": [], "mha_only": [], "cards": {}, "fa3_bounded": "SM>=80 and SM<=90" in text}
    parts = re.split(r"@register_attention_backend\(\"(\w+)\"\)", text)
    for name, body in zip(parts[1::2], parts[2::2]):
        for kind, test in (("mla_only", "not runner"), ("mha_only", "runner")):
            if re.search(rf"if {test}\.use_mla_backend:\s+raise ", body):
                found[kind].append(name)
    for module in _HANDLERS:
        text = sources.text(module)
        for refusal in _REFUSAL.finditer(text):
            condition = text[text.rfind("if ", 0, refusal.start()) : refusal.start()]
            majors = [int(number) // 10 for number in re.findall(r"is_sm(\d+)", condition)]
            majors += _BLACKWELL if "is_blackwell" in condition else []
            purposes = [word for word in ("prefill", "decode") if f"for {word}" in refusal.group(2)]
            for purpose in purposes or ["prefill", "decode"]:
                if majors:
                    found["cards"].setdefault(_NAMES[refusal.group(1)], {})[purpose] = sorted(set(majors))
    return found
