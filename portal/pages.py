"""The HTML pages and chart images, from the same rows as the API.

Put here: what each page has, and how values are written on it.
Not here: the rows (`portal.consumption`, `portal.fleet`), or the look (`templates/`, `static/`).
"""

from __future__ import annotations

import calendar
import hashlib
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

import jinja2
from starlette.responses import HTMLResponse, RedirectResponse, Response

from domain.billing_period import BillingPeriod
from domain.interval import Interval
from portal import charts, consumption, fleet
from portal.budgets import budget_steps
from portal.consumption import Consumption
from portal.refusals import PageNotFound, not_one_of
from portal.visits import Shown, Visit
from warehouse.reports.opened_facts import Facts
from warehouse.reports.usage import LABEL, kept_labels

STATIC_TYPES = {".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".txt": "text/plain"}
CLUSTERS_DRAWN = 24
"""Charts of hours on a page, each one request; the table beside them has every cluster."""
WORKLOADS_SHOWN = 50
"""Rows of a table on a page; the link below it has all of them."""


def tenant_page(visit: Visit) -> Response:
    given = visit.parameters("period", "label")
    with visit.facts_of_tenant() as facts:
        period = given.period(facts)
        month = Consumption(facts, visit.tenant, period)
        labels = kept_labels(facts, [period.name])
        label = given.text("label", labels[0] if labels else "")
        if label and label not in labels:
            raise not_one_of("label", labels)
        summary = month.summary()
        return page(
            visit,
            "tenant.html",
            title=visit.tenant,
            summary=summary,
            period=period,
            periods=consumption.periods(facts),
            days=month.days(),
            workloads=month.workloads(),
            shown=WORKLOADS_SHOWN,
            class_days=month.usage("day,class"),
            labels=labels,
            label=label,
            by_label=month.usage(f"{LABEL}{label}") if label else [],
            coverage=month.coverage(),
            gaps=[row for row in month.coverage() if row.status in ("missing", "degraded")],
            documents=consumption.documents(facts),
            quotas=month.quotas(),
            budget_steps=budget_steps(facts, period),
            api=f"/api/v1/tenants/{visit.tenant}",
        )


def workload_page(visit: Visit) -> Response:
    given = visit.parameters("period", "kind", "name")
    with visit.facts_of_tenant() as facts:
        period = given.period(facts)
        month = Consumption(facts, visit.tenant, period)
        kind, name = given.text("kind"), given.text("name")
        return page(
            visit,
            "workload.html",
            title=f"{kind} {name}",
            period=period,
            pods=month.pods(kind, name),
            shown=WORKLOADS_SHOWN * 4,
            query=urlencode({"period": period.name, "workload_kind": kind, "workload_name": name}),
            api=f"/api/v1/tenants/{visit.tenant}",
            tenant=visit.tenant,
        )


def cost_chart(visit: Visit) -> Response:
    given = visit.parameters("period")
    with visit.facts_of_tenant() as facts:
        period = given.period(facts)
        month = Consumption(facts, visit.tenant, period)
        summary, days = month.summary(), month.days()
    by_day = {int(row.usage_day[8:]): Decimal(row.rounded_cost or 0) for row in days}
    counted = _counted_days(period, summary.counted_until)
    totals, total = [], Decimal(0)
    for day in range(1, counted + 1):
        total += by_day.get(day, Decimal(0))
        totals.append(total)
    forecast = (
        charts.Forecast(
            Decimal(summary.forecast),
            Decimal(summary.forecast_low),
            Decimal(summary.forecast_high),
        )
        if summary.forecast
        else None
    )
    return _image(
        charts.cumulative_chart(
            f"Cost so far of {visit.tenant} in {period}",
            summary.currency,
            _days_in(period),
            totals,
            Decimal(summary.budget) if summary.budget else None,
            forecast,
        )
    )


def hours_chart(visit: Visit) -> Response:
    given = visit.parameters("period")
    with visit.facts_of_tenant() as facts:
        period = given.period(facts)
        rows = Consumption(facts, visit.tenant, period).usage("day,class")
    series: defaultdict[str, dict[int, Decimal]] = defaultdict(dict)
    for row in rows:
        day = int(str(row.usage_day)[8:])
        before = series[str(row.gpu_class)].get(day, Decimal(0))
        series[str(row.gpu_class)][day] = before + Decimal(row.gpu_hours)
    title = f"GPU-hours of {visit.tenant} per day in {period}, by class"
    return _image(charts.stacked_chart(title, "GPU-hours", _days_in(period), series))


def programme_page(visit: Visit) -> Response:
    given = visit.parameters("period", "hour")
    with visit.facts_of_fleet(programme=True) as facts:
        hour = given.hour("hour")
        period = BillingPeriod.containing(hour) if hour else given.period(facts)
        at = hour or fleet.last_hour(facts, period)
        facts.require(period.interval)
        return page(
            visit,
            "programme.html",
            title="Active worker nodes and GPUs",
            period=period,
            periods=consumption.periods(facts),
            at=at,
            fleet=fleet.fleet_hour(facts, at),
            clusters=fleet.cluster_hours(facts, at),
            nodes=fleet.node_hours(facts, at),
            query=urlencode({"period": period.name, "hour": at.strftime("%Y-%m-%dT%H")}),
        )


def provider_page(visit: Visit) -> Response:
    given = visit.parameters("period")
    with visit.facts_of_fleet() as facts:
        period = given.period(facts)
        [about] = [one for one in consumption.periods(facts) if one.billing_period == period.name]
        return page(
            visit,
            "provider.html",
            title="All tenants",
            about=about,
            period=period,
            periods=consumption.periods(facts),
            steps=fleet.steps(facts, period),
            findings=fleet.findings(facts, period),
            tenants=fleet.tenants(facts, period),
            known=set(visit.known_tenants),
            capacity=fleet.capacity(facts, period),
            coverage=consumption.coverage(facts, period),
            measured=(measured := _measured(facts, period)),
            drawn=_worst_clusters(measured)[:CLUSTERS_DRAWN],
            idle=fleet.idle_pods(facts, period),
            shown=WORKLOADS_SHOWN,
            corrections=fleet.corrections(facts),
            quotas=fleet.quotas(facts),
            budget_steps=budget_steps(facts, period),
        )


def coverage_chart(visit: Visit) -> Response:
    given = visit.parameters("period", "cluster")
    with visit.facts_of_fleet() as facts:
        period = given.period(facts)
        cluster = given.text("cluster")
        rows = [one for one in consumption.coverage(facts, period) if one.cluster_name == cluster]
    if not rows:
        raise PageNotFound()
    worst = list(charts.STATUS_COLOURS)
    statuses: dict[tuple[int, int], str] = {}
    for row in sorted(rows, key=lambda one: worst.index(one.status), reverse=True):
        for hour in Interval(row.started_at, row.ended_at).hours():
            statuses[hour.day, hour.hour] = row.status  # of two sources the worse one
    title = f"Hours of {cluster} in {period} by status, the worse of its sources"
    return _image(charts.hour_chart(title, _days_in(period), statuses))


def front_page(visit: Visit) -> Response:
    """Leads to the only page that the caller may see, or lists them."""
    visit.parameters()
    tenants = visit.caller.tenants_among(visit.known_tenants)
    places = []
    if visit.caller.is_provider():
        places.append(("All tenants", "/provider"))
    if visit.caller.is_programme():
        places.append(("Active worker nodes and GPUs", "/programme"))
    places += [(tenant, f"/tenants/{tenant}") for tenant in tenants]
    if len(places) == 1:
        return RedirectResponse(places[0][1], 303)
    return page(visit, "front.html", title="GPU consumption", places=places)


def page(visit: Visit, template: str, **values: Any) -> Response:
    return HTMLResponse(
        _templates()
        .get_template(template)
        .render(static=static_names(), session=visit.settings.has_login, **values)
    )


def plain_page(template: str, status: int = 200, **values: Any) -> Response:
    """A page for nobody in particular: the login form and errors."""
    text = (
        _templates().get_template(template).render(static=static_names(), session=False, **values)
    )
    return HTMLResponse(text, status)


def error_page(shown: Shown) -> Response:
    return plain_page("error.html", shown.status, title="Not shown", shown=shown)


@cache
def static_files() -> Mapping[str, tuple[bytes, str]]:
    """Name in an address → content and type. The name has the hash of the content."""
    found = {}
    for path in sorted(files("portal").joinpath("static").iterdir(), key=lambda one: one.name):
        stem, _, suffix = path.name.rpartition(".")
        body = path.read_bytes()
        digest = hashlib.sha256(body).hexdigest()[:12]
        found[f"{stem}-{digest}.{suffix}"] = (body, STATIC_TYPES[f".{suffix}"])
    return found


@cache
def static_names() -> Mapping[str, str]:
    """Name of a file → its address."""
    return {
        f"{name.rpartition('-')[0]}.{name.rpartition('.')[2]}": f"/static/{name}"
        for name in static_files()
    }


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("portal"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"at": _at, "money": _money, "number": _number}
    return environment


def _at(value: datetime | None) -> str:
    return value.strftime("%d %b %Y %H:%M UTC") if value else "–"


def _money(text: str, currency: str) -> str:
    return f"{_number(text)} {currency}" if text else "–"


def _number(text: str) -> str:
    """With separators of thousands; a dash where there is no number."""
    return f"{Decimal(text):,}" if text else "–"


def _days_in(period: BillingPeriod) -> int:
    return calendar.monthrange(period.started_at.year, period.started_at.month)[1]


def _counted_days(period: BillingPeriod, counted_until: datetime) -> int:
    """Days of the period that were counted, also in part."""
    seconds = (counted_until - period.started_at).total_seconds()
    return max(0, min(_days_in(period), -int(-seconds // 86400)))


def _measured(facts: Facts, period: BillingPeriod) -> list[dict[str, Any]]:
    """Hours by cluster, source and status: one row per cluster and source."""
    found: defaultdict[tuple[str, str], defaultdict[str, int]] = defaultdict(
        lambda: defaultdict(int)
    )
    for row in consumption.coverage(facts, period):
        found[row.cluster_name, row.source][row.status] += row.hours
    return [
        {"cluster_name": cluster, "source": source, "hours": dict(hours)}
        for (cluster, source), hours in sorted(found.items())
    ]


def _worst_clusters(measured: list[dict[str, Any]]) -> list[str]:
    """Clusters with the most hours that are not complete first."""
    gaps: defaultdict[str, int] = defaultdict(int)
    for row in measured:
        gaps[row["cluster_name"]] += sum(row["hours"].get(s, 0) for s in ("missing", "degraded"))
    return sorted(gaps, key=lambda name: (-gaps[name], name))


def _image(svg: str) -> Response:
    return Response(svg, media_type="image/svg+xml")
