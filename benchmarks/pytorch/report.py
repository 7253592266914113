"""The table of a comparison, as aligned text or as the Markdown of docs/benchmarks.md."""

import comparison


def number(value):
    """Four significant digits, no exponent."""
    digits = max(0, 3 - len(str(int(abs(value)))) + 1)
    return f"{value:.{digits}f}" if value >= 1 else f"{value:.4g}"


def with_range(values, unit=""):
    median, low, high = map(number, values)
    text = f"{median} {unit}".rstrip()
    return text if low == high else f"{text} ({low}..{high})"


def own_cell(outcome, figure):
    if not outcome.facula:
        return "-"
    (runs,) = comparison.quiet(outcome.facula)
    values = comparison.spread([run[figure.key] for run in runs])
    noisy = " noisy" if comparison.noisy(outcome.facula) else ""
    return with_range(values, figure.unit) + noisy


def peer_cell(runs, figure):
    best = runs.best(figure.key)
    if best is None:
        return "failed" if runs.error else "-"
    values = comparison.spread([run[figure.key] for run in comparison.quiet(best)[0]])
    noisy = " noisy" if comparison.noisy(best) else ""
    variant = f", {best[0]['variant']}" if len(runs.rounds) > 1 else ""
    return with_range(values, figure.unit) + variant + noisy


def ratio_cell(outcome, runs, figure):
    ratio = comparison.ratios(outcome, runs, figure)
    if not ratio:
        return "-"
    spread = f" ({ratio[1]:.2f}..{ratio[2]:.2f})" if len(outcome.facula) > 1 else ""
    noisy = " noisy" if comparison.noisy(outcome.facula, runs.best(figure.key)) else ""
    return f"{ratio[0]:.2f}x{spread}{noisy}"


def peak_cell(outcome, figure):
    shares = comparison.bandwidth_shares(outcome)
    if shares:
        return f"{comparison.spread(shares)[0]:.0%} of bandwidth"
    values = [run.get("percent_of_peak") for run in comparison.quiet(outcome.facula)[0]]
    if figure.key != "median_ms" or not values or None in values:
        return "-"
    return f"{comparison.spread(values)[0]:.0f} %"


def table(outcomes, peers):
    """Header and rows as lists of cells."""
    header = ["work", "facula"]
    for peer in peers:
        header += [f"{peer.name} {peer.version}".strip(), "ratio"]
    header += ["of peak", "goal", "met"]
    rows = []
    for outcome in outcomes:
        for figure in outcome.case.figures:
            row = [f"{outcome.case.name} {figure.label}".strip(), own_cell(outcome, figure)]
            for runs in outcome.peers:
                row += [peer_cell(runs, figure), ratio_cell(outcome, runs, figure)]
            goal = str(figure.goal or "-")
            row += [peak_cell(outcome, figure), goal, comparison.verdict(outcome, figure)]
            rows.append(row)
    return header, rows


def text(header, rows):
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = [header, ["-" * width for width in widths], *rows]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
        for line in lines
    )


def markdown(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def heading(cpus, rounds, seconds, limits):
    """What the reader of the table must know; `limits` is machine_limits' JSON or None."""
    lines = [
        f"Medians over {rounds} interleaved round(s), the range of the rounds in brackets; "
        f"{seconds:g} s per PyTorch run, {len(cpus)} CPUs, both sides pinned. "
        "Ratio: PyTorch's time over ours, taken round by round; the fastest of PyTorch's "
        "variants counts. Rounds with a noisy run are left out where others remain."
    ]
    if limits:
        fma, inplace = limits["fma_gflops"]["all"], limits["inplace_gb_s"]["all"]
        lines.append(
            f"Measured limits: {fma['median']:.0f} GFLOP/s fp32 ({limits['isa']}), "
            f"{inplace['median']:.0f} GB/s in place{' (noisy)' if limits['noisy'] else ''}."
        )
    return "\n".join(lines)
