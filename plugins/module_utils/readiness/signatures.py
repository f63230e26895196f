# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""What failures look like: one table for the modules, the host agent, the documentation and the tests.

Two kinds. An *exception* signature (``exceptions``) is matched against the lines of an exception (its own line and what
follows, for messages have many lines) that ended a traceback; ``frames`` narrows it to tracebacks that went through
certain code. A *line* signature is matched against any other line. Where several match, the higher ``priority`` wins,
then the earlier line: a specific cause beats the wrapper around it. ``SECONDARY`` marks what one process says about
another's death: never a cause where there is a better one.

``source``, ``since`` and ``until`` say in which SGLang releases the text stands (checked by a test against their
sources); texts of torch, NCCL, Python or uvicorn have no source here. Named groups of a pattern become facts of the
diagnosis.
"""

from __future__ import annotations

import re

from .signature import EXACT, GENERIC, NORMAL, SPECIFIC, WRAPPER, Signature
from .signature import signature as _s

LINES: tuple[Signature, ...] = (
    _s(
        "http_port_in_use",
        r"ERROR: +\[Errno 98\] error while attempting to bind on address (?P<address>\(.*?\))",
        EXACT,
    ),
    # of a server that hands its socket to several workers
    _s("http_port_in_use", r"^\[Errno 98\] Address already in use$", EXACT),
    _s("http_bind_failed", r"ERROR: +\[Errno \d+\] error while attempting to bind on address", EXACT),
    _s(
        "unknown_option",
        r"^[\w./ -]{1,120}: error: (?:unrecognized arguments|ambiguous option|argument |"
        r"the following arguments are required|one of the arguments|expected |invalid )",
        EXACT,
    ),
    _s(
        "forward_hang_watchdog",
        r"(?P<who>\w+) watchdog timeout \(self\.watchdog_timeout=(?P<seconds>[\d.]+), self\.soft=False",
        EXACT,
        source=("watchdog timeout ", "self.watchdog_timeout="),
    ),
    _s(
        "child_exit",
        r"Subprocess (?P<who>\w+?) \(pid=(?P<pid>\d+)\) crashed with exit code (?P<code>-?\d+)",
        WRAPPER,
        source=("Subprocess {name} (pid={proc.pid}) crashed ", "with exit code {proc.exitcode}"),
        since="0.5.10",
    ),
    # of a node other than the first, whose main process then ends with status 0
    _s(
        "child_exit",
        r"Scheduler or DataParallelController (?P<pid>\d+) terminated with (?P<code>-?[1-9]\d*)",
        WRAPPER,
        source=("Scheduler or DataParallelController {proc.pid} ", "terminated with {proc.exitcode}"),
    ),
    _s("child_exit", r"^Exit code: (?P<code>-?\d+)", WRAPPER, source=("Exit code: ",), until="0.5.9"),
    _s(
        "rank_dead",
        r"Rank (?P<rank>\d+) scheduler is dead",
        WRAPPER - 5,
        source=("scheduler is dead. Please check if there are relevant logs.",),
        until="0.5.9",
    ),
    _s("python_module_missing", r"^\S*python[\d.]*: (?:Error while finding module|No module named)", EXACT),
    _s(
        "child_crashed",
        r"^Fatal Python error: (?!Aborted)|Segfault encountered|^(?:Segmentation fault|Bus error)",
        NORMAL,
    ),
    _s("child_crashed", r"^Fatal Python error: Aborted|^ *what\(\): ", WRAPPER),
    _s("illegal_memory_access", r"what\(\):.*an illegal memory access|\] .*terminated with exception: .*illegal mem"),
    _s("cuda_error", r"what\(\):.*CUDA error|terminated with exception: CUDA error", GENERIC),
    _s("dist_timeout", r"Watchdog caught collective operation timeout", GENERIC),
    _s("child_sigkill", r"^Killed$|: line \d+: +\d+ Killed\b", WRAPPER),
    # systemd's and the kernel's own words, where they are collected into the same log
    _s(
        "child_sigkill_host_oom",
        r"A process of this unit has been killed by the OOM killer|Failed with result 'oom-kill'|"
        r"[Oo]ut of memory: Killed process \d+ \((?:sglang|python)",
        EXACT,
    ),
    # as a rule a traceback follows, and is taken apart as one
    _s("unknown", r"\w+ hit an exception: (?!Traceback)\S", WRAPPER, source=("Scheduler hit an exception: ",)),
    _s("no_kernel_image", r"failed with error code no kernel image is available", SPECIFIC),
)

# Lines that are no failure by themselves and explain one that follows: category -> what it explains.
EXPLANATIONS: tuple[tuple[Signature, frozenset[str]], ...] = (
    (
        _s(
            "driver_too_old",
            r"NVIDIA driver on your system is too old \(found version (?P<found>\d+)\)|"
            r"CUDA initialization: .*Error 804",
        ),
        frozenset({"no_accelerator", "cuda_not_initialized", "cuda_error", "no_gpu_driver_for_triton", "unknown"}),
    ),
    (
        _s("driver_library_mismatch", r"Driver/library version mismatch|CUDA initialization: .*Error 803"),
        frozenset({"no_accelerator", "cuda_not_initialized", "no_gpu_driver_for_triton", "unknown"}),
    ),
    (
        _s(
            "cuda_not_initialized",
            r"Error 802: system not yet initialized|"
            r"CUDA initialization: (?:CUDA unknown error|Unexpected error .*Error (?!80[34])\d)",
        ),
        frozenset({"no_accelerator", "no_gpu_driver_for_triton", "unknown"}),
    ),
    (
        _s("flashinfer_jit_no_nvcc", r"^(?:/bin/)?(?:ba|da)?sh: (?:line )?\d*:? ?\S*nvcc: (?:command )?not found"),
        frozenset({"jit_build_failed", "unknown"}),
    ),
    (
        _s("jit_build_failed", r"^(?:nvcc|ptxas) +(?:fatal|error) *:|: fatal error: \S+: No such file or directory"),
        frozenset({"jit_build_failed", "unknown"}),
    ),
    # NCCL keeps the reason to itself, but for this line, where NCCL_DEBUG asks for it
    (
        _s("cuda_oom", r"NCCL WARN .*Cuda failure (?:\d+ )?'out of memory'"),
        frozenset({"nccl_error"}),
    ),
    (
        _s(
            "nccl_error",
            r"NCCL WARN .*(?:SocketPollConnect: |socketPollConnect: |socketStartConnect: ).*(?:returned|failed)|"
            r"NCCL WARN .*Call to ibv_(?:reg_mr|create_qp|create_cq|modify_qp)\w* failed|"
            r"NCCL WARN .*(?:Cuda failure|Duplicate GPU detected|no socket interface found)",
        ),
        frozenset({"nccl_error"}),
    ),
    # what the driver saw, where the kernel's log is collected into the same
    (_s("cuda_error", r"NVRM: Xid \("), frozenset({"cuda_error"})),
    # what the kernel asserted, which the exception keeps to itself
    (
        _s("cuda_error", r"thread: \[\d+,\d+,\d+\] Assertion `.*` failed"),
        frozenset({"cuda_error"}),
    ),
    (
        _s("dev_shm_full", r"(?:Error while creating shared memory segment|failed to extend) /dev/shm/"),
        frozenset({"nccl_error", "child_exit", "child_sigkill", "unknown"}),
    ),
)

# What SGLang prints about its own end, and about health; not causes by themselves.
SIGQUIT = re.compile(r"Received sigquit from a child process|SIGQUIT received\.")
SIGTERM = re.compile(r"SIGTERM received(?:\.| on node_rank )")
FORCED = re.compile(r"Signal SIGTERM received while health check failed")
UNHEALTHY = re.compile(
    r"Health check failed\. Server couldn't get a response from detokenizer.*?(?:last_heartbeat time: (?P<beat>\S+))?$"
)
ENDED = re.compile(
    r"Received sigquit|SIGQUIT received|SIGTERM received|kill_process_tree called|Gracefully exiting|"
    r"INFO: +Finished server process|Scheduler hit an exception|crashed with exit code"
)
# An answer that only a living scheduler can give (a stream is answered with 200 before there is anything in it).
ANSWERED = re.compile(r'INFO: +\S+ - "GET /health(?:_generate)? HTTP/[\d.]+" 200')
# A request that is logged, with its text as it was sent.
REQUEST = re.compile(r"(?:Receive|Finish)(?: OpenAI)?: obj=")
REQUEST_ENDS = (")", "}")
PENDING = re.compile(r"#pending-token: (?P<tokens>\d+)")
# Where nothing is recognised, the last line that complains is the best there is.
COMPLAINT = re.compile(
    r"(?i)\b(?:error|fatal|fail(?:ed|ure)|cannot|could not|no such|denied|abort(?:ed)?|panic|not found|invalid)\b"
)
# Not where it says itself that it goes on.
NO_COMPLAINT = re.compile(
    r"Ignore import error|Failed to load (?:generation config|image Python)|kill_process_tree|Health check failed|"
    r"(?i:sigquit)|Fail to set RLIMIT|[A-Z][a-z]+Warning: |HTTP/1|"
    r"(?i:fall(?:ing)? ?back|\bskipping|\bretry|sub-optimal|to silence this|\bis disabled|\bdisabling)"
)
BATCH = re.compile(r"(?:Prefill|Decode) batch")
JIT = re.compile(
    r"Loading JIT ops: (?P<what>\S+)|Entering DeepGEMM JIT Pre-Compile|Try DeepGEMM JIT Compiling|"
    r"Running FlashInfer autotune|Building extension module "
)
JIT_DONE = re.compile(r"Finished loading JIT ops: |FlashInfer autotune completed|Loading extension module ")
# The server says that its own first request was refused, and comes up all the same (words up to 0.5.12, and since).
REFUSED = re.compile(r"Prefill disaggregation mode warm Up Failed|Disaggregation warmup failed \(")
# What is tried again has been survived.
RETRIED = re.compile(r"retry\(\) failed once \(")
REGISTERED_NONE = re.compile(r"Registering 0 cuda graph addresses")
MODULE_IGNORED = re.compile(r"Ignore import error when loading (?P<module>[\w.]+): (?P<why>.*)")
# No exception: the server comes up, with an implementation that is slower and knows nothing of EAGLE-3.
FALLBACK_USED = _s("architecture_unknown", r"falling back to Transformers")
FALLBACK = re.compile(r"(?P<architectures>\w+) has no SGLang implementation, falling back to Transformers")
GLOO_CONNECTED = re.compile(r"^\[Gloo\] Rank (?P<rank>\d+) is connected to \d+ peer ranks")
AVAILABLE = re.compile(r"avail mem=(?P<gb>[\d.]+) GB")
LOADED_TYPE = re.compile(r"type=(?P<type>\w+)")
DRAFT_OVERRIDDEN = re.compile(
    r"Warning: Target model's context_length \((?P<target>\d+)\) is greater than the derived context_length "
    r"\((?P<draft>\d+)\)"
)

# SGLang's own texts among the above, for the test that looks for them in every release.
OTHER_SOURCES = (
    "Receive: obj=",
    "Finish: obj=",
    "Received sigquit from a child process",
    "SIGQUIT received.",
    "SIGTERM received.",
    "Signal SIGTERM received while health check failed",
    "Health check failed. Server couldn't get a response from detokenizer",
    "Gracefully exiting",
    "hit an exception: ",
    "Initialization failed. warmup error:",
    "Ignore import error when loading",
    "has no SGLang implementation, falling back to Transformers",
    "cuda graph addresses",
    "Entering DeepGEMM JIT Pre-Compile session",
    "Try DeepGEMM JIT Compiling for",
    "Running FlashInfer autotune",
    "FlashInfer autotune completed.",
    "retry() failed once (",
    "Prefill batch",
    "Decode batch",
)
