#!/usr/bin/env python3
"""The text of every functor's expression is C++ that computes the same bits as the expression.

test_ops writes the texts into one file, as functions, which is compiled here with the compiler of
the build; then test_ops loads the result and compares, see symbolic_text.h. Exits with 77 without
that compiler, and where only the way the library is built is another.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

BIN = pathlib.Path(os.environ['FACULA_BIN_DIR'])
FILTER = '--gtest_filter=SymbolicFunctor.*:SymbolicText.*'


def skip(reason):
    print(reason)
    sys.exit(77)


def run_tests(**environment):
    done = subprocess.run([BIN / 'test_ops', FILTER], env={**os.environ, **environment},
                          capture_output=True, text=True)
    if done.returncode or 'SKIPPED' in done.stdout:
        sys.exit(f'test_ops with {environment} failed\n{done.stdout}{done.stderr}')


def main():
    cache = (BIN.parent / 'CMakeCache.txt').read_text()
    settings = dict(re.findall(r'^(\w+):\w+=(.*)$', cache, re.M))
    if settings.get('FACULA_SANITIZE') or settings['CMAKE_BUILD_TYPE'] != 'Release':
        skip('text does not depend on how the library is built')
    compiler = settings['CMAKE_CXX_COMPILER']
    if not shutil.which(compiler):
        skip(f'the compiler, {compiler}, is not here')
    with tempfile.TemporaryDirectory() as folder:
        source, library = pathlib.Path(folder, 'emitted.cpp'), pathlib.Path(folder, 'emitted.so')
        run_tests(FACULA_EMITTED_SOURCE=str(source))
        done = subprocess.run(
            [compiler, *shlex.split(settings.get('CMAKE_CXX_FLAGS', '')), '-std=c++20', '-O0',
             '-ffp-contract=off', '-fPIC', '-shared',
             f'-I{settings["CMAKE_HOME_DIRECTORY"]}/src', source, '-o', library],
            capture_output=True, text=True)
        if done.returncode:
            sys.exit(f'the text does not compile\n{done.stderr}')
        run_tests(FACULA_EMITTED_LIBRARY=str(library))
        functions = source.read_text().count('extern "C"')
    print(f'{functions} texts compiled and compared')


if __name__ == '__main__':
    main()
