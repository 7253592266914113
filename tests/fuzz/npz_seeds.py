#!/usr/bin/env python3
"""Makes seeds for the fuzz target of npz files: of several dtypes, byte orders and layouts, stored
and compressed. Needs NumPy.

usage: npz_seeds.py FOLDER
"""

import pathlib
import sys

import numpy


DTYPES = ('<f4', '>f4', '<f8', '<f2', '>i2', '<i8', '|u1', '|b1', '<u2', '<c8')


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    numbers = numpy.arange(6).reshape(2, 3)
    for i, dtype in enumerate(DTYPES):
        array = numbers.astype(dtype)
        arrays = {'a': array, 'columns': numpy.asfortranarray(array), 'scalar': array[0, 0],
                  'empty': array[:0]}
        numpy.savez(folder / f'stored{i}.npz', **arrays)
        numpy.savez_compressed(folder / f'packed{i}.npz', zeros=numpy.zeros((50, 50)), **arrays)


if __name__ == '__main__':
    main()
