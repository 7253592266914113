#!/usr/bin/python3
"""Times single calls of ops in PyTorch, tuned: what bench_calls (../calls.cpp) is to Facula.

usage: calls.py PROBLEM... | calls.py -
"""

import os
import statistics
import sys
import time

import tuned

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "ops"))

BATCHES, BATCH_SECONDS = 7, 0.02


class Kind:
    """f32[2, 3] makes a tensor."""

    def __init__(self, make):
        self.make = make

    def __getitem__(self, sizes):
        return self.make(sizes if isinstance(sizes, tuple) else (sizes,))


def names(torch):
    def integers(dtype):
        return Kind(lambda sizes: Bounded(torch, torch.randint(0, 2**31, sizes), dtype))

    kinds = {
        "f32": torch.randn,
        "f64": lambda sizes: torch.randn(sizes, dtype=torch.float64),
        "p32": lambda sizes: torch.rand(sizes) * 1.5 + 0.5,
        "p64": lambda sizes: torch.rand(sizes, dtype=torch.float64) * 1.5 + 0.5,
        "bool": lambda sizes: torch.randn(sizes) > 0,
    }
    found = {name: Kind(make) for name, make in kinds.items()}
    found |= {"u8": integers(torch.uint8), "i32": integers(torch.int32),
              "i64": integers(torch.int64)}
    for dtype in ("float16", "float32", "float64", "int32", "int64", "uint8", "bfloat16"):
        found[dtype] = getattr(torch, dtype)
    torch.Tensor.cl = property(lambda x: x.contiguous(memory_format=torch.channels_last))
    torch.Tensor.tr = property(lambda x: x.transpose(-2, -1))
    return found


class Bounded:
    """Integers below 10 unless "% n" says otherwise."""

    def __init__(self, torch, values, dtype):
        self.values, self.dtype = values, dtype
        self.tensor = (values % 10).to(dtype)

    def __mod__(self, bound):
        self.tensor = (self.values % bound).to(self.dtype)
        return self

    @property
    def cl(self):
        self.tensor = self.tensor.cl
        return self

    @property
    def tr(self):
        self.tensor = self.tensor.tr
        return self


def plain(value):
    if isinstance(value, list):
        return [plain(entry) for entry in value]
    return value.tensor if isinstance(value, Bounded) else value


class Calls:
    def __init__(self, torch, find):
        self.torch, self.find, self.names = torch, find, names(torch)

    def runner(self, text):
        torch = self.torch
        with_gradients = text.startswith("grad ")
        name, arguments = text.removeprefix("grad ").split("(", 1)
        function = self.find(name)
        if function is None:
            raise ValueError(f"PyTorch has no {name}")
        values = [plain(v) for v in eval(f"[{arguments.rstrip()[:-1]}]", dict(self.names))]
        if not with_gradients:
            def call():
                with torch.no_grad():
                    function(*values)
            return call
        tensors = [v for value in values for v in (value if isinstance(value, list) else [value])]
        leaves = [t.requires_grad_() for t in tensors
                  if isinstance(t, torch.Tensor) and t.is_floating_point()]

        def result():
            made = function(*values)
            return made if isinstance(made, torch.Tensor) else made[0]
        seed = torch.ones_like(result())
        return lambda: torch.autograd.grad(result(), leaves, seed)

    def microseconds(self, text):
        call = self.runner(text)
        call()
        once = seconds_of(call, 1)
        count = int(min(max(BATCH_SECONDS / once, 1), 1e5))
        return 1e6 * statistics.median(seconds_of(call, count) / count for _ in range(BATCHES))


def seconds_of(call, count):
    start = time.perf_counter()
    for _ in range(count):
        call()
    return time.perf_counter() - start


def main():
    threads = tuned.restart_tuned()
    import torch  # after the environment is set
    from pytorch_calls import find

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    calls = Calls(torch, find)
    from_input = sys.argv[1:] == ["-"]
    for text in sys.stdin if from_input else sys.argv[1:]:
        text = text.strip()
        try:
            answer = f"{calls.microseconds(text):.4g}"
        except Exception as error:  # what the op, or the text, brings
            answer = "error: " + str(error).splitlines()[0]
        print(answer if from_input else f"{text}: {answer}", flush=True)


if __name__ == "__main__":
    main()
