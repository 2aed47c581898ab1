"""Field and label selectors, as far as an API server evaluates them for these kinds.

Put here: reading a selector and asking it about a document. Not here: lists or watches.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from fake_gpu.kubernetes.forms import Document

Test = Callable[[Document], bool]

_FIELDS: dict[str, Callable[[Document], str]] = {
    "metadata.name": lambda d: d["metadata"].get("name", ""),
    "metadata.namespace": lambda d: d["metadata"].get("namespace", ""),
    "spec.nodeName": lambda d: d.get("spec", {}).get("nodeName", ""),
    "spec.restartPolicy": lambda d: d.get("spec", {}).get("restartPolicy", ""),
    "status.phase": lambda d: d.get("status", {}).get("phase", ""),
    "spec.unschedulable": lambda d: str(d.get("spec", {}).get("unschedulable", False)).lower(),
    "involvedObject.uid": lambda d: d.get("involvedObject", {}).get("uid", ""),
    "involvedObject.name": lambda d: d.get("involvedObject", {}).get("name", ""),
    "involvedObject.kind": lambda d: d.get("involvedObject", {}).get("kind", ""),
    "reason": lambda d: d.get("reason", ""),
}

_TERM = re.compile(r"([^!=\s]+)\s*(==|!=|=)\s*(.*)")
_SET_TERM = re.compile(r"([^!=\s]+)\s+(in|notin)\s+\(([^)]*)\)")


class BadSelector(ValueError):
    """A selector that the API server refuses with 400."""


def matcher(field_selector: str, label_selector: str) -> Test | None:
    """A test for both selectors, or None when everything matches."""
    tests = [_field_test(term) for term in _split(field_selector)]
    tests += [_label_test(term) for term in _split(label_selector)]
    if not tests:
        return None
    return lambda document: all(test(document) for test in tests)


def _split(selector: str) -> list[str]:
    """The terms of a selector; commas inside brackets do not separate."""
    return [part.strip() for part in re.split(r",(?![^(]*\))", selector) if part.strip()]


def _field_test(term: str) -> Test:
    match = _TERM.fullmatch(term)
    if match is None or match[1] not in _FIELDS:
        raise BadSelector(f"field label not supported: {match[1] if match else term}")
    read, negated, wanted = _FIELDS[match[1]], match[2] == "!=", match[3]
    return lambda document: (read(document) == wanted) is not negated


def _label_test(term: str) -> Test:
    if match := _SET_TERM.fullmatch(term):
        key, values = match[1], {value.strip() for value in match[3].split(",")}
        if match[2] == "in":
            return lambda document: _labels(document).get(key) in values
        return lambda document: _labels(document).get(key) not in values
    if match := _TERM.fullmatch(term):
        key, wanted = match[1], match[3]
        if match[2] == "!=":
            return lambda document: _labels(document).get(key) != wanted
        return lambda document: _labels(document).get(key) == wanted
    if re.fullmatch(r"!?[A-Za-z0-9][A-Za-z0-9./_-]*", term):
        key = term.removeprefix("!")
        return lambda document: (key in _labels(document)) is not term.startswith("!")
    raise BadSelector(f"unable to parse requirement: {term}")


def _labels(document: Document) -> dict[str, str]:
    labels: dict[str, str] = document["metadata"].get("labels", {})
    return labels
