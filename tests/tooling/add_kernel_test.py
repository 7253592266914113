#!/usr/bin/env python3
"""Adding a kernel takes the files that CONTRIBUTING.md shows as its example: adds them to a copy of the
sources, configures it, compiles what is new and links it with what the build has of the rest. The
dispatcher must choose the kernel where it does not refuse, and bench_kernels must reach it and find
it right on random problems.

usage: add_kernel_test.py SOURCE_DIR BUILD_DIR CXX
       add_kernel_test.py --self-test     prove that a kernel that was not chosen, or not reached, is found
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from add_op_test import examples_of

HERE = pathlib.Path(__file__).parent
FAMILY = 'benchmarks/kernels/rows.cpp'
KERNEL, OTHER, REFUSAL = 'reversed lines', 'copy', 'not the last dimension alone'


def run(*command, **options):
    """The output of a command, which must succeed."""
    words = [str(word) for word in command]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **options)
    if done.returncode:
        sys.exit(f'{" ".join(words)} ended with {done.returncode}:\n{done.stdout}')
    return done.stdout


def new_files(source):
    """The files of the kernel, and the lines that make it known to bench_kernels."""
    examples = examples_of((source / 'CONTRIBUTING.md').read_text())
    files = {path: text for path, text in examples.items() if path.startswith('backends/')}
    if len(files) != 3 or FAMILY not in examples:
        sys.exit(f'CONTRIBUTING.md shows {sorted(examples)}, expected three files of a kernel and '
                 f'{FAMILY}')
    return files, examples[FAMILY]


def with_lines(family, lines):
    """A family of problems with an include, the operands and the entry of one more op."""
    include, operands, entry = lines.split('\n\n')
    for mark, added in (('}  // namespace\n\nstd::vector<Kind> rows()', operands + '\n\n'),
                        ('      {"softmax",', entry)):
        if family.count(mark) != 1:
            sys.exit(f'{FAMILY} has changed: where do the lines of the example go?')
        family = family.replace(mark, added + mark)
    return f'{include}\n{family}'


def copy_with(source, tree, files, lines):
    for part in ('src', 'include', 'backends', 'tools', 'cmake', 'benchmarks'):
        shutil.copytree(source / part, tree / part)
    shutil.copy(source / 'CMakeLists.txt', tree)
    for name, text in files.items():
        if (tree / name).exists():
            sys.exit(f'{name} exists already; the example must be new')
        (tree / name).write_text(text)
    (tree / FAMILY).write_text(with_lines((tree / FAMILY).read_text(), lines))


def compile_new(tree, folder, files, compiler):
    """The objects of the new files, of the list of implementations and of the family, as the build
    makes them."""
    run('cmake', '-S', tree, '-B', folder, '-G', 'Ninja', '-DCMAKE_BUILD_TYPE=Release',
        f'-DCMAKE_CXX_COMPILER={compiler}', '-DFACULA_TESTS=OFF', '-DFACULA_EXAMPLES=OFF',
        '-DFACULA_BENCHMARKS=ON', '-DFACULA_CUDA=OFF')
    known = re.findall(r'^build (\S+\.o):', (folder / 'build.ninja').read_text(), re.M)
    sources = [name for name in files if name.endswith('.cpp')] + ['backends/cpu/registration.cpp']
    library = [name for name in known if name.endswith(tuple(f'/{s}.o' for s in sources))]
    family = [name for name in known if name.endswith('bench_kernels.dir/kernels/rows.cpp.o')]
    run('ninja', '-C', folder, *library, *family)
    return [folder / name for name in library], [folder / name for name in family]


def link(compiler, program, objects, build):
    """What is not among the objects comes from the static library, and what that needs from the
    libraries of the shared one."""
    dynamic = run('readelf', '--dynamic', '--wide', build / 'libfacula.so')
    needed = re.findall(r'\(NEEDED\).*\[(.*)\]', dynamic)
    run(compiler, '-o', program, *objects, build / 'libfacula_internal.a',
        *(f'-l:{name}' for name in needed if not name.startswith('ld-')))


def dispatch_problems(log):
    """Of what FACULA_VERBOSE shows: first a call that the kernel takes, then one that it refuses."""
    calls = re.findall(r'\bflip float32.*', log)
    wanted = [rf'}} {KERNEL}: ', rf'}} {OTHER}: .*; refused by {KERNEL}: {REFUSAL}']
    right = len(calls) >= 2 and all(map(re.search, wanted, calls))
    return [] if right else [f'the kernel was not chosen or did not refuse:\n{log}']


def benchmark_problems(output):
    """Of what bench_kernels says of a problem."""
    return [f'bench_kernels does not show {name}:\n{output}' for name in (KERNEL, OTHER)
            if not re.search(rf'^ *{name} .*error 0\.0e\+00 *$', output, re.M)]


def self_test():
    chosen = f'flip float32[4, 25] {{dims=[1]}} {KERNEL}: 0.01 ms, 1 GB/s\n'
    refused = (f'flip float32[4, 25] {{dims=[0, 1]}} {OTHER}: 0.01 ms, 1 GB/s; refused by {KERNEL}: '
               f'{REFUSAL}\n')
    shown = f'flip:m2n3\n  {KERNEL}   error 0.0e+00\n  {OTHER}   error 0.0e+00\n'
    cases = [(dispatch_problems(chosen + refused), 0), (dispatch_problems(refused + refused), 1),
             (dispatch_problems(chosen + chosen), 1), (dispatch_problems(''), 1),
             (benchmark_problems(shown), 0),
             (benchmark_problems(shown.replace(KERNEL, OTHER)), 1),
             (benchmark_problems(shown.replace('0.0e+00', '5.0e-01', 1)), 1)]
    wrong = [case for case in cases if len(case[0]) != case[1]]
    print(f'{len(cases)} cases checked, {len(wrong)} judged wrongly: {wrong}')
    return 1 if wrong else 0


def main():
    if '--self-test' in sys.argv:
        sys.exit(self_test())
    source, build = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
    compiler = sys.argv[3]
    files, lines = new_files(source)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        copy_with(source, folder / 'tree', files, lines)
        library, family = compile_new(folder / 'tree', folder / 'build', files, compiler)
        user = folder / 'use_kernel.o'
        run(compiler, '-std=c++20', '-c', HERE / 'new_ops/use_kernel.cpp', '-o', user,
            f'-I{source / "include"}', f'-I{build / "generated/include"}')
        link(compiler, folder / 'use_kernel', [user, *library], build)
        others = [o for o in build.glob('benchmarks/CMakeFiles/bench_kernels.dir/kernels/*.o')
                  if o.name != 'rows.cpp.o']
        link(compiler, folder / 'bench_kernels', [*others, *family, *library], build)
        log = run(folder / 'use_kernel', env={**os.environ, 'FACULA_VERBOSE': '1'})
        shown = run(folder / 'bench_kernels', '--check', 'flip:m64n10k1000')
        run(folder / 'bench_kernels', '--random', 100, 'flip')
    found = dispatch_problems(log) + benchmark_problems(shown)
    print(*(found or [f'{KERNEL}: {len(library)} objects compiled, chosen and right']), sep='\n')
    sys.exit(1 if found else 0)


if __name__ == '__main__':
    main()
