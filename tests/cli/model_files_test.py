#!/usr/bin/env python3
"""Runs `facula inspect`, `convert` and `diff` on files made here.

FACULA_BIN_DIR says where the program is.
"""

import io
import json
import os
import pathlib
import struct
import subprocess
import tempfile
import unittest
import zipfile

PROGRAM = os.path.join(os.environ['FACULA_BIN_DIR'], 'facula')


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True,
                          timeout=60, check=False)


def safetensors(tensors, metadata=None):
    """tensors: name -> (dtype, shape, bytes)."""
    header, data = {}, b''
    if metadata:
        header['__metadata__'] = metadata
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {'dtype': dtype, 'shape': shape,
                        'data_offsets': [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    return struct.pack('<Q', len(text)) + text + data


def floats(*values):
    return struct.pack(f'<{len(values)}f', *values)


def npy(descr, shape, data):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b'\x93NUMPY\x01\x00' + struct.pack('<H', len(header)) + header + data


WEIGHTS = {'fc.weight': ('F32', [2, 3], floats(1, 2, 3, 4, 5, 6)),
           'fc.bias': ('F32', [2], floats(0.5, -0.5)),
           'steps': ('I64', [], struct.pack('<q', 7))}


class ModelFilesTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def write(self, name, content):
        path = self.folder / name
        path.write_bytes(content)
        return path

    def inspect(self, path, status=0):
        done = run('inspect', path, '--json')
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 1)
        return json.loads(done.stdout)

    def test_inspect(self):
        # The name plays no part.
        path = self.write('weights.pth', safetensors(WEIGHTS, {'epoch': '3'}))
        found = self.inspect(path)
        self.assertEqual((found['format'], found['valid'], found['tensor_bytes']),
                         ('safetensors', True, 40))
        self.assertEqual(found['tensors'][0], {'name': 'fc.weight', 'dtype': 'F32',
                                               'shape': [2, 3], 'bytes': 24})
        self.assertEqual(found['metadata'], {'epoch': '3'})
        text = run('inspect', path).stdout
        for part in ('safetensors', 'valid', 'fc.weight', 'F32', '[2, 3]', '24 bytes', '3 tensors',
                     'epoch = 3'):
            self.assertIn(part, text)

    def test_inspect_says_why_a_file_is_refused(self):
        lacking = self.write('u.safetensors', safetensors({'u': ('U64', [1], bytes(8))}))
        found = self.inspect(lacking, 1)
        self.assertEqual(found['tensors'][0]['dtype'], 'U64')
        self.assertIn('U64, which Facula lacks', found['refusal'])
        others = {b'': 'an empty file', b'GGUF\3\0\0\0': 'GGUF', b'\x89HDF\r\n\x1a\n': 'HDF5',
                  b'\x08\x07\x12\x07pytorch': 'ONNX', b'<!DOCTYPE html>': 'a web page',
                  b'version https://git-lfs.github.com/spec/v1\n': 'git lfs pull',
                  b'\x80\x02}q\x00.': 'pickle', b'hello, world': 'unknown',
                  safetensors(WEIGHTS)[:-1]: 'bytes'}
        for content, part in others.items():
            found = self.inspect(self.write('x.safetensors', content), 1)
            self.assertFalse(found['valid'])
            self.assertIn(part, found['format'] + found['refusal'])
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, 'w') as zipped:
            zipped.writestr('notes.txt', 'hello')
        found = self.inspect(self.write('z.pt', archive.getvalue()), 1)
        self.assertIn('zip archive', found['refusal'])
        self.assertEqual(run('inspect', self.folder / 'absent').returncode, 1)

    def test_control_characters_stay_in_the_file(self):
        path = self.write('m', safetensors({'a\x1b[2J': ('U8', [1], b'1')}, {'k': '\x1b]0;\x07'}))
        self.assertNotIn('\x1b', run('inspect', path).stdout)

    def test_convert_round_trip(self):
        first = self.write('a.safetensors', safetensors(WEIGHTS, {'epoch': '3'}))
        path = first
        for name in ('b.pth', 'c.npz', 'd.th', 'e.safetensors'):
            done = run('convert', path, self.folder / name)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn('3 tensors', done.stdout)
            self.assertEqual('epoch' in done.stdout, path == first)
            path = self.folder / name
            self.assertEqual(run('diff', first, path).returncode, 0)
        self.assertEqual(self.inspect(self.folder / 'b.pth')['format'], 'torch zip')
        self.assertEqual(self.inspect(self.folder / 'c.npz')['format'], 'npz')
        run('convert', first, self.folder / 'f.safetensors')
        self.assertEqual(self.inspect(self.folder / 'f.safetensors')['metadata'], {'epoch': '3'})

    def test_convert_errors(self):
        half = self.write('a.safetensors', safetensors({'h': ('BF16', [1], b'12')}))
        for target, part in (('b.onnx', 'says no format'), ('b.npz', 'bfloat16')):
            done = run('convert', half, self.folder / target)
            self.assertEqual(done.returncode, 1)
            self.assertIn(part, done.stderr)
            self.assertFalse((self.folder / target).exists())

    def test_diff(self):
        a = self.write('a', safetensors({**WEIGHTS, 'old': ('U8', [1], b'1')}))
        changed = {**WEIGHTS, 'fc.weight': ('F32', [2, 3], floats(1, 2, 3, 4, 5, 6.0000005)),
                   'fc.bias': ('F32', [1, 2], floats(0.5, -0.5)), 'new': ('U8', [1], b'1')}
        b = self.write('b', safetensors(changed))
        done = run('diff', a, b)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stdout.splitlines(), [
            '"fc.bias": float32 [2] against float32 [1, 2]',
            '"fc.weight": 1 of 6 elements differ, by at most 4.77e-07, relative 7.95e-08, 1 ULP',
            f'only in {b}: "new"', f'only in {a}: "old"',
            '1 tensors equal in all bits, 4 differ'])
        found = json.loads(run('diff', a, b, '--json').stdout)
        self.assertEqual([d['name'] for d in found['different']],
                         ['fc.bias', 'fc.weight', 'new', 'old'])
        self.assertEqual(found['different'][1]['max_ulp'], 1)
        self.assertEqual(run('diff', a, a).returncode, 0)
        self.assertEqual(run('diff', a, self.folder / 'absent').returncode, 2)
        with open('/dev/full', 'w', encoding='ascii') as full:
            done = subprocess.run([PROGRAM, 'diff', a, a], stdout=full, stderr=subprocess.PIPE,
                                  text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn('cannot write the output', done.stderr)
        many = [self.write(name, safetensors({f'tensor {i}': ('F32', [1], floats(value))
                                              for i in range(500)}))
                for name, value in (('ones', 1), ('twos', 2))]
        with open('/dev/full', 'w', encoding='ascii') as full:  # more than stdio keeps
            done = subprocess.run([PROGRAM, 'diff', *many], stdout=full, stderr=subprocess.PIPE,
                                  timeout=60, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f'{self.folder}/a  b', run('diff', a, self.folder / 'a  b').stderr)

    def test_diff_of_special_values(self):
        def bits(*values):
            return self.write('x', safetensors({'t': ('F32', [len(values)], floats(*values))}))

        first = bits(0.0, float('nan'), float('inf')).rename(self.folder / 'first')
        done = run('diff', first, bits(-0.0, 1.0, float('inf')), '--json')
        (found,) = json.loads(done.stdout)['different']
        self.assertEqual((found['elements'], found['max_abs'], found['max_ulp'], found['nan']),
                         (2, 0, 0, True))

    def test_diff_of_distances_that_doubles_cannot_tell(self):
        def file(name, kind, text):
            return self.write(name, safetensors({'t': (kind, [1], text)}))

        def found(a, b):
            return json.loads(run('diff', a, b, '--json').stdout)['different'][0]

        beyond = [file(f'i{k}', 'I64', struct.pack('<q', 2**53 + k)) for k in range(2)]
        self.assertEqual(found(*beyond)['max_abs'], 1)
        halfway = [file(f'h{k}', 'I64', struct.pack('<q', 2**53 + k)) for k in (0, 3)]
        self.assertEqual(found(*halfway)['max_abs'], 3)
        apart = [file(f'a{k}', 'I64', struct.pack('<q', k)) for k in (-2**63, 2**63 - 1)]
        self.assertAlmostEqual(found(*apart)['max_abs'] / 2**64, 1)
        infinite = found(file('one', 'F32', floats(1)), file('inf', 'F32', floats(float('inf'))))
        self.assertEqual((infinite['max_abs'], infinite['max_rel']), (None, None))

    def test_big_endian_npy(self):
        a = self.write('a.npy', npy('>f4', (2,), struct.pack('>2f', 1, 2)))
        b = self.write('b.npy', npy('<f4', (2,), floats(1, 2)))
        self.assertEqual(run('diff', a, b).returncode, 0)


if __name__ == '__main__':
    unittest.main()
