"""Sessions of browsers: a signed cookie that says for whom it was begun, and until when.

Put here: making and reading the cookie.
Not here: whether its subject may still see anything (`portal.callers`).

Nothing is remembered on the server. The key is new at each start, which ends all sessions.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from datetime import datetime, timedelta

COOKIE = "gpu-ledger-portal"
SESSION_HOURS = 8
"""A working day; then the token is needed again."""


class Sessions:
    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def begin(self, subject: str, now: datetime) -> str:
        """The value of the cookie of a new session."""
        until = int((now + timedelta(hours=SESSION_HOURS)).timestamp())
        payload = base64.urlsafe_b64encode(f"{until} {subject}".encode()).decode().rstrip("=")
        return f"{payload}.{self._signature(payload)}"

    def subject(self, cookie: str, now: datetime) -> str:
        """For whom a session was begun; "" when it has ended or was never begun here."""
        payload, _, signature = cookie.partition(".")
        expected = self._signature(payload)
        if not hmac.compare_digest(signature.encode(), expected.encode()):
            return ""
        padded = payload + "=" * (-len(payload) % 4)
        until, _, subject = base64.urlsafe_b64decode(padded.encode()).decode().partition(" ")
        return subject if now.timestamp() < int(until) else ""

    def _signature(self, payload: str) -> str:
        return hmac.new(self._key, payload.encode(), hashlib.sha256).hexdigest()
