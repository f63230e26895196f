"""The words of a start, by release, as recorded from real starts: who reads the log must not see a difference.

:func:`script` yields steps ``(phase, share of the start time, text)``; a text that begins with a carriage return is a
progress bar and is written as it is.
"""

from __future__ import annotations

from collections.abc import Iterator

PHASES = ("launch", "init", "weights", "kv", "capture", "draft", "http", "warmup")
Step = tuple  # (phase, share, text)


def script(release: tuple[int, ...], args: object, shards: int) -> Iterator[Step]:
    """What one rank says, from its first line to the moment that it can serve."""
    draft = bool(args.speculative_algorithm)
    old_order = release < (0, 5, 14)
    if release < (0, 5, 14):
        yield "init", 0.02, "Mamba selective_state_update backend initialized: triton"
    yield from _init(release)
    yield "weights", 0.0, "Ignore import error when loading sglang.srt.models.midashenglm: No module named 'torchaudio'"
    yield from _weights(release, "weights", "LlamaForCausalLM", shards, 0.30)
    if draft and not old_order:
        yield from _weights(release, "draft", "LlamaForCausalLMEagle3", 1, 0.05)
    yield from _pool(release, "kv")
    if draft and not old_order:
        yield from _pool(release, "draft")
    if not args.disable_cuda_graph:
        yield from _capture(release, "capture", "target verify" if draft else "target decode", 0.20)
    if draft and old_order:
        yield from _init(release, "draft")
        yield from _weights(release, "draft", "LlamaForCausalLMEagle3", 1, 0.05)
        yield from _pool(release, "draft")
    if draft and not args.disable_cuda_graph:
        yield from _capture(release, "draft", "draft decode", 0.05)
        yield from _capture(release, "draft", "draft extend", 0.03)
    yield (
        "capture",
        0.02,
        "max_total_num_tokens=4096, chunked_prefill_size=2048, max_prefill_tokens=16384, "
        f"max_running_requests={args.max_running_requests or 48}, context_len=2048, available_gpu_mem=21.43 GB",
    )
    if release >= (0, 5, 14):
        yield (
            "capture",
            0.0,
            "Tree cache initialized: source=default impl=RadixCache hybrid_swa=False hybrid_ssm=False "
            "hierarchical=False streaming_wrapped=False",
        )


def _init(release: tuple[int, ...], phase: str = "init") -> Iterator[Step]:
    if release >= (0, 5, 21):
        yield phase, 0.05, "Init parallel begin."
        yield phase, 0.05, "Init parallel ends. elapsed=0.17 s"
    else:
        yield phase, 0.05, "Init torch distributed begin."
        yield phase, 0.05, "Init torch distributed ends. elapsed=0.17 s, mem usage=0.09 GB"


def _weights(release: tuple[int, ...], phase: str, kind: str, shards: int, share: float) -> Iterator[Step]:
    yield phase, 0.0, "Load weight begin. avail mem=139.13 GB"
    word, end = ("Loading safetensors checkpoint", "\n") if release < (0, 5, 13) else ("Multi-thread loading", "")
    for done in range(shards + 1):
        bar = f"\r{word} shards: {100 * done // shards:3d}% Completed | {done}/{shards} [00:00<00:00, 23.56it/s]{end}"
        yield phase, share / shards if done < shards else 0.0, bar
    yield phase, 0.0, "\r\n" if release < (0, 5, 13) else "\n"
    dtype = "dtype=torch.bfloat16, " if release < (0, 5, 13) else ""
    yield phase, 0.0, f"Load weight end. elapsed=0.13 s, type={kind}, {dtype}avail mem=138.81 GB, mem usage=0.32 GB."


def _pool(release: tuple[int, ...], phase: str) -> Iterator[Step]:
    if release < (0, 5, 13):
        yield phase, 0.02, "Using KV cache dtype: torch.bfloat16"
        yield phase, 0.0, "KV Cache is allocated. #tokens: 4096, K size: 0.15 GB, V size: 0.15 GB"
    else:
        yield (
            phase,
            0.02,
            "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 4096, K size: 0.15 GB, V size: 0.15 GB",
        )
    yield phase, 0.02, "Memory pool end. avail mem=77.22 GB"


def _capture(release: tuple[int, ...], phase: str, what: str, share: float) -> Iterator[Step]:
    old = {"target verify": "cuda graph", "target decode": "cuda graph", "draft decode": "draft cuda graph"}
    if release < (0, 5, 14):
        name = old.get(what, "draft extend cuda graph")
        yield phase, 0.0, f"Capture {name} begin. This can take up to several minutes. avail mem=26.31 GB"
    else:
        yield phase, 0.0, f"Capture {what} CUDA graph begin. backend=full, bs=[1, 2, 4, 8], avail mem=61.84 GB"
    for done in range(5):
        size = (8, 4, 2, 1, 1)[done]
        bar = (
            f"\rCapturing batches (bs={size} avail_mem=61.83 GB): {25 * done:3d}%| | {done}/4 [00:00<00:00,  2.04s/it]"
        )
        yield phase, share / 4 if done < 4 else 0.0, bar
    yield phase, 0.0, "\n"
    if release < (0, 5, 14):
        yield phase, 0.0, f"Capture {name} end. Time elapsed: 3.18 s. mem usage=0.07 GB. avail mem=61.78 GB."
    else:
        yield phase, 0.0, f"Capture {what} CUDA graph end. elapsed=3.18 s, mem usage=0.07 GB, avail mem=61.78 GB."


def crash_text(args: object) -> str:
    """The exception of a scheduler that fails while it starts."""
    return (
        "Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "sglang/srt/managers/scheduler.py", line 3130, in run_scheduler_process\n'
        "    scheduler = Scheduler(\n"
        "RuntimeError: stand-in fault: told to crash\n"
    )
