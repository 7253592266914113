#!/usr/bin/env python3
"""Kills a training run (kill -9) at random moments and resumes it until it is done; then its weights
must be those of an uninterrupted run, byte for byte, and no checkpoint may ever have been unusable.

Half of the kills come at a random time: while the program starts, reads its checkpoint, trains,
validates or writes. The others come right before or after a random system call of those that write
files: open, write, fsync, rename, fsync of the folder, unlink of old checkpoints. Each start has a
random number of compute threads and loader workers.

usage: kill_test.py [--kills N | --hours H] [--seed N] [--folder FOLDER]
FACULA_BIN_DIR says where the program kill_driver is.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

DRIVER = os.path.join(os.environ.get('FACULA_BIN_DIR', 'build/release/bin'), 'kill_driver')
CONFIGURATIONS = [('sgd', 'onecycle'), ('adam', 'plateau'), ('adamw', 'onecycle'), ('adam', 'none')]
CHECKPOINT = re.compile(r'checkpoint-(\d+)\.safetensors')
# More than the steps, epochs and pauses of the driver can take.
PATIENCE = 120


class Failure(Exception):
    pass


def weights(folder):
    return (folder / 'model.safetensors').read_bytes()


def metrics(folder):
    """The metrics of all epochs, without the times."""
    lines = [json.loads(line) for line in (folder / 'metrics.jsonl').read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in ('seconds', 'items_per_s')}
            for line in lines]


def steps_on_disk(folder):
    found = (folder / 'checkpoints').glob('checkpoint-*') if folder.exists() else []
    return sorted(int(CHECKPOINT.fullmatch(path.name)[1]) for path in found)


class KillTest:
    def __init__(self, scratch, seed):
        self.scratch = scratch
        self.random = random.Random(seed)
        self.references = {}
        self.kills = collections.Counter()
        self.runs = 0

    def command(self, folder, configuration, **more):
        optimizer, schedule = configuration
        settings = {'folder': folder, 'optimizer': optimizer, 'schedule': schedule,
                    'every_steps': 3, 'pace_ms': 3, 'slow_ms': 1} | more
        return [DRIVER, *(f'{name}={value}' for name, value in settings.items())]

    def resources(self):
        return {'threads': self.random.randint(1, 3), 'workers': self.random.randint(-1, 2)}

    def reference(self, configuration):
        """Folder, seconds and system calls of an uninterrupted run."""
        if configuration not in self.references:
            folder = self.scratch / ('reference-' + '-'.join(configuration))
            start = time.monotonic()
            done = subprocess.run(self.command(folder, configuration, threads=1, workers=0),
                                  capture_output=True, text=True, timeout=PATIENCE, check=False)
            if done.returncode != 0:
                raise Failure(f'the uninterrupted run failed: {done.stderr}')
            calls = int(done.stdout.split()[-1])
            self.references[configuration] = folder, time.monotonic() - start, calls
        return self.references[configuration]

    def start(self, folder, configuration, kill):
        """Runs until the end or the kill. Returns the number of steps it resumed from, or None."""
        _, seconds, calls = self.reference(configuration)
        before = steps_on_disk(folder)
        more = self.resources()
        if kill == 'call':
            more['kill_at'] = self.random.randint(1, 2 * calls)
        with subprocess.Popen(self.command(folder, configuration, **more), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            try:
                output, errors = process.communicate(
                    timeout=self.random.uniform(0, seconds) if kill == 'time' else PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                output, errors = process.communicate()
                if kill != 'time':
                    raise Failure(f'it hangs: {process.args}: {errors}') from None
        if 'skipped' in errors or 'not written' in errors:
            raise Failure(f'a checkpoint was unusable: {process.args}: {errors}')
        if process.returncode not in (0, -signal.SIGKILL):
            raise Failure(f'status {process.returncode}: {process.args}: {errors}')
        after = steps_on_disk(folder)
        if before and (not after or after[-1] < before[-1]):
            raise Failure(f'checkpoints were lost: {before} before, {after} after')
        if process.returncode != 0:
            self.kills[kill] += 1
            return False
        resumed = int(output.split()[1])
        if before and resumed != before[-1]:
            raise Failure(f'resumed from step {resumed}, there was {before[-1]}')
        return True

    def run(self, most_kills):
        """One training run, killed up to `most_kills` times."""
        configuration = self.random.choice(CONFIGURATIONS)
        folder = self.scratch / f'run-{self.runs}'
        done = False
        for _ in range(self.random.randint(1, most_kills)):
            done = self.start(folder, configuration, self.random.choice(['time', 'call']))
            if done:
                break
        if not done:
            self.start(folder, configuration, None)
        whole = self.reference(configuration)[0]
        if weights(folder) != weights(whole):
            raise Failure(f'the weights differ from those of the uninterrupted run: {folder}')
        if metrics(folder) != metrics(whole):
            raise Failure(f'the metrics differ: {metrics(folder)} {metrics(whole)}')
        left = [path for path in folder.rglob('.facula-*')]
        if left:
            raise Failure(f'half-written files are left: {left}')
        subprocess.run(['rm', '-r', folder], check=True)
        self.runs += 1

    def summary(self):
        return (f'{self.kills.total()} kills in {self.runs} runs ({self.kills["time"]} at a random '
                f'time, {self.kills["call"]} at a random system call): all weights and metrics '
                'equal, every newest checkpoint usable')


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--kills', type=int, default=9, help='end after so many')
    parser.add_argument('--hours', type=float, help='go on for so long instead')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--folder', help='where to work; default: a temporary folder')
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
        test = KillTest(pathlib.Path(scratch), arguments.seed)
        end = time.monotonic() + 3600 * (arguments.hours or 0)

        def left():
            if arguments.hours:
                return 6 if time.monotonic() < end else 0
            return arguments.kills - test.kills.total()
        try:
            while left() > 0:
                test.run(min(left(), 6))
                if test.runs % 25 == 0:
                    print(test.summary(), flush=True)
        except Failure as failure:
            print(f'seed {arguments.seed}, run {test.runs}: {failure}', file=sys.stderr)
            return 1
        print(test.summary())
    return 0


if __name__ == '__main__':
    sys.exit(main())
