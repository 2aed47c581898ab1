"""A renewed certificate is used without a restart; one with a wrong key is not."""

from __future__ import annotations

import contextlib
import shutil
import ssl
from pathlib import Path

import pytest

from portal.certificates import CertificateFiles
from tests.certificates import Authority

pytestmark = pytest.mark.deep  # openssl creates the certificates


def served(context: ssl.SSLContext, authority: Path) -> bytes:
    """The certificate that a client gets, without a socket."""
    client_in, client_out, server_in, server_out = (ssl.MemoryBIO() for _ in range(4))
    trusting = ssl.create_default_context(cafile=str(authority))
    trusting.check_hostname = False
    client = trusting.wrap_bio(client_in, client_out)
    server = context.wrap_bio(server_in, server_out, server_side=True)
    for _ in range(10):
        for side, outgoing, incoming in (
            (client, client_out, server_in),
            (server, server_out, client_in),
        ):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
            incoming.write(outgoing.read())
    shown = client.getpeercert(binary_form=True)
    assert shown
    return shown


def test_a_renewed_certificate_is_served_and_a_wrong_key_is_not(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"

    def put(name: str) -> tuple[Path, Path]:
        made = authority.issue(name, folder=tmp_path)
        shutil.copy(made[0], certificate)
        shutil.copy(made[1], key)
        return made

    put("first")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    files = CertificateFiles(certificate, key)
    first = served(context, authority.ca_file)
    assert not files.renew(context)
    _, second_key = put("second")
    assert files.renew(context)
    second = served(context, authority.ca_file)
    assert second != first
    shutil.copy(authority.issue("third", folder=tmp_path)[0], certificate)  # its key follows later
    assert second_key.read_bytes() == key.read_bytes()
    assert not files.renew(context)
    assert served(context, authority.ca_file) == second
