#!/usr/bin/env python3
"""The README shows code that is compiled: its training example is the quoted part of an example.

An argument names the repository; `--self-test` checks this script on made-up texts.
"""

import pathlib
import re
import sys

MARK = '// [quote]\n'


def complaints(readme, example):
    parts = example.split(MARK)
    if len(parts) != 3:
        return [f'examples/train_mnist.cpp: expected two lines {MARK.strip()}']
    blocks = re.findall(r'```cpp\n(.*?)```', readme, re.S)
    if not any(parts[1].strip() in block for block in blocks):
        return ['README.md: its training example differs from the quoted part of '
                'examples/train_mnist.cpp; copy that part']
    return []


def self_test():
    example = f'a\n{MARK}int x;\n{MARK}b\n'
    assert complaints('text\n```cpp\nhead\nint x;\n```\n', example) == []
    assert complaints('text\n```cpp\nint y;\n```\n', example)
    assert complaints('int x;', example)
    assert complaints('```cpp\nint x;\n```', 'int x;')


def main():
    if sys.argv[1] == '--self-test':
        return self_test()
    root = pathlib.Path(sys.argv[1])
    found = complaints((root / 'README.md').read_text(),
                       (root / 'examples/train_mnist.cpp').read_text())
    print('\n'.join(found) or 'the README quotes what is compiled')
    sys.exit(1 if found else 0)


if __name__ == '__main__':
    main()
