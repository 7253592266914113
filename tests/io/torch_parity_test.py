#!/usr/bin/env python3
"""Files that PyTorch saves load as PyTorch loads them, and PyTorch loads what is saved here.

usage: torch_parity_test.py

test_io reads and writes the files. Exits with 77 where PyTorch is absent.
"""

import collections
import inspect
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError as error:
    print(f'skipped: {error}')
    sys.exit(77)

DTYPES = ('float32', 'float64', 'float16', 'bfloat16', 'int64', 'int32', 'int16', 'int8', 'uint8',
          'bool')
LACKING = ('complex64', 'complex128', 'uint16', 'uint32', 'float8_e4m3fn')


def of_every_dtype():
    return {name: (torch.arange(12).reshape(3, 4) % 2 + 1).to(getattr(torch, name))
            for name in DTYPES}


def views():
    base = torch.arange(60, dtype=torch.float32)
    matrix = base.view(6, 10)
    return {'whole': matrix, 'row': matrix[2], 'column': matrix[:, 3], 'turned': matrix.t(),
            'block': matrix[1:4, 2:8:2], 'expanded': base[:1].expand(5), 'scalar': base[7],
            'empty': base[:0], 'none': torch.empty(0, 3),
            'nhwc': torch.rand(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)}


def training_state():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Flatten(),
                                torch.nn.Linear(8, 4))
    optimizer = torch.optim.Adam(model.parameters(), amsgrad=True)
    model(torch.rand(2, 3, 3, 3)).sum().backward()
    optimizer.step()
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 5])
    return {'model': model.state_dict(), 'optimizer': optimizer.state_dict(),
            'schedule': schedule.state_dict(), 'epoch': 3, 'best': 0.5, 'name': 'x', 'none': None,
            'seed': torch.initial_seed(), 'rng': torch.get_rng_state(), 'size': torch.Size([2, 3]),
            'device': torch.device('cpu'), 'dtype': torch.float16, 'set': {1, 2}, 'bytes': b'\x00\xff',
            'big': 2 ** 70, 'complex': 1 + 2j, 'counter': collections.Counter('abca'),
            'nested': [1, (2, torch.ones(2)), {'a': [torch.zeros(1)]}],
            5: torch.ones(1), 'parameter': torch.nn.Parameter(torch.ones(2))}


def values(tensor):
    return tensor.detach().to(torch.float64).reshape(-1).tolist()


def flatten(value, name=''):
    """(name, tensor) of all tensors below value, under the names that StateDict gives them."""
    if isinstance(value, torch.Tensor):
        yield name or 'tensor', value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from flatten(item, f'{name}.{key}' if name else str(key))
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield from flatten(item, f'{name}.{i}' if name else str(i))


def make_files(folder):
    """Returns {path: what is in it}; None for files that cannot be loaded."""
    files = {}

    def save(value, name, expected='same', **options):
        path = str(folder / name)
        torch.save(value, path, **options)
        files[path] = value if expected == 'same' else expected

    contents = {'dtypes': of_every_dtype(), 'views': views(), 'training': training_state(),
                'tensor': torch.rand(3), 'list': [torch.rand(2), torch.rand(3)]}
    for name, value in contents.items():
        for protocol in (2, 3, 4, 5):
            save(value, f'{name}_{protocol}.pt', pickle_protocol=protocol)
            save(value, f'{name}_{protocol}.pth', pickle_protocol=protocol,
                 _use_new_zipfile_serialization=False)
    save(training_state()['model'], 'ordered.pt')
    for name in LACKING:
        if hasattr(torch, name):
            lacking = {'x': torch.ones(2).to(getattr(torch, name))}
            save(lacking, f'{name}.pt', None)
            save(lacking, f'{name}.pth', None, _use_new_zipfile_serialization=False)
    for name, tensor in (('sparse', torch.eye(2).to_sparse()), ('csr', torch.eye(2).to_sparse_csr()),
                         ('meta', torch.ones(2, device='meta'))):
        save({'x': tensor}, f'{name}.pt', None)
    marked = torch.ones(3)
    marked.note = 'an attribute'
    save({'x': marked, 'y': torch.zeros(2)}, 'attributes.pt')
    scripted = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)))
    path = str(folder / 'scripted.pt')
    torch.jit.save(scripted, path)
    files[path] = dict(scripted.state_dict())
    save(torch.nn.Linear(2, 2), 'module.pt', None)  # names a class of Python's
    return files


def load(path):
    safe = 'weights_only' in inspect.signature(torch.load).parameters
    return torch.load(path, **({'weights_only': True} if safe else {}))


def compare(name, ours, theirs):
    """ours: {name: (dtype, shape, elements)}"""
    expected = dict(flatten(theirs))
    if list(ours) != list(expected):
        return [f'{name}: has {list(ours)}, expected {list(expected)}']
    problems = []
    for key, tensor in expected.items():
        wanted = (str(tensor.dtype).removeprefix('torch.'), list(tensor.shape), values(tensor))
        if ours[key] != wanted:
            problems.append(f'{name}: {key} is {ours[key]}, expected {wanted}')
    return problems


def main():
    with tempfile.TemporaryDirectory() as folder:
        files = make_files(pathlib.Path(folder))
        listing = pathlib.Path(folder, 'list')
        listing.write_text(''.join(f'{path}\n' for path in files))
        program = pathlib.Path(os.environ['FACULA_BIN_DIR'], 'test_io')
        subprocess.run([program, '--gtest_filter=TorchDump.*'], check=True,
                       stdout=subprocess.DEVNULL, env={**os.environ, 'FACULA_TORCH_FILES': listing})
        ours = {path: {} for path in files}
        refused = {}
        for line in pathlib.Path(f'{listing}.out').read_text().splitlines():
            path, *fields = line.split('\t')
            if len(fields) == 4:
                name, dtype, shape, elements = fields
                shape = [int(size) for size in shape.strip('[]').split(', ') if size]
                ours[path][name] = (dtype, shape, [float(e) for e in elements.split()])
            else:
                refused[path] = fields[0]
        problems = []
        for path, value in files.items():
            if value is None or path in refused:
                if (value is None) != (path in refused):
                    problems.append(f'{path}: {refused.get(path, "was read")}')
                continue
            problems += compare(path, ours[path], value)
            again = load(f'{path}.again')
            problems += compare(f'{path} saved again', ours[path], again)
            if any('.' in key and isinstance(item, dict) for key, item in again.items()):
                problems.append(f'{path} saved again: not one dictionary')
            shared = {t.data_ptr() - t.storage_offset() * t.element_size()
                      for key, t in flatten(again) if key in ('row', 'column', 'turned')}
            if 'views' in path and len(shared) != 1:
                problems.append(f'{path} saved again: storages are no longer shared')
    for problem in problems:
        print(problem[:2000])
    print(f'PyTorch {torch.__version__}: {len(files)} files, {len(refused)} refused, '
          f'{len(problems)} problems')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
