#!/usr/bin/env python3
"""Runs the program `facula`: errors, JSON, a whole training run on a tiny generated data set.

FACULA_BIN_DIR says where the program is.
"""

import array
import gzip
import json
import math
import os
import pathlib
import random
import re
import struct
import subprocess
import tempfile
import time
import unittest
import zlib

PROGRAM = os.path.abspath(os.path.join(os.environ['FACULA_BIN_DIR'], 'facula'))


def run(*arguments, timeout=120, **environment):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True,
                          timeout=timeout, check=False, env={**os.environ, **environment})


def write_idx(path, dims, data):
    content = struct.pack(f'>HBB{len(dims)}I', 0, 8, len(dims), *dims) + bytes(data)
    path.write_bytes(gzip.compress(content) if path.suffix == '.gz' else content)


def make_mnist(folder, train=96, test=32):
    """Noise with one bright row, which tells the class."""
    generator = random.Random(0)
    for prefix, count in (('train', train), ('t10k', test)):
        labels = [generator.randrange(10) for _ in range(count)]
        pixels = bytearray(generator.randrange(60) for _ in range(count * 784))
        for i, label in enumerate(labels):
            start = i * 784 + (4 + 2 * label) * 28
            pixels[start:start + 28] = bytes([250]) * 28
        write_idx(folder / f'{prefix}-images-idx3-ubyte.gz', (count, 28, 28), pixels)
        write_idx(folder / f'{prefix}-labels-idx1-ubyte', (count,), labels)


def write_png(path, side):
    """Grey noise."""
    generator = random.Random(side)
    rows = b''.join(b'\0' + bytes(generator.randrange(256) for _ in range(side))
                    for _ in range(side))
    content = b'\x89PNG\r\n\x1a\n'
    for name, data in ((b'IHDR', struct.pack('>2I5B', side, side, 8, 0, 0, 0, 0)),
                       (b'IDAT', zlib.compress(rows)), (b'IEND', b'')):
        content += struct.pack('>I', len(data)) + name + data
        content += struct.pack('>I', zlib.crc32(name + data))
    path.write_bytes(content)


def read_safetensors(path):
    """The header and the bytes of the tensors."""
    content = path.read_bytes()
    (length,) = struct.unpack('<Q', content[:8])
    return json.loads(content[8:8 + length]), content[8 + length:]


class ProgramTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        make_mnist(cls.folder)
        cls.data = f'mnist:{cls.folder}'

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def train_arguments(self, *more, out='run'):
        return ['train', '--model', 'mlp', '--data', self.data, '--batch', 16,
                '--out', self.folder / out, *more]

    def expect_error(self, status, parts, *arguments):
        done = run(*arguments)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(done.stdout, '')
        last = done.stderr.strip().splitlines()[-1]
        self.assertTrue(last.startswith('facula: '), last)
        for part in parts:
            self.assertIn(part, last)
        return done

    def expect_usage_error(self, parts, *arguments):
        done = self.expect_error(2, parts, *arguments)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def one_json_line(self, *arguments):
        done = run(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        (line,) = done.stdout.splitlines()
        return json.loads(line)


class Usage(ProgramTest):
    def test_help_and_version(self):
        for words in (['--help'], ['--version'], ['train', '--help'], ['bench', '--help']):
            done = run(*words)
            self.assertEqual(done.returncode, 0)
            self.assertTrue(done.stdout)
            self.assertEqual(done.stderr, '')

    def test_wrong_command_lines(self):
        self.expect_usage_error(['no command', 'train'])
        self.expect_usage_error(["unknown command 'bogus'; the commands are"], 'bogus')
        self.expect_usage_error(['--model'], 'train', '--data', self.data)
        self.expect_usage_error(['--out', 'is empty'], 'train', '--model', 'mlp', '--data',
                                self.data, '--out', '')
        self.expect_usage_error(['unknown option --lrr', 'did you mean --lr?'],
                                *self.train_arguments('--lrr', 1))
        self.expect_usage_error(['unknown option --foo'], *self.train_arguments('--foo', 3))
        self.expect_usage_error(["unknown command 'trian'", 'did you mean train?', 'inspect'], 'trian')
        self.expect_usage_error(["unknown command 'benhc'", 'did you mean bench?'], 'data', 'benhc')
        self.expect_usage_error(['no command', 'bench, pack'], 'data')
        self.expect_usage_error(["unexpected 'twice'"], 'info', 'twice')
        self.expect_usage_error(["unexpected 'info'"], 'bench', 'net', 'info')
        self.expect_usage_error(['unknown option --modle', '--model'], 'eval', '--modle', 'mlp')
        self.expect_usage_error(["'-1'"], *self.train_arguments('--lr', -1))
        self.expect_usage_error(["'nan'"], *self.train_arguments('--lr', 'nan'))
        self.expect_usage_error(["'inf'"], *self.train_arguments('--lr', 'inf'))
        for lr in ('0x10', ' 0.1', '0.1 ', '0.1x', '+0.1', ''):
            self.expect_usage_error([f"'{lr}' is not a number of at least 0"],
                                    *self.train_arguments('--lr', lr))
        for lr in ('1e-400', '1e400'):
            self.expect_usage_error([f"'{lr}' is too large or too close to 0"],
                                    *self.train_arguments('--lr', lr))
        self.expect_usage_error(["'0x0.8'"], *self.train_arguments('--val-split', '0x0.8'))
        self.expect_usage_error(["'-1'"], *self.train_arguments('--seed', -1))
        for epochs in ('99999999999999999999', '1.5', '3x', '', '010', '0x10', '+3'):
            self.expect_usage_error([f"'{epochs}'", 'whole number from 1 to'],
                                    *self.train_arguments('--epochs', epochs))
        self.expect_usage_error(["'1.5'"], *self.train_arguments('--val-split', 1.5))
        self.expect_usage_error(['--epochs'], *self.train_arguments('--epochs', 0))
        self.expect_usage_error(['--epochs', 'more than can be counted'],
                                *self.train_arguments('--epochs', 2**62, '--schedule', 'onecycle'))
        self.expect_usage_error(['sgdd', 'adamw'], *self.train_arguments('--optimizer', 'sgdd'))
        self.expect_usage_error(['rotate', 'flip'], *self.train_arguments('--augment', 'rotate'))
        self.expect_usage_error(['97', '96'], *self.train_arguments('--subset', 97))
        self.expect_usage_error(['none', 'contradicts'],
                                *self.train_arguments('--augment', 'none,flip'))
        for more in (['--optimizer', 'adam'], ['--schedule', 'onecycle']):
            self.expect_usage_error(['--momentum', more[1]],
                                    *self.train_arguments('--momentum', 0.5, *more))
        self.expect_usage_error(['data', 'KIND:PATH'], 'train', '--model', 'mlp', '--data', 'mnist')
        for mean, wrong in (('', ''), ('0.5,,0.5', ''), ('0.5,', ''), (',', ''), ('0.5,x', 'x')):
            for option in ('--mean', '--std'):
                self.expect_usage_error([option, f"'{wrong}' is not a number"], 'eval', '--model',
                                        'mlp', '--weights', 'x', '--data', self.data, option, mean)
        self.expect_usage_error(['--val-split', 'fraction'],
                                *self.train_arguments('--val-split', 0.001, '--subset', 10))
        for words in (self.train_arguments(), ['bench', 'eager-add'],
                      ['eval', '--model', 'mlp', '--weights', 'x', '--data', self.data]):
            self.expect_usage_error(['--batch', "'0'", 'from 1 to'], *words, '--batch', 0)
            for threads in (0, 1025, 100000):
                self.expect_usage_error(['--threads', 'from 1 to 1024'],
                                        *words, '--threads', threads)

    def test_output_that_cannot_be_written(self):
        for words in (['hub', 'list'], ['--help'], ['train', '--help'], ['--version']):
            with open('/dev/full', 'w', encoding='ascii') as full:
                done = subprocess.run([PROGRAM, *words], stdout=full, stderr=subprocess.PIPE,
                                      text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 1, words)
            self.assertIn('cannot write the output', done.stderr)

    def test_help_shows_defaults(self):
        text = run('train', '--help').stdout
        for option, default in (('epochs', 5), ('batch', 64), ('lr', 0.01), ('optimizer', 'sgd'),
                                ('schedule', 'none')):
            self.assertRegex(text, rf'--{option} [A-Z]+(=| \[){default}\b')

    def test_unknown_names_list_the_known(self):
        self.expect_usage_error(['resnet99', 'resnet18-cifar', 'mnist-cnn'],
                                'train', '--model', 'resnet99', '--data', self.data)
        self.expect_usage_error(['imagenet:/x', 'mnist', 'cifar10'],
                                'train', '--model', 'mlp', '--data', 'imagenet:/x')
        self.expect_usage_error(['nothing', 'autograd-chain'], 'bench', 'nothing')
        self.expect_usage_error(['f16', 'f32'], 'bench', 'net', '--dtype', 'f16')
        self.expect_usage_error(['channel', 'resnet18-cifar'],
                                'train', '--model', 'resnet18-cifar', '--data', self.data)

    def test_missing_and_damaged_files(self):
        self.expect_error(1, ['/nowhere', 'not a folder', 'train-images-idx3-ubyte'],
                          'train', '--model', 'mlp', '--data', 'mnist:/nowhere')
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            make_mnist(folder, 4, 4)
            write_idx(folder / 't10k-labels-idx1-ubyte', (4,), [1, 2, 77, 3])
            self.expect_error(1, ['t10k-labels-idx1-ubyte', 'label 77'],
                              'train', '--model', 'mlp', '--data', f'mnist:{folder}')
        with tempfile.TemporaryDirectory() as folder:
            # As folders packed one by one may be: two sets whose classes differ.
            for kind, part in (('mnist', 'train'), ('fashion-mnist', 'test')):
                name = f'{folder}/{"val" if part == "test" else part}.fpk'
                done = run('data', 'pack', f'{kind}:{self.folder}', name, '--part', part)
                self.assertEqual(done.returncode, 0, done.stderr)
            self.expect_error(1, ['classes', 'Sneaker'],
                              'train', '--model', 'mlp', '--data', f'packed:{folder}')
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            make_mnist(folder, 4, 4)
            write_idx(folder / 't10k-images-idx3-ubyte.gz', (4, 20, 20), bytes(1600))
            self.expect_error(1, ['28x28', '20x20'],
                              'train', '--model', 'mlp', '--data', f'mnist:{folder}')
        self.expect_error(1, ['/nowhere.safetensors'], 'eval', '--model', 'mlp', '--weights',
                          '/nowhere.safetensors', '--data', self.data)
        broken = self.folder / 'broken.safetensors'
        broken.write_bytes(b'\xff' * 100)
        self.expect_error(1, ['broken.safetensors'], 'eval', '--model', 'mlp', '--weights', broken,
                          '--data', self.data)


class Data(ProgramTest):
    def bench(self, data, *more):
        return self.one_json_line('data', 'bench', data, '--transform', 'mnist', '--batch', 16,
                                  '--repeat', 1, '--json', *more)

    def test_every_number_of_workers_reads_the_same(self):
        results = [self.bench(self.data, '--workers', n) for n in (0, 1, 3, 'auto')]
        for result in results:
            self.assertEqual(result['samples'], 4 * 96)
            self.assertEqual(result['sum'], results[0]['sum'])
            self.assertGreater(result['samples_per_s'], 0)
            self.assertGreater(result['percent_of_limit'], 0)
            self.assertTrue(result['bottleneck'])
        self.assertEqual([r['workers'] for r in results], ['0', '1', '3', 'auto'])

    def test_the_bottleneck_is_what_takes_longest(self):
        # 28 x 28 pixels are made into 224 x 224: far more work than reading the result once. Other
        # programs may hold up the loop now and then, but not every time.
        named = set()
        for _ in range(10):
            result = self.one_json_line('data', 'bench', self.data, '--transform', 'imagenet-train',
                                        '--batch', 4, '--epochs', 1, '--workers', 0, '--json')
            named.add(result['bottleneck'])
            if 'cropping and converting' in named:
                return
        self.fail(f'the bottleneck is always {named}')

    def test_a_packed_set_holds_the_same_images(self):
        packed = self.folder / 'train.fpk'
        done = run('data', 'pack', self.data, packed)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('96 images', done.stdout)
        self.assertEqual(self.bench(f'packed:{packed}')['sum'], self.bench(self.data)['sum'])

    def test_the_sweep_is_a_table(self):
        done = run('data', 'bench', self.data, '--transform', 'mnist', '--batch', 16, '--epochs', 1,
                   '--repeat', 1, '--sweep')
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0].split(), ['num_workers', 'pin_memory', 'off', 'pin_memory', 'on'])
        self.assertEqual([line.split()[0] for line in lines[1:4]], ['auto', '0', '1'])

    def test_wrong_command_lines(self):
        self.expect_usage_error(['no command'], 'data')
        self.expect_usage_error(['imagenet:/x', 'folder'], 'data', 'bench', 'imagenet:/x')
        self.expect_usage_error(['rotate', 'cifar-train'],
                                'data', 'bench', self.data, '--transform', 'rotate')
        self.expect_usage_error(['--batch', "'0'", 'from 1 to'],
                                'data', 'bench', self.data, '--batch', 0)
        for workers in ('many', '0x2', '010', '1025'):
            self.expect_usage_error(['--workers', workers],
                                    'data', 'bench', self.data, '--workers', workers)
        self.expect_error(1, ['/nowhere'], 'data', 'pack', 'folder:/nowhere', '/tmp/x.fpk')


class Training(ProgramTest):
    def test_a_run_and_its_files(self):
        result = self.one_json_line(*self.train_arguments(
            '--epochs', 3, '--val-split', 0.25, '--optimizer', 'adam', '--lr', 1e-3, '--schedule',
            'onecycle', '--augment', 'flip', '--label-smoothing', 0.1, '--json'))
        for key in ('train_loss', 'val_accuracy', 'test_accuracy', 'seconds', 'items_per_s',
                    'loader_share'):
            self.assertIsInstance(result[key], (int, float), key)
        self.assertEqual(result['epochs'], 3)
        lines = (self.folder / 'run/metrics.jsonl').read_text().splitlines()
        metrics = [json.loads(line) for line in lines]
        self.assertEqual([m['epoch'] for m in metrics], [1, 2, 3])
        self.assertEqual(metrics[-1]['steps'], 3 * 5)  # 72 samples in batches of 16
        self.assertLess(metrics[-1]['train_loss'], metrics[0]['train_loss'])
        header, _ = read_safetensors(self.folder / 'run/model.safetensors')
        self.assertEqual(header['0.weight'], {**header['0.weight'], 'dtype': 'F32',
                                              'shape': [512, 784]})

        words = ['eval', '--model', 'mlp', '--weights', self.folder / 'run/model.safetensors',
                 '--data', self.data]
        evaluated = self.one_json_line(*words, '--json')
        self.assertEqual(evaluated['samples'], 32)
        self.assertAlmostEqual(evaluated['test_accuracy'], result['test_accuracy'])
        self.assertAlmostEqual(evaluated['test_loss'], result['test_loss'], places=6)
        done = run(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, f'test loss {evaluated["test_loss"]:.4f}  accuracy '
                         f'{100 * evaluated["test_accuracy"]:.2f} %  (32 samples)\n')
        for mean in (['0.5,4e-1'], ['0.5', '0.4'], ['0.5', '--mean', '0.4']):
            self.expect_usage_error(['--mean', '2 and 1 numbers', '1 channels'],
                                    *words, '--mean', *mean)
        self.expect_usage_error(['--std', 'not above 0'], *words, '--std', 0)
        self.expect_error(1, ['does not fit mnist-cnn; give the --model', 'missing: conv1.weight and 7 more'],
                          'eval', '--model', 'mnist-cnn', '--weights',
                          self.folder / 'run/model.safetensors', '--data', self.data)

    def test_decimals_and_exponents_are_numbers(self):
        rates = []
        for i, lr in enumerate(('0.125', '1.25e-1', '1.25E-1', '.125', '125.e-3')):
            run(*self.train_arguments('--epochs', 1, '--lr', lr, out=f'lr{i}')).check_returncode()
            (line,) = (self.folder / f'lr{i}/metrics.jsonl').read_text().splitlines()
            rates.append(json.loads(line)['lr'])
        self.assertEqual(set(rates), {0.125})

    def test_evaluation_takes_no_larger_batches_than_training(self):
        arguments = self.train_arguments('--epochs', 1, '--val-split', 0.5, '--json', out='small')
        done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True,
                              timeout=120, check=True, env={**os.environ, 'FACULA_VERBOSE': '1'})
        rows = [int(n) for n in re.findall(r'float32\[(\d+), 784\]', done.stderr)]
        # The weights, [512, 784], and batches of 16, of 48 to validate on and 32 of the test set.
        self.assertIn(16, rows)
        self.assertLessEqual(set(rows), {16, 512})

    def test_images_of_many_sizes(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for part, sizes in (('train', (20, 30)), ('val', (20, 25))):
                for label in ('a', 'b'):
                    (folder / part / label).mkdir(parents=True)
                    for size in sizes:
                        write_png(folder / part / label / f'{size}.png', size)
            arguments = ['train', '--model', 'mobilenetv2', '--data', f'folder:{folder}',
                         '--epochs', 1, '--batch', 2, '--checkpoint-every', 'off', '--workers', 0]
            self.expect_usage_error(['--augment', 'many sizes'], *arguments, '--augment', 'flip')
            self.expect_usage_error(['224x224 pixels, the model net takes 32x32'], 'train',
                                    '--model', 'net', '--data', f'folder:{folder}')
            weights = []
            for out, *more in (('usual',), ('none', '--augment', 'none')):
                run(*arguments, '--out', folder / out, *more).check_returncode()
                weights.append((folder / out / 'model.safetensors').read_bytes())
            self.assertNotEqual(*weights)

    def test_packed_images_are_evaluated_as_they_were_in_training(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            # Those of the test part happen to be of one size, at which the model could take them.
            for part, sizes in (('train', (20, 30)), ('val', (40,))):
                for label in ('a', 'b'):
                    (folder / part / label).mkdir(parents=True)
                    for size in sizes:
                        write_png(folder / part / label / f'{size}.png', size)
                run('data', 'pack', f'folder:{folder}', folder / f'{part}.fpk', '--part',
                    'test' if part == 'val' else part).check_returncode()
            losses = []
            for data in (f'folder:{folder}', f'packed:{folder}'):
                out = folder / data.split(':')[0]
                losses.append(self.one_json_line(
                    'train', '--model', 'mobilenetv2', '--data', data, '--epochs', 1, '--batch', 2,
                    '--lr', 0.5, '--out', out, '--checkpoint-every', 'off', '--json')['test_loss'])
                losses.append(self.one_json_line(
                    'eval', '--model', 'mobilenetv2', '--data', data, '--weights',
                    out / 'model.safetensors', '--json')['test_loss'])
            for loss in losses[1:]:
                self.assertAlmostEqual(loss, losses[0], places=6)

    def test_what_does_not_begin_leaves_no_run_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            for wrong in (['--epochs', str(2**63 - 1), '--schedule', 'cosine'],
                          ['--drop-last', '--batch', '97']):  # of 96 samples
                done = subprocess.run([PROGRAM, 'train', '--model', 'mlp', '--data', self.data,
                                       *wrong], cwd=folder, timeout=60, capture_output=True,
                                      text=True, check=False)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(wrong[0], done.stderr)
                self.assertEqual(list(pathlib.Path(folder).rglob('*')), [])

    def test_plain_lines_off_a_terminal(self):
        done = run(*self.train_arguments('--epochs', 2, out='plain'))
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertTrue(lines[0].startswith('epoch 1/2  loss '), lines)
        self.assertNotIn('\r', done.stdout)
        self.assertNotIn('\x1b', done.stdout)

    def test_equal_seeds_give_equal_weights(self):
        files = []
        for out, seed, threads, workers in (('a', 5, 1, 0), ('b', 5, 2, 2), ('c', 6, 2, 'auto')):
            done = run(*self.train_arguments('--epochs', 1, '--seed', seed, '--threads', threads,
                                             '--workers', workers, out=out))
            self.assertEqual(done.returncode, 0, done.stderr)
            files.append((self.folder / out / 'model.safetensors').read_bytes())
        self.assertEqual(files[0], files[1])
        self.assertNotEqual(files[1], files[2])

    def test_a_loss_that_is_not_finite(self):
        done = self.expect_error(1, ['the loss is', 'step', 'learning rate', '--clip-grad-norm'],
                                 *self.train_arguments('--lr', 1e20, '--json', out='nan'))
        self.assertNotIn('-nan', done.stderr)
        run(*self.train_arguments('--epochs', 1, '--lr', 1e4, '--clip-grad-norm', 1e-6,
                                  '--anomaly', out='clipped')).check_returncode()

    def test_warm_up_and_plateau(self):
        def rates(out, *more):
            run(*self.train_arguments('--epochs', 4, '--lr', 0.25, '--warmup', 1, *more,
                                      out=out)).check_returncode()
            lines = (self.folder / out / 'metrics.jsonl').read_text().splitlines()
            return [json.loads(line)['lr'] for line in lines]
        for schedule in ('none', 'plateau'):
            warm, *rest = rates(f'warm-{schedule}', '--schedule', schedule)
            self.assertTrue(0.2 < warm < 0.25, warm)
            self.assertEqual(rest, [0.25, 0.25, 0.25])
        warm, *rest = rates('warm-step', '--schedule', 'step')
        self.assertTrue(0.2 < warm < 0.25, warm)
        for rate, expected in zip(rest, (0.25, 0.025, 0.0025)):
            self.assertAlmostEqual(rate, expected)
        # The schedule has two epochs of 2 steps, whose last ones are told.
        _, *rest = rates('warm-cosine', '--epochs', 3, '--schedule', 'cosine', '--subset', 32)
        self.assertEqual(len(rest), 2)
        for rate, step in zip(rest, (1, 3)):
            self.assertAlmostEqual(rate, 0.25 * (1 + math.cos(math.pi * step / 4)) / 2)
        # Five epochs of 5 steps, of which the thirds have 9, 9 and 7.
        *_, last = rates('step', '--epochs', 5, '--warmup', 0, '--schedule', 'step', '--subset', 80)
        self.assertAlmostEqual(last, 0.0025)
        again = self.train_arguments('--epochs', 5, '--lr', 0.25, '--resume', out='warm-none')
        self.expect_error(1, ['warmup'], *again)
        self.expect_usage_error(['--warmup', 'onecycle'], *self.train_arguments(
            '--warmup', 1, '--schedule', 'onecycle'))
        self.expect_usage_error(['--warmup', '5 of 5'], *self.train_arguments('--warmup', 5))

    def test_the_decay_of_adamw_is_not_part_of_gradients(self):
        # Two steps that halve the weights and change them by 1e-3. Adam would do no more than
        # that; SGD, with momentum, would end at -1/5 of them. At first they are uniform, up to
        # 1/28 for 784 inputs.
        run(*self.train_arguments('--epochs', 1, '--subset', 32, '--optimizer', 'adamw',
                                  '--lr', 1e-3, '--weight-decay', 500,
                                  out='adamw')).check_returncode()
        header, data = read_safetensors(self.folder / 'adamw/model.safetensors')
        begin, end = header['0.weight']['data_offsets']
        sizes = [abs(weight) for weight in array.array('f', data[begin:end])]
        self.assertAlmostEqual(sum(sizes) / len(sizes), 1 / 56 / 4, delta=5e-4)

    def test_the_demo(self):
        # The script as it is, where neither installing nor building does anything, on one image.
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            for folder in ('scripts', 'build/release/bin', 'data'):
                (root / folder).mkdir(parents=True)
            make_mnist(root / 'data', 1, 1)
            (root / 'build/release/bin/facula').symlink_to(PROGRAM)
            (root / 'scripts/common.sh').write_text(
                f'set -euo pipefail\nroot={root}\nbuild_packages=()\n'
                'install_packages() { :; }\nbuild_preset() { :; }\n')
            script = (pathlib.Path(__file__).parents[2] / 'scripts/demo').read_text()
            demo = root / 'scripts/demo'
            demo.write_text(re.sub(r'/usr/share/datasets/[\w-]+', f'{root}/data', script))
            done = subprocess.run(['bash', demo, '--batch', '2', '--checkpoint-every', 'off',
                                   '--out', root / 'run'],
                                  capture_output=True, text=True, timeout=120, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            result = json.loads(done.stdout.splitlines()[-1])
            self.assertLessEqual({'test_accuracy', 'seconds', 'items_per_s'}, set(result))
            self.assertEqual(result['batch'], 2)
            self.assertEqual(result['data'], f'fashion-mnist:{root}/data')

    def test_a_resumed_run_ends_with_the_same_weights(self):
        more = ['--optimizer', 'adam', '--augment', 'crop,flip', '--val-split', 0.2]
        self.assertEqual(run(*self.train_arguments(*more, '--epochs', 3, out='whole')).returncode, 0)
        first = self.train_arguments(*more, '--checkpoint-every', '2steps', out='parts')
        self.assertEqual(run(*first, '--epochs', 1).returncode, 0)
        self.expect_error(1, ['--resume', '--overwrite'], *first, '--epochs', 3)
        first += ['--augment', 'flip,crop']  # the same
        self.expect_error(1, ["seed is '0'", "'4' now"], *first, '--resume', '--seed', 4)
        result = self.one_json_line(*first, '--epochs', 3, '--resume', '--threads', 3,
                                    '--workers', 2, '--json')
        self.assertEqual(result['resumed_from'], 5)
        self.assertEqual(result['steps'], 15)
        weights = [(self.folder / name / 'model.safetensors').read_bytes()
                   for name in ('whole', 'parts')]
        self.assertEqual(weights[0], weights[1])
        lines = (self.folder / 'parts/metrics.jsonl').read_text().splitlines()
        self.assertEqual([json.loads(line)['epoch'] for line in lines], [1, 2, 3])

    def test_checkpoints_are_files_of_weights(self):
        more = ['--optimizer', 'adam', '--epochs', 2]
        self.assertEqual(run(*self.train_arguments(*more, out='kept')).returncode, 0)
        (checkpoint, *_) = sorted((self.folder / 'kept/checkpoints').iterdir(), reverse=True)
        found = self.one_json_line('inspect', checkpoint, '--json')
        self.assertEqual((found['format'], found['valid']), ('Facula checkpoint', True))
        for name, value in {'run_options.model': 'mlp', 'progress.steps': '12',
                            'optimizer.type': 'Adam', 'optimizer.state.0.step': '12'}.items():
            self.assertEqual(found['metadata'][name], value)
        self.assertIn('optimizer.state.0.exp_avg_sq', [t['name'] for t in found['tensors']])
        self.assertIn('progress.steps = 12', run('inspect', checkpoint).stdout)

        pth = self.folder / 'kept.pth'
        self.assertIn('run_options.model', run('convert', checkpoint, pth).stdout)
        self.assertEqual(run('diff', checkpoint, pth).returncode, 0)
        copied = self.folder / 'kept.safetensors'
        self.assertNotIn('dropped', run('convert', checkpoint, copied).stdout)
        self.assertEqual(copied.read_bytes(), checkpoint.read_bytes())
        evaluated = [self.one_json_line('eval', '--model', 'mlp', '--weights', path, *prefix,
                                        '--data', self.data, '--json')['test_loss']
                     for path, *prefix in ((self.folder / 'kept/model.safetensors',),
                                           (checkpoint, '--key-prefix', 'model.'),
                                           (pth, '--key-prefix', 'model.'))]
        self.assertEqual(len(set(evaluated)), 1, evaluated)

        damaged = bytearray(checkpoint.read_bytes())
        damaged[-1] ^= 1
        copied.write_bytes(damaged)
        self.expect_error(1, ['damaged', 'checksum'], 'convert', copied, pth)
        self.assertIn('checksum', json.loads(run('inspect', copied, '--json').stdout)['refusal'])

    def test_results_are_not_overwritten_by_chance(self):
        again = self.train_arguments('--epochs', 1, '--checkpoint-every', 'off', out='results')
        run(*again).check_returncode()
        self.expect_error(1, ['results of an earlier run', '--overwrite'], *again)
        self.expect_error(1, ['no checkpoint to resume', '--overwrite'], *again, '--resume')
        run(*again, '--overwrite').check_returncode()

    def test_training_goes_on_where_progress_cannot_be_shown(self):
        weights = []
        for out, log in (('seen', os.devnull), ('unseen', '/dev/full')):
            with open(log, 'w', encoding='ascii') as stderr:
                done = subprocess.run(
                    [PROGRAM, *map(str, self.train_arguments('--epochs', 2, '--json', out=out))],
                    stdout=subprocess.PIPE, stderr=stderr, text=True, timeout=120, check=False)
            self.assertEqual(done.returncode, 0)
            self.assertEqual(json.loads(done.stdout)['epochs'], 2)
            weights.append((self.folder / out / 'model.safetensors').read_bytes())
        self.assertEqual(*weights)

    def test_no_file_takes_the_place_of_a_closed_stream(self):
        arguments = map(str, self.train_arguments('--epochs', 100000, out='closed'))
        with subprocess.Popen(['sh', '-c', 'exec "$@" <&- >&- 2>&-', 'sh', PROGRAM,
                               *arguments]) as process:
            try:
                deadline = time.monotonic() + 60
                while not (self.folder / 'closed' / 'metrics.jsonl').exists():
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.01)
                streams = {os.readlink(f'/proc/{process.pid}/fd/{i}') for i in range(3)}
            finally:
                process.kill()
        self.assertEqual(streams, {'/dev/null'})

    def test_the_last_batch(self):
        for more, steps in (([], 6), (['--drop-last'], 5)):  # of 96 samples
            result = self.one_json_line(*self.train_arguments('--epochs', 1, '--batch', 19, '--json',
                                                              *more, out=f'last-{steps}'))
            self.assertEqual(result['steps'], steps)

    def test_runs_that_begin_together_have_folders_of_their_own(self):
        arguments = ['train', '--model', 'mlp', '--data', self.data, '--epochs', '1', '--json']
        runs = [subprocess.Popen([PROGRAM, *arguments], cwd=self.folder, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)]
        folders = {json.loads(each.communicate(timeout=120)[0])['run_folder'] for each in runs}
        self.assertEqual(len(folders), 3)

    def test_wrong_use_of_checkpoints(self):
        self.expect_usage_error(['--out'], 'train', '--model', 'mlp', '--data', self.data,
                                '--resume')
        self.expect_usage_error(['--overwrite'], *self.train_arguments('--resume', '--overwrite'))
        for interval in ('0', '-3s', '1.5steps', 'soon', '5x', 'nan', '0x10s', ' 5s', '+5s', ''):
            self.expect_usage_error([interval, '500steps'],
                                    *self.train_arguments('--checkpoint-every', interval))


if __name__ == '__main__':
    unittest.main()
