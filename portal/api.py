"""The HTTP API: the rows of the pages as JSON or CSV, and its OpenAPI document.

Put here: the tables of the API, their formats, and the document made from their types.
Not here: how rows are read (`portal.consumption`, `portal.fleet`), or HTML (`portal.pages`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from typing import Any

import msgspec
from starlette.responses import Response

from domain.csv_text import csv_bytes
from domain.identity import sha256, sha256_bytes
from domain.interval import format_instant
from portal import consumption, fleet, focus, health, returned_gpus
from portal.budgets import BudgetStepRow, budget_steps
from portal.consumption import Consumption
from portal.refusals import DocumentFileMissing, PageNotFound, not_one_of
from portal.visits import QueryParameters, Visit
from warehouse.reports.opened_facts import Facts
from warehouse.reports.usage import UnknownGrouping

ROOT = "/api/v1"
DOCUMENT = "/tenants/{tenant}/documents/{number}/{name}"
ROWS_LIMIT = 10_000
"""Of one response; `offset` requests those after them."""
FORMATS = ("json", "csv")
PAGED = ("format", "limit", "offset")
TENANT, FLEET, PROGRAMME = "tenant", "fleet", "programme"

Rows = Sequence[msgspec.Struct]


class ApiPage(msgspec.Struct, kw_only=True):
    """One response: rows, and how to request those after them."""

    total: int
    next_offset: int | None
    left_out_clusters: list[str]  # names of clusters whose rows the caller may not see
    rows: list[Any]


class Error(msgspec.Struct, kw_only=True):
    """The reason why a request has no rows; each code has a page in the documentation."""

    code: str
    error: str
    remedy: str


@dataclass(frozen=True, slots=True)
class ApiTable:
    """Rows of one type at one path."""

    path: str
    scope: str  # of one tenant, of the fleet for the provider, or also for the programme owner
    row: type[msgspec.Struct]
    read: Callable[[Facts, Visit, QueryParameters], Rows]
    summary: str
    parameters: tuple[str, ...] = ("period",)


def _month(facts: Facts, visit: Visit, given: QueryParameters) -> Consumption:
    return Consumption(facts, visit.request.path_params["tenant"], given.period(facts))


def _usage(facts: Facts, visit: Visit, given: QueryParameters) -> Rows:
    window = given.window()
    try:
        return _month(facts, visit, given).usage(given.text("by", "workload"), window)
    except UnknownGrouping as unknown:
        raise not_one_of("by", unknown.known) from None


def _burn_rate(facts: Facts, visit: Visit, given: QueryParameters) -> Rows:
    return _month(facts, visit, given).workloads()


def _pods(facts: Facts, visit: Visit, given: QueryParameters) -> Rows:
    month = _month(facts, visit, given)
    return month.pods(given.text("workload_kind"), given.text("workload_name"))


def _instant(facts: Facts, given: QueryParameters) -> datetime:
    return given.instant("at") or fleet.last_instant(facts, given.period(facts))


def _hour(facts: Facts, given: QueryParameters) -> datetime:
    period = given.period(facts)
    return given.hour("hour") or fleet.last_complete_hour(facts, period)


def _focus(facts: Facts, visit: Visit, given: QueryParameters) -> Rows:
    """The rows of the documents of the month; of a month without any, estimates."""
    period = given.period(facts)
    issued = consumption.focus_files(facts, period)
    if not issued:
        return focus.estimated_rows(Consumption(facts, visit.tenant, period))
    return [
        row
        for name, digest in issued
        for row in focus.issued_rows(issued_bytes(visit, period.name, name, digest))
    ]


TABLES: tuple[ApiTable, ...] = (
    ApiTable(
        "/tenants/{tenant}/periods",
        TENANT,
        consumption.Period,
        lambda facts, visit, given: consumption.periods(facts),
        "The months that were counted.",
        (),
    ),
    ApiTable(
        "/tenants/{tenant}/summary",
        TENANT,
        consumption.Summary,
        lambda facts, visit, given: [_month(facts, visit, given).summary()],
        "Cost so far, burn rate, forecast and budget of a month.",
    ),
    ApiTable(
        "/tenants/{tenant}/usage",
        TENANT,
        consumption.UsageRow,
        _usage,
        "Use by cluster, pod, workload, class, profile, day, hour, several of them (day,class) or "
        "label:KEY; of a month, or between from and to.",
        ("period", "by", "from", "to"),
    ),
    ApiTable(
        "/tenants/{tenant}/workloads",
        TENANT,
        consumption.WorkloadRow,
        _burn_rate,
        "Workloads by class and shape, with burn rate, utilisation and idle cost.",
    ),
    ApiTable(
        "/tenants/{tenant}/returned",
        TENANT,
        returned_gpus.ReturnedRow,
        lambda facts, visit, given: returned_gpus.returned_rows(facts, visit.settings.clock.now()),
        "Stops of idle workloads by the idle pruner, and the savings of each.",
        (),
    ),
    ApiTable(
        "/fleet/returned",
        FLEET,
        returned_gpus.ReturnedRow,
        lambda facts, visit, given: returned_gpus.returned_rows(facts, visit.settings.clock.now()),
        "Stops of idle workloads of all tenants, and the savings of each.",
        (),
    ),
    ApiTable(
        "/tenants/{tenant}/pods",
        TENANT,
        consumption.PodRow,
        _pods,
        "Pods with burn rate, utilisation and idle cost; of all workloads, or of one.",
        ("period", "workload_kind", "workload_name"),
    ),
    ApiTable(
        "/tenants/{tenant}/days",
        TENANT,
        consumption.DayRow,
        lambda facts, visit, given: _month(facts, visit, given).days(),
        "Cost by day, and cumulated.",
    ),
    ApiTable(
        "/tenants/{tenant}/coverage",
        TENANT,
        consumption.CoverageRow,
        lambda facts, visit, given: _month(facts, visit, given).coverage(),
        "Which hours were measured, by cluster and source, and why others were not.",
    ),
    ApiTable(
        "/tenants/{tenant}/invoices",
        TENANT,
        consumption.DocumentRow,
        lambda facts, visit, given: consumption.documents(facts),
        "Documents of every month, with the names of their files.",
        (),
    ),
    ApiTable(
        "/tenants/{tenant}/budgets",
        TENANT,
        BudgetStepRow,
        lambda facts, visit, given: budget_steps(facts, given.period(facts)),
        "Steps of budgets: whether each was reached, and notified.",
    ),
    ApiTable(
        "/tenants/{tenant}/focus",
        TENANT,
        focus.FocusRow,
        _focus,
        "Cost and usage in the FOCUS format: as issued, or estimated while no document is issued.",
    ),
    ApiTable(
        "/tenants/{tenant}/quotas",
        TENANT,
        consumption.QuotaRow,
        lambda facts, visit, given: _month(facts, visit, given).quotas(),
        "Quotas beside use and allocation.",
    ),
    ApiTable(
        "/fleet/periods",
        PROGRAMME,
        consumption.Period,
        lambda facts, visit, given: consumption.periods(facts),
        "The months that were counted.",
        (),
    ),
    ApiTable(
        "/fleet/hours",
        PROGRAMME,
        fleet.NodeMonthRow,
        lambda facts, visit, given: fleet.node_month(facts, given.period(facts)),
        "Every cluster, hour and node of a month, as programme owners report them.",
    ),
    ApiTable(
        "/fleet/hour",
        PROGRAMME,
        fleet.FleetHour,
        lambda facts, visit, given: fleet.fleet_hour(facts, _hour(facts, given)),
        "One hour over all clusters.",
        ("period", "hour"),
    ),
    ApiTable(
        "/fleet/hour/clusters",
        PROGRAMME,
        fleet.ClusterHour,
        lambda facts, visit, given: fleet.cluster_hours(facts, _hour(facts, given)),
        "One hour by cluster.",
        ("period", "hour"),
    ),
    ApiTable(
        "/fleet/hour/nodes",
        PROGRAMME,
        fleet.NodeHour,
        lambda facts, visit, given: fleet.node_hours(facts, _hour(facts, given)),
        "One hour by node, with the pods that made each maximum.",
        ("period", "hour"),
    ),
    ApiTable(
        "/fleet/days",
        PROGRAMME,
        fleet.FleetDay,
        lambda facts, visit, given: fleet.fleet_days(facts, given.period(facts)),
        "The largest numbers of each day.",
    ),
    ApiTable(
        "/fleet/summary",
        FLEET,
        fleet.FleetSum,
        lambda facts, visit, given: fleet.sums(facts, given.period(facts)),
        "Cost, burn rate, forecast and idle cost of all tenants, by currency.",
    ),
    ApiTable(
        "/fleet/tenants",
        FLEET,
        fleet.TenantRow,
        lambda facts, visit, given: fleet.tenants(facts, given.period(facts)),
        "Tenants with cost, forecast and budget.",
    ),
    ApiTable(
        "/fleet/budgets",
        FLEET,
        BudgetStepRow,
        lambda facts, visit, given: budget_steps(facts, given.period(facts)),
        "Steps of the budgets of all tenants.",
    ),
    ApiTable(
        "/fleet/capacity",
        FLEET,
        fleet.CapacityRow,
        lambda facts, visit, given: fleet.capacity(facts, given.period(facts)),
        "The uses of the installed cards in the last complete hour.",
    ),
    ApiTable(
        "/fleet/capacity/hours",
        FLEET,
        fleet.CardHourRow,
        lambda facts, visit, given: fleet.card_hours(facts, _hour(facts, given), fleet.WEEK_HOURS),
        "Installed, running and held cards by class, of the seven days until an hour.",
        ("period", "hour"),
    ),
    ApiTable(
        "/fleet/inventory",
        PROGRAMME,
        fleet.DeviceRow,
        lambda facts, visit, given: fleet.devices(facts, _instant(facts, given)),
        "Every card and MIG instance at an instant, and its holder.",
        ("period", "at"),
    ),
    ApiTable(
        "/fleet/inventory/capacity",
        PROGRAMME,
        fleet.NodeCapacityRow,
        lambda facts, visit, given: fleet.node_capacity(facts, _instant(facts, given)),
        "Devices by node, class and shape at an instant, and the pods on them.",
        ("period", "at"),
    ),
    ApiTable(
        "/fleet/inventory/cards",
        PROGRAMME,
        fleet.NodeCardsRow,
        lambda facts, visit, given: fleet.node_cards(facts, _hour(facts, given)),
        "The uses of the cards of each node in an hour.",
        ("period", "hour"),
    ),
    ApiTable(
        "/fleet/differences",
        FLEET,
        fleet.DifferenceRow,
        lambda facts, visit, given: fleet.differences(facts, given.period(facts)),
        "Use that one source shows and the other does not confirm.",
    ),
    ApiTable(
        "/fleet/idle",
        FLEET,
        fleet.IdleRow,
        lambda facts, visit, given: fleet.idle_pods(facts, given.period(facts)),
        "Pods whose devices were not used, and the cost of that time.",
    ),
    ApiTable(
        "/fleet/coverage",
        PROGRAMME,
        consumption.CoverageRow,
        lambda facts, visit, given: consumption.coverage(facts, given.period(facts)),
        "Which hours were measured, by cluster and source, and why others were not.",
    ),
    ApiTable(
        "/fleet/findings",
        FLEET,
        fleet.FindingRow,
        lambda facts, visit, given: fleet.findings(facts, given.period(facts)),
        "Findings of the last check of the month.",
    ),
    ApiTable(
        "/fleet/steps",
        FLEET,
        fleet.CloseStep,
        lambda facts, visit, given: fleet.steps(facts, given.period(facts)),
        "The steps to close the month.",
    ),
    ApiTable(
        "/fleet/corrections",
        FLEET,
        fleet.CorrectionRow,
        lambda facts, visit, given: fleet.corrections(facts),
        "Recorded corrections that stand on no invoice yet.",
        (),
    ),
    ApiTable(
        "/fleet/health/problems",
        FLEET,
        health.ProblemRow,
        lambda facts, visit, given: health.problems(facts, given.period(facts)),
        "Problems of devices and nodes, and the pods that each affected.",
    ),
    ApiTable(
        "/fleet/health/credits",
        FLEET,
        health.ProposedCreditRow,
        lambda facts, visit, given: health.credits_proposed(facts, given.period(facts)),
        "Proposed credits for hours with a fault of the provider.",
    ),
    ApiTable(
        "/fleet/health/workloads",
        FLEET,
        health.WorkloadHealthRow,
        lambda facts, visit, given: health.workloads(facts, given.period(facts)),
        "Workloads with their hours with a problem, idle time and cost.",
    ),
    ApiTable(
        "/fleet/quotas",
        FLEET,
        fleet.QuotaUseRow,
        lambda facts, visit, given: fleet.quotas(facts),
        "Quotas of all tenants beside use and allocation.",
        (),
    ),
)


def answer(table: ApiTable, visit: Visit) -> Response:
    """The rows of a table for one request."""
    given = visit.parameters(*table.parameters, *PAGED)
    form = given.choice("format", FORMATS)
    limit = given.number("limit", ROWS_LIMIT, ROWS_LIMIT)
    offset = given.number("offset", 0, 999_999_999)
    if table.scope == TENANT:
        opened = visit.facts_of_tenant()
    else:
        opened = visit.facts_of_fleet(programme=table.scope == PROGRAMME)
    with opened as facts:
        etag = _etag(facts)
        if visit.request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers={"ETag": etag})
        rows = table.read(facts, visit, given)
    page = rows[offset : offset + limit]
    following = offset + limit if offset + limit < len(rows) else None
    headers = {"ETag": etag, "Cache-Control": "private, no-cache"}
    if form == "csv":
        name = table.path.rpartition("/")[2]
        headers["Content-Disposition"] = f'attachment; filename="{name}.csv"'
        body = csv_text(table.row, page)
        return Response(body, media_type="text/csv; charset=utf-8", headers=headers)
    found = ApiPage(
        total=len(rows),
        next_offset=following,
        left_out_clusters=list(facts.left_out),
        rows=list(page),
    )
    return Response(msgspec.json.encode(found), media_type="application/json", headers=headers)


def _etag(facts: Facts) -> str:
    """A name of the facts, the clusters that are left out of them, and this version of the code."""
    return f'"{sha256([facts.path.name, version("gpu-ledger"), *facts.left_out])[:32]}"'


def csv_text(row: type[msgspec.Struct], rows: Rows) -> bytes:
    """Rows as CSV; a column that no row has is left out."""
    columns = [
        name
        for name in row.__struct_fields__
        if not rows or any(getattr(one, name) is not msgspec.UNSET for one in rows)
    ]
    return csv_bytes(columns, [[_cell(getattr(one, name)) for name in columns] for one in rows])


def _cell(value: Any) -> object:
    match value:
        case datetime():
            return format_instant(value)
        case list():
            return " ".join(map(str, value))
        case bool():
            return str(value).lower()
        case _:
            return value


_PARAMETERS = {
    "period": "A counted month, such as 2026-10; the newest by default.",
    "by": "The grouping of rows; workload by default.",
    "from": "The first second, in UTC, such as 2026-10-09T14 or 2026-10-09T14:30:05.",
    "to": "The second after the last one.",
    "hour": "An hour, by its start, in UTC; the last complete one by default.",
    "at": "An instant, in UTC; the last second of the last complete hour by default.",
    "workload_kind": "Only pods of a workload of this kind.",
    "workload_name": "Only pods of the workload with this name.",
    "format": "json or csv.",
    "limit": f"How many rows, at most {ROWS_LIMIT}.",
    "offset": "How many rows to leave out before.",
}


def openapi() -> dict[str, Any]:
    """The OpenAPI 3.1 document of every table, made from the types of its rows."""
    types = list(dict.fromkeys([*(table.row for table in TABLES), Error]))
    _, schemas = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "gpu-ledger portal",
            "version": version("gpu-ledger"),
            "description": "GPU consumption and cost. Every amount is text with all decimals.",
        },
        "security": [{"bearer": []}],
        "paths": {f"{ROOT}{table.path}": {"get": _operation(table)} for table in TABLES}
        | {f"{ROOT}{DOCUMENT}": {"get": _download()}},
        "components": {
            "schemas": schemas,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _refusals() -> dict[str, Any]:
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {
        status: {"description": text, "content": error}
        for status, text in {
            "400": "A parameter is not valid.",
            "401": "No valid token.",
            "403": "A page of another origin sent the request.",
            "404": "It does not exist, or the caller may not see it.",
            "405": "The method is neither GET nor HEAD.",
            "414": "The address is too long.",
            "421": "The server has another name.",
            "429": "Too many requests.",
            "500": "The portal failed.",
            "503": "There is no snapshot, or the caller's rights could not be reviewed.",
        }.items()
    }


def _download() -> dict[str, Any]:
    names = {"tenant": "A tenant.", "number": "A document.", "name": "One of its files."}
    content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    return {
        "summary": "A file of an issued document, with the bytes that were issued.",
        "operationId": "document",
        "parameters": [_parameter(name, "path", text) for name, text in names.items()],
        "responses": {"200": {"description": "The file.", "content": content}, **_refusals()},
    }


def _operation(table: ApiTable) -> dict[str, Any]:
    path = [_parameter("tenant", "path", "A tenant.")] if "{tenant}" in table.path else []
    query = [_parameter(n, "query", _PARAMETERS[n]) for n in (*table.parameters, *PAGED)]
    rows = {"type": "array", "items": {"$ref": f"#/components/schemas/{table.row.__name__}"}}
    page = {
        "type": "object",
        "properties": {
            "total": {"type": "integer"},
            "next_offset": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "left_out_clusters": {"type": "array", "items": {"type": "string"}},
            "rows": rows,
        },
        "required": list(ApiPage.__struct_fields__),
        "additionalProperties": False,
    }
    return {
        "summary": table.summary,
        "operationId": table.path.strip("/").replace("/", "_").replace("{tenant}_", ""),
        "parameters": path + query,
        "responses": {
            "200": {
                "description": table.row.__doc__ or "",
                "content": {
                    "application/json": {"schema": page},
                    "text/csv": {"schema": {"type": "string"}},
                },
            },
            "304": {"description": "The rows did not change."},
            **_refusals(),
        },
    }


def _parameter(name: str, where: str, description: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": where,
        "required": where == "path",
        "description": description,
        "schema": {"type": "string"},
    }


def document_download(visit: Visit) -> Response:
    """A file of one of the tenant's documents, with the bytes that were issued."""
    visit.parameters()
    number, name = visit.request.path_params["number"], visit.request.path_params["name"]
    with visit.facts_of_tenant() as facts:
        found = consumption.document_file(facts, number, name)
    if found is None:
        raise PageNotFound()
    period, digest = found
    body = issued_bytes(visit, period, name, digest)
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Cache-Control": "private, no-store",
    }
    return Response(body, media_type="application/octet-stream", headers=headers)


def issued_bytes(visit: Visit, period: str, name: str, digest: str) -> bytes:
    """A file with the bytes that were issued; raises DocumentFileMissing."""
    path = visit.settings.documents / period / "tenants" / visit.tenant / name
    try:
        body = path.read_bytes()
    except OSError:
        body = b""
    if sha256_bytes(body) != digest:
        raise DocumentFileMissing(period, name)
    return body
