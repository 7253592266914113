#!/usr/bin/env python3
"""Checks what every file of the tree must keep to: length, no promises of later work, no paths of
the machine it was written on.

A file over the limit states why in its first lines: `file-length: <reason>`.

usage: hygiene_test.py ROOT
       hygiene_test.py --self-test     prove that every rule can fail
"""

import pathlib
import re
import sys
import tempfile

MAX_LINES = 600
FOLDERS = ('.ci', 'backends', 'benchmarks', 'cli', 'cmake', 'docs', 'examples', 'include', 'scripts',
           'src', 'tests', 'tools')
CODE = {'.h', '.inc', '.cpp', '.cu', '.cuh', '.py', '.sh', '.cmake'}
TEXT = CODE | {'.md', '.txt', '.in', '.json', ''}
LENGTH_REASON = re.compile(r'file-length: \S+ \S+')

# Written in pieces, or this file would fail its own test.
PROMISES = re.compile(r'\b(TO' r'DO|FIX' r'ME|XX' r'X|HA' r'CK)\b')
MACHINE_PATHS = re.compile(r'(?<![\w./$}*-])/(work|root|home|tmp/build[\w-]*)/[\w.]')


def check(root):
    """Returns (number of files checked, list of problems)."""
    root = pathlib.Path(root)
    files = [f for f in sorted(root.iterdir()) if f.is_file()]
    for folder in FOLDERS:
        files += sorted(f for f in (root / folder).rglob('*')
                        if f.is_file() and '__pycache__' not in f.parts)
    problems, checked = [], 0
    for file in files:
        if file.suffix not in TEXT or file.name == 'LICENSE':
            continue
        checked += 1
        name = file.relative_to(root)
        try:
            lines = file.read_text().splitlines()
        except UnicodeDecodeError:
            problems.append(f'{name}: not UTF-8 text')
            continue
        if file.suffix in CODE and len(lines) > MAX_LINES:
            if not any(LENGTH_REASON.search(line) for line in lines[:15]):
                problems.append(f'{name}: {len(lines)} lines, the limit is {MAX_LINES}; split it, or '
                                'give the reason as "file-length: ..." in its first 15 lines')
        for number, line in enumerate(lines, 1):
            for pattern, what in ((PROMISES, 'promises later work'),
                                  (MACHINE_PATHS, 'names a path of one machine')):
                match = pattern.search(line)
                if match:
                    problems.append(f'{name}:{number}: {what}: {match.group()}')
    return checked, problems


LONG = 'int x;\n' * (MAX_LINES + 1)
CASES = [
    ({'src/a.cpp': '// fine\nread("/usr/share/x", root / "work/x", "${dir}/wo' 'rk/x");\n',
      'src/long.cpp': '// file-length: one table, useless in parts\n' + LONG}, None),
    ({'src/a.cpp': LONG}, 'the limit is'),
    ({'src/a.cpp': '// file-length:\n' + LONG}, 'the limit is'),
    ({'cli/a.cpp': '// TO' 'DO: more\n'}, 'promises later work'),
    ({'README.md': 'run /' 'work/main/x\n'}, 'path of one machine'),
    ({'scripts/demo': 'cd "/' 'root/x"\n'}, 'path of one machine'),
    ({'docs/a.md': 'cmake -B /tmp/' 'build-me/x\n'}, 'path of one machine'),
]


def self_test():
    failures = 0
    for files, expected in CASES:
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            _, problems = check(folder)
        right = not problems if expected is None else any(expected in p for p in problems)
        if not right:
            failures += 1
            print(f'self-test: {list(files)}: expected {expected!r}, got {problems}')
    print(f'{len(CASES)} trees checked, {failures} judged wrongly')
    return 1 if failures else 0


def main():
    if sys.argv[1:] == ['--self-test']:
        return self_test()
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    checked, problems = check(sys.argv[1])
    for problem in problems:
        print(problem)
    print(f'{checked} files checked, {len(problems)} problems')
    return 1 if problems or checked == 0 else 0


if __name__ == '__main__':
    sys.exit(main())
