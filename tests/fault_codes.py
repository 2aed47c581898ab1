"""The numbers of the catalogue of faults, each with the scenarios that contain it.

Put here: one row per number; the table in the reference is generated from it and from the faults.
Not here: the faults (`fake_gpu.faults.fault_catalogue`).

Groups A (samples) and B (Kubernetes) are faults of a source; group I are defects that would make a
simulated fleet useless. Most numbers are one fault line. Some are real events instead of faults;
these are scenarios of the library.
"""

from __future__ import annotations

from dataclasses import dataclass

from fake_gpu.faults.fault_catalogue import CATALOGUE


@dataclass(frozen=True, slots=True)
class Code:
    """A number of the catalogue."""

    code: str
    what: str
    stories: tuple[str, ...] = ()  # scenarios of the library that contain it
    otherwise: str = ""  # the reason if neither a fault nor a scenario contains it
    is_grave: bool = False  # among the twenty that most often make a bill wrong without an error

    @property
    def faults(self) -> tuple[str, ...]:
        return tuple(name for name, kind in CATALOGUE.items() if self.code in kind.codes)


def _code(code: str, what: str, *stories: str, otherwise: str = "") -> Code:
    return Code(code.rstrip("*"), what, stories, otherwise, code.endswith("*"))


SAMPLES = (
    _code("A01*", "a store is gone, with a warning first and none later", "store_unavailable"),
    _code("A02*", "success without data"),
    _code("A03", "deduplication creates a gap that no replica has"),
    _code("A04*", "the same series twice"),
    _code("A05*", "averages in place of the requested raw samples"),
    _code("A06*", "series that continue after their end, by look-back"),
    _code("A07", "a pod that starts and ends between two samples", "shorter_than_a_scrape"),
    _code("A08*", "samples that arrive after the query"),
    _code("A09", "samples that are dropped because they come out of order"),
    _code("A10*", "lost scrapes, for any reason", "exporter_outage"),
    _code("A11", "a backlog that is written with the time of its arrival"),
    _code("A12", "a wrong clock"),
    _code("A13", "a cache that keeps a partial response"),
    _code("A14", "errors, partial responses, and error pages of proxies"),
    _code("A15", "responses that are cut at a limit"),
    _code("A16", "an interval that no block covers"),
    _code("A17", "deleted history"),
    _code("A18", "two clusters under one name"),
    _code("A19", "counters that restart"),
    _code("A20", "`pod` and `exported_pod` change places"),
    _code("A21", "metrics without their pods"),
    _code("A22", "a tenant that invents series of another one", "forged_series"),
    _code("A23", "new names for products, labels and metrics", "relabelled_node"),
    _code("A24", "values that are not numbers of devices"),
    _code("A25", "scrapes that fail at a limit"),
    _code("A26", "series without their cluster"),
    _code("A27", "an exporter that moves: the same series with other labels"),
    _code(
        "A28",
        "times in another zone, or in other units",
        otherwise="the times of a source are seconds since 1970, here as elsewhere; tests of the "
        "models read them in another zone",
    ),
    _code("A29", "servers of another version"),
    _code("A30", "another sampling interval"),
)
KUBERNETES = (
    _code("B01", "pods that are deleted during a gap of the watch", "watch_gap"),
    _code("B02*", "deletions without a watch event", "watch_gap", "double_gap"),
    _code("B03", "old objects sent again"),
    _code("B04*", "one name, several UIDs", "pod_name_reused"),
    _code("B05*", "ended pods that keep their requests", "evicted_without_an_end"),
    _code("B06", "bound but not running", "quota_and_queue", "init_and_sidecars"),
    _code("B07", "containers that restart", "restarts_and_crash_loops"),
    _code("B08", "a node without heartbeats", "node_without_heartbeat"),
    _code("B09", "a node that is deleted with its pods"),
    _code("B10", "containers that end before they start"),
    _code("B11", "several events in one second", "shorter_than_a_scrape"),
    _code("B12", "pods of the provider", "demo"),
    _code("B13", "pods that use their grace period", "node_drained_mid_hour"),
    _code("B14", "init containers and sidecars", "init_and_sidecars"),
    _code("B15*", "devices by claim, and of other vendors", "every_way_to_share", "demo"),
    _code("B16", "one card shown as several", "every_way_to_share"),
    _code("B17*", "cards with a new MIG layout within an hour", "mig_layout_changed"),
    _code("B18", "less to allocate than is allocated", "unhealthy_cards"),
    _code("B19", "a card in use without an allocation"),
    _code("B20", "a namespace that another tenant creates again", "namespace_recreated"),
    _code("B21", "a tenant that edits its own labels"),
    _code("B22", "events that expire"),
    _code("B23", "a list that ends after some pages"),
    _code("B24", "revoked rights"),
    _code("B25", "an etcd that is restored from a backup"),
    _code("B26", "every event sent twice"),
    _code("B27", "a list that lacks many objects"),
    _code("B28", "labels, annotations and names as people write them", "odd_names_and_labels"),
)
# (defect of a simulator, the test that excludes it)
FAKE = (
    ("I01", "responses without the faults of real ones",
     "tests/servers/test_fake_equals_thanos.py::test_deduplication_creates_gaps_in_both"),
    ("I02", "cards chosen at random, use that does not add up",
     "tests/properties/test_properties_fleet.py::test_no_scenario_breaks_an_invariant"),
    ("I03", "no metrics of MIG instances",
     "tests/unit/test_exporter_devices.py::test_a_card_with_instances_is_busy_by_their_shares"),
    ("I04", "real time",
     "tests/unit/test_fake_clock.py::test_a_driven_clock_advances_only_on_request_and_never_back"),
    ("I05", "a truth that shares the product's code",
     "tests/architecture/test_imports.py::test_imports_go_one_way"),
    ("I06", "its series mistaken for those of a real cluster",
     "tests/unit/test_fake_prometheus_api.py::test_the_server_marks_itself_as_simulated"),
    ("I07", "a fault that was not injected",
     "tests/scenarios/test_fake_every_fault.py::test_every_fault_fires_and_is_counted"),
    ("I08", "an API that never refuses",
     "tests/servers/test_fake_equals_api_server.py"
     "::test_compacted_versions_give_the_same_errors"),
)  # fmt: skip
