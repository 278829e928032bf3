"""The floor of an import: decode each line, look for secrets in every string of it, encode, hash and write it.

It keeps no order, no tree and no ids, and syncs nothing. It leaves out the second copy of each result that Claude Code
writes, as the import does, so that both write about the same bytes.
"""

import hashlib
import os
from collections.abc import Iterable
from typing import Any

import msgspec

from wakelog.redaction.redactor import holds_assignment, holds_secret, redact_value


def import_bare(paths: Iterable[str], folder: str) -> None:
    """Write each file once more below a folder, its lines chained by their hashes."""
    decode, encode = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode
    os.makedirs(folder)
    for path in paths:
        h = b""
        with open(path, "rb") as source, open(os.path.join(folder, os.path.basename(path)), "wb") as target:
            for line in source:
                value = decode(line)
                value.pop("toolUseResult", None)
                body = encode(redact_value(value)[0] if _has_secret(value) else value)
                h = hashlib.sha256(h + body).hexdigest().encode()
                target.write(b'%b,"h":"%b"}\n' % (body[:-1], h))


def _has_secret(value: Any) -> bool:
    undone = [value]
    while undone:
        value = undone.pop()
        if isinstance(value, str):
            if holds_secret(value):
                return True
        elif isinstance(value, list):
            undone += value
        elif isinstance(value, dict):
            if holds_assignment(value):
                return True
            undone += (*value, *value.values())
    return False
