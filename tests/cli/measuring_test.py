#!/usr/bin/env python3
"""Runs what measures: `facula bench` and `facula info`, and what FACULA_VERBOSE tells.

FACULA_BIN_DIR says where the program is.
"""

import json
import math
import os
import pathlib
import re
import resource
import subprocess
import time
import unittest

from program_test import PROGRAM, ProgramTest, run

SANITIZED = bool(re.search(rb'__[at]san_init', pathlib.Path(PROGRAM).read_bytes()))
# For what takes seconds and depends neither on the build nor on the instruction set.
once = unittest.skipIf(SANITIZED or 'FACULA_CPU_CAPABILITY' in os.environ, 'the same elsewhere')

# The works that are models: size of a sample, usual batch, multiply-adds of all layers and of the
# first one as the published networks have them, optimizer.
MODELS = {
    'resnet18-cifar': ('3, 32, 32', 128, 555_422_720, 1_769_472, 'sgd'),
    'resnet18-224': ('3, 224, 224', 32, 1_814_073_344, 118_013_952, 'sgd'),
    'vgg11-cifar': ('3, 32, 32', 128, 152_769_536, 1_769_472, 'sgd'),
    'mobilenetv2-cifar': ('3, 32, 32', 128, 87_976_448, 884_736, 'sgd'),
    'net': ('3, 32, 32', 32, 651_720, 352_800, 'sgd'),
    'mnist-cnn': ('1, 28, 28', 64, 11_992_448, 194_688, 'sgd'),
    'mlp-sgd': ('784', 128, 668_672, 401_408, 'sgd'),
    'mlp-adam': ('784', 128, 668_672, 401_408, 'adam'),
}
# What a step of an optimizer calls.
STEPS = {'sgd': r'sgd_step_ ', 'adam': r'adam_step_ .*decoupled=false',
         'adamw': r'adam_step_ .*decoupled=true'}
SMALL = ('eager-add', 'autograd-chain', 'autograd-rows')
LIBRARIES = r'oneDNN \d+\.\d+\.\d+'


class Measuring(ProgramTest):
    COMMON = {'work', 'mode', 'dtype', 'batch', 'threads', 'isa', 'median_ms', 'min_ms', 'max_ms',
              'items_per_s', 'gflops', 'percent_of_peak', 'peak_rss_mib', 'minor_faults_per_step',
              'loss_first', 'loss_last', 'cpu_over_wall'}

    def assert_product(self, product, *factors):
        self.assertAlmostEqual(math.prod(factors) / product, 1, places=6)

    def bench(self, work, *arguments):
        result = self.one_json_line('bench', work, *arguments, '--seconds', 0.05, '--json')
        self.assertLessEqual(self.COMMON, set(result))
        self.assertEqual((result['work'], result['dtype']), (work, 'f32'))
        self.assertEqual(result['isa'], os.environ.get('FACULA_CPU_CAPABILITY', result['isa']))
        self.assertIn(result['isa'], ('baseline', 'avx2', 'avx512'))
        self.assertLessEqual(result['min_ms'], result['median_ms'])
        self.assertLessEqual(result['median_ms'], result['max_ms'])
        self.assertGreater(result['median_ms'], 0)
        items = 1000 if work.startswith('autograd') else result['batch'] or 1
        self.assert_product(1e3 * items, result['items_per_s'], result['median_ms'])
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        self.assertTrue(5 < result['peak_rss_mib'] < most + 1, (result, most))
        # Memory that was freed is used again. Small steps are so many that training, which asks the
        # system for none, has left the first pages of threads and pools behind.
        most = 1 if result['mode'] == 'train' and work in ('net', 'mlp-sgd') else 100
        self.assertTrue(0 <= result['minor_faults_per_step'] < (math.inf if SANITIZED else most),
                        result)
        if work in MODELS:
            self.check_model(work, result)
        else:
            self.assertIsNone(result['gflops'])
        return result

    def check_model(self, work, result):
        _, _, layers, first, _ = MODELS[work]
        # The first layer's input needs no gradient.
        multiplied = layers if result['mode'] == 'infer' else 3 * layers - first
        self.assert_product(2 * multiplied * result['batch'],
                            result['gflops'], result['median_ms'], 1e6)
        self.assertGreater(result['percent_of_peak'], 0)
        if result['mode'] == 'infer':
            self.assertIsNone(result['loss_first'])
            return
        # Of random weights, about that of a guess among 10 classes.
        self.assertAlmostEqual(result['loss_first'], math.log(10), delta=1)
        self.assertIsNotNone(result['loss_last'])
        self.assertNotEqual(result['loss_first'], result['loss_last'])

    def first_call(self, pattern, *arguments):
        """What is found in the first line of the log that has it; the rest is not waited for."""
        with subprocess.Popen([PROGRAM, 'bench', *map(str, arguments), '--seconds', '0'], text=True,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              env={**os.environ, 'FACULA_VERBOSE': '1'}) as process:
            try:
                for line in process.stderr:
                    if found := re.search(pattern, line):
                        return found
            finally:
                process.kill()
        self.fail(f'nothing like {pattern} in the log of {arguments}')

    def test_a_model(self):
        result = self.bench('net', '--batch', 4, '--threads', 1, '--dtype', 'f32')
        self.assertEqual((result['batch'], result['threads'], result['mode']), (4, 1, 'train'))
        self.assertGreaterEqual(result['steps'], 20)
        # Of the random weights and images of seed 0.
        self.assertAlmostEqual(result['loss_first'], 2.326796, places=4)
        if not SANITIZED:  # which slow down the loop of the peak as much
            self.assertLess(result['percent_of_peak'], 100)
        self.assertEqual(self.bench('net', '--batch', 1, '--infer=false')['mode'], 'train')
        result = self.bench('mlp-sgd', '--infer')
        self.assertEqual((result['batch'], result['mode']), (128, 'infer'))

    @once
    def test_every_model(self):
        for work, (sample, batch, _, _, optimizer) in MODELS.items():
            with self.subTest(work):
                # Of the calls with more than the one sample whose layers are counted.
                pattern = r'(?:conv2d|linear)\w* float32\[(?!1,)(?!.*; part of)(.*?)\]'
                self.assertEqual(self.first_call(pattern, work, '--infer')[1], f'{batch}, {sample}')
                step = self.first_call(r'\w+_step_ .*', work, '--batch', 1)[0]
                self.assertRegex(step, STEPS[optimizer])
                self.bench(work, '--batch', 1, '--infer' if sample == '3, 224, 224' else '--train')

    @once
    def test_batches_take_turns(self):
        batch = 4096
        result = self.bench('mlp-sgd', '--infer', '--batch', batch)
        self.assertGreater(result['peak_rss_mib'], 8 * batch * 784 * 4 / 2**20)

    def pinned_threads(self, **environment):
        """How many threads there are, whether the first one has a CPU of its own, and how many of
        the others have, once as many as there are CPUs have begun."""
        cpus = len(os.sched_getaffinity(0))
        with subprocess.Popen([PROGRAM, 'bench', 'mlp-sgd', '--threads', str(cpus), '--seconds',
                               '60'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env={**os.environ, **environment}) as process:
            try:
                for _ in range(600):
                    time.sleep(0.05)
                    tasks = [int(task) for task in os.listdir(f'/proc/{process.pid}/task')]
                    if len(tasks) >= cpus:
                        break
                time.sleep(0.5)  # the first one's comes last
                alone = {task for task in tasks if len(os.sched_getaffinity(task)) == 1}
                return process.pid in alone, len(alone - {process.pid})
            finally:
                process.kill()

    @once
    @unittest.skipIf(len(os.sched_getaffinity(0)) == 1, 'one CPU')
    def test_threads_are_pinned(self):
        others = len(os.sched_getaffinity(0)) - 1
        self.assertEqual(self.pinned_threads(), (False, others))
        self.assertEqual(self.pinned_threads(FACULA_PIN='1'), (True, others))
        self.assertEqual(self.pinned_threads(FACULA_PIN='0'), (False, 0))

    def test_least_level_of_messages(self):
        words = 'bench', 'net', '--infer', '--batch', 1, '--seconds', 0.01
        quiet = run(*words, FACULA_VERBOSE='1', FACULA_LOG='warning')
        self.assertEqual((quiet.returncode, quiet.stderr), (0, ''))
        wrong = run(*words, FACULA_VERBOSE='1', FACULA_LOG='loud')
        self.assertEqual(wrong.returncode, 0)
        self.assertIn("FACULA_LOG='loud' is unknown and ignored; use debug, info, warning, error or off",
                      wrong.stderr)
        self.assertIn('conv2d', wrong.stderr)

    def test_all_works_are_known_here(self):
        _, works = run('bench', 'nothing').stderr.split('choose one of: ')
        self.assertEqual(set(works.split(' (')[0].split(', ')),
                         {*MODELS, *SMALL, *(f'{name}-step' for name in STEPS)})

    @once
    def test_small_operations(self):
        for work in SMALL:
            result = self.bench(work)
            self.assertEqual(result['batch'], 1)
            # An addition is timed alone, the other operations a thousand at a time.
            operations = 1 if work == 'eager-add' else 1000
            self.assert_product(result['median_ms'] * 1e6, result['median_ns'], operations)
            if operations > 1:
                self.assertGreater(result['forward_ns'], 0)
                self.assertGreater(result['backward_ns'], 0)
                share = (result['forward_ns'] + result['backward_ns']) / result['median_ns']
                self.assertTrue(0.2 < share < 5, result)

    def test_verbose_tells_every_call(self):
        done = run('bench', 'net', '--infer', '--batch', 4, '--seconds', 0.01, '--json',
                   FACULA_VERBOSE='1')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 1)
        self.assertRegex(done.stderr,
                         r'conv2d\w* float32\[4, .*\}.*: [\d.]+ ms, [\d.]+ GFLOP/s, \d+ % of peak')
        self.assertRegex(done.stderr, r'conv2d.* % of peak; refused by Winograd.*: weights are not 3x3')
        self.assertRegex(done.stderr, r'max_pool2d\w* float32\[4, .*: [\d.]+ ms, [\d.]+ GB/s')
        self.assertNotRegex(done.stderr, r'(linear|max_pool2d) .*; part of')
        done = run('bench', 'net', '--train', '--batch', 2, '--seconds', 0.01, FACULA_VERBOSE='1')
        self.assertRegex(done.stderr, r'to_copy .* GB/s; part of max_pool2d_backward')
        self.assertRegex(done.stdout, r'^net, \d+ steps, \d+ threads\n +[\d.]+ ms \(')

    def test_variables_that_make_no_sense(self):
        # The message is about the variable alone, not about the op that asks for it first.
        for name, value, message in (
                ('FACULA_VERBOSE', '2',
                 'is neither on nor off; use 1, true, on, yes or 0, false, off, no'),
                ('FACULA_NUM_THREADS', 'abc',
                 'is no integer from 1 to 1024; correct or unset the variable'),
                ('FACULA_CPU_CAPABILITY', 'sse9', 'is unknown; use baseline, avx2 or avx512')):
            for words in (['bench', 'mlp-sgd', '--seconds', '0.01'],
                          self.train_arguments('--epochs', 1, out='variable')):
                done = run(*words, **{name: value})
                self.assertEqual(done.returncode, 1)
                self.assertEqual(done.stderr, f"facula: {name}='{value}' {message}\n")

    def test_kernels_of_another_capability(self):
        words = ['bench', 'net', '--infer', '--batch', '1', '--seconds', '0.01', '--json']
        isa = self.one_json_line(*words)['isa']
        done = run(*words, FACULA_CPU_CAPABILITY='baseline')
        if done.returncode == 0:
            self.assertEqual(json.loads(done.stdout)['isa'], 'baseline')
        else:
            self.assertEqual(done.stderr, f'facula: this library has kernels for {isa} alone, where CPU '
                             'and FACULA_CPU_CAPABILITY allow baseline; build it without '
                             'FACULA_ONE_ISA\n')

    def bench_optimizer(self, name, kept):
        """One that keeps so many numbers for each parameter; MiB of all, and the result."""
        result = self.bench(f'{name}-step')
        parameters = 11_173_962  # of ResNet-18 with 10 classes
        # All is read, and all but the gradients written.
        self.assert_product(4 * parameters * (3 + 2 * kept),
                            result['gb_per_s'], result['median_ms'], 1e6)
        self.assertGreater(result['percent_of_bandwidth'], 0)
        self.assertGreater(result['inplace_gb_s'], 0)
        self.assertIsNone(result['batch'])
        mib = 4 * parameters * (2 + kept) / 2**20
        self.assertGreater(result['peak_rss_mib'], mib)
        return mib, result

    def test_an_optimizer(self):
        self.bench_optimizer('adamw', 2)

    @once
    def test_every_optimizer(self):
        for name, kept in (('sgd', 1), ('adam', 2)):
            mib, result = self.bench_optimizer(name, kept)
            # The array that the bandwidth is measured with does not count.
            self.assertLess(result['peak_rss_mib'], 2 * mib)
        for name, pattern in STEPS.items():
            self.assertRegex(self.first_call(r'\w+_step_ .*', f'{name}-step')[0], pattern)

    def test_options_that_do_not_fit(self):
        self.expect_usage_error(['eager-add'], 'bench', 'eager-add', '--batch', 3)
        self.expect_usage_error(['--infer'], 'bench', 'net', '--infer', '--train')

    def test_info(self):
        result = self.one_json_line('info', '--json')
        self.assertLessEqual({'version', 'cpu', 'isa', 'threads', 'fma_gflops', 'inplace_gb_s',
                              'devices', 'libraries'}, set(result))
        self.assertEqual(result['version'], run('--version').stdout.strip())
        self.assertIn('cpu', result['devices'].split(', '))
        self.assertRegex(result['libraries'], LIBRARIES)
        for key in ('fma_gflops', 'inplace_gb_s', 'read_gb_s', 'copy_gb_s'):
            for limit in (result[key], result[f'{key}_1']):
                self.assertTrue(0.1 < limit < 1e5, result)

    @once
    def test_info_as_a_table(self):
        done = run('info')
        self.assertEqual(done.returncode, 0, done.stderr)
        first, *rows = done.stdout.splitlines()
        self.assertEqual(first, 'Facula ' + run('--version').stdout.strip())
        limit = r'[\d.]+ with \d+ threads, [\d.]+ with one'
        expected = {'CPU': r'.+', 'kernels for': r'(\w+) \(the CPU has \1\)',
                    'threads': r'\d+ of \d+ usable CPUs', 'usable memory': r'\d+\.\d GiB',
                    'devices': r'cpu\b.*', 'libraries': LIBRARIES, 'fp32 FMA GFLOP/s': limit,
                    'in-place GB/s (read + write)': limit, 'read GB/s': limit,
                    'copy GB/s (read + write)': limit}
        self.assertEqual([row[:30].rstrip() for row in rows], list(expected))
        for row, pattern in zip(rows, expected.values()):
            self.assertRegex(row[31:], rf'^(?:{pattern})$')


if __name__ == '__main__':
    unittest.main()
