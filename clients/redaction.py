"""A search for our token in responses: evidence is kept for years and must not contain it.

Put here: the forms in which a server or a proxy may repeat a token.
Not here: reading tokens from their files, or dropping responses that repeat one (the clients).
"""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from functools import lru_cache
from urllib.parse import quote

REDACTED = "…"

FORM_LENGTH_MIN = 6
"""Of base64: shorter forms occur in many texts by chance."""


class Secret:
    """A token and its forms: plain, in an address, in JSON that escapes slashes, in base64."""

    __slots__ = ("_forms",)

    def __init__(self, token: str) -> None:
        in_addresses = {quote(token, safe=safe) for safe in ("", "/")}
        in_addresses |= {form.replace("~", "%7E") for form in in_addresses}
        forms = {token, token.replace("/", "\\/"), *in_addresses, *map(_low_hex, in_addresses)}
        forms |= set(_base64_forms(token.encode()))
        # A longer form may hold a shorter one.
        self._forms = sorted(forms - {""}, key=lambda form: (-len(form), form))

    def is_in(self, text: bytes | str) -> bool:
        body = text.encode() if isinstance(text, str) else text
        return any(form.encode() in body for form in self._forms)

    def redact(self, text: str) -> str:
        """The text without the secret; to be done before a text is cut, which may cut a secret."""
        for form in self._forms:
            text = text.replace(form, REDACTED)
        return text


@lru_cache(maxsize=16)
def secret_of(token: str) -> Secret:
    """The forms of a token; an empty token is in no text."""
    return Secret(token)


def _low_hex(text: str) -> str:
    """`%2B` as some write it: `%2b`."""
    first, *rest = text.split("%")
    return "%".join([first, *(part[:2].lower() + part[2:] for part in rest)])


def _base64_forms(token: bytes) -> list[str]:
    """The parts that base64 of any text with the token has in common, for each position of the
    token."""
    forms = []
    for before in range(3):
        whole = (before + len(token)) // 3 * 3
        for encoded in (b64encode, urlsafe_b64encode):
            # Letters that also stand for neighbouring bytes are left out.
            text = encoded((b"\0" * before + token)[:whole]).decode()
            forms.append(text[(0, 2, 3)[before] :])
    return [form for form in forms if len(form) >= FORM_LENGTH_MIN]
