"""The errors of requests to a Kubernetes API server.

Put here: unreachable servers, refusals, and responses of another protocol.
Not here: requests (`clients.kubernetes`), or files that cannot be used (`clients.credentials`).
"""

from __future__ import annotations

from domain.errors import TemporarilyUnavailable

# The longest Retry-After that is respected; after a longer one a watch needs a new list anyway.
RETRY_AFTER_LIMIT = 60


class ServerUnreachable(TemporarilyUnavailable):
    """No response arrived, or it broke off."""

    code = "SERVER-001"

    def __init__(self, url: str, path: str, cause: str) -> None:
        super().__init__(
            where=f"{url}{path}",
            seen=f"no complete response: {cause}",
            why="events of the cluster are not recorded while the server is unreachable",
            remedy="check the URL, the API server and the network policy; a collector repeats it",
        )


class ServerRefused(TemporarilyUnavailable):
    """The server responded with a failure."""

    code = "SERVER-002"

    def __init__(
        self, url: str, path: str, status: int, reason: str, message: str, retry_after: str = ""
    ) -> None:
        self.status = status
        self.reason = reason
        wanted = int(retry_after[:9]) if retry_after.isdecimal() else 0
        self.retry_after_seconds = min(wanted, RETRY_AFTER_LIMIT)
        super().__init__(
            where=f"{url}{path}",
            seen=f"HTTP {status} {reason[:60]}: {message[:200]}",
            why="a refused request returns no facts about the cluster",
            remedy="for 401 and 403 compare the ServiceAccount and ClusterRole with those that "
            "`gpu-ledger init FOLDER --collector CLUSTER_ID` writes; "
            "other requests are repeated",
        )


class NotKubernetes(TemporarilyUnavailable):
    """The response is not of the Kubernetes API: a login page, half a document."""

    code = "SERVER-001"

    def __init__(self, url: str, path: str, seen: str) -> None:
        super().__init__(
            where=f"{url}{path}",
            seen=seen,
            why="such a response must not be taken for a list of objects",
            remedy="check that the URL is the API server itself and not a proxy or a console",
        )


class HistoryGone(ServerRefused):
    """410: the server no longer has the version from which a list or a watch would continue."""
