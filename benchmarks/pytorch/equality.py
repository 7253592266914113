#!/usr/bin/python3
"""Checks that Facula computes what PyTorch computes.

The weights and a batch are made by PyTorch (float32) and given to both sides, which train on that
batch with plain SGD. The reference is PyTorch in float64, started from the same numbers.

Step 1: the loss within 1e-5, every gradient within 1e-4 relative L2, for several starts. Where
rounding changes the sign of a ReLU's input, its gradient jumps: one such element among the millions
of a ResNet moves gradients by 1e-3 and more, PyTorch's float32 included. So the batch is small, and
drawn again until no ReLU input of the reference is that near to zero: the check is about arithmetic,
not about signs of zero.

50 steps: the weights deviate from PyTorch's (contiguous) at most 3 times as far as PyTorch's own two
layouts from each other, with both sides' deviations from float64 printed beside; where its layouts
agree in every bit, PyTorch's deviation from float64 takes the place of theirs. Whether `Net` meets
a ReLU at zero within 50 steps is luck and makes the difference between 5e-7 and 1e-2; so its batch is
small, which makes that rare, and medians over several starts are compared. A ResNet always meets
some.

The tool is a program called as
    equality_step MODEL WEIGHTS.safetensors BATCH.safetensors OUT.safetensors --steps N --lr X
WEIGHTS holds a state_dict under PyTorch's names, BATCH "input" (float32, NCHW) and "target"
(int64). It does N training steps and writes "loss" (shape [N], each before its update),
"grad.NAME" of the first step and the final "param.NAME" for every parameter.
"""

import argparse
import copy
import os
import statistics
import subprocess
import sys
import tempfile

import tuned

MODELS = {"net": 10, "resnet18-cifar": 10, "vgg11-cifar": 10}  # name -> number of classes
STEP1_BATCH = 2
STEP1_STARTS = 5
# Float32 rounding moves normalised activations of order 1 by less than this. With a margin of 2e-6
# both Winograd and PyTorch's channels_last change a sign in a quarter of the starts.
RELU_MARGIN = 5e-6
LOSS_TOLERANCE = 1e-5
GRADIENT_TOLERANCE = 1e-4
DEVIATION_FACTOR = 3
STARTS = {"net": 9, "resnet18-cifar": 1, "vgg11-cifar": 1}
BATCH = {"net": 4, "resnet18-cifar": 16, "vgg11-cifar": 16}


class Run:
    """What one side computed: losses [N], gradients of step 1, final parameters; in float64."""

    def __init__(self, losses, gradients, parameters):
        self.losses = losses.double()
        self.gradients = {name: g.double() for name, g in gradients.items()}
        self.parameters = {name: p.double() for name, p in parameters.items()}


def make_model(name):
    import models

    return {
        "net": models.Net,
        "resnet18-cifar": models.resnet18_cifar,
        "vgg11-cifar": models.vgg11_cifar,
    }[name]()


def train_pytorch(name, state, batch, steps, lr, dtype, memory_format):
    import torch
    from torch.nn import functional

    model = make_model(name)
    model.load_state_dict(state)
    model = model.to(dtype=dtype, memory_format=memory_format).train()
    inputs = batch["input"].to(dtype).contiguous(memory_format=memory_format)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    losses, gradients = [], {}
    for step in range(steps):
        optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(model(inputs), batch["target"])
        loss.backward()
        if step == 0:
            gradients = {n: p.grad.clone() for n, p in model.named_parameters()}
        optimizer.step()
        losses.append(loss.item())
    parameters = {n: p.detach() for n, p in model.named_parameters()}
    return Run(torch.tensor(losses, dtype=torch.float64), gradients, parameters)


def train_facula(tool, name, state, batch, steps, lr):
    import safetensors_file

    with tempfile.TemporaryDirectory() as folder:
        weights, data, out = (
            os.path.join(folder, f"{part}.safetensors") for part in ("weights", "batch", "out")
        )
        safetensors_file.save(weights, state)
        safetensors_file.save(data, batch)
        command = [tool, name, weights, data, out, "--steps", str(steps), "--lr", str(lr)]
        done = subprocess.run(command, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)} ended with status {done.returncode}")
        tensors = safetensors_file.load(out)

    def part(prefix):
        return {n[len(prefix) :]: t for n, t in tensors.items() if n.startswith(prefix)}

    return Run(tensors["loss"], part("grad."), part("param."))


def relative(values, reference):
    """||values - reference|| / ||reference|| (L2)."""
    return ((values - reference).norm() / reference.norm()).item()


def deviation(one, other, start):
    """How far the final weights of two runs are apart, relative to the way they have gone."""
    apart = sum((one.parameters[n] - other.parameters[n]).square().sum() for n in start)
    gone = sum((other.parameters[n] - p.double()).square().sum() for n, p in start.items())
    return (apart / gone).sqrt().item()


class Checks:
    """Prints every check and remembers whether one was violated."""

    def __init__(self):
        self.violated = False

    def at_most(self, label, value, limit, note=""):
        holds = value <= limit  # false for NaN
        self.violated |= not holds
        mark = "ok  " if holds else "FAIL"
        print(f"  {mark} {label}: {value:.3g}, at most {limit:.3g}{note}")


def same_parameters(facula, reference):
    """Ends the program unless both sides have the same parameters in the same shapes."""
    for kind in ("gradients", "parameters"):
        ours, theirs = getattr(facula, kind), getattr(reference, kind)
        wrong = sorted(set(ours) ^ set(theirs)) or [
            n for n in theirs if ours[n].shape != theirs[n].shape
        ]
        if wrong:
            sys.exit(f"{kind} differ in name or shape: {', '.join(wrong[:5])}")


class NearZero(Exception):
    pass


def keeps_margin(model, inputs, margin):
    """Whether no input of a ReLU is nearer to zero than `margin`, in float64."""
    import torch
    from torch.nn import functional

    relu = functional.relu

    def checking(x, inplace=False):
        if x.abs().min().item() < margin:
            raise NearZero
        return relu(x, inplace)

    functional.relu = checking
    try:
        with torch.no_grad():
            model.train()(inputs.double())
    except NearZero:
        return False
    finally:
        functional.relu = relu
    return True


def make_batch(model, size, classes, margin=0.0):
    import torch

    reference = copy.deepcopy(model).double()
    inputs = torch.randn(size, 3, 32, 32)
    while margin and not keeps_margin(reference, inputs, margin):
        inputs = torch.randn(size, 3, 32, 32)
    return {"input": inputs, "target": torch.randint(0, classes, (size,))}


def all_runs(name, tool, state, batch, steps, lr):
    """The runs of Facula, PyTorch float64, float32 contiguous and float32 channels_last."""
    import torch

    facula = train_facula(tool, name, state, batch, steps, lr)
    rest = [
        train_pytorch(name, state, batch, steps, lr, dtype, memory_format)
        for dtype, memory_format in (
            (torch.float64, torch.contiguous_format),
            (torch.float32, torch.contiguous_format),
            (torch.float32, torch.channels_last),
        )
    ]
    same_parameters(facula, rest[0])
    return facula, *rest


def check_step1(name, tool, seed, lr, checks):
    import torch

    torch.manual_seed(seed)
    model = make_model(name)
    batch = make_batch(model, STEP1_BATCH, MODELS[name], RELU_MARGIN)
    facula, reference, contiguous, channels_last = all_runs(
        name, tool, model.state_dict(), batch, 1, lr
    )
    print(
        f"{name}, step 1, batch {STEP1_BATCH}, seed {seed} (in brackets: PyTorch float32, both "
        "layouts)"
    )

    def loss_error(run):
        return (run.losses[0] - reference.losses[0]).abs().item()

    def gradient_errors(run):
        return {n: relative(run.gradients[n], g) for n, g in reference.gradients.items()}

    peers = (contiguous, channels_last)
    beside = ", ".join(f"{loss_error(run):.3g}" for run in peers)
    checks.at_most("loss", loss_error(facula), LOSS_TOLERANCE, f" ({beside})")
    peer_errors = [gradient_errors(run) for run in peers]
    errors = gradient_errors(facula)
    # The worst gradient and every violating one (NaN compares false); all would fill the screen.
    worst = max(errors, key=errors.get)
    for parameter, error in errors.items():
        if parameter == worst or not error <= GRADIENT_TOLERANCE:
            beside = ", ".join(f"{own[parameter]:.3g}" for own in peer_errors)
            checks.at_most(f"gradient {parameter}", error, GRADIENT_TOLERANCE, f" ({beside})")
    beside = ", ".join(f"{max(own.values()):.3g}" for own in peer_errors)
    print(f"       of {len(errors)} gradients the worst in PyTorch float32: {beside}")


def check_steps(name, tool, args, checks):
    import torch

    size = args.batch or BATCH[name]
    columns = {}  # what deviates from what -> deviation per start
    for seed in range(args.seed, args.seed + STARTS[name]):
        torch.manual_seed(seed)
        model = make_model(name)
        start = {n: p.detach().clone() for n, p in model.named_parameters()}
        batch = make_batch(model, size, MODELS[name])
        facula, reference, contiguous, channels_last = all_runs(
            name, tool, model.state_dict(), batch, args.steps, args.lr
        )
        for label, one, other in (
            ("facula - float64", facula, reference),
            ("facula - contiguous", facula, contiguous),
            ("contiguous - channels_last", contiguous, channels_last),
            ("contiguous - float64", contiguous, reference),
            ("channels_last - float64", channels_last, reference),
        ):
            columns.setdefault(label, []).append(deviation(one, other, start))
    medians = {label: statistics.median(values) for label, values in columns.items()}
    print(f"{name}, {args.steps} steps, batch {size}, lr {args.lr:g}, {STARTS[name]} start(s)")
    for label, values in columns.items():
        print(f"       {label}: {medians[label]:.3g} ({min(values):.3g}..{max(values):.3g})")
    yardstick, note = medians["contiguous - channels_last"], ""
    if yardstick == 0:
        # Without AVX-512, oneDNN's kernels for both layouts add in the same order.
        yardstick = medians["contiguous - float64"]
        note = " (PyTorch's layouts agree in every bit; its distance from float64 instead)"
    checks.at_most(
        "deviation of the weights",
        medians["facula - contiguous"],
        DEVIATION_FACTOR * yardstick,
        note,
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tool", help="the program equality_step")
    parser.add_argument("--model", choices=list(MODELS), action="append", help="default: all")
    parser.add_argument("--batch", type=int, help="of the longer run (default: per model)")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--starts", type=int, default=STEP1_STARTS, help="of step 1")
    parser.add_argument("--first-step", action="store_true", help="without the longer run")
    args = parser.parse_args()
    threads = tuned.restart_tuned()
    import torch

    torch.set_num_threads(threads)
    checks = Checks()
    for name in args.model or MODELS:
        for seed in range(args.seed, args.seed + args.starts):
            check_step1(name, args.tool, seed, args.lr, checks)
        if not args.first_step:
            check_steps(name, args.tool, args, checks)
    sys.exit(1 if checks.violated else 0)


if __name__ == "__main__":
    main()
