#!/usr/bin/python3
"""Enlarges photographs, for measuring image pipelines with the sizes of today's cameras.

usage: enlarge_photos.py IN OUT [--pixels 1600] [--count 40]

Takes COUNT JPEG files of the class folders of IN, evenly spread, makes their longer sides PIXELS
pixels long (Lanczos) and writes them to the same class folders of OUT with quality 90.
"""

import argparse
import pathlib

from PIL import Image


def enlarge(source, target, pixels):
    with Image.open(source) as image:
        scale = pixels / max(image.size)
        size = [round(side * scale) for side in image.size]
        target.parent.mkdir(parents=True, exist_ok=True)
        image.convert("RGB").resize(size, Image.LANCZOS).save(target, quality=90)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", metavar="IN", type=pathlib.Path)
    parser.add_argument("target", metavar="OUT", type=pathlib.Path)
    parser.add_argument("--pixels", type=int, default=1600, help="of the longer side")
    parser.add_argument("--count", type=int, default=40)
    args = parser.parse_args()
    files = sorted(args.source.glob("*/*.jpg"))
    if not files:
        parser.error(f"{args.source} has no class folders with .jpg files")
    count = min(args.count, len(files))
    for i in range(count):
        source = files[i * len(files) // count]
        enlarge(source, args.target / source.relative_to(args.source), args.pixels)
    print(f"{count} images are in {args.target}")


if __name__ == "__main__":
    main()
