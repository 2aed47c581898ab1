"""State of a collector for a probe, for Prometheus and for a person."""

from __future__ import annotations

import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta

import pytest

from domain.clock import StoppedClock
from ingestion.kubernetes.health import Health, HealthServer, answer, metrics_text

NOON = datetime(2026, 10, 1, 12, tzinfo=UTC)


def well() -> Health:
    heard = {"pods": NOON - timedelta(seconds=50), "nodes": NOON}
    return Health("prod-eu", NOON, NOON, heard, open_pods=7, lines_written=120, gaps=1)


def test_a_collector_with_live_watches_is_alive_and_ready() -> None:
    assert answer("/healthz", well(), NOON) == (200, "ok\n")
    assert answer("/readyz?verbose", well(), NOON) == (200, "ok\n")


def test_before_its_start_it_is_neither_alive_nor_ready() -> None:
    assert answer("/healthz", Health(), NOON)[0] == 503
    assert answer("/readyz", Health(), NOON) == (503, "not started\n")


def test_a_silent_watch_makes_it_unready_but_not_dead() -> None:
    later = NOON + timedelta(seconds=140)
    assert answer("/readyz", well(), later) == (503, "pods: silent\n")
    assert answer("/healthz", well(), later)[0] == 200


def test_problems_are_described() -> None:
    health = well()
    health.trouble["pods"] = "SERVER-002 HTTP 403 Forbidden"
    health.spool_trouble = "No space left"
    assert answer("/readyz", health, NOON) == (
        503,
        "pods: SERVER-002 HTTP 403 Forbidden\nspool: No space left\n",
    )


def test_a_loop_that_hangs_requests_a_restart() -> None:
    assert answer("/healthz", well(), NOON + timedelta(minutes=15))[0] == 503


def test_metrics_show_the_time_of_the_last_event() -> None:
    text = metrics_text(well(), NOON)
    assert 'gpu_ledger_collector_open_pods{cluster_id="prod-eu"} 7' in text
    assert 'gpu_ledger_collector_gaps_total{cluster_id="prod-eu"} 1' in text
    ago = 'gpu_ledger_collector_heard_seconds_ago{cluster_id="prod-eu",resource="pods"} 50'
    assert ago in text
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names)) == 10


def test_the_endpoints_respond_over_http() -> None:
    server = HealthServer(well(), StoppedClock(NOON))
    try:
        url = f"http://127.0.0.1:{server.port}"
        with urllib.request.urlopen(f"{url}/metrics") as response:
            assert response.status == 200
            assert b"gpu_ledger_collector_lines_total" in response.read()
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{url}/secrets")
        assert caught.value.code == 404
    finally:
        server.close()
