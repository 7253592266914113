#!/usr/bin/env python3
"""Ends commands of the program `facula` by signals: what is left, and what they return.

FACULA_BIN_DIR says where the program is.
"""

import json
import signal
import subprocess
import time
import unittest

from program_test import PROGRAM, ProgramTest, read_safetensors, write_png


class Training(ProgramTest):
    def interrupt(self, number, out):
        with subprocess.Popen([PROGRAM, *map(str, self.train_arguments(
                '--epochs', 100000, '--json', out=out))], stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True) as process:
            for line in process.stderr:
                if line.startswith('epoch 2/'):
                    break
            process.send_signal(number)
            output, _ = process.communicate(timeout=60)
        result = json.loads(output)
        self.assertTrue(result['interrupted'])
        read_safetensors(self.folder / out / 'model.safetensors')
        newest = max((self.folder / out / 'checkpoints').iterdir())
        self.assertEqual(newest.name, f'checkpoint-{result["steps"]:09}.safetensors')
        return process.returncode

    def test_interrupt(self):
        self.assertEqual(self.interrupt(signal.SIGINT, 'interrupted'), 130)
        self.assertEqual(self.interrupt(signal.SIGTERM, 'terminated'), 143)

    def test_interrupt_without_checkpoints(self):
        arguments = self.train_arguments('--epochs', 100000, '--checkpoint-every', 'off', out='off')
        with subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE,
                              text=True) as process:
            text = ''
            for line in process.stdout:
                text += line
                if line.startswith('epoch 2/'):
                    process.send_signal(signal.SIGINT)
        self.assertEqual(process.returncode, 130)
        self.assertIn('there is no checkpoint to resume', text)
        self.assertNotIn('--resume', text)


class Packing(ProgramTest):
    def test_interrupt(self):
        images, out = self.folder / 'photos/class', self.folder / 'out'
        images.mkdir(parents=True)
        write_png(images / '0.png', 700)
        for i in range(1, 5000):
            (images / f'{i}.png').hardlink_to(images / '0.png')
        for number, status, read in ((signal.SIGINT, 130, True), (signal.SIGTERM, 143, True),
                                     (signal.SIGINT, 130, False)):
            out.mkdir(exist_ok=True)
            command = [PROGRAM, 'data', 'pack', f'folder:{images.parent}', out / 'set.fpk']
            with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
                while process.poll() is None and not any(out.iterdir()):
                    time.sleep(0.01)
                if not read:  # as in `2>&1 | tee`, where tee ends at the same Ctrl-C
                    process.stderr.close()
                process.send_signal(number)
                told = process.stderr.read() if read else 'set.fpk'
                process.wait(timeout=60)
            self.assertEqual(process.returncode, status, told)
            self.assertIn('set.fpk', told)
            self.assertEqual(list(out.iterdir()), [])


if __name__ == '__main__':
    unittest.main()
