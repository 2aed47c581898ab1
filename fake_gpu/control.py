"""The control endpoint of a simulated fleet: its clock, its faults, its scenario.

Put here: the HTTP requests that read or change a running fleet.
Not here: the servers themselves (`serve`).

    GET  /-/clock                                  {"now": …, "mode": …}
    POST /-/clock     {"advance_to": "…Z"}         responds after all watches were sent its events
    GET  /-/faults                                 number of responses that each fault changed
    GET  /-/fleet                                 names and URLs
    POST /-/scenario  (YAML)                       apply a changed scenario; 409: refused
    GET  /metrics                                  numbers of applied and refused scenarios
    GET  /-/truth?grain=…                          the truth ledger, with the changes of clients
    GET  /topology, /topology/nodes/{node}         who uses which card now
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from domain.errors import LedgerError
from domain.interval import format_instant, parse_instant
from fake_gpu.exporters.exposition import FamilyHead, SeriesLine, family_text
from fake_gpu.fleet.export import plain_rows
from fake_gpu.fleet.status_updater import topology
from fake_gpu.scenario.load import read_scenario
from fake_gpu.truth.ledger import GRAINS, ledger

if TYPE_CHECKING:
    from fake_gpu.serve import Running

_SCENARIO_CHANGES = (
    FamilyHead(
        "fake_gpu_scenario_last_apply_successful",
        "1 if the latest change of the scenario was applied, or there was none; 0 if refused.",
    ),
    FamilyHead(
        "fake_gpu_scenario_applied_total", "Changed scenarios that were applied.", "counter"
    ),
    FamilyHead(
        "fake_gpu_scenario_refused_total", "Changed scenarios that were refused.", "counter"
    ),
)


def make_control_app(running: Running) -> Starlette:
    """The application; its responses are small JSON documents."""
    control = _Control(running)
    return Starlette(
        routes=[
            Route("/-/clock", control.clock, methods=["GET", "POST"]),
            Route("/-/faults", control.faults),
            Route("/-/fleet", control.fleet),
            Route("/-/scenario", control.scenario, methods=["POST"]),
            Route("/-/truth", control.truth),
            Route("/metrics", control.metrics),
            Route("/topology", control.topology),
            Route("/topology/nodes/{node}", control.topology),
        ]
    )


class _Control:
    def __init__(self, running: Running) -> None:
        self.running = running

    async def clock(self, request: Request) -> Response:
        if request.method == "POST":
            try:
                body = json.loads(await request.body())
                when = parse_instant(str(body["advance_to"]), "advance_to")
                await run_in_threadpool(self.running.advance_to, when)
            except LedgerError as error:
                return JSONResponse(error.as_dict(), 409)
            except (ValueError, KeyError, TypeError):
                return JSONResponse({"seen": 'the body is not {"advance_to": "…Z"}'}, 400)
        clock = self.running.clock
        return JSONResponse({"now": format_instant(clock.now()), "mode": clock.mode})

    async def faults(self, _: Request) -> Response:
        ledger = self.running.ledger
        return JSONResponse(
            [
                {
                    "fault": fault.fault_id,
                    "kind": fault.kind,
                    "cluster_id": fault.cluster_id,
                    "fired": ledger.count(fault.fault_id),
                }
                for fault in self.running.fleet.faults
            ]
        )

    async def fleet(self, _: Request) -> Response:
        running = self.running
        return JSONResponse(
            {
                "name": running.fleet.name,
                "thanos": running.thanos_url,
                "clusters": [
                    {
                        "cluster_id": cluster.cluster_id,
                        "name": cluster.name,
                        "kubernetes": running.kubernetes_urls[cluster.cluster_id],
                        "metrics": running.metrics_urls.get(cluster.cluster_id, ""),
                    }
                    for cluster in running.fleet.clusters
                ],
            }
        )

    async def scenario(self, request: Request) -> Response:
        """Serve the scenario of the body. If it is refused, the present one is still served."""
        text = (await request.body()).decode("utf-8", "replace")
        read = partial(read_scenario, text, "the new scenario", None)
        try:
            await run_in_threadpool(self.running.apply_scenario, read)
        except LedgerError as error:
            return JSONResponse(error.as_dict(), 409)
        return JSONResponse({"applied": self.running.fleet.name})

    async def truth(self, request: Request) -> Response:
        """The rows of `gpu-ledger fake truth`, for the fleet as it is served now."""
        grain = request.query_params.get("grain", "allocations")
        if grain not in GRAINS:
            return JSONResponse({"seen": f"no grain {grain!r}: {', '.join(GRAINS)}"}, 404)
        fleet = self.running.fleet
        return JSONResponse(await run_in_threadpool(lambda: ledger(plain_rows(fleet), grain)))

    async def metrics(self, _: Request) -> Response:
        counts = self.running.scenario_changes
        values = (float(counts.is_last_accepted), counts.accepted, counts.refused)
        families = (
            family_text(head, [SeriesLine((), value)])
            for head, value in zip(_SCENARIO_CHANGES, values, strict=True)
        )
        return Response("".join(families), media_type="text/plain; version=0.0.4")

    async def topology(self, request: Request) -> Response:
        wanted = request.path_params.get("node", "")
        document = topology(self.running.fleet, self.running.clock.now_seconds())
        if not wanted:
            return JSONResponse(document)
        for nodes in document.values():
            if wanted in nodes:
                return JSONResponse(nodes[wanted])
        return JSONResponse({"seen": f"no node {wanted!r}"}, 404)
