"""Taking one list, whole; or what came of it, and why it is not whole.

Put here: pages, and beginning again when a page's token expired.
Not here: what a list means (`state`), or when one is due (`collector`, `hours`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from clients.kubernetes_errors import HistoryGone
from domain.clock import Clock
from domain.errors import LedgerError
from ingestion.kubernetes.client import ApiClient
from ingestion.kubernetes.observations import Listed, ListedPage

# A list whose token expired is begun again at once, this often: the next one is most likely whole.
LIST_TRIES_LIMIT = 3

TOKEN_EXPIRED = "the list's token expired before its last page"


def ask_list(
    client: ApiClient,
    clock: Clock,
    resource: str,
    why: str,
    reason: str,
    take: Callable[[ListedPage], None],
) -> Listed:
    """Ask for every page, each taken as it comes; the list is whole only when the last one came."""
    began_at = clock.now()
    trouble = TOKEN_EXPIRED
    for _ in range(LIST_TRIES_LIMIT):
        version, asked_at = 0, clock.now()
        try:
            for page in client.pages(resource):
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


def may_watch(client: ApiClient, resource: str) -> bool | None:
    """What the server says about our rights; None when it says nothing."""
    try:
        return all(client.may(resource, verb) for verb in ("list", "watch"))
    except (LedgerError, HistoryGone):
        return None


def look_up_owner(client: ApiClient, owner: Mapping[str, str]) -> dict[str, Any] | None:
    """An owner's document; empty when there is none to be had, None when nobody answered."""
    try:
        return client.owner(
            owner.get("apiVersion", ""),
            owner.get("kind", ""),
            owner.get("namespace", ""),
            owner.get("name", ""),
        )
    except (LedgerError, HistoryGone):
        return None
