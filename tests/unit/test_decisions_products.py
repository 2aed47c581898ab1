"""A new GPU needs one row and no code: it is decided, classified, weighted and priced.

Put here: products.csv together with the shipped tables.
Not here: the contents of the shipped tables (`domain.gpu`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction

import pytest

from domain.decisions import WHOLE, unknown_to_catalogue
from domain.gpu import classify
from domain.gpu.kinds import DeviceKind
from domain.gpu.product_tables import PRODUCT_COLUMNS
from domain.gpu.weights import WeightPolicy, weight
from domain.money import format_nanos, price_nanos
from tests.decisions_by_hand import HEADERS, decided, table
from warehouse.device_tables import catalogue_of

SHIPPED = catalogue_of(decided())
AT = datetime(2026, 10, 10, tzinfo=UTC)
X200 = table("products", "NVIDIA-X200-288GB-HBM4,nvidia,X200-288GB,294912,7,8,8-slot-288gb")
PRICES = table(
    "rates",
    ",X200-288GB,whole,EUR,8,2026-10-01,,|,",
    ",X200-288GB,1g.36gb,EUR,1.25,2026-10-01,,|,",
)
LABELS = {"nvidia.com/gpu.product": "NVIDIA-X200-288GB-HBM4", "nvidia.com/mig.strategy": "mixed"}


@pytest.mark.parametrize(
    ("resource", "hours_cost"),
    [
        ("nvidia.com/gpu", "8"),  # the card
        ("nvidia.com/mig-1g.36gb", "1.25"),  # its own price
        ("nvidia.com/mig-3g.144gb", "4"),  # half the memory of the card
    ],
)
def test_an_unknown_card_is_priced_by_rows_alone(resource: str, hours_cost: str) -> None:
    decisions = decided(X200, PRICES)
    known = catalogue_of(decisions)
    kind = classify(resource, LABELS, known)
    assert isinstance(kind, DeviceKind), kind
    rate = decisions.price_list.find("c1", kind.gpu_class, kind.mig_profile, AT)
    assert rate is not None
    of_card = weight(kind, WeightPolicy.MAX, known)
    weighed = of_card if rate.mig_profile == WHOLE else kind.unit_share
    assert weighed is not None
    assert format_nanos(price_nanos(3600, weighed, rate.rate_nanos_per_hour)) == hours_cost


def test_without_its_row_the_card_and_its_prices_are_unknown() -> None:
    decisions = decided(X200, PRICES)
    assert not isinstance(classify("nvidia.com/gpu", LABELS, SHIPPED), DeviceKind)
    assert len(unknown_to_catalogue(decisions.rates, SHIPPED)) == 2
    known = catalogue_of(decisions)
    assert unknown_to_catalogue(decisions.rates, known) == []


def test_a_replica_on_a_slice_costs_its_part_of_the_slices_price() -> None:
    rate = decided(X200, PRICES).price_list.find("c1", "X200-288GB", "1g.36gb", AT)
    assert rate is not None
    assert rate.mig_profile == "1g.36gb"
    assert format_nanos(price_nanos(3600, Fraction(1, 4), rate.rate_nanos_per_hour)) == "0.3125"


def test_the_table_has_the_columns_of_the_shipped_one() -> None:
    assert HEADERS["products"].startswith(",".join(PRODUCT_COLUMNS))


def test_every_shipped_product_is_a_valid_decision() -> None:
    rows = []
    for product in SHIPPED.products.values():
        geometry = product.geometry.name if product.geometry else ""
        cells = [
            product.product,
            product.vendor.value,
            product.gpu_class,
            str(product.memory_mib or ""),
            str(product.compute_slots),
            str(product.memory_slots),
            geometry,
        ]
        rows.append(",".join(cells))
    decisions = decided(table("products", *rows))
    assert len(decisions.products) == len(rows) > 50
    assert catalogue_of(decisions).products.keys() == SHIPPED.products.keys()
