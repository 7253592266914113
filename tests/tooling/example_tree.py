"""Copies of the sources with the files that CONTRIBUTING.md shows, and what is built of them."""

import os
import re
import shutil
import subprocess
import sys


def run(*command, status=0, **options):
    """The output of a command, which must end with the status."""
    words = [str(word) for word in command]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **options)
    if done.returncode != status:
        sys.exit(f'{" ".join(words)} ended with {done.returncode}:\n{done.stdout}')
    return done.stdout


def examples_of(guide):
    """The files that the guide shows: their names, quoted at the head of a paragraph that ends in a
    colon, and the block of code that follows."""
    paragraph = r'^`([\w/]+\.(?:h|cpp))`(?:[^\n]|\n(?!\n))*:\n\n```cpp\n(.*?)```'
    return dict(re.findall(paragraph, guide, re.S | re.M))


def copy_with(source, tree, files, *parts):
    """A copy of the library's sources, and of these parts, with more files in it."""
    for part in ('src', 'include', 'backends', 'tools', 'cmake', *parts):
        shutil.copytree(source / part, tree / part)
    shutil.copy(source / 'CMakeLists.txt', tree)
    for name, text in files.items():
        if (tree / name).exists():
            sys.exit(f'{name} exists already; the example must be new')
        (tree / name).write_text(text)


def configure(tree, build, compiler, *options):
    os.environ['CCACHE_BASEDIR'] = str(tree.parent)  # the next run's folder has another name
    run('cmake', '-S', tree, '-B', build, '-G', 'Ninja', f'-DCMAKE_CXX_COMPILER={compiler}',
        '-DFACULA_TESTS=OFF', '-DFACULA_EXAMPLES=OFF', '-DFACULA_CUDA=OFF', *options)


def objects_of(build, sources):
    """Those that the build makes of these files."""
    known = re.findall(r'^build (\S+\.o):', (build / 'build.ninja').read_text(), re.M)
    return [name for name in known if name.endswith(tuple(f'/{s}.o' for s in sources))]
