#!/usr/bin/env python3
"""One training step of `Net` and ResNet-18 beside PyTorch's: benchmarks/pytorch/equality.py, which
says what is compared. Exits with 77 without PyTorch or without the benchmark programs."""

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
    # With this seed the first batch drawn for ResNet-18 keeps all inputs of ReLUs 1e-5 from zero.
    return subprocess.run([sys.executable, check, tool, '--first-step', '--starts', '1', '--seed',
                           '506', '--model', 'net', '--model', 'resnet18-cifar'],
                          check=False).returncode


if __name__ == '__main__':
    sys.exit(main())
