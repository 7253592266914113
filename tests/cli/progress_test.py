#!/usr/bin/env python3
"""Runs `facula train` on a terminal and off one: what it shows while it goes on.

FACULA_BIN_DIR says where the program is.
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unittest

from program_test import PROGRAM, ProgramTest

CLEAR = r'\r\x1b\[K'
LINE = r'epoch \d+/100000  step \d+/96  loss \S+.*?  \d+ items/s  (?:\d+ s|\d+(?::\d\d)+) left'


class Progress(ProgramTest):
    def arguments(self, out, epochs=100000):
        """A run of 96 steps an epoch, which nobody waits for the end of if they are so many."""
        words = self.train_arguments('--batch', 1, '--epochs', epochs, out=out)
        return [PROGRAM, *map(str, words)]

    def shown_until(self, wanted, descriptor, process, at_least=0):
        """What arrives at the descriptor until `wanted` is found in it, for `at_least` seconds."""
        shown, begin = '', time.monotonic()
        try:
            while time.monotonic() < begin + at_least or not re.search(wanted, shown):
                self.assertLess(time.monotonic(), begin + 60, shown[-500:])
                if select.select([descriptor], [], [], 1)[0]:
                    part = os.read(descriptor, 1 << 16).decode()
                    self.assertTrue(part, 'the program has ended')
                    shown += part
        finally:
            process.kill()
        return shown

    def on_terminal(self, columns, wanted, out):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack('HHHH', 24, columns, 0, 0))
        with subprocess.Popen(self.arguments(out), stdout=theirs,
                              stderr=subprocess.DEVNULL) as process:
            os.close(theirs)
            shown = self.shown_until(wanted, ours, process)
        os.close(ours)
        return shown

    def test_a_line_with_the_time_left_is_rewritten_on_a_terminal(self):
        # It makes way for finished epochs, which stay in lines of their own, and comes again.
        self.on_terminal(200, CLEAR + r'(?:epoch \d+/100000  loss [^\r]*\r\n)+' + LINE + CLEAR,
                         'wide')

    def test_whole_fields_make_way_on_a_narrow_terminal(self):
        epoch, loss, left = r'epoch \d+/100000', r'loss \d+\.\d{4}', r'(?:\d+ s|\d+(?::\d\d)+) left'
        step, accuracy = r'step \d+/96', r'accuracy [\d.]+ %'
        for columns, fields in ((80, (epoch, step, loss, accuracy, left)),
                                (60, (epoch, step, loss, left)), (46, (epoch, loss, left))):
            line = '(' + '  '.join(fields) + ')' + CLEAR
            shown = self.on_terminal(columns, line, f'columns{columns}')
            self.assertLess(len(re.search(line, shown)[1]), columns)

    def test_the_line_is_cut_where_no_field_can_make_way(self):
        cut = r'(epoch \d+/100000  loss [^\r\n]*)' + CLEAR
        shown = self.on_terminal(30, cut, 'narrow')
        self.assertEqual(len(re.search(cut, shown)[1]), 29)

    def test_lines_stay_off_a_terminal(self):
        with subprocess.Popen(self.arguments('piped'), stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as process:
            begin = time.monotonic()
            # On a terminal a line would come every 0.1 s.
            shown = self.shown_until('epoch 1/100000  loss', process.stdout.fileno(), process,
                                     at_least=1)
            seconds = time.monotonic() - begin
        self.assertNotIn('\r', shown)
        self.assertNotIn('\x1b', shown)
        if seconds < 5:  # every 10 s there would be a line
            self.assertNotIn(' left', shown)

    def test_an_interrupt_saves_all_where_nobody_reads_any_more(self):
        # As in `facula train | tee log`, where tee ends at the same Ctrl-C.
        for number in (signal.SIGINT, signal.SIGTERM):
            out = self.folder / f'unread{number}'
            with subprocess.Popen(self.arguments(out.name), stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True) as process:
                process.stdout.readline()
                process.stdout.close()
                begin, seen = time.monotonic(), 0
                while seen < 3 and process.poll() is None:  # epochs that nobody is told of
                    self.assertLess(time.monotonic(), begin + 60)
                    metrics = out / 'metrics.jsonl'
                    seen = metrics.read_text().count('\n') if metrics.exists() else 0
                process.send_signal(number)
                errors = process.stderr.read()
            self.assertEqual(process.returncode, 128 + number, errors)
            self.assertNotIn('cannot write', errors)
            self.assertTrue(list((out / 'checkpoints').iterdir()))
            self.assertTrue((out / 'model.safetensors').exists())

    def test_a_run_that_nobody_reads_is_trained_to_its_end(self):
        # As in `facula train | head`.
        with subprocess.Popen(self.arguments('to_its_end', epochs=2),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as process:
            process.stdout.close()
            errors = process.stderr.read()
        self.assertEqual(process.returncode, 1)
        self.assertIn('cannot write the output', errors)
        metrics = self.folder / 'to_its_end' / 'metrics.jsonl'
        self.assertEqual(len(metrics.read_text().splitlines()), 2)
        self.assertTrue((self.folder / 'to_its_end' / 'model.safetensors').exists())

    def test_an_interrupt_on_a_full_disk_says_that_output_is_lost(self):
        with open('/dev/full', 'w', encoding='utf-8') as full, \
                subprocess.Popen([*self.arguments('full'), '--json'], stdout=full,
                                 stderr=subprocess.PIPE, text=True) as process:
            for line in process.stderr:
                if line.startswith('epoch 1'):
                    break
            process.send_signal(signal.SIGINT)
            errors = process.stderr.read()
        self.assertEqual(process.returncode, 130)
        self.assertIn('cannot write the output: No space left', errors)


if __name__ == '__main__':
    unittest.main()
