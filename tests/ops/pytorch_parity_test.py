#!/usr/bin/env python3
"""Every op agrees with PyTorch: results, dtypes and gradients on the op's own samples.

test_ops writes all sample calls into a file; this script repeats them with torch and compares. An op
is looked up as torch.<name>, torch.nn.functional.<name>, torch.Tensor.<name> or torch.ops.aten.<name>
unless CALLS in pytorch_calls.py says otherwise. Ops without counterpart stand in NO_COUNTERPART with the
reason; an op that is in neither place fails the test.
"""

import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError:
    print('PyTorch is not installed')
    sys.exit(77)

from pytorch_calls import CALLS, NO_COUNTERPART, NOT_DIFFERENTIABLE, find

DTYPES = {'F32': torch.float32, 'F64': torch.float64, 'I32': torch.int32, 'I64': torch.int64,
          'U8': torch.uint8, 'BOOL': torch.bool, 'F16': torch.float16, 'BF16': torch.bfloat16,
          'I8': torch.int8, 'I16': torch.int16}


class Dump:
    """Reads the safetensors file that test_ops has written."""

    def __init__(self, path):
        data = bytearray(path.read_bytes())
        length = struct.unpack_from('<Q', data)[0]
        self.header = json.loads(data[8:8 + length])
        self.metadata = self.header.pop('__metadata__')
        self.data, self.start = data, 8 + length

    def tensor(self, name):
        entry = self.header[name]
        begin, end = entry['data_offsets']
        if begin == end:
            return torch.empty(entry['shape'], dtype=DTYPES[entry['dtype']])
        values = torch.frombuffer(self.data, dtype=torch.uint8, offset=self.start + begin,
                                  count=end - begin).clone()
        return values.view(DTYPES[entry['dtype']]).reshape(entry['shape'])

    def value(self, text):
        if isinstance(text, list):
            return [self.value(entry) for entry in text]
        if not isinstance(text, dict):
            return text
        if 'tensor' in text:
            return self.tensor(text['tensor'])
        return float(text['float']) if 'float' in text else getattr(torch, text['dtype'])


def as_list(results):
    return list(results) if isinstance(results, (tuple, list)) else [results]


def seed_gradient(like):
    values = torch.tensor([1 + i % 13 / 8 for i in range(like.numel())], dtype=torch.float64)
    return values.to(like.dtype).reshape(like.shape)


def difference(ours, theirs, what):
    if theirs is None or ours is None:
        present = theirs if ours is None else ours
        if present is not None and bool((present != 0).any()):
            return f'{what}: only one side has one'
        return None
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return (f'{what}: {ours.dtype} {list(ours.shape)}, PyTorch has {theirs.dtype} '
                f'{list(theirs.shape)}')
    if ours.numel() and not torch.allclose(ours.double(), theirs.double(), rtol=1e-4, atol=2e-5,
                                           equal_nan=True):
        worst = (ours.double() - theirs.double()).abs().max()
        return f'{what}: differs by up to {worst:.3g}'
    return None


def compare(name, function, call, dump):
    """The first difference of one call, or None."""
    arguments = dump.value(call['arguments'])
    leaves = []

    def prepare(value):
        if isinstance(value, list):
            return [prepare(entry) for entry in value]
        if (isinstance(value, torch.Tensor) and value.is_floating_point()
                and name not in NOT_DIFFERENTIABLE):
            leaves.append(value.requires_grad_())
        return value
    arguments = prepare(arguments)
    theirs = as_list(function(*arguments))
    ours = dump.value(call['results'])
    if len(ours) != len(theirs):
        return f'{len(ours)} results, PyTorch has {len(theirs)}'
    for i, (a, b) in enumerate(zip(ours, theirs)):
        found = difference(a, b.detach(), f'result {i}')
        if found:
            return found
    outputs = [t for t in theirs if t.requires_grad]
    if not outputs:
        return None
    if not call['differentiable']:
        return 'PyTorch gives a gradient here'
    gradients = torch.autograd.grad(outputs, leaves, [seed_gradient(t) for t in outputs],
                                    allow_unused=True)
    for i, (a, b) in enumerate(zip(dump.value(call['gradients']), gradients)):
        found = difference(a, b, f'gradient {i}')
        if found:
            return found
    return None


def main():
    program = pathlib.Path(os.environ['FACULA_BIN_DIR']) / 'test_ops'
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / 'ops'
        result = subprocess.run([program, '--gtest_filter=OpDump.Write'],
                                env=dict(os.environ, FACULA_OP_DUMP=str(path)),
                                capture_output=True, text=True)
        if result.returncode:
            sys.exit(f'test_ops failed\n{result.stdout}{result.stderr}')
        dump = Dump(path)
    names = sorted(name for name in dump.metadata if '/' not in name)
    failures, compared, calls, gradients = [], 0, 0, 0
    for name in names:
        if name in NO_COUNTERPART:
            continue
        function = find(name)
        if function is None:
            failures.append(f'{name}: torch has no such function; add it to CALLS or, with the '
                            'reason, to NO_COUNTERPART')
            continue
        compared += 1
        for index in range(len(dump.metadata)):
            key = f'{name}/{index}'
            if key not in dump.metadata:
                break
            call = json.loads(dump.metadata[key])
            calls += 1
            gradients += call['differentiable']
            try:
                found = compare(name, function, call, dump)
            except Exception as error:  # whatever torch throws belongs into the list
                found = f'torch failed: {type(error).__name__}: {error}'.splitlines()[0]
            if found:
                failures.append(f'{key}: {found}')
    for name in sorted(set(CALLS) | set(NO_COUNTERPART)):
        if name not in names:
            print(f'note: {name} is listed here, but there is no such op')
    for failure in failures:
        print(failure)
    print(f'{compared} of {len(names)} ops compared with torch {torch.__version__}: {calls} calls, '
          f'{gradients} with gradients; {len(set(names) & set(NO_COUNTERPART))} have no counterpart')
    for name in sorted(set(names) & set(NO_COUNTERPART)):
        print(f'  {name}: {NO_COUNTERPART[name]}')
    sys.exit(1 if failures else 0)


if __name__ == '__main__':
    main()
