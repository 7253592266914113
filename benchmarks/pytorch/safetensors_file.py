"""Reads and writes safetensors files: 8 bytes of header length, a JSON header, raw data."""

import json

import numpy
import torch

_NUMPY = {"F32": "<f4", "F64": "<f8", "I64": "<i8"}
_NAMES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64"}


def save(path, tensors):
    """Writes a dict of float32, float64 and int64 tensors."""
    header, chunks, offset = {}, [], 0
    for name, tensor in tensors.items():
        data = tensor.detach().contiguous().numpy().tobytes()
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + len(data)],
        }
        chunks.append(data)
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the format wants aligned data
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        file.writelines(chunks)


def load(path):
    """Returns the tensors of a file with float32, float64 and int64 data as a dict."""
    with open(path, "rb") as file:
        content = file.read()
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        data = numpy.frombuffer(content[start + begin : start + end], _NUMPY[entry["dtype"]])
        tensors[name] = torch.from_numpy(data.reshape(entry["shape"]).copy())
    return tensors
