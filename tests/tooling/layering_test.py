#!/usr/bin/env python3
"""Enforces the layers of docs/architecture.md on every #include of the tree.

usage: layering_test.py ROOT            check the tree under ROOT
       layering_test.py --self-test     prove that every rule can fail
"""

import pathlib
import re
import sys
import tempfile

# Lowest first. A layer may include itself and the layers before it; those in one tuple stand at the
# same height and may include each other. Each source folder of a layer is src/<name>.
LAYERS = [
    ('base',), ('core',), ('ops',), ('runtime',), ('autograd',), ('io',), ('data',), ('tuner',),
    ('nn', 'optim'), ('models',), ('train',),
]
HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}

# Every public header belongs to one layer. A new header is entered here.
PUBLIC = {
    'base': 'error export parallel version',
    'core': 'device dims dtype generator memory scalar state_dict tensor',
    'ops': 'call operators ops',
    'runtime': 'backends dlpack system',
    'autograd': 'autograd',
    'io': 'checkpoint json_line model_file npy safetensors torch_file',
    'data': 'data data/data_loader data/dataset data/image data/sample data/sampler data/transforms',
    'nn': 'nn nn/containers nn/functional nn/init nn/layers nn/loss nn/module nn/utils',
    'optim': 'optim optim/lr_scheduler optim/optimizer',
    'models': 'hub models',
    'train': 'train',
}
HEADER_LAYER = {f'{header}.h': layer for layer, headers in PUBLIC.items()
                for header in headers.split()}
HEADER_LAYER['tensor_methods.inc'] = 'core'
UMBRELLA = 'facula.h'

# tensor.h ends with the free functions and operators on tensors: `a + b` works wherever a Tensor
# is known. These two are declarations only and need the complete class.
UPWARD_EXCEPTIONS = {('tensor.h', 'ops.h'), ('tensor.h', 'operators.h')}

# What a public header may include besides ours: measured at under 0.1 s and 20 MB of compilation.
CHEAP = set('''any array compare concepts cstddef cstdint cstring exception functional initializer_list
    iosfwd limits map new optional span stdexcept string string_view tuple type_traits
    unordered_map utility variant vector'''.split())

# Data sets are shared by shared_ptr; a program with data pays 0.1 s for it.
ALSO_CHEAP = {'data': {'memory'}}

# Headers that cost seconds wherever they are used: one .cpp file each.
ONE_FILE_EACH = {'nlohmann': r'nlohmann/', 'spdlog': r'spdlog/', 'CLI11': r'CLI/'}
CUDA = re.compile(r'(cuda|cudnn|cublas|cufft|curand|cupti|nvrtc|nccl|nvToolsExt|nvtx3/)')
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
SUFFIXES = {'.h', '.inc', '.cpp', '.cu', '.cuh'}


def layer_of(path):
    """The layer of a repository file, or None outside the layers."""
    parts = path.parts
    if parts[:2] == ('include', 'facula'):
        return HEADER_LAYER.get('/'.join(parts[2:]))
    return parts[1] if parts[0] == 'src' and parts[1] in HEIGHT else None


def layer_of_include(target):
    if target.startswith('facula/'):
        return HEADER_LAYER.get(target.removeprefix('facula/'))
    first = target.split('/')[0]
    return first if '/' in target and first in HEIGHT else None


class Checker:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.problems = []
        self.users = {name: set() for name in ONE_FILE_EACH}
        self.checked = 0

    def run(self):
        for top in ('include', 'src', 'backends', 'cli', 'examples', 'benchmarks', 'tests'):
            for file in sorted((self.root / top).rglob('*')):
                if file.suffix in SUFFIXES and file.is_file():
                    self.check_file(file.relative_to(self.root), file.read_text())
        for name, users in self.users.items():
            if len(users) > 1:
                self.problems.append(f'{name} is included by {", ".join(sorted(users))}: keep it '
                                     'in one .cpp file, behind an interface')
        return self.problems

    def check_file(self, path, text):
        self.checked += 1
        top = path.parts[0]
        if top in ('include', 'src') and path.name != UMBRELLA and layer_of(path) is None:
            self.problems.append(f'{path}: belongs to no layer; enter it in tests/tooling/'
                                 'layering_test.py')
            return
        for bracket, target in INCLUDE.findall(text):
            for rule in (self.check_layer, self.check_backends, self.check_public,
                         self.check_third_party):
                problem = rule(path, bracket, target)
                if problem:
                    self.problems.append(f'{path}: includes {target}: {problem}')

    def check_layer(self, path, bracket, target):
        top = path.parts[0]
        if target == f'facula/{UMBRELLA}' and top in ('include', 'src', 'backends'):
            return 'the umbrella header is for users; name the headers needed'
        if top in ('cli', 'examples') and bracket == '"' and not target.startswith(f'{top}/'):
            return 'programs use the public headers only'
        included = layer_of_include(target)
        own = layer_of(path)
        if own is None or included is None:
            return None
        if (path.name, target.removeprefix('facula/')) in UPWARD_EXCEPTIONS:
            return None
        if HEIGHT[included] > HEIGHT[own]:
            return (f'{own} stands below {included}; declare an interface in {own} and register '
                    'the implementation from backends/composition.cpp')
        return None

    def check_backends(self, path, bracket, target):
        parts, top = path.parts, path.parts[0]
        if target.startswith('backends/'):
            if top in ('include', 'src', 'cli', 'examples'):
                return 'only the composition root knows backends'
            own, other = parts[1:-1], target.split('/')[1:-1]  # folders
            if top == 'backends' and own and other and own[0] != other[0]:
                return 'backends never include each other'
        if CUDA.match(target) and parts[:2] not in (('backends', 'cuda'), ('tests', 'cuda')):
            return 'CUDA headers stay in backends/cuda'
        return None

    def check_public(self, path, bracket, target):
        if path.parts[0] != 'include':
            return None
        if bracket == '"':
            return 'public headers include <facula/...> only'
        if target.startswith('facula/'):
            if target.removeprefix('facula/') not in HEADER_LAYER:
                return 'not a public header known to a layer'
            return None
        if target not in CHEAP | ALSO_CHEAP.get(layer_of(path), set()):
            return f'not among the cheap standard headers ({" ".join(sorted(CHEAP))})'
        return None

    def check_third_party(self, path, bracket, target):
        if path.parts[0] not in ('include', 'src', 'backends', 'cli'):
            return None
        for name, pattern in ONE_FILE_EACH.items():
            if re.match(pattern, target):
                self.users[name].add(str(path))
                if path.suffix != '.cpp':
                    return f'{name} costs seconds per use; include it in one .cpp file'
        if re.match(r'(oneapi/)?dnnl', target) and path.parts[:3] != ('backends', 'cpu', 'onednn'):
            return 'oneDNN is known to backends/cpu/onednn only'
        return None


# (the files of a small tree, what the complaint must say; None where there must be none)
CASES = [
    ({'src/runtime/a.cpp': '#include "core/b.h"\n#include <facula/error.h>\n#include <dlfcn.h>\n',
      'include/facula/tensor.h': '#include <string>\n#include <facula/dtype.h>\n',
      'backends/composition.cpp': '#include "backends/cpu/a.h"\n#include "backends/cuda/a.h"\n',
      'backends/cuda/a.cpp': '#include <cuda_runtime.h>\n#include "backends/cuda/b.h"\n',
      'backends/cpu/onednn/a.cpp': '#include <dnnl.hpp>\n',
      'src/nn/a.cpp': '#include "optim/a.h"\n', 'src/optim/a.h': '#include "nn/b.h"\n',
      'examples/a.cpp': '#include <facula/facula.h>\n',
      'include/facula/facula.h': '#include <facula/tensor.h>\n'}, None),
    ({'src/core/a.cpp': '#include "autograd/b.h"\n'}, 'core stands below autograd'),
    ({'src/core/a.h': '#include <facula/autograd.h>\n'}, 'core stands below autograd'),
    ({'include/facula/tensor.h': '#include <facula/autograd.h>\n'}, 'core stands below autograd'),
    ({'src/stray/a.cpp': ''}, 'belongs to no layer'),
    ({'include/facula/unheard_of.h': ''}, 'belongs to no layer'),
    ({'src/nn/a.cpp': '#include "backends/cpu/a.h"\n'}, 'only the composition root'),
    ({'backends/cpu/a.cpp': '#include "backends/cuda/a.h"\n'}, 'never include each other'),
    ({'backends/cpu/a.cpp': '#include <cuda_runtime.h>\n'}, 'CUDA headers'),
    ({'src/core/a.cpp': '  #  include <cudnn.h>\n'}, 'CUDA headers'),
    ({'include/facula/tensor.h': '#include <iostream>\n'}, 'cheap standard headers'),
    ({'include/facula/tensor.h': '#include <fmt/core.h>\n'}, 'cheap standard headers'),
    ({'include/facula/tensor.h': '#include "core/a.h"\n'}, 'public headers include'),
    ({'src/nn/a.cpp': '#include <facula/facula.h>\n'}, 'umbrella'),
    ({'src/io/a.cpp': '#include <nlohmann/json.hpp>\n',
      'cli/b.cpp': '#include <nlohmann/json.hpp>\n'}, 'keep it in one .cpp'),
    ({'src/base/log.h': '#include <spdlog/spdlog.h>\n'}, 'spdlog costs seconds'),
    ({'cli/a.h': '#include <CLI/CLI.hpp>\n'}, 'CLI11 costs seconds'),
    ({'src/nn/a.cpp': '#include <dnnl.hpp>\n'}, 'backends/cpu/onednn only'),
    ({'cli/a.cpp': '#include "core/tensor_impl.h"\n'}, 'public headers only'),
]


def self_test():
    failures = 0
    for files, expected in CASES:
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            problems = Checker(folder).run()
        right = not problems if expected is None else any(expected in p for p in problems)
        if not right:
            failures += 1
            print(f'self-test: {files}\n  expected {expected!r}, got {problems}')
    print(f'{len(CASES)} trees checked, {failures} judged wrongly')
    return 1 if failures else 0


def main():
    if sys.argv[1:] == ['--self-test']:
        return self_test()
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    checker = Checker(sys.argv[1])
    problems = checker.run()
    for problem in problems:
        print(problem)
    print(f'{checker.checked} files checked, {len(problems)} problems')
    return 1 if problems or checker.checked == 0 else 0


if __name__ == '__main__':
    sys.exit(main())
