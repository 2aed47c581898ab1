"""Answers that are no answers: refused, unavailable, throttled, a login page, half a body.

Put here: faults of whole requests. Not here: faults in what an answer says (`lists`, `watch`).
"""

from __future__ import annotations

from starlette.responses import Response

from fake_gpu.kubernetes.answers import Refusal, forbidden
from fake_gpu.kubernetes.faults import names, touches, whole
from fake_gpu.kubernetes.resources import Resource
from fake_gpu.kubernetes.view import View

_LOGIN_PAGE = b"<!DOCTYPE html><html><body><form action='/login'>Log in</form></body></html>"


class Trouble:
    """Asks the faults in force before and after a request is answered."""

    def __init__(self, view: View) -> None:
        self.view = view

    def refuse(self, verb: str, resource: Resource) -> None:
        """Raise what a fault answers instead."""
        at, faults = self.view.second(), self.view.faults
        plural = resource.plural
        gap = faults.active("watch_gap", at)
        if gap is not None and touches(gap, plural):
            faults.fire(gap, at, f"{verb} {plural}")
            raise Refusal(503, "ServiceUnavailable", "apiserver is shutting down")
        throttled = faults.active("api_throttled", at)
        if throttled is not None and faults.count(throttled) < whole(throttled, "requests", 3):
            faults.fire(throttled, at, f"{verb} {plural}")
            wait = whole(throttled, "retry_after_seconds", 1)
            message = "too many requests, please try again later"
            raise Refusal(429, "TooManyRequests", message, retry_after_seconds=wait)
        if not self.allows(verb, plural):
            raise forbidden(verb, resource)

    def allows(self, verb: str, plural: str) -> bool:
        at, faults = self.view.second(), self.view.faults
        fault = faults.active("rbac_lost", at)
        if fault is None or names(fault, "namespaces") or not touches(fault, plural):
            return True
        faults.fire(fault, at, f"{verb} {plural}")
        return False

    def spoil(self, resource: Resource, body: bytes) -> Response:
        """The answer, or what a fault makes of it."""
        at, faults = self.view.second(), self.view.faults
        page = faults.active("api_login_page", at)
        if page is not None and touches(page, resource.plural):
            faults.fire(page, at, f"list {resource.plural}")
            return Response(_LOGIN_PAGE, media_type="text/html")
        cut = faults.active("api_truncated_body", at)
        if cut is not None and touches(cut, resource.plural):
            faults.fire(cut, at, f"list {resource.plural}")
            body = body[: len(body) // 2]
        return Response(body, media_type="application/json")
