"""The HTML pages and chart images, from the same rows as the API.

Put here: the content of each page, and the format of values on it.
Not here: the rows (`portal.consumption`, `portal.fleet`), or the look (`templates/`, `static/`).
"""

from __future__ import annotations

import calendar
import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

import jinja2
from starlette.responses import HTMLResponse, RedirectResponse, Response

from domain.billing_period import BillingPeriod
from domain.interval import HOUR, Interval, hour_of
from portal import charts, consumption, fleet
from portal.budgets import budget_steps, budgets_with_steps
from portal.consumption import DAY_AND_CLASS, Consumption
from portal.refusals import PageNotFound, not_one_of
from portal.visits import CallerError, QueryParameters, Visit
from warehouse.reports.inventory import SECOND
from warehouse.reports.opened_facts import Facts
from warehouse.reports.usage import LABEL, kept_labels

STATIC_TYPES = {".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".txt": "text/plain"}
CLUSTERS_DRAWN = 24
"""Charts of hours on a page, each one request; the table beside them has every cluster."""
FIRST_SHOWN, SHOWN, LONG_SHOWN = 15, 50, 200
"""Rows of a table on a page; the links below it have all of them."""
NODES_SHOWN = 50
SIZES = {"wide": charts.WIDE, "narrow": charts.NARROW, "full": charts.FULL}
STEP_JOBS = ("pull_due_hours", "pull_hours", "check_period", "close_period", "close_period")
"""The job of Dagster for each step to close a month."""


def tenant_page(visit: Visit) -> Response:
    given = visit.parameters("period", "label")
    with visit.facts_of_tenant() as facts:
        period = given.period(facts)
        month = Consumption(facts, visit.tenant, period)
        labels = kept_labels(facts, [period.name])
        label = given.text("label", labels[0] if labels else "")
        if label and label not in labels:
            raise not_one_of("label", labels)
        return page(
            visit,
            "tenant.html",
            title=visit.tenant,
            summary=month.summary(),
            period=period,
            periods=consumption.periods(facts),
            days=month.days(),
            workloads=month.workloads(),
            first=FIRST_SHOWN,
            shown=LONG_SHOWN,
            class_days=month.usage(DAY_AND_CLASS),
            labels=labels,
            label=label,
            by_label=month.usage(f"{LABEL}{label}") if label else [],
            coverage=month.coverage(),
            status=month.status,
            documents=consumption.documents(facts),
            quotas=month.quotas(),
            budgets=budgets_with_steps(budget_steps(facts, period)),
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
            status=month.status,
            pods=month.pods(kind, name),
            shown=LONG_SHOWN,
            query=urlencode({"period": period.name, "workload_kind": kind, "workload_name": name}),
            api=f"/api/v1/tenants/{visit.tenant}",
            tenant=visit.tenant,
        )


def cost_chart(visit: Visit) -> Response:
    given = visit.parameters("period", "size")
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
        if summary.forecast and summary.amounts == consumption.ESTIMATED
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
            _width(given),
        )
    )


def hours_chart(visit: Visit) -> Response:
    given = visit.parameters("period", "size")
    with visit.facts_of_tenant() as facts:
        period = given.period(facts)
        rows = Consumption(facts, visit.tenant, period).usage(DAY_AND_CLASS)
    series: defaultdict[str, dict[int, Decimal]] = defaultdict(dict)
    for row in rows:
        day = int(str(row.usage_day)[8:])
        before = series[str(row.gpu_class)].get(day, Decimal(0))
        series[str(row.gpu_class)][day] = before + Decimal(row.gpu_hours)
    title = f"GPU-hours of {visit.tenant} per day in {period}, by class"
    return _image(charts.stacked_chart(title, "GPU-hours", _days_in(period), series, _width(given)))


def programme_page(visit: Visit) -> Response:
    given = visit.parameters("period", "hour")
    with visit.facts_of_fleet(programme=True) as facts:
        hour = given.hour("hour")
        period = BillingPeriod.containing(hour) if hour else given.period(facts)
        facts.require(period.interval)
        at = hour or fleet.last_complete_hour(facts, period)
        return page(
            visit,
            "programme.html",
            title="Active worker nodes and GPUs",
            period=period,
            periods=consumption.periods(facts),
            status=consumption.month_status(facts, period),
            at=at,
            one_hour=HOUR,
            fleet=fleet.fleet_hour(facts, at),
            days=fleet.fleet_days(facts, period),
            clusters=fleet.cluster_hours(facts, at),
            nodes=fleet.node_hours(facts, at),
            shown=LONG_SHOWN,
            query=urlencode({"period": period.name, "hour": at.strftime("%Y-%m-%dT%H")}),
        )


def gpus_chart(visit: Visit) -> Response:
    given = visit.parameters("period", "size")
    with visit.facts_of_fleet(programme=True) as facts:
        period = given.period(facts)
        rows = fleet.fleet_hours(facts, period)
    hours = {
        _hour_number(period.started_at, row.hour_started_at): Decimal(row.sum_of_node_max)
        for row in rows
    }
    days = _days_in(period)
    labels = {24 * day + 12: str(day + 1) for day in range(0, days, 5)}
    title = f"GPUs in use in each hour of {period}, sum of the maxima of the nodes"
    series = {"Sum of the maxima of the nodes": hours}
    return _image(charts.stacked_chart(title, "GPUs", 24 * days, series, _width(given), labels))


def provider_page(visit: Visit) -> Response:
    given = visit.parameters("period")
    with visit.facts_of_fleet() as facts:
        period = given.period(facts)
        at = fleet.last_complete_hour(facts, period)
        capacity, coverage = fleet.capacity(facts, period), consumption.coverage(facts, period)
        measured = _measured(coverage)
        return page(
            visit,
            "provider.html",
            title="All tenants",
            status=consumption.month_status(facts, period),
            period=period,
            periods=consumption.periods(facts),
            at=at,
            steps=fleet.steps(facts, period),
            dagster_url=visit.settings.dagster_url,
            jobs=STEP_JOBS,
            findings=fleet.findings(facts, period),
            sums=fleet.sums(facts, period),
            tenants=fleet.tenants(facts, period),
            known=set(visit.known_tenants),
            capacity=capacity,
            cards=_Cards.of(capacity),
            card_hours=fleet.card_hours(facts, at, fleet.WEEK_HOURS),
            coverage=coverage,
            measured=measured,
            drawn=_worst_clusters(measured)[:CLUSTERS_DRAWN],
            differences=fleet.differences(facts, period),
            idle=fleet.idle_pods(facts, period),
            shown=SHOWN,
            long=LONG_SHOWN,
            corrections=fleet.corrections(facts),
            quotas=fleet.quotas(facts),
            budgets=budgets_with_steps(budget_steps(facts, period)),
        )


def cards_chart(visit: Visit) -> Response:
    given = visit.parameters("period", "size")
    with visit.facts_of_fleet() as facts:
        at = fleet.last_complete_hour(facts, given.period(facts))
        rows = fleet.card_hours(facts, at, fleet.WEEK_HOURS)
    first = at - (fleet.WEEK_HOURS - 1) * HOUR
    series: defaultdict[str, defaultdict[int, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    installed: defaultdict[int, Decimal] = defaultdict(Decimal)
    for row in rows:
        number = _hour_number(first, row.hour_started_at)
        series[row.gpu_class][number] += Decimal(row.running) + Decimal(row.held)
        installed[number] += Decimal(row.installed)
    labels = {
        number: (first + number * HOUR).strftime("%d %b")
        for number in range(12, fleet.WEEK_HOURS, 48)
    }
    title = f"Cards in use in the seven days until {_at(at + HOUR)}, by class"
    limit = max(installed.values(), default=None)
    return _image(
        charts.stacked_chart(title, "Cards", fleet.WEEK_HOURS, series, _width(given), labels, limit)
    )


def coverage_chart(visit: Visit) -> Response:
    given = visit.parameters("period", "cluster", "size")
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
    return _image(charts.hour_chart(title, _days_in(period), statuses, _width(given)))


def map_page(visit: Visit) -> Response:
    given = visit.parameters("period", "cluster", "at", "node", "offset")
    with visit.facts_of_fleet() as facts:
        at = given.instant("at") or fleet.last_instant(facts, given.period(facts))
        hour, node = hour_of(at), given.text("node")
        facts.require(Interval(at, at + SECOND))
        status = consumption.month_status(facts, BillingPeriod.containing(at))
        every = fleet.node_cards(facts, hour)
        clusters = sorted({row.cluster_name for row in every})
        cluster = given.text("cluster", clusters[0] if clusters else "")
        rows = [
            row
            for row in every
            if row.cluster_name == cluster
            and node in row.node_name
            and any(Decimal(getattr(row, term)) for term in fleet.CARD_TERMS)
        ]
        offset = given.number("offset", 0, max(len(rows) - 1, 0))
        shown = rows[offset : offset + NODES_SHOWN]
        devices = _devices(facts, at, shown)

    def query_from(start: int) -> str | None:
        values = {"cluster": cluster, "at": at.strftime("%Y-%m-%dT%H:%M:%S"), "node": node}
        return urlencode(values | {"offset": start}) if 0 <= start < len(rows) else None

    return page(
        visit,
        "map.html",
        title="Nodes, cards and their holders",
        status=status,
        clusters=clusters,
        cluster=cluster,
        node=node,
        at=at,
        hour=hour,
        nodes=shown,
        terms=[
            term for term in fleet.CARD_TERMS if any(Decimal(getattr(row, term)) for row in shown)
        ],
        total=len({row.node_name for row in rows}),
        rows_total=len(rows),
        cards=_Cards.of(rows),
        chart={"cluster": cluster, "hour": hour.strftime("%Y-%m-%dT%H"), "node": node},
        devices=devices,
        offset=offset,
        previous=query_from(max(offset - NODES_SHOWN, 0)) if offset else None,
        following=query_from(offset + NODES_SHOWN),
    )


def nodes_chart(visit: Visit) -> Response:
    given = visit.parameters("hour", "cluster", "node", "size")
    with visit.facts_of_fleet() as facts:
        hour = given.hour("hour") or fleet.last_complete_hour(facts, facts.newest)
        rows = fleet.node_cards(facts, hour)
    cluster, part = given.text("cluster"), given.text("node")
    cards: defaultdict[str, defaultdict[str, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    for row in rows:
        if row.cluster_name == cluster and part in row.node_name:
            for term in charts.CARD_COLOURS:
                cards[row.node_name][term] += Decimal(getattr(row, term))
    if not cards:
        raise PageNotFound()
    title = f"Cards of {len(cards)} nodes of {cluster} in the hour from {_at(hour)}"
    bars = [charts.NodeBar(name, terms) for name, terms in cards.items()]
    return _image(charts.node_chart(title, bars, _width(given)))


def front_page(visit: Visit) -> Response:
    """Leads to the only page that the caller may see, or lists the tenants."""
    visit.parameters()
    tenants = visit.caller.tenants_among(visit.known_tenants)
    places = _places(visit)
    addresses = [*(place.address for place in places), *(f"/tenants/{name}" for name in tenants)]
    if len(addresses) == 1:
        return RedirectResponse(addresses[0], 303)
    return page(visit, "front.html", title="GPU consumption", tenants=tenants)


@dataclass(frozen=True, slots=True)
class ProviderPage:
    """A page that a caller may see, beside those of tenants."""

    name: str
    address: str


def _places(visit: Visit) -> list[ProviderPage]:
    places = []
    if visit.caller.is_provider():
        places += [
            ProviderPage("All tenants", "/provider"),
            ProviderPage("Nodes and cards", "/provider/map"),
            ProviderPage("Health", "/provider/health"),
            ProviderPage("Returned GPUs", "/provider/returned"),
        ]
    if visit.caller.is_programme():
        places.append(ProviderPage("Active worker nodes and GPUs", "/programme"))
    return places


@dataclass(frozen=True, slots=True)
class _Cards:
    """Sums of cards of an hour, as text."""

    installed: str
    used: str
    unusable: str
    used_pct: str  # empty where no card is installed

    @classmethod
    def of(cls, rows: Sequence[fleet.CapacityRow | fleet.NodeCardsRow]) -> _Cards:
        def total(*terms: str) -> Decimal:
            values = (Decimal(getattr(row, term)) for row in rows for term in terms)
            return sum(values, Decimal(0))

        installed, used = total("installed"), total("running", "held")
        pct = f"{used * 100 / installed:.1f}" if installed else ""
        return cls(str(installed), str(used), str(total("unhealthy", "withdrawn")), pct)


@dataclass(frozen=True, slots=True)
class _Device:
    """A card, a MIG instance, or a number of devices, and its holder, as a line of the map."""

    name: str
    holder: str
    state: str  # used, free or unknown


def _devices(
    facts: Facts, at: datetime, shown: Sequence[fleet.NodeCardsRow]
) -> Mapping[tuple[str, str], list[_Device]]:
    """The devices of these nodes, under node and class. A device of a class that has no row of its
    own stands in the first row of its node."""
    classes: defaultdict[str, list[str]] = defaultdict(list)
    for row in shown:
        classes[row.node_name].append(row.gpu_class)
    capacity = {
        (row.node_name, row.gpu_class, row.mig_profile): row
        for row in fleet.node_capacity(facts, at)
    }
    found: defaultdict[tuple[str, str], list[_Device]] = defaultdict(list)
    of_shape: defaultdict[tuple[str, str, str], list[fleet.DeviceRow]] = defaultdict(list)
    for device in fleet.devices(facts, at):
        if device.node_name in classes:
            of_shape[device.node_name, device.gpu_class, device.mig_profile].append(device)
    for (node, gpu_class, profile), devices in of_shape.items():
        held = capacity.get((node, gpu_class, profile))
        attributed = sum(1 for one in devices if one.held_by)
        is_certain = held is None or held.device_allocated <= attributed
        place = (node, gpu_class if gpu_class in classes[node] else classes[node][0])
        for device in devices:
            if device.held_by:
                holder, state = device.held_by, "used"
            elif device.device_count != 1 or not (device.device_uuid or device.device_name):
                holders = ", ".join(held.holders) if held else ""
                holder, state = (f"in use: {holders}", "used") if holders else ("free", "free")
            else:
                holder, state = ("free", "free") if is_certain else ("in use or free", "unknown")
            found[place].append(_Device(_device_name(device), holder, state))
    return found


def _device_name(device: fleet.DeviceRow) -> str:
    shape = "" if device.mig_profile in ("", "whole") else f" {device.mig_profile}"
    if device.device_name:
        return f"{device.device_name}{shape}"
    if device.gpu_index or device.device_uuid:
        instance = f"/{device.instance_id}" if device.instance_id else ""
        return f"{device.gpu_index or device.device_uuid}{instance}{shape}"
    return f"{device.device_count} ×{shape or ' whole card'}"


def page(visit: Visit, template: str, **values: Any) -> Response:
    return HTMLResponse(
        _templates()
        .get_template(template)
        .render(
            static=static_names(),
            session=visit.settings.has_login,
            places=_places(visit),
            path=visit.request.url.path,
            **values,
        )
    )


def plain_page(template: str, status: int = 200, **values: Any) -> Response:
    """A page without a caller: the login form and errors."""
    text = (
        _templates()
        .get_template(template)
        .render(static=static_names(), session=False, places=(), path="", **values)
    )
    return HTMLResponse(text, status)


def error_page(shown: CallerError) -> Response:
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
    environment.filters |= {
        "at": _at,
        "counted": consumption.counted,
        "at_second": _at_second,
        "day_at": _day_at,
        "money": _money,
        "known_by": lambda how: (how or "nothing").removeprefix("by_").replace("nothing", "–"),
        "number": _number,
        "or_dash": lambda value: "–" if value is None else value,
        "percent": lambda text: f"{text} %" if text else "–",
    }
    return environment


def _at(value: datetime | None) -> str:
    return value.strftime("%d %b %Y %H:%M UTC") if value else "–"


def _day_at(value: datetime | None) -> str:
    """For a table of one month, whose heading names UTC."""
    return value.strftime("%d %b %H:%M") if value else "–"


def _at_second(value: datetime) -> str:
    return value.strftime("%d %b %Y %H:%M:%S UTC")


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


def _hour_number(first: datetime, hour: datetime) -> int:
    """The first hour is 1."""
    return (hour - first) // HOUR + 1


def _width(given: QueryParameters) -> int:
    return SIZES[given.choice("size", tuple(SIZES))]


def _measured(coverage: Sequence[consumption.CoverageRow]) -> list[dict[str, Any]]:
    """Hours by cluster, source and status: one row per cluster and source."""
    found: defaultdict[tuple[str, str], defaultdict[str, int]] = defaultdict(
        lambda: defaultdict(int)
    )
    for row in coverage:
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
