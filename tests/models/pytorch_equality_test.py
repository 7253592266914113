#!/usr/bin/env python3
"""One training step of `Net` and ResNet-18 and, on the machine's own instruction set, 50 steps of
`Net` beside PyTorch's: benchmarks/pytorch/equality.py, which says what is compared. Exits with 77
without PyTorch or without the benchmark programs."""

import os
import pathlib
import subprocess
import sys

try:
    import torch
except ImportError as error:
    print(f'skipped: {error}')
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    tool = pathlib.Path(os.environ['FACULA_BIN_DIR'], 'bench_equality_step')
    if not tool.exists():
        print(f'skipped: {tool} is not built (FACULA_BENCHMARKS)')
        return 77
    check = ROOT / 'benchmarks' / 'pytorch' / 'equality.py'

    def differs(*options):
        command = [sys.executable, check, tool, '--starts', '1', *options]
        return subprocess.run(command, check=False).returncode != 0

    # With this seed the first batch drawn for ResNet-18 keeps all inputs of ReLUs 1e-5 from zero.
    step = differs('--first-step', '--seed', '506', '--model', 'net', '--model', 'resnet18-cifar')
    steps = 'FACULA_CPU_CAPABILITY' not in os.environ and differs('--model', 'net')
    return int(step or steps)


if __name__ == '__main__':
    sys.exit(main())
