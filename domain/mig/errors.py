"""What can be wrong with a MIG profile, a MIG geometry or a mig-parted file.

Put here: the errors of this package, each with its sentence.
Not here: an honest "does not fit", which is an answer (`domain.mig.placing.Unplaceable`).
"""

from __future__ import annotations

from domain.errors import BadInput, CheckFailed, WrongUse

LONGEST_SHOWN = 80
"""In characters: what strangers wrote is quoted, but never by the page."""


def shown(text: object) -> str:
    """Quote a value from outside on one line, shortened, with control characters escaped."""
    quoted = ascii(text) if not isinstance(text, str) else repr(text)
    return quoted if len(quoted) <= LONGEST_SHOWN else f"{quoted[: LONGEST_SHOWN - 1]}…"


class NotAMigProfile(BadInput):
    """Text that is not written as a MIG profile."""

    code = "MIG-001"

    def __init__(self, text: str, problem: str) -> None:
        super().__init__(
            where="a MIG profile",
            seen=f"{shown(text)}: {problem}",
            why="a profile that cannot be read has no size, so nothing can be said of its share",
            remedy="write it as 1g.5gb, 1c.3g.20gb, 1g.5gb+me or 1g.24gb-me",
        )


class NotAMigPartedFile(BadInput):
    """A configuration file that mig-parted itself would refuse."""

    code = "MIG-002"

    def __init__(self, where: str, problem: str, remedy: str = "") -> None:
        super().__init__(
            where=where,
            seen=problem,
            why="mig-parted refuses the whole file, and the cards keep the layout they had",
            remedy=remedy or "compare it with `nvidia-mig-parted export`, which writes a valid one",
        )


class LayoutDoesNotFit(CheckFailed):
    """A configuration asks a card for instances that no layout of it holds."""

    code = "MIG-003"

    def __init__(self, where: str, failed: int, total: int) -> None:
        super().__init__(
            where=where,
            seen=f"{failed} of {total} entries fit no card they are meant for",
            why="mig-parted accepts such a file, tries every order on the card, fails, and leaves "
            "the card without instances",
            remedy="`gpu-ledger mig layouts PRODUCT` lists what the card can hold",
        )


class NoMigGeometry(WrongUse):
    """A question about MIG on a card that cannot be cut."""

    code = "MIG-004"

    def __init__(self, product: str, known: str) -> None:
        super().__init__(
            where=f"the product {shown(product)}",
            seen="it has no MIG geometry in the catalogue",
            why="without slots there are no layouts and no shares",
            remedy=f"choose one of {known}; a new card is one row in decisions/products.csv",
        )


class NoTableWeight(BadInput):
    """The weight policy `table`, and no weight in the table for this profile."""

    code = "MIG-005"

    def __init__(self, gpu_class: str, profile: str) -> None:
        super().__init__(
            where=f"the weight of {profile} on {gpu_class}",
            seen="the policy is `table`, and the table of MIG profiles has no weight for it",
            why="a weight that nobody decided would put an amount on an invoice",
            remedy="choose the policy max, compute or memory, or price the profile itself in "
            "decisions/rates.csv",
        )


class NotAMigChoice(WrongUse):
    """A choice (a profile, a configuration) that is not there to be chosen."""

    code = "MIG-006"

    def __init__(self, where: str, chosen: str, known: str) -> None:
        super().__init__(
            where=where,
            seen=f"{shown(chosen)} is not among {known}",
            why="another one in its place would answer another question",
            remedy="choose one of those that are there",
        )


class NodeCannotHold(CheckFailed):
    """Instances that no layout of a node's cards holds."""

    code = "MIG-007"

    def __init__(self, cards: int, geometry: str, asked: str, reason: str = "") -> None:
        where = f"{cards} card{'s' if cards != 1 else ''}{f' of {geometry}' if geometry else ''}"
        super().__init__(
            where=where,
            seen=reason or f"no layout of these cards offers {asked}",
            why="mig-parted would try every order, fail, and leave the cards without instances",
            remedy="request fewer instances; `gpu-ledger mig layouts PRODUCT` lists what one card "
            "can hold",
        )


class LayoutUnknown(WrongUse):
    """Nothing says which instances each card of a node has."""

    code = "MIG-008"

    def __init__(self, node: str, problem: str) -> None:
        super().__init__(
            where=f"the MIG layout of node {node}",
            seen=problem,
            why="without the present layout it is not known which instances and pods survive",
            remedy="give the page of the node's dcgm-exporter (--metrics FILE), or the mig-parted "
            "file whose configuration is applied (--config FILE)",
        )
