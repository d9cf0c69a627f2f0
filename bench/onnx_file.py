"""Writes ONNX files with nothing but NumPy: the part of onnx.proto that models for benchmarks need.

Messages are bytes; a field is its number and a value, as protobuf encodes them.
"""
import os
import struct

import numpy as np

ELEMENT_TYPES = {np.dtype(np.float32): 1, np.dtype(np.int64): 7, np.dtype(np.bool_): 9}


def varint(value):
    """Of a 64-bit integer; negative ones take ten bytes."""
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(encoded) + bytes([value])


def field(number, value):
    """An integer, a float, or text, bytes or a message."""
    if isinstance(value, (int, np.integer)):
        return varint(number << 3) + varint(int(value))
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def tensor(array, name="", external=None):
    """A TensorProto; `external` is a file open for writing that takes the data at its end, on a page of its own."""
    array = np.asarray(array)
    dims = b"".join(field(1, extent) for extent in np.shape(array))
    described = dims + field(2, ELEMENT_TYPES[array.dtype]) + field(8, name)
    if external is None:
        return described + field(9, array.tobytes())
    external.seek(-(-external.tell() // 4096) * 4096)
    entries = {"location": os.path.basename(external.name), "offset": external.tell(), "length": array.nbytes}
    array.tofile(external)
    return described + b"".join(field(13, field(1, key) + field(2, str(value))) for key, value in entries.items()) + \
        field(14, 1)


def attribute(name, value):
    """An AttributeProto: an integer, a float, a text, an array or a list of integers."""
    if isinstance(value, int):
        return field(1, name) + field(3, value) + field(20, 2)
    if isinstance(value, float):
        return field(1, name) + field(2, value) + field(20, 1)
    if isinstance(value, str):
        return field(1, name) + field(4, value) + field(20, 3)
    if isinstance(value, np.ndarray):
        return field(1, name) + field(5, tensor(value)) + field(20, 4)
    return field(1, name) + b"".join(field(8, item) for item in value) + field(20, 7)


def node(kind, inputs, outputs, attributes):
    """A NodeProto."""
    return (b"".join(field(1, name) for name in inputs) + b"".join(field(2, name) for name in outputs) +
            field(4, kind) + b"".join(field(5, attribute(*item)) for item in attributes.items()))


def value_info(name, dtype, shape):
    """A ValueInfoProto; extents that are text are symbols."""
    dims = b"".join(field(1, field(2 if isinstance(extent, str) else 1, extent)) for extent in shape)
    return field(1, name) + field(2, field(1, field(1, ELEMENT_TYPES[np.dtype(dtype)]) + field(2, dims)))


def model(nodes, initializers, inputs, outputs, opset, ir_version=9):
    """A ModelProto of parts made by the functions above."""
    graph = (b"".join(field(1, part) for part in nodes) + field(2, "main") +
             b"".join(field(5, part) for part in initializers) + b"".join(field(11, part) for part in inputs) +
             b"".join(field(12, part) for part in outputs))
    return field(1, ir_version) + field(7, graph) + field(8, field(1, "") + field(2, opset))
