"""Reading the two tables of product facts: text in, a catalogue out, or all problems at once.

Put here: the columns of gpu_products.csv and mig_profiles.csv, and their consistency.
Not here: where the text lies (`warehouse.project`), or the dated decision tables.

Rows of decisions/products.csv come last and win: a shipped row can be corrected without a release.
They need only the first seven columns.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from io import StringIO

from domain.errors import BadInput, shown
from domain.gpu.catalogue import NOT_A_DEVICE, Catalogue, GpuProduct, Vendor
from domain.mig.geometry import Geometry, InstanceProfile, family_geometry
from domain.mig.profile import NotAMigProfile, parse_profile

LARGEST_TABLE_CHARACTERS = 4_000_000
"""The shipped tables have ten thousand; a longer text is another file."""

MOST_SLOTS = 16
"""No card has more than 8; the layouts of a card with many more could not all be counted."""

PRODUCT_COLUMNS = (
    "product",
    "vendor",
    "gpu_class",
    "memory_mib",
    "compute_slots",
    "memory_slots",
    "mig_geometry",
)
PROFILE_COLUMNS = (
    "mig_geometry",
    "profile",
    "profile_id",
    "max_count",
    "placements",
    "compute_slots",
    "memory_slots",
)

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,250}[A-Za-z0-9])?", re.ASCII)
_PCI_ID = re.compile(r"[0-9A-Fa-f]{4}", re.ASCII)
_BOM = "\N{ZERO WIDTH NO-BREAK SPACE}"


MOST_PROBLEMS_SHOWN = 20


class BadProductFacts(BadInput):
    """The table of GPU products or of MIG profiles cannot be read, or contradicts itself."""

    code = "DEC-001"

    def __init__(self, problems: Sequence[str]) -> None:
        listed = "; ".join(problems[:MOST_PROBLEMS_SHOWN])
        more = len(problems) - MOST_PROBLEMS_SHOWN
        super().__init__(
            where="the product facts",
            seen=listed + (f"; and {more} more" if more > 0 else ""),
            why="a card of the wrong class or size is billed at a wrong price",
            remedy="correct the row; a new card is one row with the columns of gpu_products.csv",
        )


@dataclass(frozen=True, slots=True)
class FactRow:
    """One line of a table: where it stands and its cells by column."""

    where: str
    cells: Mapping[str, str]

    def text(self, column: str) -> str:
        return self.cells.get(column, "").strip()

    def words(self, column: str) -> tuple[str, ...]:
        return tuple(self.text(column).split())

    def number(self, column: str, least: int = 0, most: int = 10**9) -> int:
        number = self.number_or_none(column, least, most)
        if number is None:
            raise _Problem(f"{self.where}: {column} is empty")
        return number

    def number_or_none(self, column: str, least: int = 0, most: int = 10**9) -> int | None:
        text = self.text(column)
        if not text:
            return None
        if not re.fullmatch(r"[0-9]{1,10}", text, re.ASCII) or not least <= int(text) <= most:
            wanted = f"a whole number from {least} to {most}"
            raise _Problem(f"{self.where}: {column} is {shown(text)}, not {wanted}")
        return int(text)

    def name(self, column: str) -> str:
        text = self.text(column)
        if not _NAME.fullmatch(text):
            raise _Problem(f"{self.where}: {column} is {shown(text)}, not a name")
        return text


class _Problem(Exception):
    """One problem in one row; collected, so that all are shown at once."""


def parse_catalogue(
    products: str, profiles: str, decided_products: str = "", decided_file: str = "products.csv"
) -> Catalogue:
    """Read the catalogue from the text of its tables; raise one error with every problem."""
    problems: list[str] = []
    profile_rows = _rows("mig_profiles.csv", profiles, PROFILE_COLUMNS, problems)
    geometries = _geometries(profile_rows, problems)
    shipped = _rows("gpu_products.csv", products, PRODUCT_COLUMNS, problems)
    decided: list[FactRow] = []
    if decided_products.strip(_BOM + " \r\n\t"):
        decided = _rows(decided_file, decided_products, PRODUCT_COLUMNS, problems)
    found = _products(shipped, geometries, problems)
    found |= _products(decided, geometries, problems)
    problems += _classes_with_two_geometries(found.values())
    if problems:
        raise BadProductFacts(problems)
    return Catalogue(found, {**geometries, **_used_families(found.values())})


def _rows(file: str, text: str, columns: tuple[str, ...], problems: list[str]) -> list[FactRow]:
    """The rows of a CSV text; empty lines and lines that start with `#` are left out."""
    if len(text) > LARGEST_TABLE_CHARACTERS:
        problems.append(f"{file}: {len(text)} characters, more than {LARGEST_TABLE_CHARACTERS}")
        return []
    try:
        lines = list(_lines(text.removeprefix(_BOM)))
    except csv.Error as error:
        problems.append(f"{file} {error}")
        return []
    header = [cell.strip() for cell in lines[0][1]] if lines else []
    missing = [column for column in columns if column not in header]
    if missing or len(set(header)) < len(header):
        reason = f"lacks the columns {', '.join(missing)}" if missing else "names a column twice"
        problems.append(f"{file}: the header {reason}")
        return []
    rows = []
    for number, cells in lines[1:]:
        if len(cells) != len(header):
            problems.append(f"{file} line {number}: {len(cells)} cells under {len(header)} columns")
            continue
        rows.append(FactRow(f"{file} line {number}", dict(zip(header, cells, strict=True))))
    return rows


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """Each line by itself, so that a missing quote does not affect the other lines."""
    for number, line in enumerate(StringIO(text, newline=None), start=1):
        try:
            cells = next(csv.reader([line.rstrip("\n")], strict=True), [])
        except csv.Error as error:
            raise csv.Error(f"line {number}: {error}") from None
        if any(cell.strip() for cell in cells) and not cells[0].lstrip().startswith("#"):
            yield number, cells


def _products(
    rows: Iterable[FactRow], geometries: Mapping[str, Geometry], problems: list[str]
) -> dict[str, GpuProduct]:
    found: dict[str, GpuProduct] = {}
    for row in rows:
        try:
            product = _product(row, geometries)
        except _Problem as problem:
            problems.append(str(problem))
            continue
        if product.product in found:
            problems.append(f"{row.where}: {product.product} is there twice")
        found[product.product] = product
    return found


def _product(row: FactRow, geometries: Mapping[str, Geometry]) -> GpuProduct:
    vendors = [vendor.value for vendor in Vendor]
    if row.text("vendor") not in vendors:
        known = ", ".join(vendors)
        raise _Problem(f"{row.where}: vendor is {shown(row.text('vendor'))}, not one of {known}")
    product = GpuProduct(
        product=row.name("product"),
        vendor=Vendor(row.text("vendor")),
        gpu_class=row.name("gpu_class"),
        compute_slots=row.number("compute_slots", 1, MOST_SLOTS),
        memory_slots=row.number("memory_slots", 1, MOST_SLOTS),
        memory_mib=row.number_or_none("memory_mib"),
        geometry=_geometry_of(row, geometries),
        multiprocessors=row.number_or_none("multiprocessors", 1),
        pci_device_ids=_pci_device_ids(row),
    )
    geometry = product.geometry
    slots = (product.compute_slots, product.memory_slots)
    if geometry is not None and slots != (geometry.compute_slots, geometry.memory_slots):
        raise _Problem(
            f"{row.where}: {slots[0]} compute and {slots[1]} memory slots, but {geometry.name} "
            f"has {geometry.compute_slots} and {geometry.memory_slots}"
        )
    return product


def _geometry_of(row: FactRow, geometries: Mapping[str, Geometry]) -> Geometry | None:
    name = row.text("mig_geometry")
    if not name:
        return None
    geometry = geometries.get(name) or family_geometry(name)
    if geometry is None:
        raise _Problem(
            f"{row.where}: mig_geometry {shown(name)} is neither in mig_profiles.csv nor of the "
            "form 8-slot-288gb or 4-slot-32gb"
        )
    return geometry


def _pci_device_ids(row: FactRow) -> frozenset[str]:
    ids = row.words("pci_device_ids")
    if wrong := [text for text in ids if not _PCI_ID.fullmatch(text)]:
        raise _Problem(f"{row.where}: {shown(wrong[0])} is no PCI device id such as 20B0")
    return frozenset(text.upper() for text in ids)


def _geometries(rows: Iterable[FactRow], problems: list[str]) -> dict[str, Geometry]:
    profiles: dict[str, list[InstanceProfile]] = {}
    for row in rows:
        try:
            name, profile = row.name("mig_geometry"), _profile(row)
        except _Problem as problem:
            problems.append(str(problem))
            continue
        known = profiles.setdefault(name, [])
        if taken := {n for p in known for n in p.names} & set(profile.names):
            problems.append(f"{row.where}: {min(taken)} is there twice")
        known.append(profile)
    return {name: Geometry(name, tuple(found)) for name, found in profiles.items()}


def _profile(row: FactRow) -> InstanceProfile:
    try:
        names = [parse_profile(text) for text in (row.text("profile"), *row.words("aliases"))]
    except NotAMigProfile as error:
        raise _Problem(f"{row.where}: {error.seen}") from None
    slices = names[0].gpu_slices
    if not all(name.is_whole_instance and name.gpu_slices == slices for name in names):
        raise _Problem(f"{row.where}: a profile and its aliases are whole instances of one size")
    starts = row.words("placements")
    if not starts or not all(re.fullmatch(r"[0-9]{1,2}", s, re.ASCII) for s in starts):
        raise _Problem(f"{row.where}: placements are slots such as `0 2 4`")
    if row.number("compute_slots", 1, MOST_SLOTS) != slices:
        raise _Problem(f"{row.where}: {names[0]} has {slices} compute slots")
    return InstanceProfile(
        profile=names[0],
        profile_id=row.number("profile_id"),
        max_count=row.number("max_count", 1, MOST_SLOTS),
        starts=tuple(sorted({int(start) for start in starts})),
        memory_slots=row.number("memory_slots", 1, MOST_SLOTS),
        compute_slots=slices,
        media_engines=row.number_or_none("media_engines") or 0,
        aliases=tuple(names[1:]),
        memory_mib=row.number_or_none("memory_mib"),
        multiprocessors=row.number_or_none("multiprocessors"),
        table_weight=_table_weight(row),
    )


def _table_weight(row: FactRow) -> Fraction | None:
    numerator = row.number_or_none("table_weight_numerator")
    denominator = row.number_or_none("table_weight_denominator", 1)
    if (numerator is None) != (denominator is None):
        raise _Problem(f"{row.where}: a table weight has a numerator and a denominator")
    return None if numerator is None or denominator is None else Fraction(numerator, denominator)


def _classes_with_two_geometries(products: Iterable[GpuProduct]) -> Iterator[str]:
    """A price names class and profile; so a profile must be one thing within a class."""
    names: dict[str, set[str]] = {}
    for product in products:
        if product.gpu_class != NOT_A_DEVICE:
            name = product.geometry.name if product.geometry is not None else "none"
            names.setdefault(product.gpu_class, set()).add(name)
    for gpu_class, found in sorted(names.items()):
        if len(found) > 1:
            yield f"the class {gpu_class} has two MIG geometries: {', '.join(sorted(found))}"


def _used_families(products: Iterable[GpuProduct]) -> dict[str, Geometry]:
    return {p.geometry.name: p.geometry for p in products if p.geometry is not None}
