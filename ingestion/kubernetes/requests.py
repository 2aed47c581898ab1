"""The requests of a collector: complete lists, its rights, the owners of pods.

Put here: pages, and a new list when the token of a page expired.
Not here: the effect of a list (`journal_state`), or when one is due (`journal_calendar`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from clients.kubernetes import KubernetesClient
from clients.kubernetes_errors import HistoryGone, ServerRefused
from domain.clock import Clock
from domain.errors import LedgerError
from ingestion.kubernetes.observations import Listed, ListedPage
from ingestion.kubernetes.watched_resources import PATHS, owner_path

LIST_TRIES_LIMIT = 3
"""A list whose token expired is repeated at once; the next one is most likely complete."""

TOKEN_EXPIRED = "the list's token expired before its last page"


def take_list(
    client: KubernetesClient,
    clock: Clock,
    resource: str,
    why: str,
    reason: str,
    take: Callable[[ListedPage], None],
) -> Listed:
    """Request every page and take each as it arrives; complete only if the last page arrived."""
    began_at = clock.now()
    trouble = TOKEN_EXPIRED
    for _ in range(LIST_TRIES_LIMIT):
        version, asked_at = 0, clock.now()
        try:
            for page in client.pages(PATHS[resource]):
                first, version = not version, version or page.version
                at = clock.now()
                take(ListedPage(resource, at, why, page.documents, version, first, asked_at))
        except HistoryGone:
            continue
        except LedgerError as error:
            trouble = f"{error.code} {error.seen}"[:200]
            if not version:
                take(ListedPage(resource, clock.now(), why, (), 0, True, asked_at))
            break
        return Listed(resource, clock.now(), began_at, why, (), version, True, reason, paged=True)
    return Listed(resource, clock.now(), began_at, why, (), 0, False, trouble, paged=True)


def is_allowed(client: KubernetesClient, verb: str, resource: str) -> bool:
    """Whether the server lets this collector do that in all namespaces."""
    group = PATHS[resource].split("/")[2] if PATHS[resource].startswith("/apis/") else ""
    return client.is_allowed(verb, group, resource)


def may_watch(client: KubernetesClient, resource: str) -> bool | None:
    """Whether a resource may be listed and watched; None without a response."""
    try:
        return all(is_allowed(client, verb, resource) for verb in ("list", "watch"))
    except LedgerError:
        return None


def look_up_owner(client: KubernetesClient, owner: Mapping[str, str]) -> dict[str, Any] | None:
    """The owner of a pod or of an owner; None without a response.

    Empty where the owner is gone, not readable, or of a kind that is not looked up.
    """
    path = owner_path(
        owner.get("apiVersion", ""),
        owner.get("kind", ""),
        owner.get("namespace", ""),
        owner.get("name", ""),
    )
    try:
        return client.get(path) if path else {}
    except ServerRefused as refused:
        return {} if refused.status in (403, 404) else None
    except LedgerError:
        return None
