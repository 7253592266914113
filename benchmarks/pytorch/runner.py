"""Runs one side of a comparison as a pinned process and judges whether it ran undisturbed."""

import json
import os
import resource
import subprocess
import sys
import time

REPEATS = 3
# Below this share of CPU time per needed core, a thread lacked a core: two threads on one core
# give 0.5.
LEAST_CPU_SHARE = 0.8
# Above this share of the wall time, threads waited for a core: two threads on one core give 1,
# and a third busy thread on two cores about 0.5. Unlike CPU time, this also tells when a process
# that needs only one of its cores was disturbed.
MOST_WAITING = 0.1
SAMPLE_SECONDS = 0.2


class SideFailed(Exception):
    """A side did not run or did not keep to the contract; the message tells what and why."""


def _sample_waiting(pid, waited):
    """Records in `waited` how long (ns) each thread of `pid` was ready but had no core so far."""
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
                waited[thread] = int(file.read().split()[1])
    except OSError:
        pass  # the thread or the process has ended; what was seen before counts


def run_json(command, cpus, variables=(), timeout=1800):
    """Runs `command` pinned to `cpus` with these (name, value) of the environment; returns the one JSON object that it prints, with the
    additional fields cpu_over_wall (unless the program gives it) and waiting."""
    pinned = ["taskset", "-c", ",".join(map(str, cpus)), *map(str, command)]
    shown = " ".join(pinned)
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    waited = {}
    with subprocess.Popen(
        pinned,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **dict(variables)},
    ) as process:
        while True:
            try:
                output, errors = process.communicate(timeout=SAMPLE_SECONDS)
                break
            except subprocess.TimeoutExpired:
                _sample_waiting(process.pid, waited)
            if time.perf_counter() - start > timeout:
                process.kill()
                raise SideFailed(f"`{shown}` ran longer than {timeout} s")
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode != 0:
        tail = "\n  ".join(errors.strip().splitlines()[-5:])
        raise SideFailed(f"`{shown}` ended with status {process.returncode}:\n  {tail}")
    lines = output.splitlines()
    try:
        (line,) = lines
        result = json.loads(line)
    except ValueError:
        raise SideFailed(
            f"`{shown}` must print exactly one line of JSON, printed {len(lines)} lines: "
            f"{output[:200]!r}"
        ) from None
    # The process as a whole includes its start, so a figure from the program itself is better.
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    result.setdefault("cpu_over_wall", cpu / wall)
    result["waiting"] = sum(waited.values()) * 1e-9 / wall
    return result


def _check_contract(result, command, case, cpus):
    side = f"{os.path.basename(command[0])}, {case.name}"
    for figure in case.figures:
        value = result.get(figure.key)
        if not isinstance(value, (int, float)) or not value > 0:
            raise SideFailed(f"{side}: the JSON has {figure.key} = {value}, expected a time")
    if result.get("threads") != len(cpus):
        raise SideFailed(
            f"{side}: ran {result.get('threads')} threads on {len(cpus)} CPUs; both sides must "
            "use all of them"
        )


def run_quiet(command, cpus, check=lambda result: None, cores=0, variables=()):
    """Like run_json, repeated while threads shared cores with each other or with others; a
    result that stays so is marked "noisy". `check` may raise SideFailed; `cores` is how many
    cores the measured part must have used, 0 if that says nothing about this program."""
    for _ in range(1 + REPEATS):
        result = run_json(command, cpus, variables)
        check(result)
        lacking = result["cpu_over_wall"] < LEAST_CPU_SHARE * cores
        result["noisy"] = lacking or result["waiting"] > MOST_WAITING
        if not result["noisy"]:
            break
        print(
            f"  rejected, a core was shared: CPU/wall {result['cpu_over_wall']:.2f}, threads "
            f"waited {result['waiting']:.0%} of the time",
            file=sys.stderr,
        )
    return result


def run_side(command, case, cpus):
    """One side's result for `case`, undisturbed if possible."""
    return run_quiet(
        command,
        cpus,
        check=lambda result: _check_contract(result, command, case, cpus),
        cores=min(case.cores, len(cpus)),
        variables=case.variables,
    )
