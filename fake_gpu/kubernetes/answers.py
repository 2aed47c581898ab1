"""The documents that answer requests: lists, failures, watch events, continue tokens.

Put here: their form, word for word where clients look at the words. Not here: when which is sent.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass

from fake_gpu.kubernetes.forms import Document
from fake_gpu.kubernetes.resources import Resource
from fake_gpu.kubernetes.texts import encoded


@dataclass(frozen=True, slots=True)
class ApiRefusal(Exception):
    """An answer that is a failure; `retry_after_seconds` also becomes a header."""

    code: int
    reason: str
    message: str
    continue_token: str = ""
    retry_after_seconds: int = 0
    causes: tuple[Mapping[str, str], ...] = ()
    about: Mapping[str, str] | None = None  # the requested name, group and kind

    def status(self) -> Document:
        meta = {"continue": self.continue_token} if self.continue_token else {}
        details: Document = dict(self.about or {})
        if self.causes:
            details["causes"] = [dict(cause) for cause in self.causes]
        if self.retry_after_seconds:
            details["retryAfterSeconds"] = self.retry_after_seconds
        status: Document = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": meta,
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        return status | ({"details": details} if details or self.about is not None else {})


def too_old(asked: int, oldest: int) -> ApiRefusal:
    """The events of a watch."""
    return ApiRefusal(410, "Expired", f"too old resource version: {asked} ({oldest})")


def list_too_old() -> ApiRefusal:
    message = "The resourceVersion for the provided list is too old."
    return ApiRefusal(410, "Expired", message)


def too_large(asked: int, current: int) -> ApiRefusal:
    return ApiRefusal(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {asked}, current: {current}",
        retry_after_seconds=1,
        causes=({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"},),
    )


def match_forbidden(why: str) -> ApiRefusal:
    """`resourceVersionMatch` stands, or does not stand, where it may not."""
    cause = {
        "reason": "FieldValueForbidden",
        "message": f"Forbidden: {why}",
        "field": "resourceVersionMatch",
    }
    return ApiRefusal(
        422,
        "Invalid",
        f'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: {why}',
        causes=(cause,),
        about={"group": "meta.k8s.io", "kind": "ListOptions"},
    )


def token_expired(continue_token: str) -> ApiRefusal:
    return ApiRefusal(
        410,
        "Expired",
        "The provided continue parameter is too old to display a consistent list result. You can "
        "start a new list without the continue parameter, or use the continue token in this "
        "response to retrieve the remainder of the results. Continuing with the provided token "
        "results in an inconsistent list - objects that were created, modified, or deleted "
        "between the time the first chunk was returned and now may show up in the list.",
        continue_token=continue_token,
    )


def forbidden(verb: str, resource: Resource, namespace: str = "", name: str = "") -> ApiRefusal:
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    what = f'{resource.full_name} "{name}"' if name else resource.full_name
    return ApiRefusal(
        403,
        "Forbidden",
        f'{what} is forbidden: User "collector" cannot {verb} resource '
        f'"{resource.plural}" in API group "{resource.group}" {where}',
        about=({"name": name} if name else {}) | _about(resource),
    )


def not_found(resource: Resource, name: str) -> ApiRefusal:
    return ApiRefusal(
        404,
        "NotFound",
        f'{resource.full_name} "{name}" not found',
        about={"name": name} | _about(resource),
    )


def unknown_path() -> ApiRefusal:
    """A path that the server does not know."""
    message = "the server could not find the requested resource"
    return ApiRefusal(404, "NotFound", message, about={})


def _about(resource: Resource) -> dict[str, str]:
    return ({"group": resource.group} if resource.group else {}) | {"kind": resource.plural}


def list_text(
    resource: Resource,
    items: list[str],
    resource_version: int,
    continue_token: str = "",
    remaining: int | None = None,
) -> str:
    """A list; its items carry no kind of their own, as in a real one.

    How many remain is not known when a selector chooses.
    """
    meta: Document = {"resourceVersion": str(resource_version)}
    if continue_token:
        meta["continue"] = continue_token
        if remaining is not None:
            meta["remainingItemCount"] = remaining
    about = {
        "kind": f"{resource.kind}List",
        "apiVersion": resource.group_version,
        "metadata": meta,
    }
    return f'{encoded(about)[:-1]},"items":[{",".join(items)}]}}'


def bookmark(resource: Resource, resource_version: int, initial_end: bool = False) -> Document:
    """The object of the event with the version up to which a watch has sent."""
    meta: Document = {"resourceVersion": str(resource_version)}
    if initial_end:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    return {"kind": resource.kind, "apiVersion": resource.group_version, "metadata": meta}


# A token with this version continues with the current objects, consistent or not.
LATEST = -1


def continue_token(resource_version: int, after: tuple[str, str]) -> str:
    """Where a paged list continues: the version that it shows, and the last key of this page."""
    start = f"{after[0]}/{after[1]}\u0000" if after[0] else f"{after[1]}\u0000"
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": resource_version, "start": start})
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_continue_token(token: str) -> tuple[int, tuple[str, str]]:
    try:
        padded = token + "=" * (-len(token) % 4)
        content = json.loads(base64.urlsafe_b64decode(padded.encode()))
        namespace, _, name = content["start"].removesuffix("\u0000").rpartition("/")
        return int(content["rv"]), (namespace, name)
    except (ValueError, KeyError, TypeError, binascii.Error):
        message = "invalid continue token: continue key is not valid"
        raise ApiRefusal(400, "BadRequest", message) from None
