#!/usr/bin/env python3
"""Makes seeds for the fuzz targets of torch.save's files from an archive of model files.

usage: torch_seeds.py ../shared/data/models/models.tar.xz FOLDER

Writes FOLDER/torch_file, FOLDER/zip and FOLDER/pickle; then, with CXX=clang++ and -DFACULA_FUZZ=ON:
    fuzz_torch_file_fuzz FOLDER/torch_file
"""

import io
import pathlib
import sys
import tarfile
import zipfile

LARGEST = 20000
SUFFIXES = ('.pt', '.pth', '.th', '.ptl')


def main():
    archive, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    for kind in ('torch_file', 'zip', 'pickle'):
        (folder / kind).mkdir(parents=True, exist_ok=True)

    def write(kind, name, data):
        if len(data) <= LARGEST:
            (folder / kind / name.removeprefix('./').replace('/', '_')).write_bytes(data)

    with tarfile.open(archive) as files:
        for member in files:
            if not member.isfile() or not member.name.endswith(SUFFIXES):
                continue
            data = files.extractfile(member).read()
            write('torch_file', member.name, data)
            if zipfile.is_zipfile(io.BytesIO(data)):
                write('zip', member.name, data)
                with zipfile.ZipFile(io.BytesIO(data)) as inner:
                    for name in inner.namelist():
                        if name.endswith('.pkl'):
                            write('pickle', member.name + name, inner.read(name))
    return 0


if __name__ == '__main__':
    sys.exit(main())
