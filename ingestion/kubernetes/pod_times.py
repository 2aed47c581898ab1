"""The times of one pod from its statuses, and the contradictions between two statuses.

Put here: binding, start and end from one status; the rules that merge the times of two.
Not here: the list of open pods (`journal_state`), or rows (`lifecycle_rows`).

Times are texts as the API writes them (`2026-10-01T00:00:00Z`), which sort by time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Projection = Mapping[str, Any]
Starts = dict[str, tuple[int, str]]  # container → restart count, start of that run


@dataclass(frozen=True, slots=True)
class PodFacts:
    """The times of a pod from all statuses so far; "" if unknown."""

    bound_at: str = ""
    started_at: str = ""  # of the first main container; the earliest of all statuses
    ended_at: str = ""  # the end of the last container, in the first status that has it
    node_name: str = ""
    terminal: bool = False
    starts: Starts = field(default_factory=dict)
    noted: frozenset[tuple[str, str]] = frozenset()  # contradictions that are in the journal

    def as_line(self) -> dict[str, str]:
        return {
            "bound_at": self.bound_at,
            "started_at": self.started_at,
            "ended_at": self.ended_at,
        }


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two statements about one pod that cannot both be true; both are kept."""

    what: str
    before: str
    after: str


def read_facts(projection: Projection) -> PodFacts:
    """The times in one status."""
    status, spec = projection["status"], projection["spec"]
    node_name = spec["nodeName"]
    starts = dict(_starts(status["containerStatuses"]))
    return PodFacts(
        bound_at=_bound_at(projection) if node_name else "",
        started_at=min((at for _, at in _all_starts(status["containerStatuses"])), default=""),
        ended_at=_ended_at(projection),
        node_name=node_name,
        terminal=_is_terminal(status),
        starts=starts,
    )


def _is_terminal(status: Projection) -> bool:
    return status["phase"] in ("Succeeded", "Failed")


def _bound_at(projection: Projection) -> str:
    """The time of binding; a pod that was created with a node name was bound at its creation."""
    for condition in projection["status"]["conditions"]:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "True":
            scheduled_at: str = condition["lastTransitionTime"]
            return scheduled_at
    created_at: str = projection["metadata"]["creationTimestamp"]
    return created_at


def _starts(statuses: list[Projection]) -> Iterator[tuple[str, tuple[int, str]]]:
    """The current run of each container."""
    for status in statuses:
        current = _state_of(status["state"], "running") or _state_of(status["state"], "terminated")
        if current.get("startedAt"):
            yield status["name"], (status["restartCount"], current["startedAt"])


def _all_starts(statuses: list[Projection]) -> Iterator[tuple[str, str]]:
    """Every start in these statuses, of the present and the previous run."""
    for status in statuses:
        for state in (status["state"], status["lastState"]):
            for kind in ("running", "terminated"):
                started_at = _state_of(state, kind).get("startedAt", "")
                if started_at:
                    yield status["name"], started_at


def _state_of(state: Projection, kind: str) -> Projection:
    found: Projection = state.get(kind, {})
    return found


def _ended_at(projection: Projection) -> str:
    """The end of the last container, if all have ended and none can start again; else "".

    The status of an ended pod may have no time, for example after an eviction. The result is then
    "", and the models use the time at which the end was first observed.
    """
    status = projection["status"]
    mains = status["containerStatuses"]
    containers = [*mains, *status["initContainerStatuses"]]
    is_deleted = "deletionTimestamp" in projection["metadata"]
    all_terminated = bool(mains) and all("terminated" in c["state"] for c in mains)
    if not _is_terminal(status) and not (is_deleted and all_terminated):
        return ""
    if any("running" in c["state"] for c in containers):
        return ""
    ends = [end for container in containers for end in _container_ends(container)]
    return max(ends) if ends and all(ends) else ""


def _container_ends(container: Projection) -> Iterator[str]:
    """The end of a container's last run: no item if it never ran, "" if the end has no time."""
    for state in (container["state"], container["lastState"]):
        if "terminated" in state:
            yield _state_of(state, "terminated").get("finishedAt", "")
            return


def merge_status(before: PodFacts, now: PodFacts) -> tuple[PodFacts, list[Contradiction]]:
    """The times after a further status: the earliest start and the first end count."""
    found = [*_moved_starts(before, now), *_other_contradictions(before, now)]
    contradictions = [c for c in found if (c.what, c.after) not in before.noted]
    facts = PodFacts(
        bound_at=_earlier(before.bound_at, now.bound_at),
        started_at=_earlier(before.started_at, now.started_at),
        ended_at=before.ended_at or now.ended_at,
        node_name=before.node_name or now.node_name,
        terminal=before.terminal or now.terminal,
        starts=_merged_starts(before.starts, now.starts),
        noted=before.noted | {(c.what, c.after) for c in contradictions},
    )
    return facts, contradictions


def _earlier(left: str, right: str) -> str:
    return min(left, right) if left and right else left or right


def _merged_starts(before: Starts, now: Starts) -> Starts:
    merged = dict(before)
    for name, (restart, started_at) in now.items():
        known = merged.get(name)
        if known is None or restart > known[0]:
            merged[name] = (restart, started_at)
        elif restart == known[0]:
            merged[name] = (restart, min(known[1], started_at))
    return merged


def _moved_starts(before: PodFacts, now: PodFacts) -> Iterator[Contradiction]:
    for name, (restart, started_at) in sorted(now.starts.items()):
        known = before.starts.get(name)
        if known is not None and known[0] == restart and known[1] != started_at:
            yield Contradiction("start_moved", f"{name} {known[1]}", f"{name} {started_at}")


def _other_contradictions(before: PodFacts, now: PodFacts) -> Iterator[Contradiction]:
    if before.ended_at and now.ended_at and before.ended_at != now.ended_at:
        yield Contradiction("end_moved", before.ended_at, now.ended_at)
    if before.terminal and not now.terminal:
        yield Contradiction("alive_after_end", before.ended_at, "not ended")
    if before.node_name and now.node_name and before.node_name != now.node_name:
        yield Contradiction("node_moved", before.node_name, now.node_name)
    if now.terminal and not before.terminal:
        started_at = _earlier(before.started_at, now.started_at)
        if started_at and not now.ended_at:
            yield Contradiction("end_without_time", started_at, "")
        elif started_at and now.ended_at < started_at:
            yield Contradiction("ended_before_start", started_at, now.ended_at)
