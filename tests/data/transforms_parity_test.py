#!/usr/bin/env python3
"""The transforms give what Pillow and torchvision give.

usage: transforms_parity_test.py [PHOTO...]     photos to try besides synthetic images

test_data applies the transforms to a file of cases. Where they draw at random, the result must be
one that torchvision can give, and the draws must be distributed as torchvision's. Exits with 77
where Pillow or torchvision is absent.
"""

import collections
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

try:
    import numpy
    import PIL.Image
    import torch
    import torchvision.transforms as transforms
    import torchvision.transforms.functional as functional
    from torchvision.transforms import InterpolationMode
except ImportError as error:
    print(f'skipped: {error}')
    sys.exit(77)

KINDS = ('resize', 'brightness', 'contrast', 'saturation', 'hue', 'rotation', 'shorter_side',
         'center_crop', 'random_crop', 'horizontal_flip', 'vertical_flip', 'grayscale',
         'resized_crop', 'normalize', 'drawn_crops', 'drawn_holes', 'drawn_colors', 'drawn_angles')
NEAREST, BILINEAR, BICUBIC = range(3)
FILTERS = (PIL.Image.NEAREST, PIL.Image.BILINEAR, PIL.Image.BICUBIC)
MODES = (InterpolationMode.NEAREST, InterpolationMode.BILINEAR, InterpolationMode.BICUBIC)
PADDINGS = ('constant', 'edge', 'reflect', 'symmetric')
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# Largest difference allowed, in levels, or for `normalize` in numbers; where none is, none is.
# Sums of float64 that end near a level round either way.
TOLERANCE = {'rotation': 1, 'normalize': 1e-6}
NUMBERS = 6  # of a case
EXPAND, CENTER, COLORED = 1, 2, 4  # what a rotation shall do besides
DRAWS = 4000
# Equal distributions are further apart in one of a thousand cases.
DISTANCE = 1.95 * (2 / DRAWS) ** 0.5

Case = collections.namedtuple('Case', 'kind pixels numbers')


def noise(random, *shape):
    return random.integers(0, 256, shape, dtype=numpy.uint8)


def images(random, photos):
    def waves(height, width):
        y, x = numpy.mgrid[:height, :width]
        return numpy.stack([127.5 + 127.5 * numpy.sin(x * a + y * b)
                            for a, b in ((0.1, 0.03), (0.02, 0.2), (0.3, 0.3))],
                           axis=-1).astype(numpy.uint8)

    for shape in ((61, 47, 3), (40, 70, 1), (1, 9, 3), (5, 1, 1), (2, 3, 3), (200, 300, 3)):
        yield noise(random, *shape)
    yield waves(120, 200)
    yield noise(random, 32, 32, 3)
    yield noise(random, 28, 28, 1)
    for photo in photos:
        yield numpy.asarray(PIL.Image.open(photo).convert('RGB'))


def geometry_cases(pixels):
    height, width, _ = pixels.shape
    sizes = {(height // 2 + 1, width // 2 + 1), (height, max(width // 3, 1)),
             (height * 2 + 1, width), (max(height // 7, 1), width + 13), (24, 24), (1, 1),
             (33, 50), (height, width), (64, 3)}
    for rows, columns in sorted(sizes):
        for interpolation in (NEAREST, BILINEAR, BICUBIC):
            yield 'resize', (rows, columns, interpolation)
            top, left = height // 3, width // 4
            part = (top, left, (height - top + 1) // 2, (width - left + 1) // 2)
            yield 'resized_crop', (*part, rows * 4096 + columns, interpolation)
        yield 'center_crop', (rows, columns)
    for size in (1, 17, 40):
        for interpolation in (NEAREST, BILINEAR, BICUBIC):
            yield 'shorter_side', (size, interpolation)
    yield 'horizontal_flip', ()
    yield 'vertical_flip', ()
    for padding in (0, 4):
        for mode in range(len(PADDINGS)):
            if mode >= PADDINGS.index('reflect') and min(height, width) <= padding:
                continue  # there is not so much to be mirrored
            for draw in range(4):
                rows, columns = height // 2 + 1 + padding, width // 2 + 1 + padding
                yield 'random_crop', (rows, columns, padding, mode, 77, draw)


def colour_cases():
    for factor in (0, 0.31, 0.8, 1, 1.27, 2.5):
        for kind in ('brightness', 'contrast', 'saturation'):
            yield kind, (factor,)
    for shift in (-0.5, -0.2, -0.01, 0, 0.1, 0.37, 0.5):
        yield 'hue', (shift,)
    for angle in (-170, -90, -33.3, 0, 7, 45, 90, 180, 630):
        for interpolation in (NEAREST, BILINEAR, BICUBIC):
            for wanted in (0, EXPAND, COLORED, EXPAND | COLORED):
                yield 'rotation', (angle, interpolation, 77, wanted)
            for center in ((0, 0), (20, 3.5), (-7, 100)):
                yield 'rotation', (angle, interpolation, 77, CENTER, *center)
                yield 'rotation', (angle, interpolation, 77, CENTER | EXPAND, *center)
    yield 'grayscale', (1,)
    yield 'grayscale', (3,)
    yield 'normalize', ()


def cases(photos):
    random = numpy.random.default_rng(1)
    for pixels in images(random, photos):
        for kind, numbers in (*geometry_cases(pixels), *colour_cases()):
            if kind != 'rotation' or pixels.shape[2] == 3 or not numbers[3] & COLORED:
                yield Case(kind, pixels, numbers)
    yield Case('drawn_crops', noise(random, 150, 200, 1), (DRAWS,))
    yield Case('drawn_holes', noise(random, 60, 80, 1), (DRAWS,))
    for factors, shifts in (((0.6, 0.9), (0, 0)), ((1, 1), (-0.1, 0.2)), ((0.5, 1.4), (-0.2, 0.05))):
        yield Case('drawn_colors', noise(random, 2, 2, 3), (DRAWS, *factors, *shifts))
    for degrees in ((-10, 30), (100, 170)):
        yield Case('drawn_angles', noise(random, 21, 21, 1), (DRAWS, *degrees))


def as_image(pixels):
    return PIL.Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)


def expected(kind, pixels, numbers):
    """What Pillow or torchvision makes of the pixels, [height, width, channels]."""
    image, channels = as_image(pixels), pixels.shape[2]
    if kind == 'resize':
        rows, columns, interpolation = numbers
        result = image.resize((columns, rows), FILTERS[interpolation])
    elif kind == 'resized_crop':
        *part, size, interpolation = numbers
        result = functional.resized_crop(image, *part, divmod(size, 4096), MODES[interpolation])
    elif kind == 'shorter_side':
        result = transforms.Resize(numbers[0], MODES[numbers[1]])(image)
    elif kind == 'center_crop':
        result = functional.center_crop(image, numbers)
    elif kind == 'rotation':
        angle, interpolation, level, wanted, *center = numbers
        fill = [level, 5, 200] if wanted & COLORED else [level] * channels
        result = functional.rotate(image, angle, MODES[interpolation], bool(wanted & EXPAND),
                                   center or None, fill)
    elif kind == 'horizontal_flip':
        result = functional.hflip(image)
    elif kind == 'vertical_flip':
        result = functional.vflip(image)
    elif kind == 'grayscale':
        result = functional.to_grayscale(image, numbers[0])
    elif kind == 'normalize':
        numbers = functional.normalize(functional.to_tensor(image), MEAN[:channels], STD[:channels])
        return numbers.permute(1, 2, 0).numpy()
    else:
        result = transforms.ColorJitter(**{kind: 2 * numbers})(image)
    return numpy.asarray(result).reshape(result.size[1], result.size[0], -1)


class Results:
    """What test_data has written, taken piece by piece."""

    def __init__(self, data):
        self.data, self.offset = data, 0

    def take(self, shape, dtype=numpy.uint8):
        count = int(numpy.prod(shape))
        piece = numpy.frombuffer(self.data, dtype, count, self.offset)
        self.offset += piece.nbytes
        return piece.reshape(shape)


def compare(case, results, worst):
    """An empty string, or what differs."""
    target = expected(*case)
    own = results.take(target.shape, target.dtype)
    difference = numpy.abs(own.astype(float) - target)
    worst[case.kind] = max(worst[case.kind], difference.max())
    if difference.max() <= TOLERANCE.get(case.kind, 0):
        return ''
    return (f'differs by up to {difference.max()} in {numpy.count_nonzero(difference)} of '
            f'{target.size} values')


def find_crop(case, results, places):
    """The result must be a part of the padded image."""
    rows, columns, padding, mode, fill, _ = case.numbers
    padded = functional.pad(as_image(case.pixels), padding, fill, PADDINGS[mode])
    padded = numpy.asarray(padded).reshape(padded.size[1], padded.size[0], -1)
    own = results.take((rows, columns, padded.shape[2]))
    corners = padded[:padded.shape[0] - rows + 1, :padded.shape[1] - columns + 1]
    for top, left in numpy.argwhere((corners == own[0, 0]).all(-1)):
        if numpy.array_equal(padded[top:top + rows, left:left + columns], own):
            places.add((top, left))
            return ''
    return 'is no part of the padded image'


def distance(first, second):
    """The largest difference between the distributions of two samples (Kolmogorov, Smirnov)."""
    both = numpy.sort(numpy.concatenate([first, second]))
    return numpy.abs(numpy.searchsorted(numpy.sort(first), both, 'right') / len(first)
                     - numpy.searchsorted(numpy.sort(second), both, 'right') / len(second)).max()


def compare_images(case, results):
    """What ranges lead to must be distributed as what torchvision makes of them."""
    _, *numbers = case.numbers
    if case.kind == 'drawn_colors':
        transform = transforms.ColorJitter(*[numbers[:2]] * 3, numbers[2:])
    else:
        transform = transforms.RandomRotation(numbers)
    torch.manual_seed(1)
    image, weights = as_image(case.pixels), numpy.arange(case.pixels.size)
    own = results.take((DRAWS, case.pixels.size)) @ weights
    target = [numpy.asarray(transform(image)).ravel() @ weights for _ in range(DRAWS)]
    return 'is distributed otherwise' if distance(own, numpy.array(target)) > DISTANCE else ''


def compare_draws(case, results):
    """The rectangles drawn, [top, left, height, width], must be distributed as torchvision's."""
    height, width, _ = case.pixels.shape
    torch.manual_seed(1)
    if case.kind == 'drawn_crops':
        own = results.take((DRAWS, 4), numpy.float64)
        crop = transforms.RandomResizedCrop(8)
        image = as_image(case.pixels)
        target = [crop.get_params(image, crop.scale, crop.ratio) for _ in range(DRAWS)]
    else:
        masks = results.take((DRAWS, height, width)) != 0
        own = []
        for mask in masks:
            rows, columns = numpy.flatnonzero(mask.any(1)), numpy.flatnonzero(mask.any(0))
            own.append((rows[0], columns[0], len(rows), len(columns)))
            if mask.sum() != len(rows) * len(columns):
                return 'erases what is no rectangle'
        erasing = transforms.RandomErasing()
        image = torch.zeros(1, height, width)
        target = [erasing.get_params(image, erasing.scale, erasing.ratio, [0])[:4]
                  for _ in range(DRAWS)]
    own, target = numpy.array(own, float), numpy.array(target, float)
    measures = {'area': lambda r: r[:, 2] * r[:, 3], 'shape': lambda r: r[:, 3] / r[:, 2],
                'top': lambda r: r[:, 0] / (height - r[:, 2] + 1),
                'left': lambda r: r[:, 1] / (width - r[:, 3] + 1)}
    return ', '.join(f'{name} is distributed otherwise' for name, measure in measures.items()
                     if distance(measure(own), measure(target)) > DISTANCE)


def run(tests, folder):
    """What test_data writes."""
    path = pathlib.Path(folder) / 'cases'
    with open(path, 'wb') as file:
        for kind, pixels, numbers in tests:
            padded = (*numbers, *[0] * (NUMBERS - len(numbers)))
            file.write(struct.pack(f'{4 + NUMBERS}d', KINDS.index(kind), *pixels.shape, *padded))
            file.write(pixels.tobytes())
    program = pathlib.Path(os.environ['FACULA_BIN_DIR']) / 'test_data'
    result = subprocess.run([program, '--gtest_filter=TransformsDump.Write'],
                            env=dict(os.environ, FACULA_TRANSFORM_CASES=str(path)),
                            capture_output=True, text=True)
    if result.returncode:
        sys.exit(f'test_data failed\n{result.stdout}{result.stderr}')
    return pathlib.Path(f'{path}.out').read_bytes()


def main():
    tests = list(cases(sys.argv[1:]))
    with tempfile.TemporaryDirectory() as folder:
        results = Results(run(tests, folder))
    problems, worst, places = 0, dict.fromkeys(KINDS, 0), set()
    for case in tests:
        if case.kind == 'random_crop':
            problem = find_crop(case, results, places)
        elif case.kind in ('drawn_colors', 'drawn_angles'):
            problem = compare_images(case, results)
        elif case.kind.startswith('drawn'):
            problem = compare_draws(case, results)
        else:
            problem = compare(case, results, worst)
        if problem:
            problems += 1
            print(f'{case.kind}{case.numbers} of {case.pixels.shape}: {problem}')
    count = collections.Counter(case.kind for case in tests)
    for kind in KINDS:
        print(f'{kind}: {count[kind]} cases, differences of at most {worst[kind]}')
    if results.offset != len(results.data):
        problems += 1
        print(f'{len(results.data)} bytes were written instead of {results.offset}')
    if len(places) < 20:
        problems += 1
        print(f'crops were drawn at {len(places)} places only')
    sys.exit(1 if problems else 0)


if __name__ == '__main__':
    main()
