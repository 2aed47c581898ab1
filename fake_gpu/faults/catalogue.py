"""Every fault that a scenario can ask for: its name, who shows it, and its parameters.

Put here: the names and what they mean; the reference in docs/ is generated from this.
Not here: the effects (`prometheus`, `kubernetes`, `estate`), or the counters (`ledger`).

`side` says who applies a fault: `samples` is the Thanos view with everything behind it,
`kubernetes` the API server, `estate` the history itself. Parameters have the values of these
Python types: text `str`, number `int`, share `Fraction`, duration `int` seconds, flag `bool`,
words `tuple[str, ...]`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

Side = Literal["samples", "kubernetes", "estate"]
ParameterKind = Literal["text", "number", "share", "duration", "flag", "words"]


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    kind: ParameterKind
    default: object
    doc: str


@dataclass(frozen=True, slots=True)
class FaultKind:
    name: str
    codes: tuple[str, ...]  # in the catalogue of faults that the project is built against
    side: Side
    doc: str
    parameters: tuple[Parameter, ...] = field(default=())

    def parameter(self, name: str) -> Parameter | None:
        return next((p for p in self.parameters if p.name == name), None)


_JOB = Parameter("job", "text", "", "only targets of this job; every job when empty")
_NODE = Parameter("node", "text", "", "only this node; every node when empty")
_NAMESPACE = Parameter("namespace", "text", "", "only this namespace; every one when empty")
_METRIC = Parameter("metric", "text", "", "only this metric; every one when empty")
_REPLICA = Parameter("replica", "number", 0, "which Prometheus replica, from 0")
_POD = Parameter("pod", "text", "", "only pods whose name begins so; every pod when empty")
_SHARE = Parameter("share", "share", Fraction(1), "how much of it, drawn with the fault's seed")
_REQUESTS = Parameter("requests", "number", 1, "how many requests of the time meet it; 0: all")


def _kind(name: str, codes: str, side: Side, doc: str, *parameters: Parameter) -> FaultKind:
    return FaultKind(name, tuple(codes.split()), side, doc, parameters)


_SAMPLES = (
    _kind(
        "store_vanishes",
        "A01",
        "samples",
        "A store refuses connections: its series are gone, with a warning first and then none.",
        Parameter("warns_for", "duration", 10, "how long answers carry a warning"),
        Parameter("replica", "number", -1, "only this replica's store; -1: the whole cluster's"),
    ),
    _kind(
        "store_hangs",
        "A01",
        "samples",
        "A store hangs: errors at first, then answers without its series and without a word.",
        Parameter("errors_for", "duration", 13, "how long queries fail"),
        Parameter("replica", "number", -1, "only this replica's store; -1: the whole cluster's"),
    ),
    _kind(
        "receiver_gone",
        "A01",
        "samples",
        "One of several receivers that hash series over themselves is gone: some pods' series "
        "are missing while `up` and the node series are whole; no warning.",
        Parameter("receivers", "number", 3, "over how many the series are hashed"),
    ),
    _kind(
        "partial_response",
        "A01",
        "samples",
        "Answers miss a part of the series and carry a warning, whatever was asked for.",
        _SHARE,
    ),
    _kind("empty_success", "A02", "samples", "Success with an empty result.", _METRIC, _REQUESTS),
    _kind(
        "metric_renamed",
        "A02 A23",
        "samples",
        "A metric has another name from one scrape to the next.",
        Parameter("metric", "text", "", "its name before"),
        Parameter("to", "text", "", "its name in the time of the fault"),
    ),
    _kind(
        "replica_scrape_lost",
        "A03",
        "samples",
        "One Prometheus replica loses scrapes; the other has them.",
        _REPLICA,
        _JOB,
        _SHARE,
    ),
    _kind(
        "second_kube_state_metrics",
        "A04",
        "samples",
        "A second kube-state-metrics says everything again, with its own instance and job.",
        Parameter("second_job", "text", "opencost", "its job label"),
    ),
    _kind(
        "replicas_undeclared",
        "A04",
        "samples",
        "The replica label has a name that nobody takes for a replica label.",
        Parameter("label", "text", "prometheus_instance", "its name"),
    ),
    _kind(
        "downsampled",
        "A05",
        "samples",
        "Raw data is gone: answers come from blocks with one value per resolution.",
        Parameter("resolution", "duration", 300, "5m or 1h, as Thanos makes them"),
    ),
    _kind(
        "lookback_overrun",
        "A06",
        "samples",
        "No staleness markers arrive and the look-back is long: ended series live on in instant "
        "queries and in steps.",
        Parameter("lookback", "duration", 600, "the hub's look-back"),
    ),
    _kind(
        "late_arrival",
        "A08",
        "samples",
        "Samples of this time can be seen only later.",
        Parameter("delay", "duration", 7200, "how much later"),
        _METRIC,
        _SHARE,
    ),
    _kind(
        "out_of_order_dropped",
        "A09",
        "samples",
        "Samples that arrive out of order are dropped by the receiver.",
        _SHARE,
        _METRIC,
    ),
    _kind("dropped_scrapes", "A10", "samples", "Scrapes are lost in every replica.", _JOB, _SHARE),
    _kind(
        "exporter_down",
        "A10",
        "samples",
        "A target cannot be scraped: `up` is 0 and its series end.",
        Parameter("job", "text", "dcgm-exporter", "targets of this job"),
        _NODE,
    ),
    _kind("collector_down", "A10", "samples", "Nothing of the cluster reaches the hub."),
    _kind(
        "timestamps_overwritten",
        "A11",
        "samples",
        "A backlog arrives at once, and every sample of it has the time of its arrival.",
    ),
    _kind(
        "clock_skew",
        "A12",
        "samples",
        "The cluster's Prometheus has another time.",
        Parameter("seconds", "number", 90, "how far ahead; negative: behind"),
    ),
    _kind(
        "cached_partial",
        "A13",
        "samples",
        "A query front-end answers again what it once answered in part.",
        _SHARE,
    ),
    _kind("timeout", "A14", "samples", "Queries end with 503 and `timeout`.", _REQUESTS),
    _kind(
        "too_many_requests",
        "A14",
        "samples",
        "429 with Retry-After.",
        _REQUESTS,
        Parameter("retry_after", "duration", 1, "what Retry-After says"),
    ),
    _kind("unavailable", "A14", "samples", "503 without a JSON body.", _REQUESTS),
    _kind("unprocessable", "A14", "samples", "422, execution error.", _REQUESTS),
    _kind("reset_mid_body", "A14", "samples", "The connection ends within the body.", _REQUESTS),
    _kind("truncated_body", "A14", "samples", "The JSON ends in the middle.", _REQUESTS),
    _kind("html_login", "A14", "samples", "An HTML login page with status 200.", _REQUESTS),
    _kind(
        "truncated_result",
        "A15",
        "samples",
        "Only so many series are answered, and nothing says so.",
        Parameter("series", "number", 10, "how many"),
    ),
    _kind("block_gap", "A16", "samples", "A stretch of time is in no block that is loaded."),
    _kind("history_vanished", "A17", "samples", "What is older than the fault's start is gone."),
    _kind(
        "shared_external_labels",
        "A18",
        "samples",
        "The cluster's series carry another cluster's external labels.",
        Parameter("as_cluster", "text", "", "the name of the other cluster"),
    ),
    _kind("counter_reset", "A19", "samples", "Energy counters start again from 0.", _NODE),
    _kind(
        "honor_labels_flipped",
        "A20",
        "samples",
        "`exported_pod` becomes `pod`, or the other way.",
        Parameter("job", "text", "dcgm-exporter", "targets of this job"),
    ),
    _kind("pod_labels_lost", "A21", "samples", "Device metrics without pod labels.", _NODE),
    _kind(
        "forged_series",
        "A22",
        "samples",
        "A tenant's own exporter says that another tenant uses GPUs.",
        Parameter("attacker", "text", "", "the namespace of the exporter"),
        Parameter("victim", "text", "", "the namespace that it names"),
        Parameter("gpus", "number", 8, "how many GPUs it invents"),
    ),
    _kind(
        "model_renamed",
        "A23",
        "samples",
        "A driver reports another model name.",
        Parameter("to", "text", "NVIDIA A100-SXM4-40GB-NEW", "the new name"),
        _NODE,
    ),
    _kind("hostname_label_renamed", "A23", "samples", "`Hostname` becomes `hostname`."),
    _kind(
        "odd_values",
        "A24",
        "samples",
        "Values that no count of devices can have.",
        Parameter("metric", "text", "kube_pod_container_resource_requests", "of this metric"),
        Parameter("values", "words", ("NaN", "+Inf", "-1", "0.5", "1e+308"), "the values"),
        _SHARE,
    ),
    _kind("sample_limit", "A25", "samples", "Whole scrapes fail at a limit; `up` is 0.", _JOB),
    _kind(
        "cluster_label_lost",
        "A26",
        "samples",
        "Series come without the cluster's labels.",
        _METRIC,
    ),
    _kind(
        "exporter_moved",
        "A27",
        "samples",
        "An exporter restarts elsewhere: its series go on under another instance and pod.",
        Parameter("job", "text", "kube-state-metrics", "the job"),
    ),
    _kind(
        "interval_changed",
        "A30",
        "samples",
        "The sampling interval changes.",
        Parameter("interval", "duration", 300, "the interval in the time of the fault"),
    ),
    _kind(
        "stowaway",
        "B19",
        "samples",
        "A process uses a card that no pod holds.",
        _NODE,
        Parameter("card", "number", 0, "which card"),
        Parameter("pct", "number", 60, "how busy it makes it"),
    ),
    _kind(
        "pod_metadata_lost",
        "A21",
        "samples",
        "kube-state-metrics says nothing about some pods any more (labels, info, owner).",
        _NAMESPACE,
        _SHARE,
    ),
)

_KUBERNETES = (
    _kind(
        "watch_dropped",
        "B02",
        "kubernetes",
        "Watches end, and none can be opened until the time is over: what happened meanwhile is "
        "never told as an event.",
        Parameter("resource", "text", "", "only watches of this resource; all when empty"),
    ),
    _kind(
        "watch_expired",
        "B02",
        "kubernetes",
        "A resumed watch gets 410 Gone, inside the stream: everything before is compacted.",
        Parameter("resource", "text", "", "only watches of this resource; all when empty"),
    ),
    _kind(
        "watch_replays",
        "B03",
        "kubernetes",
        "A watch tells old and deleted objects again.",
        _SHARE,
    ),
    _kind(
        "events_twice",
        "B03 B26",
        "kubernetes",
        "Every event is told twice.",
        _SHARE,
    ),
    _kind(
        "finished_before_started",
        "B10",
        "kubernetes",
        "A kubelet's clock is behind: containers end before they start.",
        Parameter("seconds", "number", 60, "how far behind the ends are written"),
        _NODE,
    ),
    _kind(
        "start_rewritten",
        "B07",
        "kubernetes",
        "When a container ends, its startedAt becomes its finishedAt.",
        _POD,
        _NAMESPACE,
    ),
    _kind("page_token_expired", "B23", "kubernetes", "The token of a page is 410.", _REQUESTS),
    _kind(
        "rbac_lost",
        "B24",
        "kubernetes",
        "403, or (`mode: fewer`) lists without some namespaces.",
        Parameter("resource", "text", "pods", "of this resource"),
        Parameter("mode", "text", "forbidden", "forbidden, or fewer"),
        _NAMESPACE,
    ),
    _kind(
        "etcd_restored",
        "B25",
        "kubernetes",
        "The store goes back: resource versions fall, and ended pods are there again.",
        Parameter("back", "duration", 1800, "how far"),
    ),
    _kind("mass_absence", "B27", "kubernetes", "One list misses many pods.", _SHARE, _REQUESTS),
    _kind("api_unavailable", "B02", "kubernetes", "The API server answers 503.", _REQUESTS),
    _kind("api_throttled", "A14", "kubernetes", "429 with Retry-After.", _REQUESTS),
    _kind("api_truncated", "A14", "kubernetes", "The body ends in the middle.", _REQUESTS),
    _kind("bookmarks_missing", "B02", "kubernetes", "Watches carry no bookmarks."),
)

_ESTATE = (
    _kind(
        "evicted_without_end",
        "B05",
        "estate",
        "Pods are evicted: Failed, and no container says when it ended.",
        _POD,
        _NAMESPACE,
        _NODE,
        _SHARE,
    ),
    _kind(
        "pods_replaced",
        "B04",
        "estate",
        "Pods are killed and made again: the same name with another UID where the owner says so.",
        _POD,
        _NAMESPACE,
        _NODE,
        _SHARE,
    ),
    _kind(
        "crash_loop",
        "B07",
        "estate",
        "Containers restart again and again; the pod keeps its devices.",
        _POD,
        _NAMESPACE,
        Parameter("every", "duration", 300, "how long a container lives"),
        Parameter("pause", "duration", 20, "how long it stays away"),
    ),
    _kind(
        "node_not_ready",
        "B08",
        "estate",
        "A node is not heard of; its pods are asked to go after five minutes.",
        _NODE,
    ),
    _kind("node_removed", "B09", "estate", "A node is deleted with its pods.", _NODE),
    _kind(
        "preemption",
        "B13",
        "estate",
        "Pods get a deadline and use it: they end after their grace period.",
        _POD,
        _NAMESPACE,
        Parameter("grace", "duration", 120, "the grace period"),
        _SHARE,
    ),
    _kind(
        "mig_repartition",
        "B17",
        "estate",
        "A node's cards are cut differently: its pods go, names and UUIDs change.",
        _NODE,
        Parameter("layout", "text", "all-1g.5gb", "the new layout's name"),
        Parameter("takes", "duration", 300, "how long the node offers nothing"),
    ),
    _kind(
        "card_unhealthy",
        "B18",
        "estate",
        "A card leaves allocatable, not capacity, and comes back.",
        _NODE,
        Parameter("card", "number", 0, "which card"),
        Parameter("mode", "text", "xid", "xid, lost, ecc or unhealthy"),
        Parameter("xid", "number", 79, "what DCGM says"),
    ),
    _kind(
        "namespace_recreated",
        "B20",
        "estate",
        "A namespace is deleted with all that is in it, and made again by someone else.",
        _NAMESPACE,
    ),
    _kind(
        "terminal_pods_kept",
        "B05",
        "estate",
        "Ended pods stay, with their requests, until the time is over.",
        _NAMESPACE,
    ),
)

CATALOGUE: dict[str, FaultKind] = {kind.name: kind for kind in (*_SAMPLES, *_KUBERNETES, *_ESTATE)}
