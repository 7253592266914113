#!/usr/bin/env python3
"""Installs the library and uses it as a stranger would, from a project of its own.

Checked: the consumer project configures, builds and runs; the cost of compiling and linking it; the
size of what was installed, stripped, and of the thread-local storage, of which there is little for
libraries that are loaded at run time, and that none of other libraries is used; that it has the
index of ops, that backtraces can name a program's functions; that the package names no path of the
build and no flag of ours. The run-time dependencies are listed with their sizes.

usage: package_test.py BUILD_DIR CONSUMER_DIR WORK_DIR CXX
       package_test.py --self-test     prove that the limits can be exceeded
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

MAX_SECONDS = 3.0  # processor time: the load of the machine does not count
MAX_COMPILE_MIB = 400
MAX_INSTALLED_MB = 15
MAX_TLS_BYTES = 512
OUR_FLAGS = re.compile(r'-f(visibility|tls-model|sanitize|openmp)|-W[a-z]|-march')


def run(*command, **options):
    subprocess.run([str(word) for word in command], check=True, **options)


def measure(command, folder):
    """Runs a command; returns its processor seconds and peak memory in MiB, children included."""
    process = subprocess.Popen([str(word) for word in command], cwd=folder)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f'failed: {command}')
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def cost_problems(seconds, mib):
    print(f'compiling and linking hello.cpp: {seconds:.2f} s of processor time (at most '
          f'{MAX_SECONDS}), {mib:.0f} MiB (at most {MAX_COMPILE_MIB})')
    return [f'{value:.2f} {unit} exceeds {limit}'
            for value, unit, limit in ((seconds, 's', MAX_SECONDS), (mib, 'MiB', MAX_COMPILE_MIB))
            if value > limit]


def size_problems(prefix):
    files = [f for f in prefix.rglob('*') if f.is_file() and not f.is_symlink()]
    total = sum(f.stat().st_size for f in files)
    print(f'installed, stripped: {total / 1e6:.2f} MB in {len(files)} files (at most '
          f'{MAX_INSTALLED_MB} MB)')
    for file in files:
        if file.stat().st_size > 1e5:
            print(f'  {file.stat().st_size / 1e6:8.2f} MB  {file.relative_to(prefix)}')
    return [f'{total / 1e6:.2f} MB exceed {MAX_INSTALLED_MB}'] if total > MAX_INSTALLED_MB * 1e6 else []


def listing_of(library, what):
    return subprocess.run(['readelf', what, '--wide', library], check=True, capture_output=True,
                          text=True).stdout


def tls_problems(segments):
    """Of the listing of readelf --segments."""
    size = sum(int(line.split()[5], 16) for line in segments.splitlines()
               if line.split()[:1] == ['TLS'])
    print(f'thread-local storage: {size} bytes (at most {MAX_TLS_BYTES})')
    return [f'{size} bytes of thread-local storage exceed {MAX_TLS_BYTES}; use '
            'base::per_thread'] if size > MAX_TLS_BYTES else []


def foreign_tls_problems(relocations):
    """Of the listing of readelf --relocs: storage of other libraries is out of reach where these
    were loaded after the program began."""
    foreign = [name for line in relocations.splitlines()
               for name in re.findall(r'_TPOFF64 .* (\S+)@', line)]
    return [f'{name} of another library is addressed directly' for name in foreign]


def package_problems(prefix, machine_folders):
    problems = []
    for file in prefix.rglob('*.cmake'):
        text = file.read_text()
        problems += [f'{file.name} names {folder}' for folder in machine_folders if folder in text]
        problems += [f'{file.name} leaks the flag {m.group()}' for m in OUR_FLAGS.finditer(text)]
    return problems


def contents_problems(prefix, program):
    problems = []
    if not (prefix / 'share/doc/facula/ops_index.md').exists():
        problems.append('the index of ops is not installed')
    symbols = subprocess.run(['nm', '-D', '--defined-only', program], check=True,
                             capture_output=True, text=True).stdout
    if ' T main' not in symbols:
        problems.append('backtraces cannot name the functions of a program')
    return problems


def list_dependencies(library):
    listing = subprocess.run(['ldd', library], check=True, capture_output=True, text=True).stdout
    print('run-time dependencies:')
    for name, path in re.findall(r'(\S+) => (/\S+)', listing):
        print(f'  {os.path.getsize(os.path.realpath(path)) / 1e6:8.2f} MB  {name}')


def self_test():
    cases = [(cost_problems(0.5, 90), 0), (cost_problems(3.5, 90), 1), (cost_problems(0.5, 500), 1)]
    line = '  TLS   0xc2 0x00c2 0x00c2 0x000004 0x{:06x} R   0x10\n'
    cases += [(tls_problems(line.format(456)), 0), (tls_problems(line.format(9400)), 1)]
    line = '00c35c20  0000007500000012 R_X86_64_TPOFF64  {} + 0\n'
    cases += [(foreign_tls_problems(line.format('0000 own_list')), 0),
              (foreign_tls_problems(line.format('0000 once_call@GLIBCXX_3.4.11')), 1)]
    with tempfile.TemporaryDirectory() as folder:
        prefix = pathlib.Path(folder)
        cases.append((size_problems(prefix), 0))
        with open(prefix / 'libbig.so', 'wb') as big:
            big.truncate(16_000_000)
        cases.append((size_problems(prefix), 1))
        (prefix / 'FaculaTargets.cmake').write_text('set(x "/some/build/lib -fopenmp")')
        cases.append((package_problems(prefix, ['/some/build']), 2))
    wrong = [case for case in cases if len(case[0]) != case[1]]
    print(f'{len(cases)} cases checked, {len(wrong)} judged wrongly: {wrong}')
    return 1 if wrong else 0


def main():
    if sys.argv[1:] == ['--self-test']:
        return self_test()
    if len(sys.argv) != 5:
        print(__doc__, file=sys.stderr)
        return 2
    build, consumer, work, cxx = (pathlib.Path(a) for a in sys.argv[1:])
    shutil.rmtree(work, ignore_errors=True)
    prefix, project = work / 'prefix', work / 'consumer'
    run('cmake', '--install', build, '--prefix', prefix, '--strip', stdout=subprocess.DEVNULL)

    os.environ['CCACHE_DISABLE'] = '1'  # it would hide what a compilation costs
    run('cmake', '-S', consumer, '-B', project, '-G', 'Ninja', f'-DCMAKE_PREFIX_PATH={prefix}',
        f'-DCMAKE_CXX_COMPILER={cxx}', '-DCMAKE_BUILD_TYPE=Release',
        stdout=subprocess.DEVNULL)
    problems = cost_problems(*measure(['cmake', '--build', '.'], project))
    run(project / 'hello')

    problems += size_problems(prefix)
    problems += contents_problems(prefix, project / 'hello')
    problems += package_problems(prefix, [str(build), str(consumer.parents[2]), str(prefix)])
    library = next(prefix.rglob('libfacula.so'))
    problems += tls_problems(listing_of(library, '--segments'))
    problems += foreign_tls_problems(listing_of(library, '--relocs'))
    list_dependencies(library)
    for problem in problems:
        print(f'problem: {problem}')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
