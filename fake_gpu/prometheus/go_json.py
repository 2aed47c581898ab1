"""JSON as Go's encoder writes it.

Put here: the escapes that Go makes although JSON need not.
Not here: the shape of answers (`answer`).
"""

from __future__ import annotations

import json

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
# Text inside HTML was once the worry.
_GO_ESCAPES = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


def encode(value: object) -> str:
    """Any JSON value, without blanks."""
    return _ENCODER.encode(value).translate(_GO_ESCAPES)
