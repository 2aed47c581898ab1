"""`gpu-ledger mig`: list the layouts of a card, and check a mig-parted file.

Put here: the commands `layouts` and `check`, and their rows.
Not here: the calculation of layouts (`domain.mig`), or the command `plan` (`mig_plan`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import click

from domain.gpu import Catalogue, Vendor
from domain.mig import Geometry, Layout, MigProfile, PlacedLayout
from domain.mig import layouts as all_layouts
from domain.mig.parted import (
    ACCEPTED,
    REFUSED,
    EntryFit,
    LayoutDoesNotFit,
    PartedEntry,
    fit_entry,
    parse_parted_file,
    unknown_choice,
)
from domain.mig.yaml_tree import LARGEST_FILE_BYTES
from orchestration.cli.gpu import products_option, read_catalogue
from orchestration.cli.mig_plan import plan
from orchestration.cli.output import emit, emit_document, output_option

Row = dict[str, object]

TABLE_COLUMNS = (
    "config",
    "entry",
    "card",
    "slices_add_up",
    "fits",
    "slots_or_reason",
    "sold_compute",
    "unsold_compute",
    "sold_memory",
    "unsold_memory",
    "note",
)


@click.group(name="mig", no_args_is_help=True)
def command() -> None:
    """List the MIG layouts of a card; check a mig-parted file; plan a change of a node."""


command.add_command(plan)

LAYOUTS_EPILOG = """\b
Examples:
  gpu-ledger mig layouts NVIDIA-A100-SXM4-40GB --profiles 1g,2g,3g,4g,7g
  gpu-ledger mig layouts H100-80GB --profiles 1g.10gb,1g.20gb,3g.40gb -o json
  gpu-ledger mig layouts A30-24GB -o csv
"""


@command.command(epilog=LAYOUTS_EPILOG)
@click.argument("product")
@click.option(
    "--profiles",
    metavar="A,B",
    help="Profiles of the layouts (1g: the 1g profile with the least memory; default: all).",
)
@products_option
@output_option
def layouts(product: str, profiles: str | None, products_path: Path | None, output: str) -> None:
    """Count and list the layouts of PRODUCT, a product, a GPU class or a geometry.

    The counts are those of positioned layouts (each a set of instances at their slots), of maximal
    layouts (to which no instance can be added), and of placeable sets (distinct sets of instances,
    regardless of their slots). The table lists the maximal layouts; JSON and CSV list all layouts.
    """

    catalogue = read_catalogue(products_path)
    chosen_product = catalogue.choose(product)
    geometry = catalogue.geometry_of(chosen_product)
    chosen = _profiles(geometry, profiles)
    found = all_layouts(geometry, chosen)
    rows = [_layout_row(layout, layout in found.maximal) for layout in found.positioned]
    counts = {
        "positioned": len(found.positioned),
        "maximal": len(found.maximal),
        "placeable": len(found.placeable),
    }
    if output == "json":
        about = {"product": chosen_product.product, "geometry": geometry.name}
        names = [str(profile) for profile in chosen]
        emit_document({**about, "profiles": names, **counts, "layouts": rows})
    elif output == "csv":
        emit([{**row, "instances": _instances_text(row)} for row in rows], output)
    else:
        shown = [{"instances": _instances_text(row)} for row in rows if row["maximal"]]
        title = ", ".join(f"{count} {name}" for name, count in counts.items())
        emit(shown, output, title=f"{chosen_product.product}: {title}; listed: maximal layouts")


def _profiles(geometry: Geometry, text: str | None) -> list[MigProfile]:
    """The profiles that the option names, in full or as `1g`; without it, all of the card."""

    known = [profile.profile for profile in geometry.profiles]
    if text is None:
        return known
    by_name = {str(name): p.profile for p in geometry.profiles for name in p.names}
    for profile in sorted(known, key=lambda p: p.memory_gb, reverse=True):
        if not profile.with_attributes and not profile.without_attributes:
            by_name[f"{profile.gpu_slices}g"] = profile  # the narrowest one is set last
    chosen: list[MigProfile] = []
    for name in (part.strip() for part in text.split(",")):
        if name not in by_name:
            names = ", ".join(str(profile) for profile in known)
            raise unknown_choice(f"the profiles of {geometry.name}", name, names)
        if by_name[name] not in chosen:
            chosen.append(by_name[name])
    return chosen


def _layout_row(layout: Layout, is_maximal: bool) -> Row:
    instances = [{"profile": str(p.profile), "start": p.start, "size": p.size} for p in layout]
    return {"maximal": is_maximal, "instances": instances}


def _instances_text(row: Row) -> str:
    instances = row["instances"]
    assert isinstance(instances, list), "a layout's row has a list of instances"
    return " ".join(f"{i['profile']}@{i['start']}:{i['size']}" for i in instances)


CHECK_EPILOG = """\b
Examples:
  gpu-ledger mig check config.yaml
  gpu-ledger mig check config.yaml --product NVIDIA-H100-80GB-HBM3 --config all-balanced
  kubectl get configmap default-mig-parted-config -o yaml | gpu-ledger mig check - -o json
"""


@command.command(epilog=CHECK_EPILOG)
@click.argument("file", type=click.File("rb"))
@click.option("--product", help="Card: a product, a GPU class or a geometry.")
@click.option("--config", "config_name", help="Configuration of the file to check (default: all).")
@products_option
@output_option
def check(
    file: BinaryIO,
    product: str | None,
    config_name: str | None,
    products_path: Path | None,
    output: str,
) -> None:
    """Check a mig-parted FILE, bare or in ConfigMaps (- reads standard input).

    Prints the result of mig-parted's own check of the file, and for each entry: whether the slices
    add up, the slots at which the instances fit or the reason why they do not, and the shares of
    the card that are sold and unsold. Without --product, an entry is checked on the cards of its
    filter, or on all cards with its profiles, and fits if it fits one of them. The exit code is 1
    if an entry does not fit.
    """

    catalogue = read_catalogue(products_path)
    parsed = parse_parted_file(file.read(LARGEST_FILE_BYTES + 1), file.name)
    parted_result = ACCEPTED if parsed.is_accepted else REFUSED
    rows: list[Row] = []
    failed = total = 0
    for name, entries in parsed.chosen(file.name, config_name).items():
        for number, entry in enumerate(entries, start=1):
            found = list(_entry_rows(entry, product, catalogue))
            overriding = [later for later in entries[number:] if later.covers(entry)]
            note = f"line {overriding[-1].line} overrides it" if overriding else ""
            rows += [{"config": name, "entry": number, **row, "note": note} for row in found]
            total += 1
            failed += all(row["fits"] is False for row in found)
    if output == "json":
        about = {"file": file.name, "valid": parsed.is_accepted, "mig_parted": parted_result}
        emit_document({**about, "warnings": list(parsed.warnings), "entries": rows})
    else:
        columns = TABLE_COLUMNS if output == "table" else None
        shown = [{**row, "slots_or_reason": row["slots"] or row["why_not"]} for row in rows]
        emit(
            shown if columns else rows,
            output,
            columns,
            title=f"{file.name}: result of mig-parted: {parted_result}",
        )
        for warning in parsed.warnings:
            click.echo(f"warning: {warning}", err=True)
    if failed:
        raise LayoutDoesNotFit(file.name, failed, total)


def _entry_rows(entry: PartedEntry, product: str | None, catalogue: Catalogue) -> Iterator[Row]:

    if product is not None and not entry.is_for(catalogue.pci_device_ids(product)):
        yield _row(product, fits=None, reason="its filter is for other cards")
    elif not entry.mig_enabled:
        yield _row(product or "any card", fits=True, slots="MIG is off: each card stays whole")
    elif product is None and not entry.mig_devices and not entry.device_filter:
        yield _row("any MIG card", fits=True, slots="no instances")
    else:
        geometries = list(_geometries(entry, product, catalogue))
        if not geometries:
            kind = "of its filter" if entry.device_filter else "with all of these profiles"
            yield _row("no card", fits=False, reason=f"the catalogue has no card {kind}")
        for geometry in geometries:
            yield _fit_row(fit_entry(entry, geometry))


def _geometries(
    entry: PartedEntry, product: str | None, catalogue: Catalogue
) -> Iterable[Geometry]:
    """The distinct geometries of the cards to which an entry applies."""
    if product is not None:
        return [catalogue.geometry_of(catalogue.choose(product))]
    if entry.device_filter:
        cards = (
            card
            for device_id in sorted(entry.filtered_ids())
            for card in catalogue.products_by_pci(Vendor.NVIDIA, device_id)
        )
        found = {card.geometry.name: card.geometry for card in cards if card.geometry is not None}
        return found.values()
    return [
        geometry
        for geometry in catalogue.geometries.values()
        if all(geometry.canonical(profile) is not None for profile in entry.mig_devices)
    ]


def _fit_row(fit: EntryFit) -> Row:
    if not isinstance(fit.placed, PlacedLayout):
        row = _row(fit.geometry, fits=False, reason=fit.placed.reason)
        return {**row, "slices_add_up": fit.slices_add_up}
    slots = " ".join(str(placement) for placement in fit.placed.order) or "no instances"
    return {
        **_row(fit.geometry, fits=True, slots=slots),
        "slices_add_up": fit.slices_add_up,
        "sold_compute": fit.sold.compute,
        "sold_memory": fit.sold.memory,
        "unsold_compute": fit.unsold.compute,
        "unsold_memory": fit.unsold.memory,
    }


def _row(card: str, *, fits: bool | None, slots: str = "", reason: str = "") -> Row:
    return {
        "card": card,
        "slices_add_up": None,
        "fits": fits,
        "slots": slots,
        "why_not": reason,
        "sold_compute": None,
        "sold_memory": None,
        "unsold_compute": None,
        "unsold_memory": None,
    }
