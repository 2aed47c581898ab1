"""Failed responses: refused, unavailable, throttled, half a body.

Put here: faults of whole requests. Not here: faults in the contents of a response (`lists`,
`watch`).
"""

from __future__ import annotations

from fake_gpu.kubernetes.answers import ApiRefusal, forbidden
from fake_gpu.kubernetes.faults import forbids
from fake_gpu.kubernetes.resources import Resource
from fake_gpu.kubernetes.view import View


class RequestFaults:
    """The faults in force before and after a request is answered."""

    def __init__(self, view: View) -> None:
        self.view = view

    def refuse(self, verb: str, resource: Resource, namespace: str = "", name: str = "") -> None:
        """Raise the response of a fault."""
        at, faults = self.view.second(), self.view.faults
        detail = f"{verb} {resource.plural}"
        if verb == "watch" and faults.meets("watch_dropped", at, detail, resource.plural):
            raise ApiRefusal(503, "ServiceUnavailable", "apiserver is shutting down")
        if faults.meets("api_unavailable", at, detail):
            raise ApiRefusal(
                503, "ServiceUnavailable", "the server is currently unable to handle it"
            )
        if faults.meets("api_throttled", at, detail):
            message = "too many requests, please try again later"
            raise ApiRefusal(429, "TooManyRequests", message, retry_after_seconds=1)
        if not self.allows(verb, resource.plural, namespace):
            raise forbidden(verb, resource, namespace, name)

    def allows(self, verb: str, plural: str, namespace: str = "") -> bool:
        at, faults = self.view.second(), self.view.faults
        fault = faults.active("rbac_lost", at, plural)
        if fault is None or not forbids(fault, namespace):
            return True
        faults.fire(fault, at, f"{verb} {plural}")
        return False

    def truncated(self, resource: Resource, body: bytes) -> bytes:
        """The response, or the part of it that a fault leaves."""
        at, faults = self.view.second(), self.view.faults
        if faults.meets("api_truncated", at, f"list {resource.plural}"):
            return body[: len(body) // 2]
        return body
