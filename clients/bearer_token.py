"""A bearer token in its file, as every server that is asked gets one.

Put here: reading it, and what may stand in one.
Not here: what is said of a file that has none (`kubernetes.credentials`, `thanos.client`).
"""

from __future__ import annotations

import re
from pathlib import Path

# What a header can carry. RFC 6750 names fewer letters, and servers that are in use take more:
# those of Rancher have a colon in their tokens.
_TOKEN = re.compile(rb"[\x21-\x7e]+")


class NoToken(ValueError):
    """A file has no token; the text says why, and nothing of what is in it."""


def read_token(path: Path) -> str:
    """Read for every request, because tokens rotate."""
    try:
        content = path.read_bytes().strip()
    except OSError as cause:
        raise NoToken(f"{type(cause).__name__}: {cause}"[:200]) from None
    if not _TOKEN.fullmatch(content):
        # Whoever refuses to send it would say it in full.
        raise NoToken("its content has not the form of a bearer token")
    return content.decode("ascii")
