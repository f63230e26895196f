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
_RENDEZVOUS = (_at("torch/distributed/rendezvous.py", "_create_c10d_store"),)
_JIT = (_at("tvm_ffi/cpp/extension.py", "build_ninja"),)
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
    "a_draft_of_another_vocabulary": Words(
        "0.5.23",
        "spec_options_conflict",
        "ValueError: --speculative-use-rejection-sampling requires the draft and target to share one vocab, but the "
        "draft vocab (32000) != target vocab (163840).",
        (*DRAFT_FRAMES, _at("sglang/srt/speculative/eagle_worker_v2.py", "alloc_memory_pool")),
        draft=True,
    ),
    "speculation_that_excludes_another_option": Words(
        "0.5.15",
        "spec_options_conflict",
        "ValueError: --speculative-use-rejection-sampling is incompatible with --enable-deterministic-inference; the "
        "sampling kernel draws coins from the global RNG and is not batch-invariant.",
        (_at("sglang/srt/arg_groups/speculative_hook.py", "_handle_eagle_family"),),
        main=True,
    ),
    "an_option_that_excludes_speculation": Words(
        "0.5.15",
        "spec_options_conflict",
        "AssertionError: --enable-unified-memory is not yet compatible with speculative decoding.",
        (_at("sglang/srt/server_args.py", "_handle_unified_memory_pool"),),
        main=True,
    ),
    # the card and its host
    "pinned_memory_that_the_host_refuses": Words(
        "0.5.20",
        "host_memory_exhausted",
        "RuntimeError: cudaHostRegister failed (rc=2, out of memory) at offset=0 size=4294967296 (total=85899345920, "
        "chunk_limit=4294967296); host buffer is not pinned and device transfers may silently return stale data.",
        (_at("sglang/srt/mem_cache/pool_host/common.py", "_cuda_host_register"),),
    ),
    "a_folder_that_the_unit_may_only_read": Words(
        "0.5.21",
        "permission_denied",
        "OSError: [Errno 30] Read-only file system: '/opt/sglang/.triton'",
        (_at("triton/runtime/cache.py", "__init__"),),
    ),
    "a_mount_that_is_gone": Words(
        "0.5.16",
        "storage_failed",
        "OSError: [Errno 107] Transport endpoint is not connected: '/mnt/s3/models/m/model-00003-of-00004.safetensors'",
        _TARGET_WEIGHTS,
    ),
    "a_file_server_that_fails": Words(
        "0.5.19",
        "storage_failed",
        "OSError: [Errno 121] Remote I/O error: '/mnt/lustre/models/m/model-00003-of-00004.safetensors'",
        _TARGET_WEIGHTS,
    ),
    "a_quota_that_is_used_up": Words(
        "0.5.18", "disk_full", "OSError: [Errno 122] Disk quota exceeded: '/home/sglang/.cache/flashinfer/0.6.12'"
    ),
    "a_tokenizer_that_the_unit_may_not_read": Words(
        "0.5.13",
        "permission_denied",
        "Exception: Permission denied (os error 13)",
        (_at("transformers/tokenization_utils_fast.py", "__init__"),),
    ),
    "no_thread_more": Words(
        "0.5.14", "host_memory_exhausted", "RuntimeError: can't start new thread", (_at("threading.py", "start"),)
    ),
    "no_process_more": Words(
        "0.5.16",
        "host_memory_exhausted",
        "BlockingIOError: [Errno 11] Resource temporarily unavailable",
        (_at("subprocess.py", "_execute_child"),),
    ),
    "a_card_that_another_process_has_for_itself": Words(
        "0.5.12",
        "cuda_error",
        "torch.AcceleratorError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
    ),
    "a_driver_that_does_not_come_up": Words(
        "0.5.10",
        "cuda_not_initialized",
        "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env "
        "variable CUDA_VISIBLE_DEVICES after program start. Setting the available devices to be zero.",
    ),
    "cards_that_do_not_reach_each_other": Words(
        "0.5.10",
        "cuda_error",
        "RuntimeError: CUDART error: peer access is not supported between these two devices",
        (_at("sglang/srt/distributed/device_communicators/cuda_wrapper.py", "CUDART_CHECK"),),
    ),
    "a_cudnn_that_torch_does_not_go_with": Words(
        "0.5.9",
        "package_versions_conflict",
        "RuntimeError: \x1b[91m\x1b[1mCRITICAL WARNING: PyTorch 2.9.1 & CuDNN Compatibility Issue Detected\n"
        "Current Environment: PyTorch 2.9.1+cu130 | CuDNN 9.10",
        (_at("sglang/srt/server_args.py", "check_torch_2_9_1_cudnn_compatibility"),),
        cause="CuDNN Compatibility",
        main=True,
    ),
    # kernels that are built, in the words of tvm_ffi and DeepGEMM
    "a_build_that_says_no_more_than_its_status": Words(
        "0.5.22", "jit_build_failed", "RuntimeError: ninja exited with status 127", _JIT
    ),
    "no_compiler_for_the_host_s_part": Words(
        "0.5.19",
        "jit_build_failed",
        "RuntimeError: ninja exited with status 127\nstdout:\n[1/3] c++ -MMD -c main.cpp -o main.o\n"
        "FAILED: [code=127] main.o\n/bin/sh: 1: c++: not found\nninja: build stopped: subcommand failed.",
        _JIT,
        cause="/bin/sh",
    ),
    "a_library_that_the_linker_does_not_find": Words(
        "0.5.15",
        "jit_build_failed",
        "RuntimeError: Ninja build failed. Ninja output:\nFAILED: [code=1] sampling.so\n"
        "/usr/bin/ld: cannot find -lcudart: No such file or directory\ncollect2: error: ld returned 1 exit status\n"
        "ninja: build stopped: subcommand failed.",
        (_at("flashinfer/jit/cpp_ext.py", "run_ninja"),),
        cause="/usr/bin/ld",
    ),
    "a_toolkit_that_does_not_know_the_card": Words(
        "0.5.20",
        "jit_build_failed",
        "RuntimeError: Ninja build failed. Ninja output:\nFAILED: a.cuda.o\n"
        "nvcc fatal   : Unsupported gpu architecture 'compute_120a'\nninja: build stopped: subcommand failed.",
        (_at("flashinfer/jit/cpp_ext.py", "run_ninja"),),
        cause="nvcc fatal",
    ),
    "deep_gemm_s_compiler_fails": Words(
        "0.5.13",
        "jit_build_failed",
        'RuntimeError: Assertion error (csrc/jit/../jit/compiler.hpp:198): false and "NVCC compilation failed"',
    ),
    # options, and what they do not go with
    "two_options_that_exclude_each_other": Words(
        "0.5.12",
        "options_conflict",
        "ValueError: The arguments enable-hierarchical-cache and disable-radix-cache are mutually exclusive and cannot "
        "be used at the same time. Please use only one of them.",
        (_at("sglang/srt/server_args.py", "_handle_cache_compatibility"),),
        main=True,
    ),
    "an_option_for_more_than_one_rank": Words(
        "0.5.23",
        "options_conflict",
        "ValueError: --enable-layernorm-sp requires tp_size > 1: there is no sequence to shard across a single TP "
        "rank.",
        (_at("sglang/srt/arg_groups/layernorm_sp_hook.py", "validate_layernorm_sp"),),
        main=True,
    ),
    "a_backend_for_other_cards": Words(
        "0.5.9",
        "attention_backend_unfit",
        "ValueError: TRTLLM MLA backend is only supported on Blackwell GPUs (SM100/SM12x). Please use a different "
        "backend.",
        (_at("sglang/srt/server_args.py", "_handle_attention_backend_compatibility"),),
        main=True,
    ),
    "a_backend_that_the_model_does_not_work_with": Words(
        "0.5.10",
        "attention_backend_unfit",
        "AssertionError: GptOssForCausalLM requires one of ['triton', 'fa3', 'fa4'] attention backend, but got the "
        "following backends\n- Prefill: flashinfer\n- Decode: flashinfer",
        (_at("sglang/srt/server_args.py", "_handle_model_specific_adjustments"),),
        cause="GptOss",
        main=True,
    ),
    "blocks_that_the_ranks_cannot_share": Words(
        "0.5.11",
        "parallel_size_unfit",
        "ValueError: Weight output_partition_size = 72 is not divisible by weight quantization block_n = 128.",
        (_at("sglang/srt/layers/quantization/fp8_utils.py", "validate_fp8_block_shape"),),
    ),
    "columns_too_narrow_for_marlin": Words(
        "0.5.9",
        "parallel_size_unfit",
        "ValueError: Weight output_size_per_partition = 48 is not divisible by  min_thread_n = 64. Consider reducing "
        "tensor_parallel_size or running with --quantization gptq.",
        (_at("sglang/srt/layers/quantization/marlin_utils.py", "verify_marlin_supports_shape"),),
    ),
    "a_quantization_for_other_cards": Words(
        "0.5.10",
        "quantization_unfit",
        "RuntimeError: MXFP8 dense linear requires Blackwell GPUs (SM100+).",
        (_at("sglang/srt/layers/quantization/fp8_utils.py", "triton_mxfp8_blockscaled_linear"),),
    ),
    "a_tensor_for_which_there_is_no_parameter": Words(
        "0.5.14",
        "weights_shape_mismatch",
        "KeyError: 'model.layers.3.mlp.experts.w2_input_scale'",
        (_at("sglang/srt/models/qwen3_moe.py", "load_weights"),),
    ),
    "a_model_that_brings_its_code": Words(
        "0.5.16",
        "trust_remote_code_needed",
        "ValueError: The repository /srv/models/kimi contains custom code which must be executed to correctly load the "
        "model. You can inspect the repository content at /srv/models/kimi .\n"
        "Please pass the argument `trust_remote_code=True` to allow custom code to be run.",
        (_at("transformers/dynamic_module_utils.py", "resolve_trust_remote_code"),),
        cause="contains custom code",
        main=True,
    ),
    # the command line, ports, other hosts
    "the_first_host_is_not_reached": Words(
        "0.5.9",
        "dist_timeout",
        "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to "
        "(10.1.0.4, 20000).",
        _RENDEZVOUS,
    ),
    "a_key_that_no_rank_wrote": Words(
        "0.5.19",
        "dist_timeout",
        "torch.distributed.DistBackendError: [2] is setting up NCCL communicator and retrieving ncclUniqueId from [0] "
        "via c10d key-value store by key '0', but store->get('0') got error: wait timeout after 600000ms, keys: "
        "/default_pg/0//cuda//0",
    ),
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
