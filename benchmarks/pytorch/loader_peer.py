#!/usr/bin/python3
"""Times PyTorch's DataLoader with torchvision's transforms, as `facula data bench` times ours.

Transforms run on every sample in every epoch, every epoch has a fresh order, and the consumer reads
every element. One line of JSON on stdout: seconds for all epochs after one that starts the workers,
samples, sum.
"""

import argparse
import gzip
import json
import lzma
import os
import sys
import time

import numpy
import torch
import torchvision
from PIL import Image

CIFAR_STATISTICS = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
IMAGENET_STATISTICS = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def read(folder, name):
    """NAME, NAME.gz or NAME.xz, uncompressed."""
    for suffix, opener in (("", open), (".gz", gzip.open), (".xz", lzma.open)):
        path = os.path.join(folder, name + suffix)
        if os.path.exists(path):
            with opener(path, "rb") as file:
                return numpy.frombuffer(file.read(), numpy.uint8)
    sys.exit(f"{folder} lacks {name}, raw or with .gz or .xz")


class Arrays(torch.utils.data.Dataset):
    """Pixels in memory, handed out as torchvision's MNIST and CIFAR10 do: through PIL."""

    def __init__(self, images, labels, transform):
        self.images, self.labels, self.transform = images, labels, transform

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.transform(Image.fromarray(self.images[index])), int(self.labels[index])


def open_set(kind, path):
    t = torchvision.transforms
    if kind == "mnist":
        images = read(path, "train-images-idx3-ubyte")[16:].reshape(-1, 28, 28)
        labels = read(path, "train-labels-idx1-ubyte")[8:]
        chain = [t.ToTensor(), t.Normalize((0.1307,), (0.3081,))]
        return Arrays(images, labels, t.Compose(chain))
    if kind == "cifar10":
        files = [read(path, f"data_batch_{i}.bin").reshape(-1, 3073) for i in range(1, 6)]
        records = numpy.concatenate(files)
        images = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1).copy()
        chain = [t.RandomCrop(32, padding=4), t.RandomHorizontalFlip(), t.ToTensor(),
                 t.Normalize(*CIFAR_STATISTICS)]
        return Arrays(images, records[:, 0], t.Compose(chain))
    chain = [t.RandomResizedCrop(224), t.RandomHorizontalFlip(), t.ToTensor(),
             t.Normalize(*IMAGENET_STATISTICS)]
    return torchvision.datasets.ImageFolder(path, t.Compose(chain))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["mnist", "cifar10", "folder"])
    parser.add_argument("path")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--workers", type=int, default=0)
    args = parser.parse_args()
    data = open_set(args.kind, args.path)
    loader = torch.utils.data.DataLoader(
        data, batch_size=args.batch, shuffle=True, num_workers=args.workers,
        persistent_workers=args.workers > 0)
    seconds = samples = total = 0
    for epoch in range(args.epochs + 1):
        start = time.perf_counter()
        for images, _ in loader:
            value = float(images.sum())
            if epoch > 0:
                total += value
                samples += len(images)
        if epoch > 0:
            seconds += time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "samples": samples, "sum": total,
                      "samples_per_s": samples / seconds, "torch": torch.__version__,
                      "torchvision": torchvision.__version__}))


if __name__ == "__main__":
    main()
