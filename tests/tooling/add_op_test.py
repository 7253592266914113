#!/usr/bin/env python3
"""Adding an op takes one new file: adds an elementwise op, a reduction and a composite to a copy of
the sources, one file each, configures it and compiles what its build has for them: definitions,
functions and kernels of every instruction set must all be there, and registered. They are the
worked examples of CONTRIBUTING.md; its module is compiled as well, and its kernel by
add_kernel_test.py.

usage: add_op_test.py SOURCE_DIR CXX
       add_op_test.py --self-test SOURCE_DIR CXX
           prove that an incomplete op file, a functor with a branch and missing parts are rejected
"""

import pathlib
import re
import subprocess
import sys
import tempfile

from example_tree import configure, copy_with, examples_of, objects_of, run

HERE = pathlib.Path(__file__).parent
KINDS = 'elementwise', 'reduction'  # those that have kernels, in the order of the guide
ISAS = 'baseline', 'avx2', 'avx512'


def new_files(source):
    """The op files, as the guide orders them: elementwise, reduction, composite; and the module."""
    examples = examples_of((source / 'CONTRIBUTING.md').read_text())
    ops = {path: text for path, text in examples.items() if path.startswith('src/ops/')}
    if len(ops) != 3 or 'block.h' not in examples:
        sys.exit(f'CONTRIBUTING.md shows {sorted(examples)}, expected three ops and block.h')
    return ops, examples['block.h']


class Tree:
    """A copy of the sources with more ops in it, configured."""

    def __init__(self, source, folder, files, compiler):
        self.root, self.build, self.compiler = folder / 'tree', folder / 'build', compiler
        self.generated = self.build / 'generated'
        self.names = [pathlib.Path(name).stem for name in files]
        copy_with(source, self.root, files)
        # Kernels have flags of their own. Optimising the rest would find nothing more.
        configure(self.root, self.build, compiler, '-DCMAKE_BUILD_TYPE=None',
                  '-DCMAKE_COMPILE_WARNING_AS_ERROR=ON', '-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON')

    def sources(self):
        """What is compiled for the ops. Units of kernels keep theirs alone: others take time."""
        sources = [f'composite/{name}.cpp' for name in self.names]
        any_name = f'(?:{"|".join(self.names)})'
        for unit in self.generated.rglob('*.cpp'):
            text = unit.read_text()
            kernels = re.findall(rf'.*\n#define FACULA_OP {any_name}\n.*\n', text)
            if kernels:
                unit.write_text(''.join(kernels))
            if re.search(rf'\b{any_name}\b', text):
                sources.append(unit.relative_to(self.generated))
        return [*sources, 'backends/cpu/registration.cpp']

    def compile(self, unit, *flags):
        """Compiles one file by hand; returns the compiler's complaints."""
        includes = [f'-I{path}' for path in (self.root / 'include', self.generated / 'include',
                                             self.root / 'src', self.root, self.generated,
                                             HERE.parent.parent)]
        result = subprocess.run(
            [self.compiler, '-std=c++20', '-Wall', '-Wextra', '-Werror', *flags, *includes,
             '-c', unit, '-o', self.build / f'{unit.stem}.o'], capture_output=True, text=True)
        return result.stderr if result.returncode else ''

    def compile_symbolic(self, name, kind):
        """The expression that code generation needs."""
        unit = self.generated / f'{name}_symbolic.cpp'
        use = (f'program_of<scalar::{name}_functor>(ops::{name}_attrs{{}})' if kind == 'elementwise'
               else f'programs_of<scalar::{name}_reduction>(1)')
        unit.write_text(f'#include "tests/ops/symbolic_functor.h"\n#include "ops/defs/{name}.h"\n'
                        f'namespace facula::test {{ auto use() {{ return {use}; }} }}\n')
        return self.compile(unit, '-DFACULA_KERNEL_TU')


def registered(names):
    """What the library's tables refer to."""
    kernels = [f'{kind}_{name}' for kind, name in zip(KINDS, names)]
    return {*(f'facula::ops::define_{name}()' for name in names),
            *(f'facula::cpu::{isa}::{kernel}' for isa in ISAS for kernel in kernels)}


def symbol_problems(listing, names):
    """Of what nm says of the objects."""
    symbols = re.findall(r'^[0-9a-f ]{16} (\w) (.*)$', listing, re.M)
    used = {symbol for kind, symbol in symbols if kind == 'U'}
    needed = registered(names) | {s for s in used if any(name in s for name in names)}
    return [f'nothing refers to {s}' for s in sorted(needed - used)] + [
        f'no object has {s}' for s in sorted(needed - {s for kind, s in symbols if kind != 'U'})]


def with_branch(text):
    """The functor of an elementwise op with an `if` before its last statement."""
    return re.sub(r'\n( *)return ', r'\n\1if (x > K<T>(1)) return x;\g<0>', text, count=1)


def self_test(source, folder, files, compiler):
    name, text = next(iter(files.items()))
    tree = Tree(source, folder, {name: re.sub(r' *\.autocast = .*\n', '', text)}, compiler)
    (definition,) = objects_of(tree.build, [f'define/{tree.names[0][0]}.cpp'])
    if f'{name}:' not in run('ninja', '-C', tree.build, definition, status=1):
        return 'an op without autocast policy compiles'
    (tree.root / name).write_text(with_branch(text))
    if not tree.compile_symbolic(tree.names[0], KINDS[0]):
        return 'a functor with a branch has an expression'
    whole = ''.join(f'{"":16} U {s}\n{0:016} D {s}\n' for s in registered(tree.names))
    parts = [re.sub(f'.* {kind} .*\n', '', whole, count=1) for kind in 'UD']
    found = [len(symbol_problems(listing, tree.names)) for listing in (whole, *parts)]
    return 0 if found == [0, 1, 1] else f'problems without a part of an op: {found}'


def problems(tree, module):
    objects = objects_of(tree.build, tree.sources())
    run('ninja', '-C', tree.build, '-k', 0, *objects)
    (tree.generated / 'block.h').write_text(module)
    found = [tree.compile(HERE / f'new_ops/{name}.cpp') for name in ('use', 'use_module')]
    found += [tree.compile_symbolic(name, kind) for name, kind in zip(tree.names, KINDS)]
    if not any(found):
        listing = run('nm', '-C', *(tree.build / name for name in ['use.o', *objects]))
        found = symbol_problems(listing, tree.names)
    listed = (tree.generated / 'ops/ops_index.md').read_text()
    found += [f'{name} is not in the index of ops' for name in tree.names
              if f'`{name}(' not in listed]
    # Or the generated tests would find errors that name the ops within instead.
    composite = tree.root / f'src/ops/composite/{tree.names[-1]}.cpp'
    if f'return in_call("{tree.names[-1]}", ' not in composite.read_text():
        found.append(f'{tree.names[-1]} is not told in errors of what it calls')
    print(f'{len(tree.names)} ops of one file each are in {len(objects)} objects')
    return [problem for problem in found if problem]


def main():
    arguments = [a for a in sys.argv[1:] if a != '--self-test']
    source, compiler = pathlib.Path(arguments[0]).resolve(), arguments[1]
    files, module = new_files(source)
    with tempfile.TemporaryDirectory() as folder:
        if '--self-test' in sys.argv:
            sys.exit(self_test(source, pathlib.Path(folder), files, compiler))
        found = problems(Tree(source, pathlib.Path(folder), files, compiler), module)
    print(*found, sep='\n')
    sys.exit(1 if found else 0)


if __name__ == '__main__':
    main()
