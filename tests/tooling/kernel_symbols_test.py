#!/usr/bin/env python3
"""Checks the kernel objects, which are compiled once per instruction set, for shared symbols.

If an inline function with external linkage (std::vector's, say) lands in an AVX-512 object as a weak
symbol, the linker may take that copy for the whole library, which then dies of an illegal
instruction on a lesser machine. So kernel objects define no weak symbol, and every symbol they
define lies in a namespace named after the instruction set.

usage: kernel_symbols_test.py NM ISA OBJECT...
       kernel_symbols_test.py --self-test CXX NM
"""

import pathlib
import subprocess
import sys
import tempfile

WEAK = set('wWvVu')


def problems_of(nm, isa, obj):
    listing = subprocess.run([nm, '-C', '--defined-only', '--extern-only', obj],
                             check=True, capture_output=True, text=True).stdout
    problems = []
    for line in listing.splitlines():
        _, kind, name = line.split(maxsplit=2)
        if kind in WEAK:
            problems.append(f'weak symbol {name}')
        elif f'::{isa}::' not in name:
            problems.append(f'symbol outside namespace {isa}: {name}')
    return [f'{pathlib.Path(obj).name} ({isa}): {p}' for p in problems]


def self_test(cxx, nm):
    cases = [
        ('namespace k::avx2 { void f() {} }', None),
        ('namespace k { [[gnu::noinline]] inline int g(int x) { return 7 / x; }\n'
         'namespace avx2 { int f(int x) { return g(x); } } }', 'weak symbol'),
        ('namespace k { void f() {} }', 'outside namespace'),
    ]
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for source, expected in cases:
            path = pathlib.Path(folder, 'a.cpp')
            path.write_text(source)
            subprocess.run([cxx, '-std=c++20', '-O1', '-c', path, '-o', f'{folder}/a.o'], check=True)
            found = problems_of(nm, 'avx2', f'{folder}/a.o')
            if found if expected is None else not any(expected in p for p in found):
                failures += 1
                print(f'self-test: expected {expected!r}, got {found}')
    print(f'{len(cases)} objects checked, {failures} judged wrongly')
    return 1 if failures else 0


def main():
    if sys.argv[1:2] == ['--self-test'] and len(sys.argv) == 4:
        return self_test(*sys.argv[2:])
    if len(sys.argv) < 4:
        print(__doc__, file=sys.stderr)
        return 2
    nm, isa, *objects = sys.argv[1:]
    problems = [p for obj in objects for p in problems_of(nm, isa, obj)]
    print('\n'.join([*problems, f'{len(objects)} objects checked, {len(problems)} problems']))
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
