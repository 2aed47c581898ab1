"""An Alertmanager in memory, by a clock of its own: alerts, groups, inhibition, notification log.

Put here: the parts of the API v2 and of the notification pipeline that gpu-ledger uses.
Not here: expectations. Those of `tests/alert_scenarios.py` hold for this and for the real server.

Groups are by namespace. The rules of inhibition are those of `deploy/alerts/alertmanager.yml`.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import yaml

from clients.alertmanager import Alertmanager
from tests.alert_scenarios import TEN_MINUTES, Labels, Scene

SHIPPED = Path(__file__).parents[1] / "deploy" / "alerts" / "alertmanager.yml"


@dataclass(frozen=True)
class InhibitRule:
    """Alerts of the source inhibit those of the target that have the same labels."""

    source: tuple[str, re.Pattern[str]]  # a label, and the form of its value
    target: tuple[str, re.Pattern[str]]
    equal: tuple[str, ...]

    def inhibits(self, higher: dict[str, str], lower: dict[str, str]) -> bool:
        return (
            self._matches(self.source, higher)
            and self._matches(self.target, lower)
            and all(higher.get(name, "") == lower.get(name, "") for name in self.equal)
        )

    @staticmethod
    def _matches(matcher: tuple[str, re.Pattern[str]], labels: dict[str, str]) -> bool:
        label, form = matcher
        return form.fullmatch(labels.get(label, "")) is not None


@cache
def shipped_inhibit_rules() -> tuple[InhibitRule, ...]:
    def matcher(texts: list[str]) -> tuple[str, re.Pattern[str]]:
        [text] = texts
        label, form = text.split("=~")
        return label, re.compile(form.removeprefix('"').removesuffix('"'))

    document = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))
    return tuple(
        InhibitRule(
            matcher(rule["source_matchers"]), matcher(rule["target_matchers"]), (*rule["equal"],)
        )
        for rule in document["inhibit_rules"]
    )


@dataclass
class Notification:
    """One webhook call with all firing alerts of a group."""

    at: datetime
    steps: frozenset[Labels]


@dataclass
class FakeAlertmanager:
    """One peer. Peers that share a log do not repeat each other's notifications."""

    now: datetime
    log: dict[str, tuple[frozenset[Labels], datetime]] = field(default_factory=dict)
    group_wait: timedelta = timedelta(seconds=30)
    group_interval: timedelta = timedelta(minutes=5)
    repeat_interval: timedelta = timedelta(hours=4)
    retention: timedelta = timedelta(hours=120)
    is_down: bool = False
    notifications: list[Notification] = field(default_factory=list)
    _alerts: dict[Labels, dict[str, Any]] = field(default_factory=dict)
    _flushes: dict[str, datetime] = field(default_factory=dict)  # the next one of each group

    @property
    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self._respond)

    def restart(self) -> None:
        """Restart: alerts and groups are lost; the log is kept."""
        self._alerts.clear()
        self._flushes.clear()

    def advance(self, now: datetime) -> None:
        """Move the clock, and notify each group when it is due."""
        while due := [(at, group) for group, at in self._flushes.items() if at <= now]:
            self.now, group = min(due)
            self._flush(group)
        self.now = now
        for group, (_, at) in list(self.log.items()):
            if now - at >= self.retention:
                del self.log[group]

    def _flush(self, group: str) -> None:
        firing = frozenset(
            labels
            for labels in self._firing()
            if dict(labels).get("namespace", "") == group and not self._is_inhibited(labels)
        )
        if not any(dict(labels).get("namespace", "") == group for labels in self._firing()):
            del self._flushes[group]
            self.log.pop(group, None)  # also without send_resolved
            return
        self._flushes[group] = self.now + self.group_interval
        before, at = self.log.get(group, (frozenset(), self.now))
        if firing - before or (firing and self.now - at >= self.repeat_interval):
            self.notifications.append(Notification(self.now, firing))
            self.log[group] = (firing, self.now)

    def _firing(self) -> list[Labels]:
        return [labels for labels, alert in self._alerts.items() if alert["ends"] > self.now]

    def _is_inhibited(self, labels: Labels) -> bool:
        own = dict(labels)
        return any(
            rule.inhibits(dict(other), own)
            for other in self._firing()
            for rule in shipped_inhibit_rules()
        )

    def _respond(self, request: httpx.Request) -> httpx.Response:
        if self.is_down:
            raise httpx.ConnectError("connection refused")
        if request.url.path == "/api/v2/alerts" and request.method == "POST":
            return self._post(json.loads(request.content))
        if request.url.path == "/api/v2/alerts":
            return self._list(request.url.params.get_list("filter"))
        return httpx.Response(404)

    def _post(self, alerts: list[dict[str, Any]]) -> httpx.Response:
        for alert in alerts:
            labels = tuple(sorted(alert["labels"].items()))
            if not any(value for _, value in labels):
                return httpx.Response(400)
            ends = datetime.fromisoformat(alert["endsAt"])
            starts = datetime.fromisoformat(alert["startsAt"]) if "startsAt" in alert else ends
            self._alerts[labels] = {"starts": starts, "ends": ends}
            group = alert["labels"].get("namespace", "")
            if group not in self._flushes:
                self._flushes[group] = self.now + self.group_wait
        return httpx.Response(200)

    def _list(self, filters: list[str]) -> httpx.Response:
        wanted = [one.replace('"', "").split("=", 1) for one in filters]
        found = [
            {
                "labels": dict(labels),
                "fingerprint": hashlib.sha256(repr(labels).encode()).hexdigest()[:16],
                "receivers": [{"name": "tenants"}],
            }
            for labels in self._firing()
            if all(dict(labels).get(name) == value for name, value in wanted)
        ]
        return httpx.Response(200, json=found)


BEGIN = datetime(2026, 10, 1, tzinfo=UTC)


class FakePair(Scene):
    """Two peers in memory that share a notification log."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        log: dict[str, tuple[frozenset[Labels], datetime]] = {}
        self.fakes = [FakeAlertmanager(BEGIN, log), FakeAlertmanager(BEGIN, log)]

    def now(self) -> datetime:
        return self.fakes[0].now

    def peers(self) -> list[Alertmanager]:
        return [
            Alertmanager(f"http://peer-{number}", transport=fake.transport)
            for number, fake in enumerate(self.fakes)
        ]

    def webhooks(self) -> list[list[Labels]]:
        sent = sorted(
            (one for fake in self.fakes for one in fake.notifications), key=lambda n: n.at
        )
        return [sorted(one.steps) for one in sent]

    def settle(self, webhook_count: int) -> None:
        for fake in self.fakes:  # the log is shared: the first peer notifies first
            fake.advance(self.fakes[1].now + TEN_MINUTES if fake is self.fakes[0] else self.now())

    def stop(self, number: int) -> None:
        self.fakes[number].is_down = True
        self.fakes[number].restart()

    def start(self, number: int, *, is_forgetful: bool = False) -> None:
        self.fakes[number].is_down = False
        if is_forgetful:
            self.fakes[number].log.clear()
