"""A token is redacted in every encoding, and other text is not changed."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote

import pytest

from clients.redaction import REDACTED, Secret, secret_of

TOKEN = "sha256~Ab+/c9-_x.y7=="


@pytest.mark.parametrize(
    "repeated",
    [
        TOKEN,
        "sha256~Ab%2B%2Fc9-_x.y7%3D%3D",
        "sha256~Ab%2b%2fc9-_x.y7%3d%3d",
        "sha256%7EAb%2B/c9-_x.y7%3D%3D",
        "sha256~Ab+\\/c9-_x.y7==",
    ],
)
def test_a_token_is_redacted_in_urls_and_json(repeated: str) -> None:
    said = f"Authorization: Bearer {repeated}, expired"
    assert Secret(TOKEN).is_in(said)
    assert Secret(TOKEN).is_in(said.encode())
    assert Secret(TOKEN).redact(said) == f"Authorization: Bearer {REDACTED}, expired"


@pytest.mark.parametrize("before", ["", "B", "Be", "Bearer ", "user:", "x" * 100])
@pytest.mark.parametrize("after", ["", "!", "??", "@proxy"])
@pytest.mark.parametrize("encode", [b64encode, urlsafe_b64encode])
def test_a_token_is_redacted_inside_base64_of_a_longer_text(
    before: str, after: str, encode: type
) -> None:
    said = encode(f"{before}{TOKEN}{after}".encode()).decode()
    assert Secret(TOKEN).is_in(said)
    left = Secret(TOKEN).redact(f"Proxy-Authorization: Basic {said}")
    assert TOKEN.encode()[3:-3] not in left.encode()
    assert len(left) < len(f"Proxy-Authorization: Basic {said}") - len(TOKEN)


@pytest.mark.parametrize(
    "said", ["", "unauthorized", TOKEN[:-1], TOKEN.upper(), quote(TOKEN.upper())]
)
def test_other_text_is_not_redacted(said: str) -> None:
    assert not Secret(TOKEN).is_in(said)
    assert Secret(TOKEN).redact(said) == said


@pytest.mark.parametrize("said", ["", "a", "Bearer "])
def test_an_empty_secret_redacts_nothing(said: str) -> None:
    assert not secret_of("").is_in(said)
    assert secret_of("").redact(said) == said


def test_a_short_token_is_redacted_only_in_plain_text() -> None:
    """Its three letters of base64 occur in many other texts."""
    assert Secret("abc").redact("YWJj abc") == f"YWJj {REDACTED}"
