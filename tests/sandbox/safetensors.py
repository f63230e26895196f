"""Small tensors and the ``safetensors`` file format (8 bytes length, a JSON header, raw little-endian data)."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Matrix:
    """A tensor as it lies in the file: its type there, its shape, its bytes."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    @classmethod
    def random(cls, chance: random.Random, height: int, width: int, loudness: float = 1.0) -> Matrix:
        """Normally distributed around 0 with the usual initial deviation of 0.02, times ``loudness``."""
        return cls.floats((height, width), [chance.gauss(0.0, 0.02) * loudness for dummy in range(height * width)])

    @classmethod
    def ones(cls, length: int) -> Matrix:
        """A vector of ones."""
        return cls.floats((length,), [1.0] * length)

    @classmethod
    def selector(cls, height: int, width: int, first: int) -> Matrix:
        """Hands on ``height`` of ``width`` inputs, from number ``first`` on."""
        values = [float(column == first + row) for row in range(height) for column in range(width)]
        return cls.floats((height, width), values)

    @classmethod
    def floats(cls, shape: tuple[int, ...], values: Sequence[float]) -> Matrix:
        """In bfloat16: the upper half of a float32, rounded to the nearest (ties to even)."""
        words = struct.unpack(f"<{len(values)}I", struct.pack(f"<{len(values)}f", *values))
        upper = [(word + 0x7FFF + (word >> 16 & 1)) >> 16 for word in words]
        return cls("BF16", shape, struct.pack(f"<{len(upper)}H", *upper))

    @classmethod
    def integers(cls, values: Sequence[int]) -> Matrix:
        """A vector of 64-bit integers."""
        return cls("I64", (len(values),), struct.pack(f"<{len(values)}q", *values))

    @classmethod
    def booleans(cls, values: Sequence[bool]) -> Matrix:
        """A vector of truth values."""
        return cls("BOOL", (len(values),), bytes(values))

    def rows(self, first: int, last: int) -> Matrix:
        """The rows ``first`` to ``last`` (not included)."""
        size = len(self.data) // self.shape[0]
        return Matrix(self.dtype, (last - first, *self.shape[1:]), self.data[first * size : last * size])


def encode(tensors: Mapping[str, Matrix]) -> bytes:
    """The content of a file that holds the tensors."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, tensor in tensors.items():
        end = offset + len(tensor.data)
        header[name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(tensor.data for tensor in tensors.values())
