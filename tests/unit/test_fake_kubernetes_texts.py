"""Cached texts of objects equal their documents."""

from __future__ import annotations

import json

import pytest

from fake_gpu.fleet.build import build_fleet
from fake_gpu.kubernetes import texts as texts_module
from fake_gpu.kubernetes.objects import Change, ObjectHistory
from fake_gpu.kubernetes.resources import RESOURCES
from fake_gpu.kubernetes.texts import ObjectTexts, encoded
from fake_gpu.kubernetes.timeline import Timeline
from fake_gpu.scenario.load import load_scenario


def _changes(scenario: str) -> list[Change]:
    fleet = build_fleet(load_scenario(scenario))
    timelines = [Timeline.of(ObjectHistory(cluster)) for cluster in fleet.clusters]
    kinds = [resource.kind for resource in RESOURCES]
    return [c for each in timelines for kind in kinds for c in each.between(kind, 0, 1 << 60)]


@pytest.mark.parametrize("scenario", ["every_way_to_share", "odd_names_and_labels"])
def test_a_cached_text_equals_the_document_for_every_client(scenario: str) -> None:
    resources = {resource.kind: resource for resource in RESOURCES}
    texts, seen = ObjectTexts(), set()
    for change in _changes(scenario):
        for _ in range(2):
            assert texts.whole(resources[change.kind], change) == encoded(change.object)
        document = change.object
        del document["kind"], document["apiVersion"]
        assert json.loads(texts.item(change)) == document
        seen.add(change.kind)
    assert {"Pod", "Node", "Namespace", "Event"} <= seen


def test_the_cache_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = _changes("one_cluster_quiet_day")[:200]
    largest = max(len(encoded(change.object)) for change in changes)
    monkeypatch.setattr(texts_module, "LARGEST_CACHE", 2 * largest)
    texts = ObjectTexts()
    for change in changes:
        texts.item(change)
        assert texts.size <= 2 * largest
    assert texts.size > 0
