"""The scrape configuration of a real Prometheus for every exporter of a simulated cluster.

Put here: the configuration of its targets.
Not here: starting it (`prometheus`), or serving the exporters (`fake_gpu.serve`).
"""

from __future__ import annotations

from typing import Any

import yaml

from fake_gpu.prometheus.expositions import Expositions

INTERVAL_SECONDS = 1


def scrape_config(pages: Expositions, port: int) -> str:
    """Scrape every page with the target labels of the simulator."""
    jobs: dict[str, dict[str, Any]] = {}
    for path, (target, _) in pages.texts.items():
        job = jobs.setdefault(
            target.job,
            {
                "job_name": target.job,
                "honor_labels": target.honor_labels,
                "static_configs": [],
                "metric_relabel_configs": [
                    {"action": "labeldrop", "regex": name} for name in target.dropped
                ],
            },
        )
        labels = {name: value for name, value in target.labels if name != "job"}
        job["static_configs"].append(
            {
                "targets": [f"127.0.0.1:{port}"],
                "labels": {**labels, "__metrics_path__": path},
            }
        )
    often = {"scrape_interval": f"{INTERVAL_SECONDS}s"}
    return yaml.safe_dump({"global": often, "scrape_configs": list(jobs.values())})
