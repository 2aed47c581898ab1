"""A certificate authority for tests, made by openssl.

Put here: issuing certificates for this machine.
Not here: servers that use them.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


class Authority:
    """An authority in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.ca_file = folder / "ca.crt"
        self._key = folder / "ca.key"
        subject = ("-subj", f"/CN={folder.name}", "-days", "2", "-x509")
        _openssl("req", *KEY, *subject, "-keyout", self._key, "-out", self.ca_file)

    def issue(self, name: str, *, folder: Path) -> tuple[Path, Path]:
        """A certificate for this machine's loopback address, and its key."""
        certificate, key, request = (folder / f"{name}.{end}" for end in ("crt", "key", "csr"))
        _openssl("req", *KEY, "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        extensions = folder / f"{name}.ext"
        extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        signer = ("-CA", self.ca_file, "-CAkey", self._key, "-CAcreateserial", "-days", "2")
        _openssl(
            "x509", "-req", "-in", request, *signer, "-extfile", extensions, "-out", certificate
        )
        return certificate, key


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
