# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""What a start or a server can suffer from: the names, what each looks like, and what to do (docs/troubleshooting.md).

``kind`` says whether another try can help: a *configuration* that is wrong stays wrong, an *environment* (storage,
network, another process's memory) may be better the next time, *progress* is no failure at all.
"""

from __future__ import annotations

from dataclasses import dataclass

CONFIGURATION = "configuration"
BUILD = "build"
ENVIRONMENT = "environment"
CRASH = "crash"
HANG = "hang"
PROGRESS = "progress"
STOP = "stop"
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Category:
    kind: str
    looks: str
    advice: str


CATEGORIES: dict[str, Category] = {
    # -- starting, nothing wrong --------------------------------------------------------------------------------
    "none": Category(PROGRESS, "The server generates.", "Nothing to do."),
    "starting": Category(PROGRESS, "The process runs and has not reached the weights yet.", "Wait."),
    "loading_weights": Category(PROGRESS, "A shard bar moves, or the ranks read their files.", "Wait."),
    "allocating_kv_cache": Category(PROGRESS, "The weights are loaded; the KV pools are being made.", "Wait."),
    "capturing_graphs": Category(PROGRESS, "A `Capturing batches` bar moves.", "Wait."),
    "jit_precompile_deepgemm": Category(
        PROGRESS,
        "`Entering DeepGEMM JIT Pre-Compile session`, then `DeepGEMM warmup` bars for 10 to 20 minutes.",
        "Wait. If it comes at every start, the kernel cache does not survive: keep the service's home on a local disk.",
    ),
    "jit_compile": Category(
        PROGRESS,
        "Kernels are being compiled or tuned (`Loading JIT ops`, `Running FlashInfer autotune`, `Building extension "
        "module`).",
        "Wait.",
    ),
    "warming_up": Category(PROGRESS, "Uvicorn listens; the warm-up request has not come back.", "Wait."),
    # -- memory -------------------------------------------------------------------------------------------------
    "cuda_oom": Category(
        CONFIGURATION,
        "`CUDA out of memory` (or `Capture cuda graph failed: CUDA out of memory`), and this process holds the card.",
        "Lower mem_fraction_static or cuda_graph_max_bs, or use more GPUs. With a draft model, its weights, pool and "
        "graphs come on top.",
    ),
    "cuda_oom_foreign_process": Category(
        ENVIRONMENT,
        "`CUDA out of memory`, and another process holds the memory (named in the text, or one rank began with far "
        "less free memory than its peers).",
        "Find and end the other process (gpu_info names it, gpu_drain ends it), then start again.",
    ),
    "kv_budget_too_small": Category(
        CONFIGURATION,
        "`Not enough memory. Please try to increase --mem-fraction-static`, or, from 0.5.14, `Loaded weights leave no "
        "GPU memory for the KV cache … Raise --mem-fraction-static above X`.",
        "Raise mem_fraction_static (to the value that the message names, if it names one); if `CUDA out of memory` "
        "comes then, weights, draft and graphs together do not fit this card.",
    ),
    "dev_shm_full": Category(
        ENVIRONMENT,
        "`Error while creating shared memory segment /dev/shm/nccl-…`, or `No space left on device` on /dev/shm.",
        "Give /dev/shm at least 1 GiB (64 MiB for each rank is the minimum), and remove stale /dev/shm/nccl-* files.",
    ),
    "disk_full": Category(ENVIRONMENT, "`No space left on device`.", "Free space on the disk that the line names."),
    "host_memory_exhausted": Category(
        ENVIRONMENT,
        "`Cannot allocate memory` or `MemoryError`: the host refused memory, before its kernel killed anybody.",
        "Free memory on the host, raise the unit's memory_max, or lower hicache_size; where pinned memory is asked "
        "for, check LimitMEMLOCK.",
    ),
    "too_many_open_files": Category(
        ENVIRONMENT, "`Too many open files`.", "Raise LimitNOFILE of the unit (`systemctl edit`)."
    ),
    "storage_failed": Category(
        ENVIRONMENT,
        "`Stale file handle` or `Input/output error` on a file: the storage under it fails.",
        "Look at the mount and at the kernel's log. Kernel caches belong on a local disk.",
    ),
    "permission_denied": Category(
        CONFIGURATION,
        "`Permission denied` on a file or folder, or `Read-only file system`.",
        "Let the unit's user (run_as) read the path that the line names, folders above it included; caches must be its "
        "own, and where the unit may write.",
    ),
    "home_missing": Category(
        CONFIGURATION,
        "`Could not determine home directory.` (the user of the process has no entry and HOME is not set).",
        "Set HOME for the service, or run it as a user that the host knows; caches of kernels go there.",
    ),
    # -- killed -------------------------------------------------------------------------------------------------
    "child_sigkill_host_oom": Category(
        ENVIRONMENT,
        "A scheduler died by SIGKILL while loading (`exit code: -9`, `Exit code: -9`), or the control group counted an "
        "out-of-memory kill.",
        "Host memory: compare `memory.max` of the unit and the host's free memory with the largest shard times the "
        "ranks (plus the hierarchical cache); `memory.events` of the unit and the kernel's log have the last word.",
    ),
    "child_sigkill": Category(
        CRASH,
        "A child of a serving server died by SIGKILL (`Subprocess … crashed with exit code -9`).",
        "Someone or the kernel killed it: look for out-of-memory kills, then for who sent the signal. Restart.",
    ),
    "child_crashed": Category(
        CRASH,
        "A child died and printed no exception (`exit code -11`, `Fatal Python error`).",
        "A crash in native code: look for a core file and at the kernel's log (`NVRM: Xid`).",
    ),
    "child_sigkill_zombie_service": Category(
        CRASH,
        "The HTTP process lives (`/v1/models` answers 200, systemd says active) and its scheduler is dead: `Health "
        "check failed. Server couldn't get a response from detokenizer`, again and again, with no batch in between.",
        "Restart the instance. Releases from 0.5.10 notice by themselves; 0.5.9 and older never do.",
    ),
    "detokenizer_died": Category(CRASH, "The detokenizer hit an exception or died.", "Read the exception; restart."),
    # -- CUDA and kernels ---------------------------------------------------------------------------------------
    "driver_too_old": Category(
        ENVIRONMENT,
        "A mere warning, `The NVIDIA driver on your system is too old (found version 12040)`, then `No accelerator`.",
        "CUDA 13 needs driver 580 or newer: update the driver, or install a CUDA 12 build.",
    ),
    "driver_library_mismatch": Category(
        ENVIRONMENT,
        "`Driver/library version mismatch`.",
        "The user-space driver was updated under a running kernel module: reboot, and hold the driver's packages.",
    ),
    "cuda_not_initialized": Category(
        ENVIRONMENT,
        "`Error 802: system not yet initialized`, or another failure of CUDA's initialisation.",
        "On NVSwitch machines start nvidia-fabricmanager of the driver's own version first; else check nvidia-smi.",
    ),
    "no_accelerator": Category(
        ENVIRONMENT,
        "`No accelerator (CUDA, XPU, HPU, NPU, MUSA) is available`, `Found no NVIDIA driver`, `No CUDA GPUs`.",
        "The service sees no GPU: device nodes, CUDA_VISIBLE_DEVICES, the container's devices, the service user.",
    ),
    "no_gpu_driver_for_triton": Category(
        ENVIRONMENT,
        "`0 active drivers ([]). There should only be one.`",
        "Triton finds no GPU. This release needs one on this path (0.5.9 cannot run EAGLE-3 without).",
    ),
    "no_kernel_image": Category(
        BUILD,
        "`no kernel image is available for execution on the device`.",
        "A kernel package has no code for this card's compute capability: install a build that has.",
    ),
    "illegal_memory_access": Category(
        CRASH,
        "`CUDA error: an illegal memory access was encountered` (reported late: the line is not the place).",
        "A kernel's bug: try the last release combination that worked, another attention backend, or no CUDA graphs; "
        "CUDA_LAUNCH_BLOCKING=1 shows the place. An EAGLE-3 draft with a shorter context than the target does it too.",
    ),
    "cuda_error": Category(
        CRASH,
        "Another `CUDA error:` (`device-side assert`, `unspecified launch failure`, an Xid).",
        "Look at the kernel's log for `NVRM: Xid`; run with CUDA_LAUNCH_BLOCKING=1.",
    ),
    "kernel_wheel_torch_abi": Category(
        BUILD,
        "`undefined symbol` in a kernel library, often below `[sgl_kernel] CRITICAL: Could not load any common_ops "
        "library!`, whose text about architectures misleads.",
        "The kernel package was built for another torch: rebuild the environment from a lock.",
    ),
    "shared_library_missing": Category(
        BUILD,
        "`libcudart.so.12: cannot open shared object file`.",
        "A package for another CUDA major, or a library folder the unit does not see: rebuild from a lock.",
    ),
    "system_library_too_old": Category(
        BUILD,
        "`version `GLIBC_2.34' not found`, `GLIBCXX_… not found`.",
        "A wheel was built for a newer system: use an older release of it, or a newer system.",
    ),
    "package_versions_conflict": Category(
        BUILD,
        "`flashinfer-cubin version (x) does not match`, `is installed with version … which is less than`, …",
        "A package was left from, or taken from, another release: rebuild the environment from a lock.",
    ),
    "symm_mem_capability_missing": Category(
        CONFIGURATION,
        "A bare `KeyError: 12` whose frames are in `torch_symm_mem.py` (releases up to 0.5.13).",
        "Symmetric memory does not know this card: use the patch sm120_symm_mem, or leave enable_torch_symm_mem off.",
    ),
    "capture_error_hidden_by_custom_allreduce": Category(
        HANG,
        "`Registering 0 cuda graph addresses` on every rank after a capture bar that stayed at 0 %; then nothing.",
        "An error inside the capture was swallowed, most likely memory: lower mem_fraction_static or "
        "cuda_graph_max_bs, and set disable_custom_all_reduce.",
    ),
    # -- compilers ----------------------------------------------------------------------------------------------
    "flashinfer_jit_no_nvcc": Category(
        BUILD,
        "`Could not find nvcc`, `nvcc: not found`, `No such file or directory: '…/nvcc'`.",
        "Give the unit CUDA_HOME and a PATH with its bin folder: systemd's own PATH has no /usr/local/cuda/bin.",
    ),
    "jit_ninja_missing": Category(
        BUILD, "`No such file or directory: 'ninja'`.", "Install ninja in the build, or put it on the unit's PATH."
    ),
    "jit_build_failed": Category(
        BUILD,
        "`Ninja build failed`, `['ninja', …] returned non-zero exit status`; the compiler's first error is the cause.",
        "A missing header means an incomplete toolkit; `Killed` means memory (set MAX_JOBS); ptxas that does not know "
        "the card means a toolkit that is too old (TRITON_PTXAS_PATH).",
    ),
    "flashinfer_jit_lock": Category(
        HANG,
        "Silence after `Loading JIT ops: …`, and no compiler runs.",
        "A stale lock of a killed build in flashinfer's cache (or a cache on NFS): remove the lock files when nothing "
        "builds, and keep the cache on a local disk.",
    ),
    # -- distributed --------------------------------------------------------------------------------------------
    "dist_init_hang": Category(
        HANG,
        "`Init torch distributed begin.` on every rank, and one rank never goes on.",
        "Look at that rank's GPU and at NCCL's network choice (NCCL_DEBUG=INFO, NCCL_SOCKET_IFNAME); end leftovers.",
    ),
    "dist_port_in_use": Category(
        ENVIRONMENT,
        "`EADDRINUSE` of the distributed store, or `… at PORT is not available in … seconds`.",
        "Another process has the port for the ranks' rendezvous: end it, or set nccl_port or dist_init_addr.",
    ),
    "nccl_error": Category(
        ENVIRONMENT,
        "`NCCL error in …`, `ncclSystemError`, `ncclUnhandledCudaError`, with NCCL's own last error below.",
        "Read NCCL's last error; NCCL_DEBUG=INFO shows more. Common: memlock limit, network interface, P2P in VMs.",
    ),
    "dist_timeout": Category(
        HANG,
        "`Watchdog caught collective operation timeout`, a barrier that a rank did not reach, a rendezvous to which "
        "not all came (`1/2 clients joined`, `client socket has timed out`).",
        "One rank was late or dead: the cause is in that rank's lines. Cold kernel caches: compile first.",
    ),
    # -- the model ----------------------------------------------------------------------------------------------
    "model_path_missing": Category(
        CONFIGURATION,
        "`Repo id must be in the form`, `does not appear to have a file named config.json`, `No such file`: the "
        "folder is not there (so that it is taken for a hub id).",
        "Mount or correct model_path.",
    ),
    "model_hub_unreachable": Category(
        ENVIRONMENT,
        "`We couldn't connect to 'https://huggingface.co'`, `Max retries exceeded`, name resolution fails.",
        "The model is not on the host and the hub cannot be reached: give a local folder, a mirror (HF_ENDPOINT) or a "
        "filled cache.",
    ),
    "model_hub_denied": Category(
        CONFIGURATION,
        "`401`/`403`, `gated repo`, `Repository Not Found`.",
        "Check the model's name, accept its licence, give HF_TOKEN in secret_env.",
    ),
    "weights_missing": Category(
        CONFIGURATION,
        "`Cannot find any model weights with`, a shard of the index that is not there.",
        "Copy the model again; compare with model.safetensors.index.json.",
    ),
    "weights_truncated": Category(
        CONFIGURATION,
        "`Error while deserializing header: MetadataIncompleteBuffer` (cut off) or `HeaderTooLarge` (a git-lfs "
        "pointer instead of the file).",
        "Copy the named shard again (git lfs pull).",
    ),
    "model_config_broken": Category(
        CONFIGURATION,
        "The model's config.json cannot be read or understood (`Unrecognized model`, `JSONDecodeError`).",
        "Copy the config again; a model that brings its own code needs trust_remote_code.",
    ),
    "tokenizer_broken": Category(
        CONFIGURATION, "The tokenizer's files cannot be read.", "Copy the tokenizer's files again."
    ),
    "trust_remote_code_needed": Category(
        CONFIGURATION,
        "`trust_remote_code=True`: the model brings its own code.",
        "Set trust_remote_code, once you have read that code.",
    ),
    "architecture_unknown": Category(
        CONFIGURATION,
        "`Model architectures ['…'] are not supported for now`, and no module of that name failed to import; or "
        "`Transformers does not recognize this architecture`.",
        "This release, or its Transformers, does not know the model: use a newer one.",
    ),
    "model_module_import_broken": Category(
        BUILD,
        "`Ignore import error when loading sglang.srt.models.X` for the module that serves our architecture (for all "
        "others the line is noise), then `Model architectures … are not supported for now`; or, with no word of alarm, "
        "`falling back to Transformers implementation`.",
        "The module does not import (a missing package, or a damaged or badly patched file): rebuild or revert.",
    ),
    "python_module_missing": Category(
        BUILD, "`ModuleNotFoundError: No module named '…'`.", "Rebuild the environment from a lock that has it."
    ),
    "import_error": Category(
        BUILD, "`ImportError: cannot import name …`.", "Two packages do not fit each other: rebuild from a lock."
    ),
    "source_syntax_error": Category(
        BUILD, "`SyntaxError` in a file of the environment.", "The file is damaged or badly patched: rebuild or revert."
    ),
    # -- speculation --------------------------------------------------------------------------------------------
    "spec_flags_incomplete": Category(
        CONFIGURATION,
        "`'>' not supported between instances of 'NoneType' and 'int'`, or a bare AssertionError, in the handling of "
        "the speculative options.",
        "Give num_steps, eagle_topk and num_draft_tokens, all three or none.",
    ),
    "spec_options_conflict": Category(
        CONFIGURATION,
        "`only supports topk = 1`, `speculative_eagle_topk > 1 with page_size > 1`, `--speculative-… requires …`.",
        "Do what the line asks for: as a rule eagle_topk 1, or a backend and page size that can verify a tree.",
    ),
    "spec_draft_path_missing": Category(
        CONFIGURATION,
        "EAGLE-3 without a draft model: the target is loaded a second time, then `no attribute 'hot_token_id'` (or "
        "`'set_embed'`, `'set_eagle3_…'` of the draft's side).",
        "Set speculative.draft_model_path.",
    ),
    "spec_draft_tokens_too_many": Category(
        CONFIGURATION,
        "`selected index k out of range` while the draft tree is put together.",
        "num_draft_tokens must not exceed what the tree can hold: 1 + topk + (num_steps - 1) * topk * topk.",
    ),
    "eagle3_draft_shape_mismatch": Category(
        CONFIGURATION,
        "`Attempted to load weight (torch.Size([…])) into parameter (torch.Size([…]))` in the draft's loader.",
        "The draft was trained for another target: `fc` is [hidden, 3 * hidden of the target].",
    ),
    "weights_shape_mismatch": Category(
        CONFIGURATION,
        "`Attempted to load weight (…) into parameter (…)`, `size mismatch`, or `KeyError: 'model.layers.…'`, in the "
        "target's loader.",
        "The weights do not belong to this config.json (another size, another quantization): copy the model again.",
    ),
    "eagle3_draft_not_a_draft": Category(
        CONFIGURATION,
        "`no attribute 'hot_token_id'` (or `'set_embed'`) though a draft path is given.",
        "The folder at speculative.draft_model_path is no EAGLE-3 draft: its config's architecture must say Eagle3.",
    ),
    "eagle3_draft_layers": Category(
        CONFIGURATION, "`EAGLE3 currently only supports 1 layer`.", "Use an EAGLE-3 draft: it has one layer."
    ),
    "eagle3_draft_context_too_short": Category(
        CONFIGURATION,
        "`Warning: Target model's context_length (…) is greater than the derived context_length (…)`, raised.",
        "Set context_length to the draft's, or, accepting a low accept length on long prompts, "
        "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1.",
    ),
    "context_length_too_long": Category(
        CONFIGURATION,
        "`Warning: User-specified context_length (…) is greater than the derived context_length (…)`, raised.",
        "Lower context_length, or set SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 knowingly.",
    ),
    "eagle3_draft_attention_backend": Category(
        CONFIGURATION,
        "`trtllm_mla backend can only be used with MLA models.`: the draft inherited the target's backend.",
        "Set speculative_draft_attention_backend (trtllm_mha, flashinfer or triton).",
    ),
    "parallel_size_unfit": Category(
        CONFIGURATION,
        "`… must be divisible by tensor parallel size`, `163840 is not divisible by 3`, `… is not divisible by weight "
        "quantization block_n = 128`.",
        "Choose a tp_size that divides the model's heads and widths (a power of two, as a rule), and leaves whole "
        "blocks of a quantized weight to each rank.",
    ),
    "quantization_unfit": Category(
        CONFIGURATION,
        "`Unknown quantization method`, one that differs from the model's own, or one that this card cannot compute.",
        "Leave quantization out: the model's configuration names its own; or use a release, or a card, that knows it.",
    ),
    "kernel_out_of_resources": Category(
        CONFIGURATION,
        "`out of resource: shared memory, Required: …, Hardware limit: …` of Triton: a kernel tuned for another card.",
        "Choose another attention_backend or moe_runner_backend: cards of capability 12.0 have 99 KiB for a block, "
        "data centre cards 227.",
    ),
    "attention_backend_unfit": Category(
        CONFIGURATION,
        "`… backend can only be used with MLA models`, `attention backend … is not supported`, `… Backend requires "
        "SM…`.",
        "Choose another attention_backend.",
    ),
    "target_model_lacks_eagle3_hooks": Category(
        CONFIGURATION,
        "`object has no attribute 'set_eagle3_layers_to_capture'` (or `get_embed_and_head`, …) on the target's class.",
        "This release's model class cannot feed EAGLE-3: use the patch for it, a newer release, or no speculation.",
    ),
    # -- the command line and the port --------------------------------------------------------------------------
    "unknown_option": Category(
        CONFIGURATION,
        "`error: unrecognized arguments`, `invalid choice`, `ambiguous option`, and a page of usage above it.",
        "Correct the option; names change between releases.",
    ),
    "options_conflict": Category(
        CONFIGURATION,
        "A `ValueError` or `AssertionError` of the code that checks the options (`server_args.py`, `arg_groups/`).",
        "Two options, or an option and this model, card or release, do not go together: the line says which.",
    ),
    "http_port_in_use": Category(
        ENVIRONMENT,
        "`[Errno 98] error while attempting to bind`, possibly followed by a false `The server is fired up` (the "
        "warm-up talked to the other server).",
        "Another process owns the port: end it or choose another port.",
    ),
    "http_bind_failed": Category(
        CONFIGURATION, "`[Errno 99]`/`[Errno 13]` while binding.", "The host has no such address, or no right to it."
    ),
    "warmup_via_http_proxy": Category(
        CONFIGURATION,
        "`Initialization failed. warmup error … <Response [502]>`: the warm-up request went to a proxy.",
        "Take the proxy variables out of the unit, or put the bind address into NO_PROXY.",
    ),
    "warmup_failed": Category(
        CRASH,
        "`Initialization failed. warmup error`, `Disaggregation warmup failed`.",
        "Read the exception below it, or a scheduler's above it; the model ran and failed.",
    ),
    # -- while serving ------------------------------------------------------------------------------------------
    "forward_hang_watchdog": Category(
        HANG,
        "`Scheduler watchdog timeout`: a forward pass did not end; SGLang ended itself.",
        "Restart; if it repeats with speculation, compare with speculation off; py-spy shows where it hangs.",
    ),
    "stalled": Category(HANG, "Nothing moves that should move in this phase.", "See the stacks in the report."),
    "no_generation": Category(
        HANG,
        "Ports are open, health may say 200, and a generation of one token does not come back.",
        "Restart; if it repeats, look at the scheduler's stacks and for leftovers of an earlier server.",
    ),
    "process_stopped": Category(
        HANG,
        "A worker is in the state *stopped*: it was sent SIGSTOP, or a debugger holds it. Nothing is logged.",
        "Let it go on (kill -CONT PID), or restart the instance.",
    ),
    "generation_failed": Category(
        CRASH, "The first token came, and a later request of the readiness gate failed.", "Read the server's answer."
    ),
    "not_running": Category(UNKNOWN, "The unit is not running, and was not asked to be.", "Start the instance."),
    "stopped_by_request": Category(
        STOP,
        "`SIGTERM received`, a drain, then an end by SIGKILL to itself: the status 137 of a clean stop.",
        "Nothing to do.",
    ),
    "unknown": Category(UNKNOWN, "None of the above.", "Read the line that is named, and those around it."),
}


def category(name: str) -> Category:
    return CATEGORIES[name]
