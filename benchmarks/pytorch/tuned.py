"""The environment in which PyTorch is fastest on a CPU.

Debian's PyTorch as installed is several times slower than it need be: it starts with one thread,
its pthread OpenBLAS fights libgomp's spinning threads for the cores, OpenBLAS 0.3.21 does not
know recent CPUs, malloc returns large tensors to the kernel after every step, and ATen stays at
AVX2 on AVX-512 machines. A win over that would be hollow, so every script here runs tuned.
"""

import os
import sys

LIBRARIES = "/usr/lib/x86_64-linux-gnu"
MARK = "FACULA_PEER_CPUS"


def _cpu_has(flag):
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("flags"):
                return flag in line.split()
    return False


def environment(cpus):
    """The variables to set for PyTorch pinned to `cpus` (a list of CPU numbers)."""
    openblas = f"{LIBRARIES}/openblas-openmp"
    tcmalloc = f"{LIBRARIES}/libtcmalloc_minimal.so.4"
    for path in (openblas, tcmalloc):
        if not os.path.exists(path):
            sys.exit(
                f"{path} is missing, without it PyTorch is slower than it could be; remedy: "
                "apt-get install libopenblas0-openmp libtcmalloc-minimal4"
            )
    # The instruction set that Facula is limited to limits both sides.
    avx512 = _cpu_has("avx512f") and os.environ.get("FACULA_CPU_CAPABILITY", "avx512") == "avx512"
    return {
        "LD_LIBRARY_PATH": openblas,
        "LD_PRELOAD": tcmalloc,
        "TCMALLOC_RELEASE_RATE": "0",
        "OPENBLAS_CORETYPE": "SkylakeX" if avx512 else "Haswell",
        "ATEN_CPU_CAPABILITY": "avx512" if avx512 else "avx2",
        "ONEDNN_MAX_CPU_ISA": "DEFAULT" if avx512 else "AVX2",
        "OMP_NUM_THREADS": str(len(cpus)),
        "OMP_PROC_BIND": "true",
        "GOMP_CPU_AFFINITY": " ".join(map(str, cpus)),
        # Compiler processes of torch.compile would inherit the affinity of one bound thread.
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        MARK: ",".join(map(str, cpus)),
    }


def restart_tuned():
    """Restarts the running script in the tuned environment; call it before importing torch.

    A restart is needed because LD_PRELOAD and LD_LIBRARY_PATH act only at program start. The CPUs
    are those that the process may use (see taskset). Returns their number.
    """
    if MARK not in os.environ:
        cpus = sorted(os.sched_getaffinity(0))
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable] + sys.argv, {**os.environ, **environment(cpus)})
    return len(os.environ[MARK].split(","))
