"""Ranks that do not find each other."""

from __future__ import annotations

from writing import Log, frames

from . import Wanted, variant


@variant
def one_rank_never_ends_its_init() -> Wanted:
    log = Log("0.5.23", tp=4).arguments()
    line = log.lines + 2
    log.dist(missing=["TP2"])
    return Wanted(log, line, "dist_init_hang", "stalled", unit="active", rank="TP2", phase="dist_init", after=900)


@variant
def all_ranks_hang_in_init() -> Wanted:
    log = Log("0.5.9", tp=2).arguments()
    log.all("Init torch distributed begin.")
    return Wanted(log, log.lines - 1, "dist_init_hang", "stalled", unit="active", phase="dist_init", after=900)


@variant
def init_that_takes_a_minute_is_no_hang() -> Wanted:
    log = Log("0.5.9", tp=2).arguments()
    log.all("Init torch distributed begin.")
    return Wanted(log, log.lines - 1, "starting", "still_starting", unit="active", phase="dist_init", after=60)


@variant
def the_rendezvous_port_is_taken() -> Wanted:
    log = Log("0.5.15").arguments().say("Init torch distributed begin.")
    line = log.hit(
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
        "port: 30001, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
        ("torch/distributed/rendezvous.py", 189, "_create_c10d_store", "return TCPStore("),
    )
    return Wanted(log.sigquit(), line, "dist_port_in_use", phase="dist_init")


@variant
def nccl_fails_for_itself() -> Wanted:
    log = Log("0.5.9", tp=2).arguments().all("Init torch distributed begin.")
    line = log.hit(
        "torch.distributed.DistBackendError: NCCL error in: /pytorch/NCCLUtils.hpp:268, unhandled system error\n"
        "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error. \n"
        "Last error:\nibv_create_cq failed with error Cannot allocate memory",
        rank="TP0",
    )
    return Wanted(log.sigquit(), line, "nccl_error", rank="TP0", phase="dist_init")


@variant
def nccl_says_that_the_other_side_went_away() -> Wanted:
    log = Log("0.5.9", tp=2).arguments().all("Init torch distributed begin.")
    log.hit(
        "torch.distributed.DistBackendError: NCCL error in: /pytorch/NCCLUtils.hpp:268, remote process exited or there "
        "was a network error\nncclRemoteError: A call failed possibly due to a network error or a remote process "
        "exiting",
        rank="TP0",
    )
    line = log.hit("ModuleNotFoundError: No module named 'deep_ep'", rank="TP1")
    return Wanted(log.sigquit(), line, "python_module_missing", rank="TP1")


@variant
def the_ranks_of_data_parallelism() -> Wanted:
    log = Log("0.5.15", tp=2, dp=2).arguments().dist().weights()
    line = log.hit("RuntimeError: Something new", rank="DP1 TP1")
    log.sigquit()
    return Wanted(log, line, "unknown", rank="DP1 TP1", phase="kv_pool")


@variant
def one_rank_never_says_a_word() -> Wanted:
    log = Log("0.5.23", tp=4).arguments()
    for rank in ("TP0", "TP1", "TP3"):
        log.say("Init parallel begin.", rank)
    return Wanted(
        log, log.lines - 1, "dist_init_hang", "stalled", unit="active", rank="TP2", phase="dist_init", after=900
    )


@variant
def the_port_of_a_queue_is_taken() -> Wanted:
    log = Log("0.5.9").arguments()
    line = log.hit("zmq.error.ZMQError: Address already in use (addr='tcp://127.0.0.1:30233')")
    return Wanted(log.sigquit(), line, "dist_port_in_use")


# -- ranks that are told by a number ---------------------------------------------------------------------------------
DIED = (
    "RuntimeError: Rank {0} scheduler died during initialization (exit code: -9). If exit code is -9 (SIGKILL), a "
    "common cause is the OS OOM killer. Run `dmesg -T | grep -i oom` to check."
)


def _pipeline(release: str) -> tuple[Log, list[str]]:
    """Two stages of four; the ranks in the order in which they are started."""
    log = Log(release, tp=4).arguments(pp_size=2)
    return log, [f"PP{stage} TP{rank}" for stage in range(2) for rank in range(4)]


@variant
def a_rank_of_the_second_host_died() -> Wanted:
    """A host counts the processes that it has started itself."""
    log = Log("0.5.18", tp=8)
    log.local = range(4, 8)
    log.arguments(nnodes=2, node_rank=1).dist().weights(upto=3, ends=False).put("\n").later(40)
    line = log.bare(DIED.format(3))
    return Wanted(log, line, "child_sigkill_host_oom", unit="dead:exit=1", rank="TP7", phase="weights")


@variant
def a_rank_of_the_second_stage_died() -> Wanted:
    log, ranks = _pipeline("0.5.12")
    for rank in ranks:
        log.say("Load weight begin. avail mem=77.90 GB", rank)
    line = log.later(60).bare(DIED.format(6))
    return Wanted(log, line, "child_sigkill_host_oom", unit="dead:exit=1", rank="PP1 TP2", phase="weights")


@variant
def a_rank_of_the_second_stage_never_connects() -> Wanted:
    log, ranks = _pipeline("0.5.14")
    line = log.lines + 6
    for rank in ranks:
        log.say("Init torch distributed begin.", rank)
    for number in (0, 1, 2, 3, 4, 5, 7):
        log.raw(f"[Gloo] Rank {number} is connected to 7 peer ranks. Expected number of connected peer ranks is : 7")
    return Wanted(log, line, "dist_init_hang", "stalled", unit="active", rank="PP1 TP2", phase="dist_init", after=1200)


@variant
def a_controller_is_no_rank() -> Wanted:
    """With data parallelism it is the controller that is started as number 0."""
    log = Log("0.5.14", tp=2, dp=2).ready().batch().later(30)
    line = log.lines
    log.say("Subprocess scheduler_0 (pid=9911) crashed with exit code -9. Triggering SIGQUIT for cleanup...")
    return Wanted(log, line, "child_sigkill", phase="serving")


@variant
def a_collective_that_timed_out_and_the_abort_that_followed() -> Wanted:
    """faulthandler speaks last, and says least."""
    log = Log("0.5.9", tp=2).ready().batch().later(600)
    line = log.lines
    timeout = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=812, OpType=ALLREDUCE, Timeout(ms)=600000)"
    log.raw(
        f"[rank1]:[E1120 10:12:31.120017211 ProcessGroupNCCL.cpp:683] [Rank 1] {timeout} ran for 600029 milliseconds",
        "terminate called after throwing an instance of 'c10::DistBackendError'",
        f"  what():  [Rank 1] Process group watchdog thread terminated with exception: [Rank 1] {timeout}",
        "Fatal Python error: Aborted",
        "",
        "Thread 0x00007f00 (most recent call first):",
        '  File "/x/zmq/sugar/socket.py", line 989 in recv_pyobj',
    )
    return Wanted(log.sigquit(), line, "dist_timeout", rank="TP1", phase="serving")


@variant
def a_segfault_and_what_it_did_to_the_other_rank() -> Wanted:
    log = Log("0.5.14", tp=2).arguments().dist().weights().pool()
    log.hit("torch.distributed.DistBackendError: NCCL error in: x.cpp:77, internal error - please report", rank="TP0")
    line = log.lines
    log.raw("Fatal Python error: Segmentation fault", "")
    return Wanted(log.sigquit(), line, "child_crashed", phase="kv_pool")


@variant
def an_exception_of_cpp_that_nobody_caught() -> Wanted:
    log = Log("0.5.15").arguments().dist().weights(upto=2, ends=False).put("\n")
    log.raw("terminate called after throwing an instance of 'std::runtime_error'")
    line = log.lines
    log.raw("  what():  the arena is torn", "Fatal Python error: Aborted", "")
    return Wanted(log.sigquit(), line, "child_crashed", phase="weights")


@variant
def only_the_others_tell() -> Wanted:
    """What happened stands in another host's log."""
    log = Log("0.5.9", tp=8)
    log.local = range(4)
    log.arguments(nnodes=2, node_rank=0).dist().weights(upto=3, ends=False).put("\n")
    line = log.hit("RuntimeError: [/pytorch/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:1987")
    return Wanted(log.sigquit(), line, "dist_timeout", rank="TP0", phase="weights")


@variant
def only_a_pipe_tells() -> Wanted:
    log = Log("0.5.15").arguments().dist()
    line = log.bare("BrokenPipeError: [Errno 32] Broken pipe")
    return Wanted(log, line, "unknown", unit="dead:exit=1")


@variant
def exceptions_that_come_in_another_order_than_their_tracebacks() -> Wanted:
    """Each names the rank that it is of."""
    log = Log("0.5.9", tp=4).arguments().dist().weights(upto=2, ends=False).put("\n")
    for rank in ("TP0", "TP2"):
        log.say("Scheduler hit an exception: Traceback (most recent call last):", rank)
        log.raw(*frames())
    line = log.lines
    log.raw(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1 GiB. GPU 2 has a total capacity of 94.97 GiB."
    )
    log.raw(
        "ValueError: TP rank 0 could finish the model loading, but there are other ranks that didn't finish loading."
    )
    return Wanted(log.sigquit(), line, "cuda_oom", rank="TP2", phase="weights")


@variant
def only_those_tell_that_have_loaded() -> Wanted:
    """A rank died without a word; it was still loading."""
    log = Log("0.5.9", tp=4).arguments().dist().all("Load weight begin. avail mem=90.00 GB")
    for rank in ("TP0", "TP1", "TP3"):
        log.say("Load weight end. elapsed=8.31 s, type=LlamaForCausalLM", rank)
    line = log.later(480).hit(
        "ValueError: TP rank 0 could finish the model loading, but there are other ranks that didn't finish loading.",
        rank="TP0",
    )
    return Wanted(log.sigquit(), line, "dist_timeout", rank="TP0", phase="weights")


@variant
def nccl_keeps_the_reason_to_itself() -> Wanted:
    """Where NCCL_DEBUG asks for it, a line of its own names what the exception does not; another one is harmless."""
    log = Log("0.5.17", tp=4).arguments().all("Init torch distributed begin.")
    log.raw(f"[{log.now}] n1:2431481:2432841 [0] transport/net_ib.cc:421 NCCL WARN NET/IB : No device found.")
    line = log.lines
    log.raw(
        f"[{log.now}] n1:2431484:2431484 [3] os/linux.cc:200 NCCL WARN ncclOsSocketPollConnect: connect to "
        "10.99.91.49<36141> returned Connection refused, exceeded error retry count after 35 attempts"
    )
    log.hit("RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)", rank="TP3")
    return Wanted(log.sigquit(), line, "nccl_error", rank="TP3", phase="dist_init")


@variant
def nccl_does_not_say_that_a_card_is_full() -> Wanted:
    log = Log("0.5.13", tp=2).arguments().all("Init torch distributed begin.")
    line = log.lines
    log.raw("gpu07:412:980 [1] include/alloc.h:228 NCCL WARN Cuda failure 2 'out of memory'")
    log.hit("RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)", rank="TP1")
    return Wanted(log.sigquit(), line, "cuda_oom", rank="TP1", phase="dist_init")


@variant
def the_rank_that_keeps_the_store_died() -> Wanted:
    """The others notice first."""
    log = Log("0.5.21", tp=2).arguments().dist().weights().pool()
    log.hit(
        "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed. Did the remote "
        "server shutdown or crash?",
        rank="TP1",
    )
    line = log.hit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB.", rank="TP0")
    return Wanted(log.sigquit(), line, "cuda_oom", rank="TP0", phase="kv_pool")


@variant
def nccl_finds_no_interface() -> Wanted:
    log = Log("0.5.15", tp=2).arguments().all("Init torch distributed begin.")
    line = log.lines
    log.raw("gpu03:5311:5466 [0] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found")
    log.hit("RuntimeError: NCCL error: internal error - please report this issue to the NCCL developers", rank="TP0")
    return Wanted(log.sigquit(), line, "nccl_error", rank="TP0", phase="dist_init")


@variant
def gloo_finds_no_interface() -> Wanted:
    log = Log("0.5.14", tp=2).arguments().all("Init torch distributed begin.")
    line = log.hit(
        "RuntimeError: [enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/device.cc:84] rp != nullptr. "
        "Unable to find address for: eth9",
        rank="TP1",
    )
    return Wanted(log.sigquit(), line, "nccl_error", rank="TP1", phase="dist_init")


@variant
def gloo_does_not_reach_all_ranks() -> Wanted:
    log = Log("0.5.10", tp=2).arguments().all("Init torch distributed begin.").later(1800)
    line = log.hit(
        "RuntimeError: Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:144] no "
        "error",
        rank="TP1",
    )
    return Wanted(log.sigquit(), line, "dist_timeout", rank="TP1", phase="dist_init")
