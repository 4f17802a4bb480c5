#
# SPDX-License-Identifier: BSD-3-Clause
# See file LICENSE for terms.
"""
The suites for CUDA. They run in a build folder on the emulated runtime, and from
what contrib/bundle.sh packs on a GPU. Each returns {name of a test: outcome}.
"""

from perftest_run import perftests
from results import FAILED, PASSED, SKIPPED, outcome

# Ours within UCX's test program, whose own are named test_cuda_... as well
CUDA_TESTS = "*test_cuda_flush*:*test_cuda_copy_refused*:*test_cuda_ipc_flush*"

# One of these fails over stock modules, and what it says
STOCK_TESTS = "*test_cuda_flush_answer.*"
STOCK_ANSWER = "answers 'Success' while a copy runs"

# UCX's own that have to do with CUDA: those of the transports, memory domains and
# hooks, and UCP's that use device memory over transports of one node
UCX_CUDA_TESTS = ("*cuda*:shm_ipc/test_ucp_proto.*:shm_ib_ipc/test_ucp_mmap.*:"
                  "shm_ib_ipc/test_ucp_rma.*:shm_ib_ipc/test_ucp_tag_mem_type.*")

# They copy gigabytes, through buffers of a sixteenth of the memory, or measure
HUGE_TESTS = "cuda_copy/uct_p2p_rma_test.*:cuda_copy/test_uct_loopback_cuda.*"

# Ten seconds each with a GPU, a minute each on an emulator, stock or patched
SLOW_TESTS = ":".join(f"shm_ib_ipc/test_ucp_rma.{name}/2" for name in (
    "put_blocking", "put_nonblocking", "get_blocking", "get_nonblocking"))

# So many have the streams of cuda_ipc that our tests want to be busy at once
EMULATED_GPUS = "16"

# ucx_perftest: arguments, variables of both its processes, and what the emulator
# must have seen. cuda_copy works within a process only.
COPIED = "cuMemcpyDtoDAsync|cuMemcpyAsync"
MAPPED = "cuIpcOpenMemHandle"
GET = {"UCX_CUDA_IPC_ENABLE_GET_ZCOPY": "y"}  # where there is no NVLink, too
CUDA_PERFTESTS = {
    "cuda_ipc put, bandwidth": (
        "-t put_bw -D zcopy -d cuda -x cuda_ipc -s 65536", {}, [MAPPED, COPIED]),
    "cuda_ipc put, latency": (
        "-t put_lat -D zcopy -d cuda -x cuda_ipc -s 4096", {}, [MAPPED, COPIED]),
    "cuda_ipc get": (
        "-t get -D zcopy -d cuda -x cuda_ipc -s 65536", GET, [MAPPED, COPIED]),
    "cuda_ipc get of a large message": (
        "-t get -D zcopy -d cuda -x cuda_ipc -s 16777216", GET,
        [MAPPED, COPIED]),
    "cuda_copy put": (
        "-l -t put_bw -D zcopy -d cuda -x cuda_copy -s 65536", {},
        ["cudaMemcpyAsync|cuMemcpyAsync"]),
    "cuda_copy get": (
        "-l -t get -D zcopy -d cuda -x cuda_copy -s 65536", {},
        ["cudaMemcpyAsync|cuMemcpyAsync"]),
    "ucp put": (
        "-t ucp_put_bw -s 262144", {"UCX_PROTO_ENABLE": "y"}, [MAPPED, COPIED]),
    "ucp get": (
        "-t ucp_get -s 262144", {"UCX_PROTO_ENABLE": "y"}, [MAPPED, COPIED]),
    "ucp tag": (
        "-t tag_bw -s 1048576", {"UCX_RNDV_THRESH": "16384"}, [MAPPED, COPIED]),
}


def suite_cuda(where, log):
    """Endpoint flushes of CUDA's transports, through the patched module"""
    return run_ours(where, log, where.patched, CUDA_TESTS)


def run_ours(where, log, modules, pattern):
    """Our tests within UCX's test program."""
    return where.run_gtest(log, where.gtest["cuda"], modules, pattern, "cuda",
                           EMUL_GPUS=EMULATED_GPUS)


def suite_cuda_stock(where, log):
    """Stock UCX says that copies are done which are running: our test tells"""
    over_stock = where.run_gtest(log, where.gtest["cuda"], where.stock,
                                 STOCK_TESTS, "cuda", EMUL_GPUS=EMULATED_GPUS)
    return {f"stock:{name}": over_stock_outcome(result)
            for name, result in over_stock.items()}


def over_stock_outcome(result):
    """How a test ended that stock UCX should fail, by what it does wrong."""
    if result.state == FAILED and STOCK_ANSWER in result.text:
        return outcome(PASSED)
    if result.state == PASSED:
        return outcome(SKIPPED, "stock UCX waits in the driver")
    return result


def suite_ucx_cuda(where, log):
    """UCX's own tests for CUDA, over the patched module and over stock"""
    without = [CUDA_TESTS, HUGE_TESTS] + [SLOW_TESTS] * where.emulated
    return where.run_ucx_gtest(log, "cuda",
                               f"{UCX_CUDA_TESTS}-{':'.join(without)}")


def suite_ucx_cuda_huge(where, log):
    """Those of UCX's own tests for CUDA that take minutes"""
    return where.run_ucx_gtest(log, "cuda", HUGE_TESTS)


def suite_perftest_cuda(where, log):
    """ucx_perftest moves CUDA memory within a process and between two"""
    return perftests(where, log, "cuda", CUDA_PERFTESTS)


CUDA_SUITES = {
    "cuda": suite_cuda,
    "cuda_stock": suite_cuda_stock,
    "ucx_cuda": suite_ucx_cuda,
    "perftest_cuda": suite_perftest_cuda,
}
