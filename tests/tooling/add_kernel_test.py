#!/usr/bin/env python3
"""Adding a kernel takes the files that CONTRIBUTING.md shows as its example: adds them to a copy of
the sources, configures it, compiles what is new and links it with what the build has of the rest.
The dispatcher must choose the kernel where it does not refuse, and bench_kernels must reach it,
find it right on random problems and measure it, and find it wrong if one element of a line is.

usage: add_kernel_test.py SOURCE_DIR BUILD_DIR CXX
       add_kernel_test.py --self-test     prove that all of this can fail
"""

import math
import os
import pathlib
import re
import sys
import tempfile

from example_tree import configure, copy_with, examples_of, objects_of, run

HERE = pathlib.Path(__file__).parent
FAMILY = 'benchmarks/kernels/rows.cpp'
KERNEL, OTHER, REFUSAL = 'reversed lines', 'copy', 'not the last dimension alone'
LOOPS, ELEMENT = 'backends/cpu/kernels/reverse.cpp', 'from[n - 1 - i]'

# Problems, their multiplications and additions, and the bytes that they move.
FLIP = 'flip:m64n10k1000', 0, 2 * 4 * 64 * 10 * 1000
PRODUCT = 'mm:m256n256k256', 2 * 256**3, 3 * 4 * 256**2
PEAKS = re.compile(r'^peaks of \d+ threads: (\d+) GFLOP/s, ([\d.]+) GB/s in place$', re.M)
# An implementation, its time, and speeds with percent of those.
TIMED = re.compile(r'^ +(\S.*?) +error \S+ +([\d.]+) ms(?: +([\d.]+) GFLOP/s +(\d+) %)?'
                   r' +([\d.]+) GB/s +(\d+) %$', re.M)


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


def spoil(loops):
    """Makes the first element of every line wrong."""
    text = loops.read_text()
    if text.count(ELEMENT) != 1:
        sys.exit(f'{LOOPS} has changed: where is an element computed?')
    loops.write_text(text.replace(ELEMENT, f'{ELEMENT} + (i == 0 ? 1.0f : 0.0f)'))


def compile_new(folder, files):
    """The objects of the new files, of the list of implementations and of the family, as the build
    makes them."""
    library = objects_of(folder, [*files, 'backends/cpu/registration.cpp'])
    family = objects_of(folder, ['bench_kernels.dir/kernels/rows.cpp'])
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


def timing_problems(output, problem, names):
    """Of what a timed run says of a problem: speeds must follow from times, percents from peaks."""
    text, *amounts = problem
    peaks = PEAKS.search(output)
    below = re.search(rf'^{text}\n((?: .*\n)+)', output, re.M)
    timed = TIMED.findall(below[1]) if below else []
    right = bool(peaks and timed) and names <= {line[0] for line in timed}
    for _, ms, *speeds in timed if right else []:
        for amount, peak, speed, percent in zip(amounts, peaks.groups(), speeds[::2], speeds[1::2]):
            if amount and speed:  # as exact as what is printed
                right &= math.isclose(float(speed), amount / float(ms) * 1e-6, rel_tol=0.1,
                                      abs_tol=0.1)
                right &= math.isclose(float(percent), 100 * float(speed) / float(peak), rel_tol=0.1,
                                      abs_tol=3)
            else:
                right &= not amount and not speed
    return [] if right else [f'bench_kernels does not show how fast {text} is:\n{output}']


def judgement_problems(checked, compared):
    """Of what bench_kernels says of a wrong kernel: on one problem, and on random ones."""
    wanted = [(checked, rf'^ *{KERNEL} .*WRONG$'), (checked, rf'^ *{OTHER} .*error 0\.0e\+00$'),
              (compared, rf'^WRONG {KERNEL}: flip:'), (compared, rf'^ *{OTHER} .* 0 wrong')]
    return [f'bench_kernels does not say which kernel is wrong:\n{output}'
            for output, pattern in wanted if not re.search(pattern, output, re.M)]


def self_test():
    chosen = f'flip float32[4, 25] {{dims=[1]}} {KERNEL}: 0.01 ms, 1 GB/s\n'
    refused = (f'flip float32[4, 25] {{dims=[0, 1]}} {OTHER}: 0.01 ms, 1 GB/s; refused by {KERNEL}: '
               f'{REFUSAL}\n')
    shown = f'flip:m2n3\n  {KERNEL}   error 0.0e+00\n  {OTHER}   error 0.0e+00\n'
    cases = [(dispatch_problems(chosen + refused), 0), (dispatch_problems(refused + refused), 1),
             (dispatch_problems(chosen + chosen), 1), (dispatch_problems(''), 1),
             (benchmark_problems(shown), 0),
             (benchmark_problems(shown.replace(KERNEL, OTHER)), 1),
             (benchmark_problems(shown.replace('0.0e+00', '5.0e-01', 1)), 1),
             *timing_cases(), *judgement_cases()]
    wrong = [case for case in cases if len(case[0]) != case[1]]
    print(f'{len(cases)} cases checked, {len(wrong)} judged wrongly: {wrong}')
    return 1 if wrong else 0


def timing_cases():
    """Judgements of times, and how many complaints there should be."""
    peaks = 'peaks of 2 threads: 230 GFLOP/s, 20.1 GB/s in place\n'
    flip = f'{FLIP[0]}\n  {KERNEL}   error 0.0e+00      0.320 ms    16.0 GB/s   80 %\n'
    product = (f'{PRODUCT[0]}\n  tiles   refuses: far too large\n  blocks   error 1.0e-06 '
               '     0.291 ms   115.3 GFLOP/s   50 %     2.7 GB/s   13 %\n')
    outputs = [peaks + flip + product, flip + product, peaks,
               *((peaks + flip + product).replace(a, b) for a, b in (
                   ('0.320', '0.420'), ('80 %', '70 %'), ('16.0 GB/s', ''), (KERNEL, OTHER)))]
    cases = [(timing_problems(output, FLIP, {KERNEL}), int(i > 0))
             for i, output in enumerate(outputs)]
    outputs = [peaks + flip + product, peaks + flip,
               *((peaks + product).replace(a, b) for a, b in (
                   ('0.291', '0.219'), ('50 %', '60 %'), ('115.3 GFLOP/s   50 %', ''),
                   ('2.7', '3.7'), ('13 %', '23 %')))]
    return cases + [(timing_problems(output, PRODUCT, set()), int(i > 0))
                    for i, output in enumerate(outputs)]


def judgement_cases():
    """The same of what is said of a wrong kernel."""
    checked = f'flip:m2n3\n  {KERNEL}   error 5.0e-01  WRONG\n  {OTHER}   error 0.0e+00\n'
    compared = (f'WRONG {KERNEL}: flip:m2n3: error 5.0e-01\nflip\n'
                f'  {KERNEL}   1 problems, 1 wrong\n  {OTHER}   1 problems, 0 wrong\n')
    return [(judgement_problems(checked, compared), 0),
            (judgement_problems(checked.replace('  WRONG', ''), compared), 1),
            (judgement_problems(checked.replace('0.0e+00', '5.0e-01  WRONG'), compared), 1),
            (judgement_problems(checked, compared.replace('WRONG', '')), 1),
            (judgement_problems(checked, compared.replace(' 0 wrong', ' 1 wrong')), 1)]


def main():
    if '--self-test' in sys.argv:
        sys.exit(self_test())
    source, build = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
    compiler = sys.argv[3]
    files, lines = new_files(source)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        copy_with(source, folder / 'tree', files, 'benchmarks')
        family = folder / 'tree' / FAMILY
        family.write_text(with_lines(family.read_text(), lines))
        configure(folder / 'tree', folder / 'build', compiler, '-DCMAKE_BUILD_TYPE=Release',
                  '-DFACULA_BENCHMARKS=ON')
        library, family = compile_new(folder / 'build', files)
        user = folder / 'use_kernel.o'
        run(compiler, '-std=c++20', '-c', HERE / 'new_ops/use_kernel.cpp', '-o', user,
            f'-I{source / "include"}', f'-I{build / "generated/include"}')
        link(compiler, folder / 'use_kernel', [user, *library], build)
        others = [o for o in build.glob('benchmarks/CMakeFiles/bench_kernels.dir/kernels/*.o')
                  if o.name != 'rows.cpp.o']
        driver, objects = folder / 'bench_kernels', [*others, *family, *library]
        link(compiler, driver, objects, build)
        log = run(folder / 'use_kernel', env={**os.environ, 'FACULA_VERBOSE': '1'})
        shown = run(driver, '--check', FLIP[0])
        run(driver, '--random', 100, 'flip')
        timed = run(driver, '--rounds', 1, FLIP[0], PRODUCT[0])
        spoil(folder / 'tree' / LOOPS)
        compile_new(folder / 'build', files)
        link(compiler, driver, objects, build)
        checked = run(driver, '--check', FLIP[0], status=1)
        compared = run(driver, '--random', 10, 'flip', status=1)
    found = dispatch_problems(log) + benchmark_problems(shown)
    found += timing_problems(timed, FLIP, {KERNEL, OTHER}) + timing_problems(timed, PRODUCT, set())
    found += judgement_problems(checked, compared)
    print(*(found or [f'{KERNEL}: {len(library)} objects compiled, chosen and right']), sep='\n')
    sys.exit(1 if found else 0)


if __name__ == '__main__':
    main()
