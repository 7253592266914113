#!/usr/bin/env python3
"""Adding an op takes one new file: adds an elementwise op, a reduction and a composite to a copy of
the sources, one file each, and builds what follows from them. They are the worked examples of
CONTRIBUTING.md; its module is compiled as well, and its kernel by add_kernel_test.py.

usage: add_op_test.py SOURCE_DIR CXX
       add_op_test.py --self-test SOURCE_DIR CXX
           prove that an incomplete op file and a functor with a branch are rejected
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
ISA_FLAGS = {'baseline': [], 'avx2': ['-march=x86-64-v3'], 'avx512': ['-march=x86-64-v4']}


def examples_of(guide):
    """The files that the guide shows: their names, quoted at the head of a paragraph that ends with a
    colon, and the block of code that follows."""
    paragraph = r'^`([\w/]+\.(?:h|cpp))`(?:[^\n]|\n(?!\n))*:\n\n```cpp\n(.*?)```'
    return dict(re.findall(paragraph, guide, re.S | re.M))


def new_files(source):
    """The op files, as the guide orders them: elementwise, reduction, composite; and the module."""
    examples = examples_of((source / 'CONTRIBUTING.md').read_text())
    ops = {path: text for path, text in examples.items() if path.startswith('src/ops/')}
    if len(ops) != 3 or 'block.h' not in examples:
        sys.exit(f'CONTRIBUTING.md shows {sorted(examples)}, expected three ops and block.h')
    return ops, examples['block.h']


class Tree:
    """A copy of the sources with more files in it."""

    def __init__(self, source, folder, files, compiler):
        self.root, self.generated, self.compiler = folder / 'tree', folder / 'generated', compiler
        for part in ('src', 'include', 'backends', 'tools'):
            shutil.copytree(source / part, self.root / part)
        self.before = self.contents()
        for name, text in files.items():
            if (self.root / name).exists():
                sys.exit(f'{name} exists already; the example must be a new op')
            (self.root / name).write_text(text)
        self.names = [pathlib.Path(name).stem for name in files]

    def contents(self):
        return {str(p.relative_to(self.root)): p.read_bytes()
                for p in self.root.rglob('*') if p.is_file()}

    def changed(self):
        """Files that are not as they were before the ops were added."""
        return sorted(name for name, text in self.contents().items()
                      if self.before.get(name) != text)

    def generate(self):
        ops = [p for pattern in ('defs/*.h', 'defs/*.cpp', 'composite/*.cpp')
               for p in self.root.glob(f'src/ops/{pattern}')]
        subprocess.run([sys.executable, self.root / 'tools/generate_ops.py', '--ops', *ops,
                        '--out', self.generated], check=True)

    def compile(self, unit, *flags):
        """Compiles one file; returns the compiler's complaints."""
        includes = [f'-I{path}' for path in (self.root / 'include', self.generated / 'include',
                                             self.root / 'src', self.root, self.generated,
                                             HERE.parent.parent)]
        result = subprocess.run(
            [self.compiler, '-std=c++20', '-Wall', '-Wextra', '-Werror', *flags, *includes,
             '-c', unit, '-o', '/dev/null'], capture_output=True, text=True)
        return result.stderr if result.returncode else ''

    def compile_kernel(self, name, kind, isa):
        unit = self.generated / f'{name}_{isa}.cpp'
        unit.write_text(f'#include "ops/defs/{name}.h"\n#define FACULA_OP {name}\n'
                        f'#include "backends/cpu/kernels/{kind}_tu.inc"\n')
        return self.compile(unit, '-O3', '-fno-math-errno', '-fno-trapping-math',
                            '-ffp-contract=off', '-DFACULA_KERNEL_TU', f'-DFACULA_ISA={isa}',
                            *ISA_FLAGS[isa])

    def compile_symbolic(self, name, kind):
        """The expression that code generation needs."""
        unit = self.generated / f'{name}_symbolic.cpp'
        use = (f'program_of<scalar::{name}_functor>(ops::{name}_attrs{{}})' if kind == 'elementwise'
               else f'programs_of<scalar::{name}_reduction>(1)')
        unit.write_text(f'#include "tests/ops/symbolic_functor.h"\n#include "ops/defs/{name}.h"\n'
                        f'namespace facula::test {{ auto use() {{ return {use}; }} }}\n')
        return self.compile(unit, '-O0', '-DFACULA_KERNEL_TU')


def with_branch(text):
    """The functor of an elementwise op with an `if` before its last statement."""
    return re.sub(r'\n( *)return ', r'\n\1if (x > K<T>(1)) return x;\g<0>', text, count=1)


def self_test(source, folder, files, compiler):
    name, text = next(iter(files.items()))
    tree = Tree(source, folder, {name: re.sub(r' *\.autocast = .*\n', '', text)}, compiler)
    tree.generate()
    if not tree.compile(tree.generated / f'ops/define/{tree.names[0][0]}.cpp', '-O0'):
        return 'an op without autocast policy compiles'
    (tree.root / name).write_text(with_branch(text))
    if not tree.compile_symbolic(tree.names[0], 'elementwise'):
        return 'a functor with a branch has an expression'
    return 0


def problems(tree, module):
    tree.generate()
    (tree.generated / 'block.h').write_text(module)
    units = [tree.generated / f'ops/define/{name[0]}.cpp' for name in tree.names[:2]]
    units += [tree.root / f'src/ops/composite/{tree.names[2]}.cpp',
              tree.generated / 'ops/functions.cpp', tree.generated / 'ops/registration.cpp',
              HERE / 'new_ops/use.cpp', HERE / 'new_ops/use_module.cpp']
    found = [complaint for unit in units if (complaint := tree.compile(unit, '-O0'))]
    for name, kind in zip(tree.names, ('elementwise', 'reduction')):
        found += [complaint for isa in ISA_FLAGS
                  if (complaint := tree.compile_kernel(name, kind, isa))]
        found += [complaint] if (complaint := tree.compile_symbolic(name, kind)) else []
    listed = (tree.generated / 'ops/ops_index.md').read_text()
    found += [f'{name} is not in the index of ops' for name in tree.names
              if f'`{name}(' not in listed]
    return found


def main():
    arguments = [a for a in sys.argv[1:] if a != '--self-test']
    source, compiler = pathlib.Path(arguments[0]).resolve(), arguments[1]
    files, module = new_files(source)
    with tempfile.TemporaryDirectory() as folder:
        if '--self-test' in sys.argv:
            sys.exit(self_test(source, pathlib.Path(folder), files, compiler))
        tree = Tree(source, pathlib.Path(folder), files, compiler)
        found = problems(tree, module)
        changed = tree.changed()
    print(f'{len(files)} ops added by {len(changed)} new files: {", ".join(changed)}')
    if len(changed) != len(files):
        found.append('one op must take one file')
    print(*found, sep='\n')
    sys.exit(1 if found else 0)


if __name__ == '__main__':
    main()
