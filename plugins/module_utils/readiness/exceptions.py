# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""What the exceptions look like that end a server; see ``signatures`` for how the tables are read."""

from __future__ import annotations

from .signature import EXACT, GENERIC, NORMAL, SECONDARY, SPECIFIC, WRAPPER, Signature
from .signature import signature as _s

# Code that only a draft model runs through (paths within the package: a folder of the user's may be named anything).
_DRAFT = r"sglang/srt/speculative/|draft_worker|DraftWorker|srt/models/\w*(?:eagle|mtp|nextn)"
_BUILDING = r"ninja|cpp_ext|/jit/|build_and_load|tvm_ffi|triton/(?:runtime|backends)|deep_gemm"
# Raised by the code that checks the options itself, not by something that it called.
_OPTIONS = r"sglang/srt/(?:server_args|arg_groups/[\w/]+)\.py\", line \d+, in .*(?:\n {3,}(?!File ).*)*\Z"

EXCEPTIONS: tuple[Signature, ...] = (
    # -- memory
    _s("dev_shm_full", r"Error while creating shared memory segment (?P<path>/dev/shm/\S+)", EXACT),
    _s("dev_shm_full", r"No space left on device.*(?:/dev/shm|shared memory)|/dev/shm\S*.*No space left", EXACT),
    _s("dev_shm_full", r"unable to (?:open|write to|allocate) (?:file|shared memory).*(?:/torch_|/dev/shm)", SPECIFIC),
    _s("dev_shm_full", r"No space left on device.*'/(?:psm_|sem\.)", EXACT),
    _s("dev_shm_full", r"No space left on device", EXACT, frames=r"multiprocessing/shared_memory\.py"),
    _s("disk_full", r"No space left on device|Disk quota exceeded", SPECIFIC),
    _s("host_memory_exhausted", r"\[Errno 12\]|^MemoryError\b|DefaultCPUAllocator: (?:can't|not enough)", SPECIFIC),
    _s("host_memory_exhausted", r"unable to (?:mmap|allocate).*Cannot allocate memory", SPECIFIC),
    _s(
        "host_memory_exhausted",
        r"Not enough host memory",
        SPECIFIC,
        source=("Not enough host memory available. Requesting ",),
    ),
    # memory of the host that is to be pinned for the card, whatever CUDA calls it
    _s(
        "host_memory_exhausted",
        r"cudaHostRegister failed",
        EXACT,
        source=("cudaHostRegister failed (rc=",),
        since="0.5.13",
    ),
    _s("too_many_open_files", r"\[Errno 24\]|Too many open files", SPECIFIC),
    _s(
        "storage_failed",
        r"\[Errno (?:116|121|5)\]|Stale file handle|Input/output error|Remote I/O error|"
        r"Transport endpoint is not connected(?:: '/| \(os error)",  # of a file: sockets say it too
        SPECIFIC,
    ),
    _s(
        "host_memory_exhausted",
        r"can't start new thread|^BlockingIOError: \[Errno 11\]",
        SPECIFIC,
        frames=r"threading\.py|subprocess\.py|multiprocessing/",
        advice="No thread or process more: raise TasksMax and LimitNPROC of the unit (or pids.max of what it runs in).",
    ),
    _s(
        "permission_denied",
        r"^PermissionError: (?!.*(?:bind|address))|\[Errno 30\]|Read-only file system|"
        r"Permission denied \(os error 13\)",
        NORMAL,
    ),
    _s("home_missing", r"Could not determine home directory", SPECIFIC),
    _s("cuda_oom", r"CUDA out of memory|HIP out of memory", SPECIFIC),
    _s("cuda_oom", r"(?:CUDA|Cuda|cuda)[^\n]{0,40}\bout of memory\b|CUBLAS_STATUS_ALLOC_FAILED", SPECIFIC),
    _s("cuda_oom", r"CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation", SPECIFIC),
    _s(
        "cuda_oom_foreign_process",
        r"The memory capacity is unbalanced\. Some GPUs may be occupied by other processes",
        EXACT,
        source=("The memory capacity is unbalanced. Some GPUs may be occupied by other processes. ",),
    ),
    _s("cuda_oom", r"Capture \S+ ?(?i:cuda graph) failed: .*out of memory", SPECIFIC),
    _s(
        "kv_budget_too_small",
        r"Not enough memory\. Please try to increase --mem-fraction-static",
        EXACT,
        source=("Not enough memory. Please try to increase --mem-fraction-static",),
    ),
    _s(
        "kv_budget_too_small",
        r"Loaded weights leave no GPU memory(?:.*Raise --mem-fraction-static above (?P<minimum>\d\.\d+))?",
        EXACT,
        source=("Loaded weights leave no GPU memory", "Raise --mem-fraction-static above"),
        since="0.5.14",
    ),
    _s("kv_budget_too_small", r"increase --mem-fraction-static|Raise --mem-fraction-static", SPECIFIC),
    _s(
        "kv_budget_too_small",
        r"Memory pool size is too small|max_running_request is zero",
        SPECIFIC,
        source=("Memory pool size is too small", "max_running_request is zero"),
    ),
    # -- CUDA
    _s("no_kernel_image", r"no kernel image is available for execution on the device", EXACT),
    _s("no_kernel_image", r"device kernel image is invalid|CUDA_ERROR_NO_BINARY_FOR_GPU", SPECIFIC),
    _s("driver_too_old", r"the provided PTX was compiled with an unsupported toolchain", EXACT),
    _s("illegal_memory_access", r"an illegal memory access was encountered|CUDA_ERROR_ILLEGAL_ADDRESS", SPECIFIC),
    _s(
        "driver_too_old",
        r"NVIDIA driver on your system is too old|CUDA driver version is insufficient|"
        r"forward compatibility was attempted on non supported HW",
        EXACT,
    ),
    _s("driver_library_mismatch", r"Driver/library version mismatch|Error 803: system has unsupported", EXACT),
    _s(
        "cuda_not_initialized",
        r"system not yet initialized|CUDA (?:error: )?initialization error|^RuntimeError: CUDA unknown error - ",
        SPECIFIC,
    ),
    _s(
        "cuda_error",
        r"CUDA-capable device(?:\(s\) is/are|s are) busy or unavailable",
        GENERIC + 5,
        advice="Another process has the card, and its compute mode is exclusive (nvidia-smi -q -d COMPUTE), or it is "
        "lost (NVRM: Xid in the kernel's log).",
    ),
    _s("no_gpu_driver_for_triton", r"\b0 active drivers \(\[\]\)", SPECIFIC),
    _s(
        "no_accelerator",
        r"No accelerator \(|No supported accelerator|Found no NVIDIA driver|No CUDA GPUs are available|"
        r"no CUDA-capable device is detected|No CUDA devices found|"
        r"nvidia-smi not found|couldn't communicate with the NVIDIA driver",
        source=("No accelerator (", "nvidia-smi not found"),
    ),
    _s(
        "no_accelerator",
        r"Invalid device id|invalid device ordinal",
        advice="The service sees fewer GPUs than it starts ranks: compare tp_size (times pp_size and dp_size) with "
        "CUDA_VISIBLE_DEVICES and nvidia-smi; a card that fell off the bus is named in the kernel's log.",
    ),
    _s(
        "no_kernel_image",
        r"No supported CUDA architectures found|Unsupported architecture(?!:)|GPUs with sm\d+|only supports sm\d+",
        NORMAL,
    ),
    _s(
        "cuda_error",
        r"CUDA(?:RT)? (?:driver )?error: (?P<error>[^\n]+)|Triton Error \[CUDA\]|CUBLAS_STATUS_\w+|CUDNN_STATUS_\w+",
        GENERIC,
    ),
    # -- the environment's packages
    _s("kernel_wheel_torch_abi", r"undefined symbol: (?P<symbol>\S+)", EXACT),
    _s("shared_library_missing", r"(?P<library>lib\S+): cannot open shared object file", SPECIFIC),
    _s("shared_library_missing", r"libcuda\.so cannot found", SPECIFIC),
    _s(
        "package_versions_conflict",
        r"Torch not compiled with CUDA enabled|operator torchvision::\w+ does not exist|"
        r"compiled with different CUDA major versions|is required for a normal functioning of this module|"
        r"Transformers version \S+ is not supported for model|CuDNN Compatibility Issue",
        SPECIFIC,
    ),
    _s(
        "package_versions_conflict",
        r"flashinfer-cubin version .* does not match|flashinfer-jit-cache version .* does not match|"
        r"is installed with version .* which is less than|with minimum required version .* is not installed",
        SPECIFIC,
        source=("is installed with version ", "is less than the minimum required version"),
    ),
    _s("jit_ninja_missing", r"(?:No such file or directory: '(?:\S*/)?ninja'|Ninja is required to load)", EXACT),
    _s(
        "flashinfer_jit_no_nvcc",
        r"Could not find nvcc|nvcc: (?:command )?not found|No such file or directory: '\S*nvcc'|"
        r"CUDA_HOME environment variable is not set|(?i:could not find CUDA installation|cannot find nvcc)|"
        r"nvcc.*No such file or directory",
        EXACT,
    ),
    _s(
        "jit_build_failed",
        r"\bfatal error: |: error: |^(?:nvcc|ptxas|cicc)\S* +(?:fatal|error) *:|^\S*ld: cannot find |"
        r"^\S*sh: (?:line )?\d+: \S+: (?:command )?not found|^Killed|: Killed\b",
        SPECIFIC - 5,
        frames=_BUILDING,
    ),
    _s("jit_build_failed", r"ptxas fatal|ptxas.*(?:is not defined|not supported)", SPECIFIC),
    _s(
        "jit_build_failed",
        r"Ninja build failed|ninja exited with status|\['?ninja'?.*non-zero exit status|Failed to find C compiler",
        NORMAL,
    ),
    _s("jit_build_failed", r"NVCC compilation failed|Failed to compile \S+\.cu\b", NORMAL),
    _s("jit_build_failed", r"\bSM \S+ requires CUDA >=", NORMAL),
    _s("jit_build_failed", r"(?:nvcc|cicc|ptxas|gcc|g\+\+).*(?:non-zero exit status|failed with)", GENERIC),
    _s("source_syntax_error", r"^(?:SyntaxError|IndentationError|TabError): ", SPECIFIC),
    _s("system_library_too_old", r"version `(?P<version>(?:GLIBC|GLIBCXX|CXXABI)_[\d.]+)' not found", EXACT),
    _s("python_module_missing", r"^ModuleNotFoundError: No module named '(?P<module>[^']+)'", NORMAL),
    _s(
        "python_module_missing",
        r"^ImportError: (?:.*(?:[Pp]lease install|[Ii]nstall (?:it|\S+) (?:with|via|from|by)|is not installed|"
        r"requires? the .* packages?\b|requires the following packages)|.* is required\b)",
        NORMAL,
    ),
    _s("import_error", r"^ImportError: ", GENERIC),
    _s("symm_mem_capability_missing", r"^KeyError: \(?'?\d+", EXACT, frames=r"torch_symm_mem"),
    # -- the model
    _s(
        "weights_truncated",
        r"Error while deserializing header|MetadataIncompleteBuffer|HeaderTooLarge|InvalidHeader|"
        r"PytorchStreamReader failed|unexpected EOF, expected \d+ more bytes",
        SPECIFIC,
    ),
    _s(
        "weights_missing",
        r"Cannot find any model weights with",
        SPECIFIC,
        source=("Cannot find any model weights with",),
    ),
    _s(
        "weights_missing",
        r"references \d+ shard file\(s\) missing",
        SPECIFIC,
        source=(" shard file(s) missing ",),
        since="0.5.17",
    ),
    _s("weights_missing", r"No model weights found in|Could not find checkpoint files", SPECIFIC),
    _s(
        "weights_missing",
        r"(?:No such file or directory|does not exist|not found).*\.(?:safetensors|bin|pt|gguf)\b|"
        r"unable to open file .*\.(?:safetensors|bin|pt|gguf)\b.*No such file or directory|"
        r"(?i:missing shard)|Missing keys .* in presharded",
        SPECIFIC,
    ),
    _s("weights_truncated", r"No such file or directory.*\.incomplete", SPECIFIC),
    _s(
        "model_path_missing",
        r"it looks like (?P<path>[./]\S+) is not the path to a directory|"
        r"Incorrect path_or_model_id: '(?P<path2>[./~][^']*)'|"
        r"(?P<path3>[./]\S+) does not appear to have a file named config\.json",
        SPECIFIC,
    ),
    _s("model_path_missing", r"Repo id must (?:be in the form|use alphanumeric)", NORMAL),
    _s("model_path_missing", r"(?:No such file or directory|FileNotFoundError).*config\.json", NORMAL),
    _s("model_path_missing", r"Can't load the configuration of '[./]", SPECIFIC),
    # how Transformers sums up what the hub has answered
    _s(
        "model_hub_denied",
        r"You are trying to access a gated repo|is a gated repository|is not a valid model identifier",
        SPECIFIC - 5,
    ),
    _s(
        "model_hub_denied",
        r"gated repo|GatedRepoError|RepositoryNotFoundError|is not a valid model identifier|401 Client Error|"
        r"403 Client Error|Invalid (?:username or password|credentials)|does not appear to have a file named config",
        NORMAL,
    ),
    _s("model_hub_unreachable", r"We couldn't connect to '", SPECIFIC - 5),
    _s(
        "model_hub_unreachable",
        r"LocalEntryNotFoundError|OfflineModeIsEnabled|outgoing traffic has been disabled|"
        r"Max retries exceeded with url.*(?:huggingface|hf-mirror|modelscope)|"
        r"(?:huggingface|modelscope)\S*.*(?:Name or service not known|Temporary failure in name resolution|timed out)|"
        r"(?:ConnectError|ConnectTimeout|ConnectionError|ReadTimeout).*(?:huggingface|modelscope|name resolution)",
        NORMAL,
    ),
    _s(
        "model_hub_unreachable",
        r"Max retries exceeded|^\S*(?:ConnectError|ConnectTimeout|ConnectionError|ReadTimeout|ProxyError|SSLError)\b|"
        r"Name or service not known|name resolution|Network is unreachable|timed out",
        NORMAL,
        frames=r"huggingface_hub/|modelscope/|transformers/utils/hub\.py",
    ),
    _s("trust_remote_code_needed", r"trust_remote_code=True|contains custom code which must be executed", SPECIFIC - 5),
    _s(
        "model_config_broken",
        r"Unrecognized model in|"
        r"It looks like the config file at .* is not a valid JSON file",
        NORMAL,
    ),
    _s("model_config_broken", r"JSONDecodeError", GENERIC, frames=r"config"),
    _s("model_config_broken", r"^KeyError: '(?:architectures|model_type)'", NORMAL),
    _s("tokenizer_broken", r".", GENERIC - 5, frames=r"get_tokenizer|tokenization_|AutoTokenizer\.from_pretrained"),
    _s(
        "architecture_unknown",
        r"Model architectures (?P<architectures>\[.*?\]) are not supported for now",
        SPECIFIC,
        source=("are not supported for now. ", "Supported architectures: "),
    ),
    _s(
        "architecture_unknown",
        r"has model type `(?P<type>[^`]*)` but Transformers does not recognize this architecture",
        SPECIFIC,
    ),
    _s(
        "architecture_unknown",
        r"(?P<architectures>\S+) has no SGlang implementation and the Transformers",
        SPECIFIC,
        source=("has no SGlang implementation and the Transformers ",),
    ),
    _s(
        "parallel_size_unfit",
        r"must be divisible by (?:the )?(?:tensor|tp|ep|pp|dp|cp|attn|attention|moe|decode_context|--tp)[ _-]|"
        r"^AssertionError: \d+ is not divisible by \d+|world_size \(\d+\) is not equal to tensor_model_parallel_size|"
        r"please make sure \(.*moe_tp_size|= \d+ is not divisible by +(?:weight quantization block|min_|pack_|\d)|"
        r"tp_size must be divisible by number of nodes|must be (?:less than or )?equal to tp_size",
        NORMAL,
        source=(
            "must be divisible by ep_size",
            "please make sure (",
            "is not divisible by ",
            "weight quantization block_n = ",
            "tp_size must be divisible by number of nodes",
        ),
    ),
    _s(
        "quantization_unfit",
        r"(?:Unknown|Invalid|Unsupported) quantization method|Quantization method .* does not match|"
        r"[Tt]he quantization method .* is not supported|is not supported for quantization method|"
        r"does not support \w+ quantization|Quantization scheme is not supported|Error: Invalid quantization '|"
        r"--quantization \w+ (?:is supported only|supports only|requires)|"
        r"\b(?:MX|NV)FP[48]\b.* requires (?:an? )?(?:SM|Blackwell|compute capability)",
        NORMAL,
        source=("is not supported for the current ",),
    ),
    _s("kernel_out_of_resources", r"out of resource: shared memory", SPECIFIC),
    # -- speculation
    _s(
        "eagle3_draft_context_too_short",
        r"Warning: Target model's context_length \((?P<target>\d+)\) is greater than the derived context_length "
        r"\((?P<draft>\d+)\)",
        EXACT,
        source=("Warning: {reason} context_length (", "Target model's"),
    ),
    _s("context_length_too_long", r"context_length \(\d+\) is greater than the derived context_length", SPECIFIC),
    _s(
        "eagle3_draft_shape_mismatch",
        r"Attempted to load weight \(torch\.Size\((?P<checkpoint>\[[\d, ]*\])\)\) into parameter "
        r"\(torch\.Size\((?P<model>\[[\d, ]*\])\)\)",
        SPECIFIC,
        frames=r"srt/models/\w*(?:eagle|mtp|nextn)",
        source=("Attempted to load weight (",),
    ),
    _s(
        "weights_shape_mismatch",
        r"Attempted to load weight \(torch\.Size|size mismatch for|The size of tensor a .* must match|"
        r"loaded_weight\.shape",
        NORMAL - 5,
        frames=r"load_weights|weight_loader",
    ),
    # a tensor of the checkpoint for which the model has no parameter
    _s("weights_shape_mismatch", r"^KeyError: '[\w-]+\.[\w.-]+'", NORMAL - 5, frames=r"in load_weights"),
    _s(
        "eagle3_draft_shape_mismatch",
        r"shape|size of tensor|size mismatch|^AssertionError:?$",
        NORMAL,
        frames=r"srt/models/\w*eagle\w*\.py.*load_weights",
    ),
    _s(
        "eagle3_draft_layers",
        r"EAGLE3 currently only supports 1 layer",
        EXACT,
        source=("EAGLE3 currently only supports 1 layer",),
    ),
    _s(
        "spec_draft_tokens_too_many",
        r"selected index k out of range",
        EXACT,
        frames=r"organize_draft|build_tree|speculative/",
    ),
    _s(
        "spec_draft_path_missing",
        r"'(?P<class>\w+)' object has no attribute '(?P<attribute>hot_token_id|set_embed|set_embed_and_head)'",
        SPECIFIC,
    ),
    _s("spec_draft_path_missing", r"requires (?:setting )?--speculative-draft-model-path", SPECIFIC),
    _s(
        "target_model_lacks_eagle3_hooks",
        r"'(?P<class>\w+)' object has no attribute "
        r"'(?P<attribute>set_\w*layers_to_capture|get_embed_and_head|get_embed|\w*eagle3\w*|lm_head|embed_tokens)'",
        SPECIFIC,
        frames=r"layers_to_capture|embed_and_head|get_embed|" + _DRAFT,
        phase="target_eagle3_hook",
    ),
    _s(
        "target_model_lacks_eagle3_hooks",
        r"(?P<class>\w+) does not implement set_eagle3_layers_to_capture",
        SPECIFIC,
        phase="target_eagle3_hook",
        source=("set_eagle3_layers_to_capture, which EAGLE3 ",),
        since="0.5.23",
    ),
    _s(
        "target_model_lacks_eagle3_hooks",
        r"does not support EAGLE3 speculative decoding",
        SPECIFIC,
        phase="target_eagle3_hook",
        source=("does not support EAGLE3 speculative decoding",),
        since="0.5.10",
    ),
    _s(
        "spec_flags_incomplete",
        r"not supported between instances of '(?:NoneType|int)' and '(?:NoneType|int)'",
        SPECIFIC,
        frames=r"speculative_|_handle_speculative|spec_hook|speculative_hook",
    ),
    _s(
        "spec_flags_incomplete",
        r"unsupported operand type\(s\).*NoneType",
        NORMAL,
        frames=r"_handle_speculative|speculative_hook|speculative_num|speculative_eagle",
    ),
    _s(
        "spec_flags_incomplete",
        r"^AssertionError:?$",
        NORMAL,
        frames=r"_handle_speculative|speculative_hook|speculative_(?:num_steps|eagle_topk|num_draft_tokens)",
    ),
    _s(
        "spec_options_conflict",
        r"only supports? topk ?= ?1|speculative_eagle_topk ?(?:\(\d+\))? ?> ?1|--speculative-eagle-topk 1",
        SPECIFIC,
        source=("topk = 1 for speculative decoding",),
    ),
    _s("spec_options_conflict", r"EAGLE3 is not supported for this draft architecture", SPECIFIC),
    _s(
        "spec_options_conflict",
        r"^\S*Error: .*(?:--speculative-\w|[Ss]peculative[ _](?:decoding|algorithm|MoE|num|eagle|draft|ngram)|"
        r"Chain speculative sampling)",
        NORMAL - 5,
        frames=_OPTIONS + r"|sglang/srt/speculative/\w+\.py",
    ),
    _s(
        "eagle3_draft_attention_backend",
        r"(?P<backend>\w+) backend can only be used with (?:non-)?MLA models",
        EXACT,
        frames=_DRAFT,
        phase="draft_attention_backend",
        advice="The draft inherited {backend} from the target: set speculative_draft_attention_backend.",
        source=("can only be used with MLA models.",),
    ),
    _s(
        "eagle3_draft_attention_backend",
        r"(?P<backend>\w+) backend requires MLA model|"
        r"EAGLE is not supported in (?:decode )?attention backend (?P<backend2>\w+)",
        EXACT,
        frames=_DRAFT,
        phase="draft_attention_backend",
        source=(" backend requires MLA model (use_mla_backend=True).", "EAGLE is not supported in attention backend "),
    ),
    _s(
        "attention_backend_unfit",
        r"backend can only be used with|Invalid attention backend|attention backend.*(?:not supported|requires)|"
        r"Backend requires SM|[Oo]ne of the attention backends in|"
        r"(?:not supported in|not support|only supported) .*attention backends?|only supported backends on|"
        r"(?i:\b(?:attention|attn|mla|mha|[dn]sa|\w+_m[lh]a)[ _-]backend)\b.*"
        r"(?:only support|not support|is set to|but got|requires? |expects )|"
        r"(?:requires|expects|supports) .*\battention[ _]backend\b",
        NORMAL,
    ),
    # whatever else the code that checks the options refuses
    _s(
        "options_conflict",
        r"^(?:Value|Assertion|Runtime|NotImplemented)Error: \S|^Exception: \S",
        WRAPPER - 8,
        frames=_OPTIONS,
    ),
    # -- distributed
    _s("dist_port_in_use", r"EADDRINUSE|address already in use", SPECIFIC, frames=r"init_process_group|TCPStore|store"),
    _s("dist_port_in_use", r"EADDRINUSE|ZMQError: Address already in use|_port \d+ is already in use", SPECIFIC),
    _s(
        "dist_port_in_use",
        r"at \d+ is not available in \d+ seconds",
        SPECIFIC,
        source=(" is not available in {timeout_s} seconds",),
    ),
    _s(
        "nccl_error", r"NCCL [Ee]rror|ncclSystemError|ncclInternalError|ncclUnhandledCudaError|ncclRemoteError", GENERIC
    ),
    _s("nccl_error", r"ncclInvalidUsage|ncclInvalidArgument|Duplicate GPU detected", GENERIC + 5),
    # Gloo, which carries what the ranks tell each other beside the cards
    _s(
        "nccl_error",
        r"Unable to find (?:address|interface) for: ",
        GENERIC + 5,
        advice="GLOO_SOCKET_IFNAME, or the host's name, leads to an interface without an address: name one that has.",
    ),
    _s("dist_timeout", r"Gloo connectFullMesh failed", GENERIC),
    _s("dist_timeout", r"Watchdog caught collective operation timeout|Timed out initializing process group", GENERIC),
    _s(
        "dist_timeout",
        r"Timed out after \d+ seconds waiting for clients|client socket has timed out|wait timeout after \d+ms, keys: |"
        r"failed to connect to any network address|failed to connect/validate to host|"
        r"Timed out waiting \d+ms for (?:recv|send)|Failed to receive worker ports from node 0",
        GENERIC,
        source=("Failed to receive worker ports from node 0 within timeout",),
    ),
    # -- HTTP
    _s("http_port_in_use", r"\[Errno 98\]|[Aa]ddress already in use", NORMAL),
    _s("http_bind_failed", r"\[Errno 99\]|\[Errno 13\].*bind|Cannot assign requested address", NORMAL),
    _s(
        "warmup_via_http_proxy",
        r"<Response \[(?:403|407|502|503|504)\]>|ProxyError|Tunnel connection failed",
        SPECIFIC,
        header=r"warmup",
        source=("Initialization failed. warmup error:",),
    ),
    _s("warmup_failed", r".", WRAPPER, header=r"warmup", source=("Initialization failed. warmup error:",)),
    _s("detokenizer_died", r".", WRAPPER + 1, header=r"Detokenizer", source=("DetokenizerManager hit an exception",)),
    _s("unknown_option", r"--model-path is required", SPECIFIC, source=("--model-path is required. ",)),
    # -- what one process says about another's death
    _s(
        "child_exit",
        r"Rank (?P<rank>\d+) scheduler died during initialization \(exit code: (?P<code>-?\d+)\)",
        WRAPPER - 5,
        source=("scheduler died during initialization ",),
        since="0.5.10",
    ),
    _s(
        "peer",
        r"could finish the model loading, but there are other ranks|monitoredBarrier|faulty rank|"
        r"Connection closed by peer|Connection reset by peer|Broken pipe|^EOFError:?$|Connection refused|"
        r"Connection was likely closed\. Did the remote server|"
        r"Initialization failed\. Please see the error messages above|"
        r"ncclRemoteError: A call failed possibly due to a network error or a remote process exiting",
        SECONDARY,
        source=("could finish the model loading, but there are other ranks",),
    ),
)
