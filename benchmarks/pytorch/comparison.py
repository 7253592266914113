"""Interleaved rounds of Facula and its peers for one case, and the figures drawn from them."""

import statistics
import sys
from dataclasses import dataclass, field

import runner

# A variant of the peer this much slower than its best one in the first round is not run again.
HOPELESS = 1.15


def quiet(*sides):
    """What the figures rest on: of each side, the results of the rounds in which no side's run was
    noisy, or of all rounds if there is none."""
    rounds = list(zip(*sides))
    clean = [runs for runs in rounds if not any(run["noisy"] for run in runs)]
    return [list(side) for side in zip(*(clean or rounds))] or [[] for _ in sides]


@dataclass
class Peer:
    """A PyTorch installation in one way of use; the fastest of its variants counts."""

    name: str
    command: list
    optimizers: tuple
    version: str = ""

    def variants(self, case):
        """Argument lists, one for each variant that makes a difference for `case`."""
        steps = case.mode == "train" or case.step_bytes > 0
        if case.cores == 1 and not case.mode and "--compile" in self.command:
            return []  # torch.compile would remove the very operations that are measured
        return [
            ["--layout", layout, "--optimizer", optimizer]
            for layout in (("contiguous", "channels_last") if case.images else ("contiguous",))
            for optimizer in (self.optimizers if steps else self.optimizers[:1])
        ]


@dataclass
class PeerRuns:
    peer: Peer
    rounds: dict = field(default_factory=dict)  # variant (tuple of arguments) -> results
    error: str = ""

    def best(self, key):
        """The results of the variant with the lowest median over the rounds that all ran."""
        complete = max(map(len, self.rounds.values()), default=0)
        finalists = [runs for runs in self.rounds.values() if len(runs) == complete]
        if self.error or not finalists:
            return None
        return min(finalists, key=lambda runs: median(runs, key))

    def run_round(self, case, cpus, seconds):
        if self.error:
            return
        variants = list(self.rounds) or [tuple(v) for v in self.peer.variants(case)]
        if len(self.rounds) > 1:
            medians = {v: runs[0]["median_ms"] for v, runs in self.rounds.items()}
            fastest = min(medians.values())
            variants = [
                v
                for v in variants
                if medians[v] <= HOPELESS * fastest or self.rounds[v][0]["noisy"]
            ]
        for variant in variants:
            command = [*self.peer.command, *case.arguments(), *variant, "--seconds", seconds]
            try:
                result = runner.run_side(command, case, cpus)
            except runner.SideFailed as error:
                self.error = str(error)
                print(f"  {self.peer.name}: {error}", file=sys.stderr)
                return
            self.peer.version = result["torch"]
            self.rounds.setdefault(variant, []).append(result)
            report(self.peer.name, result)


@dataclass
class Outcome:
    """All that was measured for one case."""

    case: object
    facula: list
    peers: list
    limits: list  # one per round where bandwidth is the goal


def report(side, result):
    print(
        f"  {side}: {result['median_ms']:.6g} ms, CPU/wall {result['cpu_over_wall']:.2f}"
        f"{' ' + result['variant'] if 'variant' in result else ''}",
        file=sys.stderr,
        flush=True,
    )


def run_case(case, facula, peers, limits, cpus, rounds, seconds):
    """Rounds of: memory bandwidth (where it is the goal), Facula, every peer in turn.

    `facula` and `limits` are commands (lists) or None. Raises SideFailed when Facula fails; a
    failing peer is noted and left out."""
    outcome = Outcome(case, [], [PeerRuns(peer) for peer in peers], [])
    for number in range(rounds):
        print(f"{case.name}, round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        if limits and case.step_bytes:
            outcome.limits.append(runner.run_quiet([*limits, "--json"], cpus))
        if facula:
            outcome.facula.append(
                runner.run_side([*facula, "bench", *case.arguments()], case, cpus)
            )
            report("facula", outcome.facula[-1])
        for runs in outcome.peers:
            runs.run_round(case, cpus, seconds)
    return outcome


def median(runs, key):
    (runs,) = quiet(runs)
    return statistics.median(run[key] for run in runs)


def spread(values):
    """(median, min, max)."""
    return statistics.median(values), min(values), max(values)


def ratios(outcome, runs, figure):
    """The peer's time over ours, round by round, as (median, min, max); None if a side lacks."""
    best = runs.best(figure.key)
    if not best or not outcome.facula:
        return None
    return spread(
        [peer[figure.key] / own[figure.key] for own, peer in zip(*quiet(outcome.facula, best))]
    )


def bandwidth_shares(outcome):
    """Facula's share of the in-place bandwidth measured just before, round by round."""
    return [
        outcome.case.step_bytes / (own["median_ms"] * 1e6) / limit["inplace_gb_s"]["all"]["median"]
        for own, limit in zip(*quiet(outcome.facula, outcome.limits))
    ]


def noisy(*sides):
    """True if a figure of these sides rests on a noisy run."""
    return any(run["noisy"] for side in quiet(*sides) for run in side)


def verdict(outcome, figure):
    """Whether the goal is met: "yes", "no", "noisy" (a run it rests on was disturbed, so it
    proves nothing) or "-" (no goal, or not measured). The peer of the goals is the first one."""
    goal = figure.goal
    if not goal or not outcome.facula:
        return "-"
    sides = [outcome.facula]
    if goal.kind == "ns":
        met = median(outcome.facula, figure.key) < goal.value
    elif goal.kind == "bandwidth":
        shares = bandwidth_shares(outcome)
        if not shares:
            return "-"
        sides.append(outcome.limits)
        met = statistics.median(shares) >= goal.value
    else:
        ratio = ratios(outcome, outcome.peers[0], figure)
        if not ratio:
            return "-"
        sides.append(outcome.peers[0].best(figure.key))
        met = ratio[0] >= goal.value
    if noisy(*sides):
        return "noisy"
    return "yes" if met else "no"
