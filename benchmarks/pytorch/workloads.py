"""The works of `facula bench`, done with PyTorch by the same rules.

Random non-zero data, 8 rotating batches, weights really updated, 5 warm-up steps, then steps
until the measuring time is over, but at least one pass over the 8 batches.
"""

import itertools
import resource
import statistics
import time
from dataclasses import dataclass
from typing import Callable

import torch
from torch import nn

import models

BATCHES = 8
WARMUP = 5
LEARNING_RATE = 1e-3
MOMENTUM = 0.9


@dataclass(frozen=True)
class Variant:
    """One of PyTorch's ways of doing the same work."""

    layout: str = "contiguous"  # or "channels_last"
    optimizer: str = "loop"  # or "foreach", or "fused" (current PyTorch)
    compiled: bool = False

    def __str__(self):
        return f"{self.layout} {self.optimizer}"


@dataclass(frozen=True)
class Model:
    make: Callable[[], nn.Module]
    shape: tuple
    classes: int
    batch: int
    optimizer: str = "sgd"


MODELS = {
    "resnet18-cifar": Model(models.resnet18_cifar, (3, 32, 32), 10, 128),
    "vgg11-cifar": Model(models.vgg11_cifar, (3, 32, 32), 10, 128),
    "mobilenetv2-cifar": Model(models.mobilenetv2_cifar, (3, 32, 32), 10, 128),
    "resnet18-224": Model(models.resnet18_imagenet, (3, 224, 224), 1000, 32),
    "net": Model(models.Net, (3, 32, 32), 10, 32),
    "mnist-cnn": Model(models.MnistCnn, (1, 28, 28), 10, 64),
    "mlp-sgd": Model(models.mlp, (784,), 10, 128),
    "mlp-adam": Model(models.mlp, (784,), 10, 128, "adam"),
}
OPTIMIZER_STEPS = {"sgd-step": "sgd", "adam-step": "adam", "adamw-step": "adamw"}

# Bytes moved per parameter by an ideal step: SGD with momentum reads weight, gradient, momentum
# and writes weight, momentum; Adam has two moments.
STEP_BYTES = {"sgd-step": 20, "adam-step": 28, "adamw-step": 28}


def make_optimizer(kind, parameters, how):
    options = {"fused": True} if how == "fused" else {"foreach": how == "foreach"}
    if kind == "sgd":
        return torch.optim.SGD(parameters, lr=LEARNING_RATE, momentum=MOMENTUM, **options)
    if kind == "adam":
        return torch.optim.Adam(parameters, lr=LEARNING_RATE, **options)
    return torch.optim.AdamW(parameters, lr=LEARNING_RATE, weight_decay=0.01, **options)


def forward_flops(model, sample):
    """Nominal FLOPs (2 per multiply-add) of each Conv2d and Linear for `sample`, in order."""
    flops = []

    def count(module, inputs, output):
        if isinstance(module, nn.Conv2d):
            per_output = module.weight[0].numel()
        else:
            per_output = module.in_features
        flops.append(2 * output.numel() * per_output)

    hooks = [
        module.register_forward_hook(count)
        for module in model.modules()
        if isinstance(module, (nn.Conv2d, nn.Linear))
    ]
    with torch.no_grad():
        model.eval()(sample)
    for hook in hooks:
        hook.remove()
    return flops


def nominal_flops(model, sample, training):
    """Training adds weight and data gradients; the first layer needs no data gradient."""
    flops = forward_flops(model, sample)
    return 3 * sum(flops) - flops[0] if training else sum(flops)


def measure(step, seconds):
    """Times step(i) for i = 0, 1, ...; step returns the loss or None."""
    losses = [step(i) for i in range(WARMUP)]
    first = losses[0]
    times = []
    faults, cpu = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.process_time()
    begin = now = time.perf_counter()
    index = WARMUP
    while now - begin < seconds or len(times) < BATCHES:
        last = step(index)
        previous, now = now, time.perf_counter()
        times.append(now - previous)
        index += 1
    cpu = time.process_time() - cpu
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    return {
        "steps": len(times),
        "median_ms": statistics.median(times) * 1e3,
        "min_ms": min(times) * 1e3,
        "max_ms": max(times) * 1e3,
        "minor_faults_per_step": faults / len(times),
        "cpu_over_wall": cpu / (now - begin),
        "loss_first": None if first is None else float(first),
        "loss_last": None if last is None else float(last),
    }


def measure_model(work, mode, batch, variant, seconds):
    spec = MODELS[work]
    batch = batch or spec.batch
    training = mode == "train"
    layout = torch.channels_last if variant.layout == "channels_last" else torch.contiguous_format
    model = spec.make()
    flops = nominal_flops(model, torch.randn(1, *spec.shape), training) * batch
    model = model.to(memory_format=layout).train(training)
    inputs = [
        torch.randn(batch, *spec.shape).contiguous(memory_format=layout) for _ in range(BATCHES)
    ]
    targets = [torch.randint(0, spec.classes, (batch,)) for _ in range(BATCHES)]
    call = torch.compile(model) if variant.compiled else model
    criterion = nn.CrossEntropyLoss()

    if training:
        optimizer = make_optimizer(spec.optimizer, model.parameters(), variant.optimizer)

        def step(i):
            optimizer.zero_grad(set_to_none=True)
            loss = criterion(call(inputs[i % BATCHES]), targets[i % BATCHES])
            loss.backward()
            optimizer.step()
            return loss.detach()
    else:

        def step(i):
            with torch.inference_mode():
                call(inputs[i % BATCHES])

    result = measure(step, seconds)
    per_second = 1e3 / result["median_ms"]
    result.update(batch=batch, items_per_s=batch * per_second, gflops=flops * per_second / 1e9)
    return result


def measure_optimizer(work, variant, seconds):
    """One step over the 11.17 M parameters of ResNet-18; 134 MB and more, far beyond any cache."""
    parameters = list(models.resnet18_cifar().parameters())
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter) * 1e-3
    optimizer = make_optimizer(OPTIMIZER_STEPS[work], parameters, variant.optimizer)
    optimizer_step = optimizer.step
    if variant.compiled:
        optimizer_step = torch.compile(optimizer.step)
    result = measure(lambda i: optimizer_step(), seconds)
    per_second = 1e3 / result["median_ms"]
    elements = sum(p.numel() for p in parameters)
    result.update(
        items_per_s=per_second, gb_per_s=elements * STEP_BYTES[work] * per_second / 1e9
    )
    return result


def measure_eager_add(seconds):
    """`a + b` of two one-element tensors in blocks of 10,000 calls, at least 1e6 calls in all."""
    a, b = torch.rand(1) + 0.5, torch.rand(1) + 0.5
    calls = 10_000

    def step(_):
        for _ in itertools.repeat(None, calls):
            a + b  # noqa: B018 - the result is destroyed each time on purpose

    for _ in range(100):
        step(0)
    result = measure(step, seconds)
    result["median_ns"] = result["median_ms"] * 1e6 / calls
    for key in ("median_ms", "min_ms", "max_ms"):
        result[key] /= calls
    result["minor_faults_per_step"] /= calls
    result["items_per_s"] = 1e9 / result["median_ns"]
    return result


def measure_recording(seconds, parts, leaves, forward):
    """Times of `parts` equal parts of what `forward` records, and of going back through them;
    backward includes the destruction of the nodes."""
    forward_times, backward_times = [], []

    def step(_):
        start = time.perf_counter()
        loss = forward()
        middle = time.perf_counter()
        loss.backward()
        del loss
        end = time.perf_counter()
        for leaf in leaves:
            leaf.grad = None
        forward_times.append(middle - start)
        backward_times.append(end - middle)

    result = measure(step, seconds)
    result["forward_ns"] = statistics.median(forward_times[WARMUP:]) * 1e9 / parts
    result["backward_ns"] = statistics.median(backward_times[WARMUP:]) * 1e9 / parts
    result["median_ns"] = result["median_ms"] * 1e6 / parts
    result["items_per_s"] = parts * 1e3 / result["median_ms"]
    return result


def measure_autograd_chain(seconds):
    """1000 alternating `* w` and `tanh`."""
    x = (torch.rand(1) + 0.5).requires_grad_()
    w = torch.rand(1) + 0.5
    ops = 1000

    def forward():
        z = x
        for _ in itertools.repeat(None, ops // 2):
            z = torch.tanh(z * w)
        return z

    return measure_recording(seconds, ops, [x], forward)


def measure_autograd_rows(seconds):
    """A recurrence that reads 1000 rows of one tensor and writes those of another."""
    rows, columns = 1000, 256
    w = torch.rand(columns, requires_grad=True)
    x = torch.randn(rows, columns, requires_grad=True)

    def forward():
        states = torch.zeros(rows, columns)
        state = w
        for i in range(rows):
            state = torch.tanh(state * w + x[i])
            states[i] = state
        return states.sum()

    return measure_recording(seconds, rows, [w, x], forward)


SMALL_WORKS = {
    "eager-add": measure_eager_add,
    "autograd-chain": measure_autograd_chain,
    "autograd-rows": measure_autograd_rows,
}
WORKS = (*MODELS, *OPTIMIZER_STEPS, *SMALL_WORKS)


def run(work, mode, batch, variant, seconds):
    """Measures one variant; returns the fields of `facula bench --json`."""
    torch.manual_seed(0)
    result = {
        "work": work,
        "mode": mode if work in MODELS else "step",
        "dtype": "f32",
        "batch": None,
        "threads": torch.get_num_threads(),
        "isa": torch.__config__.show().split("CPU capability usage: ")[1].split()[0],
        "torch": torch.__version__,
        "variant": str(variant),
        "compiled": variant.compiled,
        "gflops": None,
        "percent_of_peak": None,
    }
    if work in MODELS:
        result.update(measure_model(work, mode, batch, variant, seconds))
    elif work in OPTIMIZER_STEPS:
        result.update(measure_optimizer(work, variant, seconds))
    else:
        result.update(SMALL_WORKS[work](seconds))
    result["peak_rss_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return result
