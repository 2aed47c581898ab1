"""Lists and gets: selectors, pages, tokens that expire, exact versions.

Put here: responses to reading requests. Not here: watches (`watch`).
"""

from __future__ import annotations

from collections.abc import Mapping

from fake_gpu.kubernetes.answers import (
    LATEST,
    ApiRefusal,
    continue_token,
    list_text,
    list_too_old,
    match_forbidden,
    not_found,
    read_continue_token,
    token_expired,
    too_large,
)
from fake_gpu.kubernetes.faults import chosen, drawn, text
from fake_gpu.kubernetes.forms import Document
from fake_gpu.kubernetes.objects import Change
from fake_gpu.kubernetes.resources import Resource
from fake_gpu.kubernetes.selectors import BadSelector, matcher
from fake_gpu.kubernetes.timeline import State
from fake_gpu.kubernetes.view import View

Params = Mapping[str, str]


def read_one(view: View, resource: Resource, namespace: str, name: str) -> Document:
    at = view.second()
    state = view.timeline(at).state(resource.kind, view.version(at))
    change = state.get((namespace, name))
    if change is None:
        raise not_found(resource, name)
    return change.object


def read_list(view: View, resource: Resource, namespace: str, params: Params) -> str:
    """One page as JSON: `limit` objects after the token, of the version of the first page."""
    at = view.second()
    limit = whole_param(params, "limit")
    version, after = view.version(at), ("", "")
    if params.get("resourceVersionMatch") and not params.get("resourceVersion"):
        why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise match_forbidden(why)
    if token := params.get("continue", ""):
        asked, after = read_continue_token(token)
        if asked != LATEST:
            version = asked
            _refuse_expired(view, resource, version, at, after)
    elif params.get("resourceVersionMatch") == "Exact":
        version = exact_version(view, resource, params, at)
    elif (wanted := whole_param(params, "resourceVersion")) > version:
        raise too_large(wanted, version)
    state = view.timeline(at).state(resource.kind, version)
    found = _matching([state[k] for k in sorted(state) if k > after], namespace, params)
    matching = _apply_list_faults(view, resource, state, found, at)
    page = matching[:limit] if limit else matching
    remaining = len(matching) - len(page)
    more = continue_token(version, _key(page[-1])) if remaining else ""
    chosen_only = params.get("fieldSelector") or params.get("labelSelector")
    return list_text(
        resource,
        [view.texts.item(change) for change in page],
        version,
        more,
        None if chosen_only else remaining,
    )


def exact_version(view: View, resource: Resource, params: Params, at: int) -> int:
    wanted = whole_param(params, "resourceVersion")
    if wanted > view.version(at):
        raise too_large(wanted, view.version(at))
    if wanted < view.oldest_version(at, resource.plural):
        raise list_too_old()
    return wanted


def whole_param(params: Params, name: str) -> int:
    text = params.get(name, "")
    if text and not text.isdecimal():
        message = f'strconv.ParseInt: parsing "{text}": invalid syntax'
        if name == "resourceVersion":
            message = (
                f'invalid resource version: resourceVersion: Invalid value: "{text}": '
                f'strconv.ParseUint: parsing "{text}": invalid syntax'
            )
        raise ApiRefusal(400, "BadRequest", message)
    return int(text or 0)


def _key(change: Change) -> tuple[str, str]:
    return change.namespace, change.name


def _refuse_expired(
    view: View, resource: Resource, version: int, at: int, after: tuple[str, str]
) -> None:
    detail = f"{resource.plural} after {after[1]}"
    is_old = version < view.oldest_version(at, resource.plural)
    if is_old or view.faults.meets("page_token_expired", at, detail):
        raise token_expired(continue_token(LATEST, after))


def _matching(changes: list[Change], namespace: str, params: Params) -> list[Change]:
    try:
        test = matcher(params.get("fieldSelector", ""), params.get("labelSelector", ""))
    except BadSelector as cause:
        raise ApiRefusal(400, "BadRequest", str(cause)) from None
    inside = [change for change in changes if not namespace or change.namespace == namespace]
    return inside if test is None else [change for change in inside if test(change.object)]


def _apply_list_faults(
    view: View, resource: Resource, state: State, found: list[Change], at: int
) -> list[Change]:
    """The objects found, without those that a fault hides."""
    if resource.plural == "pods":
        found = _without_mass(view, state, found, at)
    if resource.plural == "events":
        found = _without_lost(view, found, at)
    fault = view.faults.active("rbac_lost", at, resource.plural)
    if fault is None or text(fault, "mode", "forbidden") != "fewer":
        return found
    shown = [change for change in found if change.namespace != text(fault, "namespace")]
    if len(shown) < len(found):
        hidden = len(found) - len(shown)
        view.faults.fire(fault, at, f"{hidden} {resource.plural} left out")
    return shown


def _without_lost(view: View, found: list[Change], at: int) -> list[Change]:
    """Events of which some are not kept."""
    fault = view.faults.active("events_lost", at)
    if fault is None:
        return found
    kept = [change for change in found if not drawn(fault, "/".join(_key(change)))]
    if len(kept) < len(found):
        view.faults.fire(fault, at, f"{len(found) - len(kept)} of {len(found)} events")
    return kept


def _without_mass(view: View, state: State, found: list[Change], at: int) -> list[Change]:
    """A list from which many objects are missing: a share of all that there are."""
    fault = view.faults.active("mass_absence", at)
    if fault is None:
        return found
    gone = chosen(fault, [state[key].uid for key in sorted(state)])
    kept = [change for change in found if change.uid not in gone]
    lost = f"{len(found) - len(kept)} of {len(found)} pods"
    if len(kept) == len(found) or not view.faults.meets("mass_absence", at, lost):
        return found
    return kept
