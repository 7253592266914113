#!/usr/bin/env python3
"""Runs what measures: `facula bench` and `facula info`, and what FACULA_VERBOSE tells.

FACULA_BIN_DIR says where the program is.
"""

import json
import os
import subprocess
import unittest

from program_test import PROGRAM, ProgramTest


class Measuring(ProgramTest):
    COMMON = {'work', 'mode', 'dtype', 'batch', 'threads', 'isa', 'median_ms', 'min_ms', 'max_ms',
              'items_per_s', 'gflops', 'percent_of_peak', 'peak_rss_mib', 'minor_faults_per_step',
              'loss_first', 'loss_last', 'cpu_over_wall'}

    def bench(self, *arguments):
        result = self.one_json_line('bench', *arguments, '--seconds', 0.05, '--json')
        self.assertLessEqual(self.COMMON, set(result))
        self.assertLessEqual(result['min_ms'], result['median_ms'])
        self.assertLessEqual(result['median_ms'], result['max_ms'])
        self.assertGreater(result['median_ms'], 0)
        return result

    def test_a_model(self):
        result = self.bench('net', '--batch', 4, '--threads', 1)
        self.assertEqual((result['batch'], result['threads'], result['mode']), (4, 1, 'train'))
        self.assertGreaterEqual(result['steps'], 20)
        self.assertGreater(result['percent_of_peak'], 0)
        self.assertNotEqual(result['loss_first'], result['loss_last'])
        self.assertEqual(self.bench('net', '--batch', 1, '--infer=false')['mode'], 'train')
        result = self.bench('mlp-sgd', '--infer')
        self.assertEqual((result['batch'], result['mode']), (128, 'infer'))
        self.assertIsNone(result['loss_first'])

    def test_small_operations(self):
        result = self.bench('eager-add')
        self.assertEqual(result['batch'], 1)
        self.assertAlmostEqual(result['median_ns'], result['median_ms'] * 1e6, delta=1e-3)
        for work in ('autograd-chain', 'autograd-rows'):
            result = self.bench(work)
            self.assertGreater(result['forward_ns'], 0)
            self.assertGreater(result['backward_ns'], 0)

    def test_verbose_tells_every_call(self):
        done = subprocess.run([PROGRAM, 'bench', 'net', '--infer', '--batch', '4', '--seconds', '0.01',
                               '--json'],
                              capture_output=True, text=True, timeout=120,
                              env={**os.environ, 'FACULA_VERBOSE': '1'})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 1)
        self.assertRegex(done.stderr,
                         r'conv2d\w* float32\[4, .*\}.*: [\d.]+ ms, [\d.]+ GFLOP/s, \d+ % of peak')
        self.assertRegex(done.stderr, r'conv2d.* % of peak; refused by Winograd.*: weights are not 3x3')
        self.assertRegex(done.stderr, r'max_pool2d\w* float32\[4, .*: [\d.]+ ms, [\d.]+ GB/s')
        self.assertNotRegex(done.stderr, r'(linear|max_pool2d) .*; part of')
        done = subprocess.run([PROGRAM, 'bench', 'net', '--train', '--batch', '2',
                               '--seconds', '0.01'],
                              capture_output=True, text=True, timeout=120,
                              env={**os.environ, 'FACULA_VERBOSE': '1'})
        self.assertRegex(done.stderr, r'to_copy .* GB/s; part of max_pool2d_backward')

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
                done = subprocess.run([PROGRAM, *map(str, words)], text=True, capture_output=True,
                                      timeout=60, check=False, env={**os.environ, name: value})
                self.assertEqual(done.returncode, 1)
                self.assertEqual(done.stderr, f"facula: {name}='{value}' {message}\n")

    def test_kernels_of_another_capability(self):
        words = ['bench', 'net', '--infer', '--batch', '1', '--seconds', '0.01', '--json']
        isa = self.one_json_line(*words)['isa']
        done = subprocess.run([PROGRAM, *words], text=True, capture_output=True, timeout=120,
                              check=False, env={**os.environ, 'FACULA_CPU_CAPABILITY': 'baseline'})
        if done.returncode == 0:
            self.assertEqual(json.loads(done.stdout)['isa'], 'baseline')
        else:
            self.assertEqual(done.stderr, f'facula: this library has kernels for {isa} alone, where CPU '
                             'and FACULA_CPU_CAPABILITY allow baseline; build it without '
                             'FACULA_ONE_ISA\n')

    def test_an_optimizer(self):
        result = self.bench('adamw-step')
        self.assertGreater(result['percent_of_bandwidth'], 0)
        self.assertIsNone(result['gflops'])
        self.assertIsNone(result['batch'])

    def test_options_that_do_not_fit(self):
        self.expect_usage_error(['eager-add'], 'bench', 'eager-add', '--batch', 3)
        self.expect_usage_error(['--infer'], 'bench', 'net', '--infer', '--train')

    def test_info(self):
        result = self.one_json_line('info', '--json')
        self.assertLessEqual({'version', 'cpu', 'isa', 'threads', 'fma_gflops', 'inplace_gb_s',
                              'devices', 'libraries'}, set(result))
        self.assertGreater(result['fma_gflops'], 0)


if __name__ == '__main__':
    unittest.main()
