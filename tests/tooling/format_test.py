#!/usr/bin/env python3
"""Checks that every C++ file is as clang-format leaves it, by .clang-format.

Its versions disagree about details, so only 14, that of Debian 12, counts. Without it the test is
skipped (exit status 77).

usage: format_test.py ROOT
       format_test.py --self-test     prove that a file that is not can be found
"""

import concurrent.futures
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FOLDERS = ('backends', 'benchmarks', 'cli', 'examples', 'include', 'src', 'tests')
CODE = {'.h', '.inc', '.cpp', '.cu', '.cuh'}
VERSION = 'version 14.'
TOGETHER = 50  # files for one process


def find_program():
    for name in ('clang-format-14', 'clang-format'):
        program = shutil.which(name)
        if program and VERSION in subprocess.run([program, '--version'], capture_output=True,
                                                 text=True, check=True).stdout:
            return program
    return None


def check(program, root):
    """Returns (number of files checked, list of problems)."""
    files = [f for folder in FOLDERS for f in sorted((root / folder).rglob('*')) if f.suffix in CODE]

    def complaints(some):
        done = subprocess.run([program, '--dry-run', '-Werror', '--style=file',
                               *(str(f.relative_to(root)) for f in some)],
                              cwd=root, capture_output=True, text=True, check=False)
        places = re.findall(r'^(\S+?:\d+):\d+: error: (.*?)(?: \[.*)?$', done.stderr, re.M)
        return [f'{place}: {what}' for place, what in places] or (
            [done.stderr] if done.returncode else [])

    parts = [files[i:i + TOGETHER] for i in range(0, len(files), TOGETHER)]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        return len(files), [problem for found in pool.map(complaints, parts) for problem in found]


def self_test(program):
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        (root / '.clang-format').write_text('BasedOnStyle: Google\n')
        (root / 'src').mkdir()
        (root / 'src/good.h').write_text('int f(int x);\n')
        if check(program, root) != (1, []):
            return 'a file in order is not'
        (root / 'src/bad.cpp').write_text('int f(int x);\nint  g( int x );\n')
        count, problems = check(program, root)
        if count != 2 or not problems or not problems[0].startswith('src/bad.cpp:2: '):
            return f'a file out of order is not found: {problems}'
    return 0


def main():
    program = find_program()
    if not program:
        print('clang-format 14 is not installed')
        sys.exit(77)
    if sys.argv[1] == '--self-test':
        sys.exit(self_test(program))
    count, problems = check(program, pathlib.Path(sys.argv[1]))
    print(*problems, f'{count} files checked, {len(problems)} problems', sep='\n')
    if problems:
        print('clang-format -i FILE puts a file in order')
    sys.exit(1 if problems else 0)


if __name__ == '__main__':
    main()
