"""Cards behind MIG instances: questions that models ask in numbers, answered by `domain.mig`.

Put here: how counts of instances become one number, and the answers to every question of a build.
Not here: the packing (`domain.mig.packing`), or when a node has which instances (`dbt/`).

How many instances of which profile a node holds at an instant is one number: each profile of a
class has its own digit, so that a running sum of numbers is a running sum of all profiles at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from domain.gpu import Catalogue, DeviceKind, Kind
from domain.gpu.cards import HowKnown, physical_cards
from domain.mig.geometry import Geometry
from domain.mig.packing import fewest_cards
from domain.mig.placing import gpu_instances
from domain.mig.profile import MigProfile, parse_profile
from warehouse.schema import create_table

if TYPE_CHECKING:
    import duckdb

Row = Mapping[str, Any]

DIGIT = 4096
"""More instances of one profile than any node has: 16 cards of 7 slices are 112."""

MOST_DIGITS = 10
"""4096¹⁰ = 2¹²⁰ fits a DECIMAL(38,0). No class has so many profiles in use on its nodes; those
beyond it are counted by their shares alone."""

UNKNOWN_COUNT = -1
"""Stands in a question for "it is not known how many cards are cut"."""

Digits = Mapping[str, list[tuple[str, int]]]


def create_mig_codes(connection: duckdb.DuckDBPyConnection, kinds: Iterable[DeviceKind]) -> None:
    """Give every MIG profile (and number of replicas) of a class its digit; no answers yet."""
    rows = [
        {
            "gpu_class": gpu_class,
            "mig_profile": profile,
            "replica_count": replicas,
            "code_multiplier": DIGIT**place,
        }
        for gpu_class, digits in _digits(kinds).items()
        for place, (profile, replicas) in enumerate(digits)
    ]
    create_table(connection, "mig_codes", rows)
    create_table(connection, "card_answers")


def create_labelled_cards(
    connection: duckdb.DuckDBPyConnection,
    label_sets: Iterable[tuple[str, Mapping[str, str]]],
    catalogue: Catalogue,
) -> None:
    """How many cards the labels of a node count, where they do."""
    rows = []
    for labels_sha256, labels in label_sets:
        for count in physical_cards({}, labels, catalogue).counts:
            if count.how_known is HowKnown.LABEL:
                rows.append(
                    {
                        "labels_sha256": labels_sha256,
                        "gpu_class": count.gpu_class,
                        "card_count": count.least,
                    }
                )
    create_table(connection, "labelled_cards", rows)


def answer_card_questions(connection: duckdb.DuckDBPyConnection, catalogue: Catalogue) -> int:
    """Answer every distinct question that the models ask; how many there were."""
    digits: dict[str, list[tuple[str, int]]] = {}
    for gpu_class, profile, replicas in connection.execute(
        "select gpu_class, mig_profile, replica_count from raw.mig_codes "
        "order by gpu_class, code_multiplier"
    ).fetchall():
        digits.setdefault(gpu_class, []).append((profile, replicas))
    geometries = _geometries(catalogue)
    questions = connection.execute(
        "select gpu_class, wanted_code, offered_code, mig_card_count "
        "from intermediate.int_card_questions order by all"
    ).fetchall()
    create_table(connection, "card_answers", _answers(questions, digits, geometries))
    return len(questions)


def _answers(
    questions: Iterable[tuple[Any, ...]], digits: Digits, geometries: Mapping[str, Geometry]
) -> Iterator[Row]:
    for gpu_class, wanted_code, offered_code, mig_card_count in questions:
        geometry = geometries[gpu_class]
        wanted = instances_of(int(wanted_code), digits[gpu_class], geometry)
        offered = instances_of(int(offered_code), digits[gpu_class], geometry)
        cards = None if mig_card_count == UNKNOWN_COUNT else max(mig_card_count, 0)
        yield {
            "gpu_class": gpu_class,
            "wanted_code": wanted_code,
            "offered_code": offered_code,
            "mig_card_count": mig_card_count,
            "fewest_card_count": fewest_cards(geometry, wanted, offered, cards),
        }


def instances_of(
    code: int, digits: Iterable[tuple[str, int]], geometry: Geometry
) -> dict[MigProfile, int]:
    """The GPU instances that a number stands for: n replicas stand for one instance."""
    counts: dict[MigProfile, int] = {}
    for profile, replicas in digits:
        code, count = divmod(code, DIGIT)
        name = parse_profile(profile)
        counts[name] = counts.get(name, 0) + -(-count // replicas)
    return dict(gpu_instances(geometry, counts))


def _digits(kinds: Iterable[DeviceKind]) -> Digits:
    found: dict[str, set[tuple[str, int]]] = {}
    for kind in kinds:
        if kind.kind in (Kind.MIG, Kind.MIG_REPLICA):
            found.setdefault(kind.gpu_class, set()).add((kind.mig_profile, kind.replicas))
    return {gpu_class: sorted(keys)[:MOST_DIGITS] for gpu_class, keys in sorted(found.items())}


def _geometries(catalogue: Catalogue) -> dict[str, Geometry]:
    return {
        product.gpu_class: product.geometry
        for product in catalogue.products.values()
        if product.geometry is not None
    }
