#!/usr/bin/python3
"""Trains ResNet-18 on CIFAR-10 with PyTorch, as `facula train` does, and prints the test accuracy.

SGD with momentum 0.9 and weight decay 5e-4 on all parameters; OneCycle over all steps (PyTorch's
defaults: 30 % up, cosine, from lr/25 to lr/25e4, momentum between 0.95 and 0.85). Augmentation: crop from
4 pixels of black padding, horizontal flip; then mean/std normalisation. The last, smaller batch of
an epoch is used. One line of JSON on stdout.
"""

import argparse
import json
import lzma
import os
import sys
import time

import tuned

RECORD = 1 + 3 * 32 * 32
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
PADDING = 4


def read_records(folder, name):
    """The raw bytes of NAME or NAME.xz in the layout of CIFAR-10's binary version."""
    path = os.path.join(folder, name)
    if os.path.exists(path):
        with open(path, "rb") as file:
            data = file.read()
    elif os.path.exists(path + ".xz"):
        with lzma.open(path + ".xz") as file:
            data = file.read()
    else:
        sys.exit(f"neither {path} nor {path}.xz exists; --data names the folder of the .bin files")
    if len(data) == 0 or len(data) % RECORD:
        sys.exit(f"{path}: {len(data)} bytes are no whole number of {RECORD}-byte records")
    return data


def load(folder, names, subset=None):
    """Images (N, 3, 32, 32) uint8 and labels (N) int64."""
    import numpy
    import torch

    data = b"".join(read_records(folder, name) for name in names)
    records = torch.from_numpy(numpy.frombuffer(data, numpy.uint8).copy()).view(-1, RECORD)
    records = records[:subset]
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].long()


class Normaliser:
    def __init__(self):
        import torch

        self.scale = 1 / (255 * torch.tensor(STD).view(1, 3, 1, 1))
        self.shift = -torch.tensor(MEAN).view(1, 3, 1, 1) / torch.tensor(STD).view(1, 3, 1, 1)

    def __call__(self, images):
        return images.float() * self.scale + self.shift


def augment(padded, chosen):
    """Random crops and flips of `chosen` out of images (N, 40, 40, 3); returns (n, 3, 32, 32),
    channels_last in memory."""
    import torch

    count, grid = len(chosen), torch.arange(32)
    rows = torch.randint(0, 2 * PADDING + 1, (count, 1)) + grid
    columns = torch.randint(0, 2 * PADDING + 1, (count, 1)) + grid
    flipped = torch.rand(count, 1) < 0.5
    columns = torch.where(flipped, columns.flip(1), columns)
    crops = padded[chosen[:, None, None], rows[:, :, None], columns[:, None, :]]
    return crops.permute(0, 3, 1, 2)


def accuracy(model, images, labels, normalise, batch=500):
    import torch

    model.eval()
    right = 0
    with torch.inference_mode():
        for part, truth in zip(images.split(batch), labels.split(batch)):
            inputs = normalise(part).contiguous(memory_format=torch.channels_last)
            right += (model(inputs).argmax(1) == truth).sum().item()
    model.train()
    return right / len(labels)


def train(args):
    import torch
    from torch.nn import functional

    import models

    torch.manual_seed(args.seed)
    names = [f"data_batch_{i}.bin" for i in range(1, 6)]
    images, labels = load(args.data, names, args.subset)
    test_images, test_labels = load(args.data, ["test_batch.bin"])
    padded = functional.pad(images, [PADDING] * 4).permute(0, 2, 3, 1).contiguous()
    normalise = Normaliser()
    model = models.resnet18_cifar().to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(
        model.parameters(), lr=args.lr, momentum=0.9, weight_decay=args.weight_decay
    )
    steps = -(-len(images) // args.batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, args.lr, epochs=args.epochs, steps_per_epoch=steps
    )
    criterion = torch.nn.CrossEntropyLoss()
    start = time.perf_counter()
    for epoch in range(args.epochs):
        total = 0.0
        for chosen in torch.randperm(len(images)).split(args.batch):
            loss = criterion(model(normalise(augment(padded, chosen))), labels[chosen])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(chosen)
        elapsed = time.perf_counter() - start
        print(
            f"epoch {epoch + 1}/{args.epochs}: loss {total / len(images):.4f}, {elapsed:.0f} s",
            file=sys.stderr,
            flush=True,
        )
    seconds = time.perf_counter() - start
    return {
        "torch": torch.__version__,
        "test_accuracy": accuracy(model, test_images, test_labels, normalise),
        "train_loss": total / len(images),
        "seconds": seconds,
        "items_per_s": args.epochs * len(images) / seconds,
        "train_images": len(images),
        **{name: getattr(args, name) for name in ("epochs", "batch", "lr", "weight_decay", "seed")},
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, help="folder of CIFAR-10's .bin or .bin.xz files")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.1, help="peak learning rate")
    parser.add_argument("--weight-decay", type=float, default=5e-4)
    parser.add_argument("--subset", type=int, help="train on the first N images only")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for name in ("epochs", "batch", "subset"):
        value = getattr(args, name)
        if value is not None and value < 1:
            parser.error(f"--{name} is {value}; give a positive number")
    threads = tuned.restart_tuned()
    import torch

    torch.set_num_threads(threads)
    print(json.dumps(train(args)))


if __name__ == "__main__":
    main()
