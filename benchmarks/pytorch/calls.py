#!/usr/bin/python3
"""Times the calls of bench_calls (../calls.cpp) in PyTorch, tuned: milliseconds, the median."""

import statistics
import time

import tuned

REPEATS, SECONDS = 9, 0.05


def milliseconds(call):
    call()
    start = time.perf_counter()
    call()
    count = max(1, int(SECONDS / (time.perf_counter() - start)))
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        for _ in range(count):
            call()
        times.append((time.perf_counter() - start) / count)
    return 1e3 * statistics.median(times)


def calls(torch):
    many = 1_000_000
    x = torch.randn(many)
    rows, index = torch.randn(4096, 1000), torch.randint(0, 1000, (4096, 1))
    functional = torch.nn.functional

    def average(sizes, wanted, channels_last=False):
        images = torch.randn(sizes)
        if channels_last:
            images = images.contiguous(memory_format=torch.channels_last)
        return lambda: functional.adaptive_avg_pool2d(images, wanted)

    return {
        "fill_": lambda: x.fill_(1),
        "zeros": lambda: torch.zeros(many),
        "arange": lambda: torch.arange(many),
        "randint": lambda: torch.randint(0, 100, (many,)),
        "randn": lambda: torch.randn(many),
        "dropout": lambda: functional.dropout(x, 0.5),
        "gather": lambda: rows.gather(1, index),
        "average 128x512x4x4": average((128, 512, 4, 4), 1),
        "average 128x256x8x8": average((128, 256, 8, 8), 1),
        "average 128x16x28x28": average((128, 16, 28, 28), 1),
        "average 128x16x28x28 channels_last": average((128, 16, 28, 28), 1, True),
        "5x5 averages 32x64x56x56 channels_last": average((32, 64, 56, 56), 5, True),
        "5x5 averages 1x64x112x112 channels_last": average((1, 64, 112, 112), 5, True),
    }


def main():
    threads = tuned.restart_tuned()
    import torch  # after the environment is set

    torch.set_num_threads(threads)
    with torch.no_grad():
        for name, call in calls(torch).items():
            print(f"{name:45}{milliseconds(call):9.4f}")


if __name__ == "__main__":
    main()
