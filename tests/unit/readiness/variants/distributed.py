"""Ranks that do not find each other."""

from __future__ import annotations

from writing import Log

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
