#!/usr/bin/env python3
"""Every instruction set gives the same bits: runs all ops under each and compares hashes.

Ops that end in a library's kernels, which the library writes for each instruction set, are listed
below with what they end in; they are compared with rounding in mind by the other generated tests.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

CAPABILITIES = ('baseline', 'avx2', 'avx512')
LIBRARY_KERNELS = {
    'oneDNN matmul': 'addmm bmm dot linear linear_fused matmul mm mv',
    'convolution': 'conv2d conv2d_fused conv2d_backward_input conv2d_backward_input_fused '
                   'conv2d_backward_weight conv_transpose2d',
}


def hashes(capability, path):
    program = pathlib.Path(os.environ['FACULA_BIN_DIR']) / 'test_ops'
    environment = dict(os.environ, FACULA_CPU_CAPABILITY=capability, FACULA_OP_BITS=str(path))
    result = subprocess.run([program, '--gtest_filter=OpBits.Write'], env=environment,
                            capture_output=True, text=True)
    if result.returncode:
        sys.exit(f'{capability}: test_ops failed\n{result.stdout}{result.stderr}')
    lines = path.read_text().splitlines()
    return {line.split()[0]: line.split()[1:] for line in lines}


def main():
    excused = {name for names in LIBRARY_KERNELS.values() for name in names.split()}
    with tempfile.TemporaryDirectory() as folder:
        runs = {c: hashes(c, pathlib.Path(folder) / c) for c in CAPABILITIES}
    reference = runs[CAPABILITIES[0]]
    # Lines "exp" of the op's examples, "exp:float64" of those in another dtype.
    op_of = {line: line.split(':')[0] for line in reference}
    compared = [line for line in reference if op_of[line] not in excused]
    differing = [line for line in compared
                 if any(run[line] != reference[line] for run in runs.values())]
    calls = sum(value != '0' for line in compared for value in reference[line])
    names = set(op_of.values())
    print(f'{len(names)} ops under {", ".join(CAPABILITIES)}: {calls} calls of '
          f'{len(names - excused)} ops compared, {len(excused & names)} excused')
    for line in differing:
        print(f'{line}: the bits differ between instruction sets; the functor or kernel must not '
              'depend on the vector width, nor call library functions')
    unknown = excused - names
    for op in sorted(unknown):
        print(f'{op}: excused, but there is no such op')
    sys.exit(1 if differing or unknown else 0)


if __name__ == '__main__':
    main()
