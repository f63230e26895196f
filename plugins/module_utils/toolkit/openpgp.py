# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The fingerprints of the keys in a keyring, so that a host without ``gpg`` can check which key it is to trust."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re

from ..errors import InferopsError

_PUBLIC_KEY = 6  # a primary key's packet tag (RFC 9580, 5); subkeys are tag 14


def fingerprints(data: bytes) -> list[str]:
    """The fingerprints (40 hexadecimal digits) of the primary keys in a keyring, armoured or binary.

    :raises InferopsError: when the data is no keyring.
    """
    found = []
    for tag, body in _packets(_dearmoured(data)):
        if tag == _PUBLIC_KEY:
            if body[:1] != b"\x04":
                raise InferopsError(f"the keyring holds a key of OpenPGP version {body[0] if body else '?'}, not 4")
            # RFC 9580, 5.5.4.2
            found.append(hashlib.sha1(b"\x99" + len(body).to_bytes(2, "big") + body).hexdigest().upper())
    if not found:
        raise InferopsError("the keyring holds no public key")
    return found


def _dearmoured(data: bytes) -> bytes:
    block = re.search(
        rb"-----BEGIN PGP PUBLIC KEY BLOCK-----\r?\n(.*?)-----END PGP PUBLIC KEY BLOCK-----", data, re.DOTALL
    )
    if block is None:
        return data
    lines = block.group(1).replace(b"\r", b"").split(b"\n")
    if b"" in lines:
        lines = lines[lines.index(b"") + 1 :]  # headers end with an empty line
    try:
        return base64.b64decode(b"".join(line for line in lines if not line.startswith(b"=")), validate=True)
    except binascii.Error as error:
        raise InferopsError(f"the key's armour is damaged: {error}") from error


def _packets(data: bytes) -> list[tuple[int, bytes]]:
    """Tag and body of each packet (RFC 9580, 4.2). Partial lengths do not occur in keys."""
    found = []
    at = 0
    while at < len(data):
        first = data[at]
        if not first & 0x80:
            raise InferopsError("this is no OpenPGP keyring")
        if first & 0x40:
            tag, (size, used) = first & 0x3F, _new_length(data[at + 1 : at + 6])
        else:
            tag, used = (first >> 2) & 0x0F, 1 << (first & 3)
            size = int.from_bytes(data[at + 1 : at + 1 + used], "big")
        start = at + 1 + used
        if start + size > len(data) or used > 5:
            raise InferopsError("the keyring is cut short")
        found.append((tag, data[start : start + size]))
        at = start + size
    return found


def _new_length(octets: bytes) -> tuple[int, int]:
    """A new-format length and how many octets it takes."""
    if octets[:1] == b"\xff":
        return int.from_bytes(octets[1:5], "big"), 5
    if octets[:1] >= b"\xc0":
        return ((octets[0] - 192) << 8) + (octets[1] if len(octets) > 1 else 0) + 192, 2
    return (octets[0] if octets else 1 << 31), 1
