"""Whose word is taken: the jobs from which a metric may come, and no tenant's own exporter.

Put here: the exporters that can be pinned, and the matchers that follow.
Not here: which exporter says which metric (`ingestion.metric_catalogue`), or reading config.toml
(`ingestion.settings`).

Who may be scraped by the monitoring of tenants can say anything, also under the name of the
platform's job. What they cannot choose is the label `namespace` of their own targets. So a pin is
`NAMESPACE/JOB`, and holds the namespace too wherever that label is the exporter's own: of nodes and
devices, not of pods, whose namespace is what the metric tells.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

PIN = re.compile(r"([a-z0-9-]*/)?[a-zA-Z0-9_.:/-]+", re.ASCII)


class Speaker(StrEnum):
    """Who says a metric; named as the keys of `[thanos.NAME.pins]`."""

    KUBE_STATE_METRICS = "kube_state_metrics"
    SCHEDULER = "scheduler"
    DEVICES = "devices"
    PROMETHEUS = ""  # of its own scrapes: it decides nothing, and is never pinned


@dataclass(frozen=True, slots=True)
class Pins:
    """The jobs that are believed, each `NAMESPACE/JOB` or `JOB`; () believes everybody."""

    kube_state_metrics: tuple[str, ...] = ()
    scheduler: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()

    def of(self, speaker: Speaker) -> tuple[str, ...]:
        return getattr(self, speaker.value, ()) if speaker else ()

    def matchers(self, speaker: Speaker, *, tells_namespaces: bool) -> str:
        """What a selector has to add so that only these jobs are heard."""
        pins = [_parted(pin) for pin in self.of(speaker)]
        if not pins:
            return ""
        jobs = _one_of("job", [job for _, job in pins])
        if tells_namespaces or not all(namespace for namespace, _ in pins):
            return jobs
        return f"{jobs},{_one_of('namespace', [namespace for namespace, _ in pins])}"

    @property
    def texts(self) -> tuple[str, ...]:
        """All of them, to be compared: what was asked of others is counted otherwise."""
        return tuple(f"{who.value}={pin}" for who in Speaker for pin in self.of(who))


NO_PINS = Pins()


def _parted(pin: str) -> tuple[str, str]:
    """Namespace and job; a job may have slashes itself, as those of pod monitors do."""
    namespace, slash, job = pin.partition("/")
    return (namespace, job) if slash else ("", pin)


def _one_of(label: str, texts: list[str]) -> str:
    if len(set(texts)) == 1:
        return f'{label}="{texts[0]}"'
    return f'{label}=~"{"|".join(text.replace(".", "[.]") for text in dict.fromkeys(texts))}"'
