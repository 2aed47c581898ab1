"""The portal's certificate, read again when its files change.

Put here: reading it into the TLS context of a running server.
Not here: the server (`orchestration.cli.portal`).
"""

from __future__ import annotations

import logging
import ssl
import threading
from pathlib import Path

CHECK_SECONDS = 30.0
LOG = logging.getLogger("gpu_ledger.portal")


class CertificateFiles:
    """A chain and its key, as PEM files that something else renews."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._files = (certificate, key)
        self._seen = self._state()

    def _state(self) -> tuple[object, ...]:
        """Changes when Kubernetes swaps a mounted secret or a file is replaced."""
        stats = [path.stat() for path in self._files]
        return tuple((each.st_mtime_ns, each.st_size, each.st_ino) for each in stats)

    def renew(self, context: ssl.SSLContext) -> bool:
        """Use changed files for new connections; a broken pair is logged, and the old one stays."""
        try:
            state = self._state()
            if state == self._seen:
                return False
            # A pair that does not fit is refused before the running context is touched.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*self._files)
            context.load_cert_chain(*self._files)
        except (OSError, ssl.SSLError) as cause:
            LOG.error("the certificate is not renewed: %s: %s", type(cause).__name__, cause)
            return False
        self._seen = state
        LOG.info("the certificate is renewed")
        return True

    def watch(self, context: ssl.SSLContext) -> None:
        """Look at the files for as long as the process runs."""

        def look() -> None:
            pause = threading.Event()
            while not pause.wait(CHECK_SECONDS):
                self.renew(context)

        threading.Thread(target=look, name="certificate", daemon=True).start()
