#!/usr/bin/env python3
"""Resizing, colour adjustments and rotation give what Pillow and torchvision give.

usage: transforms_parity_test.py [PHOTO...]     photos to try besides synthetic images

test_data applies the transforms to a file of cases. Exits with 77 where Pillow or torchvision is
absent.
"""

import os
import pathlib
import struct
import subprocess
import sys
import tempfile

try:
    import numpy
    import PIL.Image
    import torchvision.transforms.functional as functional
    from torchvision.transforms import InterpolationMode
except ImportError as error:
    print(f'skipped: {error}')
    sys.exit(77)

KINDS = ('resize', 'brightness', 'contrast', 'saturation', 'hue', 'rotation')
NEAREST, BILINEAR, BICUBIC = range(3)
FILTERS = (PIL.Image.NEAREST, PIL.Image.BILINEAR, PIL.Image.BICUBIC)
MODES = (InterpolationMode.NEAREST, InterpolationMode.BILINEAR)
# Largest difference allowed, in levels. Sums of float64 that end near a level round either way.
TOLERANCE = {'resize': 0, 'contrast': 0, 'brightness': 0, 'saturation': 0, 'hue': 0, 'rotation': 1}


def images(photos):
    random = numpy.random.default_rng(1)

    def noise(*shape):
        return random.integers(0, 256, shape, dtype=numpy.uint8)

    def waves(height, width):
        y, x = numpy.mgrid[:height, :width]
        return numpy.stack([127.5 + 127.5 * numpy.sin(x * a + y * b)
                            for a, b in ((0.1, 0.03), (0.02, 0.2), (0.3, 0.3))],
                           axis=-1).astype(numpy.uint8)

    yield from (noise(61, 47, 3), noise(40, 70, 1), noise(1, 9, 3), noise(5, 1, 1), noise(2, 3, 3),
                noise(200, 300, 3), waves(120, 200), noise(32, 32, 3), noise(28, 28, 1))
    for photo in photos:
        yield numpy.asarray(PIL.Image.open(photo).convert('RGB'))


def cases(photos):
    """(kind, pixels, three numbers)"""
    for pixels in images(photos):
        height, width, channels = pixels.shape
        sizes = {(height // 2 + 1, width // 2 + 1), (height, max(width // 3, 1)),
                 (height * 2 + 1, width), (max(height // 7, 1), width + 13), (24, 24), (1, 1),
                 (33, 50), (height, width), (64, 3)}
        for rows, columns in sorted(sizes):
            for interpolation in (NEAREST, BILINEAR, BICUBIC):
                yield 'resize', pixels, (rows, columns, interpolation)
        for factor in (0, 0.31, 0.8, 1, 1.27, 2.5):
            for kind in ('brightness', 'contrast', 'saturation'):
                yield kind, pixels, (factor, 0, 0)
        for shift in (-0.5, -0.2, -0.01, 0, 0.1, 0.37, 0.5):
            yield 'hue', pixels, (shift, 0, 0)
        for angle in (-170, -90, -33.3, 0, 7, 45, 90, 180):
            for interpolation in (NEAREST, BILINEAR):
                yield 'rotation', pixels, (angle, interpolation, 77)


def expected(kind, pixels, numbers):
    grey = pixels.shape[2] == 1
    image = PIL.Image.fromarray(pixels[:, :, 0] if grey else pixels)
    a, b, c = numbers
    if kind == 'resize':
        result = image.resize((b, a), FILTERS[c])
    elif kind == 'rotation':
        result = functional.rotate(image, a, interpolation=MODES[b], fill=[c] * pixels.shape[2])
    else:
        result = getattr(functional, f'adjust_{kind}')(image, a)
    return numpy.asarray(result).reshape(result.size[1], result.size[0], -1)


def run(tests, folder):
    """The results of test_data, in one array of bytes."""
    path = pathlib.Path(folder) / 'cases'
    with open(path, 'wb') as file:
        for kind, pixels, numbers in tests:
            file.write(struct.pack('7d', KINDS.index(kind), *pixels.shape, *numbers))
            file.write(pixels.tobytes())
    program = pathlib.Path(os.environ['FACULA_BIN_DIR']) / 'test_data'
    result = subprocess.run([program, '--gtest_filter=TransformsDump.Write'],
                            env=dict(os.environ, FACULA_TRANSFORM_CASES=str(path)),
                            capture_output=True, text=True)
    if result.returncode:
        sys.exit(f'test_data failed\n{result.stdout}{result.stderr}')
    return numpy.fromfile(f'{path}.out', dtype=numpy.uint8)


def main():
    tests = list(cases(sys.argv[1:]))
    with tempfile.TemporaryDirectory() as folder:
        results = run(tests, folder)
    offset, problems = 0, 0
    worst = dict.fromkeys(KINDS, 0)
    differing, values = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0)
    for kind, pixels, numbers in tests:
        target = expected(kind, pixels, numbers).astype(int)
        own = results[offset:offset + target.size].reshape(target.shape)
        offset += target.size
        difference = numpy.abs(own - target)
        worst[kind] = max(worst[kind], difference.max())
        differing[kind] += numpy.count_nonzero(difference)
        values[kind] += target.size
        if difference.max() > TOLERANCE[kind]:
            problems += 1
            print(f'{kind}{numbers} of {pixels.shape}: differs by up to {difference.max()} levels '
                  f'in {numpy.count_nonzero(difference)} of {target.size} values')
    for kind in KINDS:
        print(f'{kind}: {values[kind]} values, {differing[kind]} differ, by at most {worst[kind]}')
    if offset != results.size:
        problems += 1
        print(f'{results.size} values were written instead of {offset}')
    sys.exit(1 if problems else 0)


if __name__ == '__main__':
    main()
