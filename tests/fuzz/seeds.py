#!/usr/bin/env python3
"""Makes small valid files of every kind that a fuzz target reads, each a seed of its corpus.

usage: seeds.py FOLDER [SHARED_DATA]

Writes FOLDER/TARGET/* for the targets TARGET_fuzz. Files of others under SHARED_DATA that are small
enough join those made here. Needs NumPy, Pillow and PyTorch.
"""

import collections
import gzip
import io
import json
import lzma
import pathlib
import pickle
import struct
import sys
import tarfile
import zipfile

import numpy
import PIL.Image
import torch

LARGEST = 8192  # small inputs are read, and changed to some effect, many times as often
SUFFIXES = {
    'torch_file': ('.pt', '.pth', '.th', '.ptl'),
    'safetensors': ('.safetensors',),
    'npy': ('.npy',),
    'npz': ('.npz',),
    'jpeg': ('.jpg', '.jpeg'),
    'png': ('.png',),
}
DTYPES = ('<f4', '>f4', '<f8', '<f2', '>i2', '<i8', '|u1', '|b1', '<u2', '<c8')
STATES = (
    {},
    {'a': True, 'b': None, 'c': -17, 'd': 1.5e-7, 'e': 'text \u00e4 \\ " \n', 'f': {'g': {}}},
    {'model': {'weight': {'.tensor': '0123456789abcdef'}, 'bias': {'.tensor': '00'}},
     'optimizer': {'0': {'step': 3, 'loss': {'.number': 'nan'}}, 'raw': {'.bytes': '00ff7f'}},
     'name': {'.text': 'ff00'}, 'limits': {'low': {'.number': '-inf'}}},
)


def safetensors(tensors, metadata=None):
    header, end = {}, 0
    if metadata is not None:
        header['__metadata__'] = metadata
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {'dtype': dtype, 'shape': shape, 'data_offsets': [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    return struct.pack('<Q', len(text)) + text + bytes(end)


def safetensors_files():
    yield safetensors({})
    yield safetensors({'a': ('F32', [2, 3], 24), 'b': ('BF16', [4], 8), 'c': ('BOOL', [], 1)})
    yield safetensors({'layer.0.weight': ('F8_E4M3', [3, 0], 0), 'x': ('F4', [4], 2),
                       'y': ('I64', [1], 8)}, {'format': 'pt', 'author': '\u00e9'})


def numpy_arrays():
    numbers = numpy.arange(6).reshape(2, 3)
    for dtype in DTYPES:
        array = numbers.astype(dtype)
        yield {'a': array, 'columns': numpy.asfortranarray(array), 'scalar': array[0, 0],
               'empty': array[:0]}


def npy_files():
    for arrays in numpy_arrays():
        for array in arrays.values():
            out = io.BytesIO()
            numpy.save(out, array)
            yield out.getvalue()
    for version in ((1, 0), (2, 0), (3, 0)):
        out = io.BytesIO()
        numpy.lib.format.write_array(out, numpy.arange(3), version)
        yield out.getvalue()


def npz_files():
    for arrays in numpy_arrays():
        for save in (numpy.savez, numpy.savez_compressed):
            out = io.BytesIO()
            save(out, zeros=numpy.zeros((5, 8)), **arrays)
            yield out.getvalue()


def torch_objects():
    weight, shared = torch.arange(6.).reshape(2, 3), torch.arange(4)
    yield weight
    yield collections.OrderedDict(weight=weight, bias=torch.zeros(2, dtype=torch.bfloat16))
    yield {'model': {'a': shared[1:3], 'b': shared[::2], 'c': shared.view(2, 2).t()},
           'parameter': torch.nn.Parameter(weight), 'flags': torch.tensor([True, False])}
    yield {'step': 3, 'lr': 1e-3, 'name': 'x', 'none': None, 'betas': (0.9, 0.999),
           'set': {1, 2}, 'raw': b'\x00\xff', 'size': weight.size(), 'dtype': torch.float16,
           'device': torch.device('cuda', 0), 'complex': 1 + 2j, 'large': 1 << 80}
    yield torch.optim.Adam([torch.nn.Parameter(weight)]).state_dict()
    yield {'numpy': numpy.float32(1.5), 'counter': collections.Counter('aab'),
           'quantized': torch.quantize_per_tensor(weight, 0.1, 0, torch.qint8),
           'complex': torch.zeros(2, dtype=torch.complex64), 'expanded': weight[:1].expand(4, 3)}
    marked = weight.clone()
    marked.note = 'attribute'
    yield {'marked': marked, 'bytes': weight.storage().untyped()}
    yield {'sparse': torch.eye(2).to_sparse()}


def torch_files():
    for value in torch_objects():
        for is_zip in (True, False):
            out = io.BytesIO()
            torch.save(value, out, _use_new_zipfile_serialization=is_zip)
            yield out.getvalue()


def pickles():
    values = [None, True, [1, -2, 300, 70000, 1 << 40, 1 << 80], {'a': 'text', 'b': b'raw'},
              ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)), [0.5, float('inf')], {1, 2},
              frozenset([3]), 'line\n\u00e4\U0001f600', bytearray(b'xy'),
              collections.OrderedDict(a=1), collections.defaultdict(list, a=[1])]
    values.append([values[2], values[2], values[3]])
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        for value in values:
            yield pickle.dumps(value, protocol)


def zips():
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        out = io.BytesIO()
        with zipfile.ZipFile(out, 'w', method) as archive:
            archive.writestr('folder/a.txt', b'text' * 30)
            archive.writestr('empty', b'')
            with archive.open('wide', 'w', force_zip64=True) as member:
                member.write(bytes(100))
            archive.comment = b'comment'
        yield out.getvalue()


def tars():
    for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode='w', format=form) as archive:
            for name in ('folder/a.txt', 'b' * 90 + '/' + 'c' * 60, 'd\u00e4'):
                member = tarfile.TarInfo(name)
                member.size = 9
                archive.addfile(member, io.BytesIO(b'some text'))
        end = max(i for i, byte in enumerate(out.getvalue()) if byte) // 512 + 3
        yield out.getvalue()[:512 * end]


def compressed():
    for text in (b'', b'text', b'text' * 300, bytes(range(256))):
        yield gzip.compress(text)
        yield gzip.compress(text) + gzip.compress(text)
        for check in (lzma.CHECK_NONE, lzma.CHECK_CRC32, lzma.CHECK_CRC64, lzma.CHECK_SHA256):
            yield lzma.compress(text, check=check)
    yield b'neither'


def idx_files():
    for shape in ((3,), (2, 3), (2, 3, 4)):
        size = numpy.prod(shape)
        yield struct.pack(f'>BBBB{len(shape)}I', 0, 0, 8, len(shape), *shape) + bytes(size)


def cifar_files():
    yield b'\0' + b'\x07' + bytes(3072)
    yield b'\1' + b'\x13\x63' + bytes(3072)


def images(form):
    pixels = (numpy.arange(24 * 20 * 3) * 7 % 251).astype('uint8').reshape(24, 20, 3)
    options = [{}]
    if form == 'jpeg':
        options = [{'subsampling': s, 'progressive': p, 'quality': q}
                   for s in (0, 1, 2) for p in (False, True) for q in (30, 95)]
    modes = ('L', 'RGB', 'CMYK') if form == 'jpeg' else ('1', 'L', 'LA', 'P', 'RGB', 'RGBA', 'I')
    for mode in modes:
        for option in options:
            out = io.BytesIO()
            PIL.Image.fromarray(pixels).convert(mode).save(out, form, **option)
            yield out.getvalue()


def with_choices(image):
    """As image_fuzz.h wants them: each JPEG scale with another region, and the whole."""
    yield image + bytes(3) + b'\xff\xff\x07'
    for scale in range(4):
        yield image + bytes((scale, 40 * scale + 9, 70 - 20 * scale, 90, 160, 3 * scale))


def packed_files():
    """As src/data/packed_format.h describes them; the target puts the checksum right."""
    def text(value):
        return struct.pack('<I', len(value)) + value

    for channels, names in ((1, (b'cat', b'dog')), (3, ())):
        index = text(b'set') + struct.pack('<QI', 2, len(names)) + b''.join(map(text, names))
        index += struct.pack(f'<I{2 * channels}d', channels, *[0.5] * 2 * channels)
        index += struct.pack('<Q', 2)
        for label in (0, 1):
            index += struct.pack('<QQIIII', 64 * (label + 1), label, 4, 5, channels, 3)
        index += b'a/0' b'b/1'
        start = b'FACULApk' + struct.pack('<I', 1)
        trailer = struct.pack('<QQII', 192, len(index), 0, 1) + b'FACULApk'
        yield start.ljust(192, b'\0') + index + trailer


def files_of(archive):
    """Names and contents in a tar archive."""
    with tarfile.open(archive) as members:
        for member in members:
            if member.isfile():
                yield member.name, members.extractfile(member).read()


def main():
    folder = pathlib.Path(sys.argv[1])
    counts = collections.Counter()

    def add(target, data):
        if len(data) > LARGEST:
            return
        (folder / target).mkdir(parents=True, exist_ok=True)
        for seed in with_choices(data) if target in ('jpeg', 'png') else [data]:
            (folder / target / f'{counts[target]:04}').write_bytes(seed)
            counts[target] += 1
        if target in ('torch_file', 'npz') and zipfile.is_zipfile(io.BytesIO(data)):
            add('zip', data)
        if target == 'torch_file' and zipfile.is_zipfile(io.BytesIO(data)):
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                for name in archive.namelist():
                    if name.endswith('.pkl'):
                        add('pickle', archive.read(name))

    makers = {'safetensors': safetensors_files(), 'npy': npy_files(), 'npz': npz_files(),
              'torch_file': torch_files(), 'pickle': pickles(), 'zip': zips(), 'tar': tars(),
              'compression': compressed(), 'idx': idx_files(), 'cifar': cifar_files(),
              'jpeg': images('jpeg'), 'png': images('png'), 'packed': packed_files(),
              'state_json': (json.dumps(state).encode() for state in STATES)}
    for target, files in makers.items():
        for data in files:
            add(target, data)
    if len(sys.argv) > 2:
        for archive in ('models/models.tar.xz', 'images/jpeg-tests.tar.xz'):
            for name, data in files_of(pathlib.Path(sys.argv[2]) / archive):
                for target, suffixes in SUFFIXES.items():
                    if name.endswith(suffixes):
                        add(target, data)
    print(', '.join(f'{count} {target}' for target, count in sorted(counts.items())))


if __name__ == '__main__':
    main()
