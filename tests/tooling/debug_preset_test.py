#!/usr/bin/env python3
"""The preset `debug`, which no script builds: configures it, and looks at how it would compile.

usage: debug_preset_test.py ROOT CXX
       debug_preset_test.py --self-test     prove that other builds are told from it
"""

import json
import pathlib
import subprocess
import sys
import tempfile


def problems(cache, commands):
    """Of CMake's cache, and of how it would compile files."""
    kernels = [words for words in commands if '-DFACULA_KERNEL_TU' in words]
    others = [words for words in commands if '-DFACULA_KERNEL_TU' not in words]

    def optimised(words):
        return any(word.startswith('-O') for word in words)

    claims = {'the build type is Debug': '\nCMAKE_BUILD_TYPE:STRING=Debug\n' in cache,
              'all is for a debugger': all('-g' in words for words in commands),
              'assertions are on': not any('-DNDEBUG' in words for words in commands),
              'kernels are optimised': kernels and all(map(optimised, kernels)),
              'the rest is not': others and not any(map(optimised, others))}
    return [f'it is not so that {claim}' for claim, holds in claims.items() if not holds]


def self_test():
    cache, build = '\nCMAKE_BUILD_TYPE:STRING=Debug\n', 'c++ -g|c++ -g -DFACULA_KERNEL_TU -O3'
    cases = [('c++', 'g++', 0), ('Debug', 'Release', 1), ('-g -D', '-D', 1), ('c++ -g|', 'c++|', 1),
             ('-g|', '-g -DNDEBUG|', 1), (' -O3', '', 1), ('-g|', '-g -O2|', 1), ('c++ -g|', '', 1)]
    found = [len(problems(cache.replace(a, b), [c.split() for c in build.replace(a, b).split('|')]))
             for a, b, _ in cases]
    print(f'{len(cases)} builds checked: {found}')
    return 0 if found == [count for *_, count in cases] else 1


def main():
    if sys.argv[1:] == ['--self-test']:
        sys.exit(self_test())
    root, compiler = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        # Looking for a CUDA toolkit takes longer than all the rest.
        subprocess.run(['cmake', '--preset', 'debug', '-B', name, '-DFACULA_CUDA=OFF',
                        f'-DCMAKE_CXX_COMPILER={compiler}'], cwd=root, check=True)
        folder = pathlib.Path(name)
        commands = json.loads((folder / 'compile_commands.json').read_text())
        found = problems((folder / 'CMakeCache.txt').read_text(),
                         [command['command'].split() for command in commands])
    print(*found, f'{len(commands)} commands checked', sep='\n')
    sys.exit(1 if found else 0)


if __name__ == '__main__':
    main()
