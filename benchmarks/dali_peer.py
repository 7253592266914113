#!/usr/bin/python3
"""Times NVIDIA DALI's CPU pipeline on a folder of photographs, as `facula data bench
folder:PATH --transform imagenet-train` times ours: regions of JPEG files decoded, resized to 224,
mirrored at random, normalised, and every element read. Needs nvidia-dali (PyPI), no GPU.

One line of JSON on stdout: seconds, samples, samples_per_s.
"""

import argparse
import json
import time

from nvidia.dali import __version__, fn, pipeline_def, types

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pipeline_def
def training(folder):
    files, labels = fn.readers.file(file_root=folder, random_shuffle=True, name="files")
    images = fn.decoders.image_random_crop(
        files, device="cpu", output_type=types.RGB, random_area=[0.08, 1.0],
        random_aspect_ratio=[3 / 4, 4 / 3], num_attempts=10)
    images = fn.resize(images, resize_x=224, resize_y=224, interp_type=types.INTERP_LINEAR,
                       antialias=True)
    images = fn.crop_mirror_normalize(
        images, dtype=types.FLOAT, output_layout="HWC", mean=[255 * m for m in MEAN],
        std=[255 * s for s in STD], mirror=fn.random.coin_flip(probability=0.5))
    return images, labels


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    pipeline = training(args.path, batch_size=args.batch, num_threads=args.threads, device_id=None,
                        seed=1)
    pipeline.build()
    batches = -(-pipeline.epoch_size("files") // args.batch)
    samples = total = 0
    start = None
    for epoch in range(args.epochs + 1):
        if epoch == 1:  # the one before has started the threads
            start = time.perf_counter()
        for _ in range(batches):
            images, _ = pipeline.run()
            value = float(images.as_array().sum())
            if epoch > 0:
                total += value
                samples += len(images)
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "samples": samples, "sum": total,
                      "samples_per_s": samples / seconds, "dali": __version__}))


if __name__ == "__main__":
    main()
