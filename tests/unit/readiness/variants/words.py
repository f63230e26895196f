"""One exception each, in the words of one release or another, through the code that raises it there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from writing import DRAFT_FRAMES, Log

from . import ALL, Wanted

Frame = tuple[str, int, str, str]


@dataclass(frozen=True)
class Words:
    """``text``: the exception; its cause line is the last one with ``cause`` in it. ``main``: of the main process."""

    release: str
    category: str
    text: str
    frames: tuple[Frame, ...] = ()
    cause: str = ""
    main: bool = False
    draft: bool = False


def _at(path: str, name: str) -> Frame:
    return (path, 101, name, "…")


_DRAFT_WEIGHTS = (_at("sglang/srt/models/llama_eagle3.py", "load_weights"), *DRAFT_FRAMES)
_TARGET_WEIGHTS = (
    _at("sglang/srt/models/llama.py", "load_weights"),
    _at("sglang/srt/layers/linear.py", "weight_loader"),
)
_HUB = (_at("huggingface_hub/file_download.py", "get_hf_file_metadata"),)
_NCCL = (
    "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:77, "
    "unhandled {} error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.7\n{}\nLast error:\n{}"
)

WORDS = {
    # memory
    "oom_in_the_words_of_triton": Words("0.5.12", "cuda_oom", "RuntimeError: Triton Error [CUDA]: out of memory"),
    "oom_in_the_words_of_the_driver": Words("0.5.21", "cuda_oom", "RuntimeError: CUDA driver error: out of memory"),
    "oom_that_nccl_met": Words(
        "0.5.9",
        "cuda_oom",
        _NCCL.format("cuda", "ncclUnhandledCudaError: Call to CUDA function failed.", "Cuda failure 2 'out of memory'"),
        cause="Cuda failure 2",
    ),
    "some_cards_are_taken": Words(
        "0.5.9",
        "cuda_oom_foreign_process",
        "RuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. "
        "min_per_gpu_memory=21.4, local_gpu_memory=94.1, local_gpu_memory * 0.9=84.69",
    ),
    "a_pool_of_no_tokens": Words("0.5.23", "kv_budget_too_small", "AssertionError: Memory pool size is too small"),
    "a_pool_for_no_request": Words("0.5.12", "kv_budget_too_small", "AssertionError: max_running_request is zero"),
    "no_room_for_the_states_of_a_hybrid": Words(
        "0.5.21",
        "kv_budget_too_small",
        "RuntimeError: Not enough GPU memory for hybrid (mamba/linear-attention) state cache. Try: (1) reduce "
        "--max-running-requests, (2) increase --mem-fraction-static, (3) use more GPUs.",
    ),
    "a_hierarchical_cache_larger_than_the_host": Words(
        "0.5.14",
        "host_memory_exhausted",
        "ValueError: Not enough host memory available. Requesting 512.00 GB but only have 230.11 GB free.",
    ),
    "no_memory_to_map_a_shard": Words(
        "0.5.12",
        "host_memory_exhausted",
        "RuntimeError: unable to mmap 4902257056 bytes from file </srv/m/model-00003-of-00004.safetensors>: Cannot "
        "allocate memory (12)",
    ),
    "shared_memory_of_python": Words(
        "0.5.9",
        "dev_shm_full",
        "OSError: [Errno 28] No space left on device",
        (_at("multiprocessing/shared_memory.py", "__init__"),),
    ),
    "shared_memory_by_its_name": Words(
        "0.5.18", "dev_shm_full", "OSError: [Errno 28] No space left on device: '/psm_3fa1c2d4'"
    ),
    # the card, its driver, compilers
    "ptx_of_a_newer_toolkit": Words(
        "0.5.15",
        "driver_too_old",
        "torch.AcceleratorError: CUDA error: the provided PTX was compiled with an unsupported toolchain.",
    ),
    "an_image_for_another_card": Words(
        "0.5.14", "no_kernel_image", "RuntimeError: Triton Error [CUDA]: device kernel image is invalid"
    ),
    "no_nvidia_smi": Words(
        "0.5.9",
        "no_accelerator",
        "RuntimeError: nvidia-smi not found. Ensure NVIDIA drivers are installed and accessible.",
        main=True,
    ),
    "nvidia_smi_without_a_driver": Words(
        "0.5.12",
        "no_accelerator",
        "RuntimeError: nvidia-smi error: NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        main=True,
    ),
    "no_nvcc_for_deep_gemm": Words(
        "0.5.9",
        "flashinfer_jit_no_nvcc",
        "RuntimeError: Assertion error (/deep_gemm/csrc/jit/compiler.hpp:140): Cannot find NVCC, please set CUDA_HOME",
    ),
    "no_compiler_for_triton": Words(
        "0.5.12",
        "jit_build_failed",
        "RuntimeError: Failed to find C compiler. Please specify via CC environment variable.",
        (_at("triton/runtime/build.py", "_build"),),
    ),
    "no_libcuda_for_triton": Words(
        "0.5.9",
        "shared_library_missing",
        "AssertionError: libcuda.so cannot found!\nPossible files are located at ['/usr/lib/libcuda.so.1']",
        cause="cannot found",
    ),
    "the_fabric_in_the_words_of_a_new_torch": Words(
        "0.5.23", "cuda_not_initialized", "torch.AcceleratorError: CUDA error: system not yet initialized"
    ),
    "a_process_that_was_forked": Words(
        "0.5.12", "cuda_not_initialized", "RuntimeError: CUDA error: initialization error"
    ),
    "an_error_of_the_driver": Words("0.5.14", "cuda_error", "RuntimeError: CUDA driver error: invalid argument"),
    "an_error_of_a_launch": Words("0.5.14", "cuda_error", "RuntimeError: Triton Error [CUDA]: invalid argument"),
    "an_error_of_cuda_that_nccl_met": Words(
        "0.5.9",
        "nccl_error",
        _NCCL.format("cuda", "ncclUnhandledCudaError: Call to CUDA function failed.", "Cuda failure 217 'peer access'"),
        cause="NCCL error in",
    ),
    "a_card_that_flashinfer_does_not_know": Words(
        "0.5.15", "no_kernel_image", "RuntimeError: No supported CUDA architectures found for major versions [9, 10]."
    ),
    "a_card_too_old_for_flashinfer": Words(
        "0.5.15", "no_kernel_image", "RuntimeError: FlashInfer requires GPUs with sm75 or higher"
    ),
    "a_toolkit_too_old_for_the_card": Words(
        "0.5.15", "jit_build_failed", "RuntimeError: SM 12.x requires CUDA >= 12.9"
    ),
    "a_card_that_deep_gemm_does_not_know": Words(
        "0.5.9",
        "no_kernel_image",
        "RuntimeError: Assertion error (/deep_gemm/csrc/apis/gemm.hpp:90): Unsupported architecture",
    ),
    "a_card_that_is_too_old": Words("0.5.9", "no_kernel_image", "RuntimeError: SGLang only supports sm75 and above."),
    # packages
    "a_torch_without_cuda": Words(
        "0.5.9", "package_versions_conflict", "AssertionError: Torch not compiled with CUDA enabled", main=True
    ),
    "a_torchvision_of_another_torch": Words(
        "0.5.12", "package_versions_conflict", "RuntimeError: operator torchvision::nms does not exist", main=True
    ),
    "a_hub_of_another_transformers": Words(
        "0.5.9",
        "package_versions_conflict",
        "ImportError: huggingface-hub>=0.34.0,<1.0 is required for a normal functioning of this module, but "
        "found 1.1.2.",
        main=True,
    ),
    "a_model_that_needs_a_newer_transformers": Words(
        "0.5.9",
        "package_versions_conflict",
        "ValueError: Transformers version 4.57.1 is not supported for model glm5 or model type glm_moe_dsa. Please "
        "upgrade transformers to >= 5.0.0.",
        main=True,
    ),
    "packages_that_the_models_code_needs": Words(
        "0.5.9",
        "python_module_missing",
        "ImportError: This modeling file requires the following packages that were not found in your "
        "environment: tiktoken",
        main=True,
    ),
    "a_user_without_a_home": Words(
        "0.5.12", "home_missing", "RuntimeError: Could not determine home directory.", main=True
    ),
    # the model
    "a_shard_that_cannot_be_opened": Words(
        "0.5.14",
        "weights_missing",
        "RuntimeError: unable to open file </srv/m/model-00002-of-00004.safetensors> in read-only mode: No such "
        "file or directory (2)",
    ),
    "a_config_without_a_class": Words(
        "0.5.9",
        "model_config_broken",
        "KeyError: 'architectures'",
        (_at("sglang/srt/configs/model_config.py", "__init__"),),
        main=True,
    ),
    "shards_that_the_index_names": Words(
        "0.5.23",
        "weights_missing",
        "RuntimeError: model.safetensors.index.json references 2 shard file(s) missing from /srv/models/m (incomplete "
        "download?): ['model-00017-of-00064.safetensors', 'model-00018-of-00064.safetensors']",
    ),
    "the_hub_over_httpx": Words(
        "0.5.23", "model_hub_unreachable", "httpx.ConnectError: [Errno 101] Network is unreachable", _HUB, main=True
    ),
    "a_mirror_that_refuses": Words(
        "0.5.12",
        "model_hub_unreachable",
        "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='mirror.example', port=443): Max retries "
        "exceeded with url: /api/models/m (Caused by NewConnectionError('[Errno 111] Connection refused'))",
        (_at("huggingface_hub/_snapshot_download.py", "snapshot_download"),),
    ),
    "a_proxy_that_breaks_the_hubs_certificate": Words(
        "0.5.18",
        "model_hub_unreachable",
        "requests.exceptions.SSLError: HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with "
        "url: /m/config.json (Caused by SSLError(SSLCertVerificationError(1, 'certificate verify failed')))",
        _HUB,
        main=True,
    ),
    "a_package_that_a_feature_needs": Words(
        "0.5.9",
        "python_module_missing",
        "ImportError: Please install gguf via `pip install gguf` to use gguf quantizer.",
    ),
    "a_shape_of_a_fused_layer": Words(
        "0.5.14",
        "weights_shape_mismatch",
        "AssertionError: param_data.shape=torch.Size([2048, 8192]) loaded_weight.shape=torch.Size([2048, 4096])",
        _TARGET_WEIGHTS,
    ),
    "a_quantization_that_the_card_lacks": Words(
        "0.5.9",
        "quantization_unfit",
        "ValueError: The quantization method fp8 is not supported for the current GPU. Minimum capability: 80.",
    ),
    "experts_that_the_ranks_cannot_share": Words(
        "0.5.23", "parallel_size_unfit", "ValueError: tp_size 8 must be divisible by ep_size 3"
    ),
    "experts_too_narrow_for_their_blocks": Words(
        "0.5.21",
        "parallel_size_unfit",
        "ValueError: For quantized MoE models, please make sure (moe_intermediate_size=2048 / moe_tp_size=32) % "
        "weight_block_size_n=128 == 0 where moe_tp_size is equal to tp_size (32) divided by ep_size (1).",
    ),
    # speculation
    "a_target_without_hooks_in_the_words_of_0523": Words(
        "0.5.23",
        "target_model_lacks_eagle3_hooks",
        "ValueError: Model Step3p5ForCausalLM does not implement set_eagle3_layers_to_capture, which EAGLE3 aux "
        "hidden-state capture requires.",
    ),
    "a_language_model_without_hooks": Words(
        "0.5.14",
        "target_model_lacks_eagle3_hooks",
        "AttributeError: language_model does not support EAGLE3 speculative decoding.",
        (_at("sglang/srt/models/kimi_k25.py", "set_eagle3_layers_to_capture"),),
    ),
    "a_draft_without_mla": Words(
        "0.5.14",
        "eagle3_draft_attention_backend",
        "ValueError: trtllm_mla backend requires MLA model (use_mla_backend=True).",
        (_at("sglang/srt/speculative/draft_utils.py", "_create_trtllm_mla_decode_backend"),),
        draft=True,
    ),
    "a_backend_that_cannot_draft": Words(
        "0.5.9",
        "eagle3_draft_attention_backend",
        "ValueError: EAGLE is not supported in decode attention backend dual_chunk_flash_attn",
        (_at("sglang/srt/speculative/draft_utils.py", "_create_backend"),),
        draft=True,
    ),
    "a_draft_with_another_vocabulary": Words(
        "0.5.9",
        "eagle3_draft_shape_mismatch",
        "AssertionError",
        (*_DRAFT_WEIGHTS, _at("sglang/srt/layers/vocab_parallel_embedding.py", "weight_loader")),
        draft=True,
    ),
    "a_draft_with_another_fc": Words(
        "0.5.23",
        "eagle3_draft_shape_mismatch",
        "RuntimeError: The size of tensor a (21504) must match the size of tensor b (12288) at non-singleton "
        "dimension 1",
        _DRAFT_WEIGHTS,
        draft=True,
    ),
    "a_draft_that_eagle3_cannot_use": Words(
        "0.5.23",
        "spec_options_conflict",
        "ValueError: Gemma4AssistantForCausalLM draft requires --speculative-algorithm NEXTN or EAGLE; EAGLE3 is not "
        "supported for this draft architecture.",
        main=True,
    ),
    "an_algorithm_that_needs_a_draft": Words(
        "0.5.23",
        "spec_draft_path_missing",
        "ValueError: DFLASH speculative decoding requires setting --speculative-draft-model-path.",
        main=True,
    ),
    # the command line, ports, other hosts
    "a_host_that_never_came": Words(
        "0.5.18",
        "dist_timeout",
        "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.",
    ),
    "no_model_at_all": Words(
        "0.5.23",
        "unknown_option",
        "Exception: Error: --model-path is required. Please provide the path to the model.",
        main=True,
    ),
    "a_port_of_the_engine_is_taken": Words(
        "0.5.23",
        "dist_port_in_use",
        "RuntimeError: engine_info_bootstrap_port 6789 is already in use. When running multiple instances on the same "
        "node, each instance must use a different --engine-info-bootstrap-port.",
        main=True,
    ),
}


def _build(words: Words) -> Wanted:
    """The other rank tells the same a little later."""
    log = Log(words.release, tp=2, spec=words.draft)
    if words.main:
        first = log.bare(words.text, *words.frames)
    else:
        log.arguments().dist().weights()
        if words.draft:
            log.all("Load weight begin. avail mem=23.00 GB")
        first = log.hit(words.text, *words.frames, rank="TP1")
        log.sigquit().hit(words.text, *words.frames, rank="TP0")
    lines = words.text.split("\n")
    line = first + next(index for index in reversed(range(len(lines))) if words.cause in lines[index])
    unit = "dead:exit=1" if words.main else "dead:signal=KILL"
    return Wanted(log, line, words.category, unit=unit, rank="" if words.main else "TP1")


for _name, _words in WORDS.items():
    ALL[_name] = partial(_build, _words)
