#!/usr/bin/env python3
"""JPEG and PNG files decode to the very pixels that Pillow yields.

usage: image_parity_test.py [FILE...]     files to try besides those made here

test_io decodes the files. Exits with 77 where Pillow is absent. Where Pillow is built on another
JPEG library than libjpeg-turbo, pixels may differ by how they are rounded.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy
    from PIL import Image, ImageOps, features
except ImportError as error:
    print(f'skipped: {error}')
    sys.exit(77)

TOLERANCE = 0 if features.check_feature('libjpeg_turbo') else 3
ORIENTATION = 0x0112


def picture(height, width):
    y, x = numpy.mgrid[:height, :width]
    waves = [127.5 + 120 * numpy.sin(x * a + y * b) for a, b in ((0.1, 0.3), (0.2, 0.05), (0.4, 0.4))]
    noise = numpy.random.default_rng(1).integers(0, 8, (height, width, 3))
    return Image.fromarray((numpy.stack(waves, axis=-1) + noise).clip(0, 255).astype(numpy.uint8))


def make_files(folder):
    """Writes files of many kinds; returns their paths."""
    paths = []

    def save(image, name, **options):
        path = folder / f'{len(paths)}_{name}'
        image.save(path, **options)
        paths.append(path)

    for size in ((61, 83), (16, 16), (1, 1), (200, 133)):
        rgb = picture(*size)
        for subsampling in (0, 1, 2):
            for progressive in (False, True):
                save(rgb, 'rgb.jpg', subsampling=subsampling, progressive=progressive)
        for mode in ('L', 'CMYK'):
            save(rgb.convert(mode), f'{mode}.jpg', quality=90)
        for mode in ('L', 'LA', 'P', 'RGB', 'RGBA', '1'):
            save(rgb.convert(mode), f'{mode}.png')
        save(rgb.quantize(13), 'few_colours.png', transparency=2)
    for orientation in range(10):
        exif = Image.Exif()
        exif[ORIENTATION] = orientation
        save(picture(40, 70), f'turned_{orientation}.jpg', exif=exif)
        save(picture(40, 70), f'turned_{orientation}.png', exif=exif)
    whole = paths[0].read_bytes()
    for size in (0, 100, len(whole) // 2, len(whole) - 10):
        paths.append(folder / f'cut_to_{size}.jpg')
        paths[-1].write_bytes(whole[:size])
    return paths


def by_pillow(path):
    """The pixels, or None for a file that is refused."""
    try:
        image = Image.open(path)
        image.load()
    except (OSError, SyntaxError):
        return None
    image = ImageOps.exif_transpose(image)
    grey = image.mode in ('1', 'L', 'LA')
    pixels = numpy.asarray(image.convert('L' if grey else 'RGB'))
    return pixels[:, :, None] if grey else pixels


def by_facula(paths, folder):
    names = folder / 'list'
    names.write_text(''.join(f'{path}\n' for path in paths))
    program = pathlib.Path(os.environ['FACULA_BIN_DIR'], 'test_io')
    subprocess.run([program, '--gtest_filter=ImageDump.Write'], check=True,
                   stdout=subprocess.DEVNULL, env=dict(os.environ, FACULA_IMAGE_FILES=str(names)))
    data = pathlib.Path(f'{names}.out').read_bytes()
    offset = 0
    for _ in paths:
        shape = tuple(numpy.frombuffer(data, numpy.int64, 3, offset))
        size = int(numpy.prod(shape))
        pixels = numpy.frombuffer(data, numpy.uint8, size, offset + 24).reshape(shape)
        offset += 24 + size
        yield pixels if size else None


def problem(expected, actual):
    if expected is None or actual is None:
        refusing = [name for name, pixels in (('Pillow', expected), ('Facula', actual))
                    if pixels is None]
        return '' if len(refusing) == 2 else f'only {refusing[0]} refuses it'
    if expected.shape != actual.shape:
        return f'{actual.shape} instead of {expected.shape}'
    difference = numpy.abs(expected.astype(int) - actual).max()
    return f'differs by up to {difference}' if difference > TOLERANCE else ''


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        paths = make_files(folder) + [pathlib.Path(path) for path in sys.argv[1:]]
        problems = 0
        for path, actual in zip(paths, by_facula(paths, folder)):
            text = problem(by_pillow(path), actual)
            if text:
                problems += 1
                print(f'{path}: {text}')
    print(f'{len(paths)} files compared, {problems} differ')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
