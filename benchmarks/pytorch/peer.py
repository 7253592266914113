#!/usr/bin/python3
"""PyTorch's side of the comparison: prints what `facula bench WORK --json` prints.

Without --layout and --optimizer every variant is measured and the fastest one is printed.
"""

import argparse
import itertools
import json
import sys

import tuned


def variants(args, workloads):
    """The variants that the arguments leave open; a variant without effect on the work is not
    listed twice."""
    images = args.work in workloads.MODELS and len(workloads.MODELS[args.work].shape) == 3
    steps = args.work in workloads.OPTIMIZER_STEPS or (
        args.work in workloads.MODELS and args.mode == "train"
    )
    layouts = [args.layout] if args.layout else ["contiguous", "channels_last"]
    optimizers = [args.optimizer] if args.optimizer else ["loop", "foreach"]
    return [
        workloads.Variant(layout, optimizer, args.compile)
        for layout, optimizer in itertools.product(
            layouts if images else layouts[:1], optimizers if steps else optimizers[:1]
        )
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--train", dest="mode", action="store_const", const="train")
    mode.add_argument("--infer", dest="mode", action="store_const", const="infer")
    parser.add_argument("--batch", type=int, help="default: the work's own")
    parser.add_argument("--layout", choices=["contiguous", "channels_last"])
    parser.add_argument("--optimizer", choices=["loop", "foreach", "fused"])
    parser.add_argument("--compile", action="store_true", help="through torch.compile")
    parser.add_argument("--seconds", type=float, default=5, help="measuring time per variant")
    parser.add_argument("--json", action="store_true", help="one line of JSON (the default: text)")
    parser.set_defaults(mode="train")
    args = parser.parse_args()

    threads = tuned.restart_tuned()
    import torch
    import workloads

    if args.work not in workloads.WORKS:
        parser.error(f"unknown work '{args.work}'; one of {', '.join(workloads.WORKS)}")
    if args.batch is not None and args.batch < 1:
        parser.error(f"--batch is {args.batch}; give a positive number")
    torch.set_num_threads(threads)
    results = []
    for variant in variants(args, workloads):
        results.append(workloads.run(args.work, args.mode, args.batch, variant, args.seconds))
        print(f"{variant}: {results[-1]['median_ms']:.6g} ms", file=sys.stderr)
    best = min(results, key=lambda result: result["median_ms"])
    if args.json:
        print(json.dumps(best))
    else:
        for key, value in best.items():
            print(f"{key:22} {value}")


if __name__ == "__main__":
    main()
