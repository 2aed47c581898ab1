"""The errors of the ledger, as a tree.

    LedgerError
    ├── WrongUse            the command is not valid                                  exit 2
    │   └── BadInput        a file or a value that people wrote is not valid          exit 2
    ├── NotBillable         the period was checked and may not be billed              exit 1
    ├── CheckFailed         a check failed                                            exit 1
    │   └── EvidenceChanged bytes, decisions or records differ from their hash        exit 1
    └── TemporarilyUnavailable  a source, a disk or a lock could not be used          exit 3

Put here: the kinds, which are few, and the four parts of every message. Concrete errors are
subclasses beside the code that raises them. Errors with one remedy share a `code`, such as
`DEC-001`, and its page in docs/errors.
Not here: findings (`domain.findings`), which are facts about evidence and stop nothing alone.

A message has four parts: the place, the finding (with both numbers), its importance, the remedy.
"""

from __future__ import annotations

from typing import Any, ClassVar

LONGEST_SHOWN = 80


def shown(value: object) -> str:
    """Quote a value from outside on one line: escaped and cut."""
    quoted = repr(value) if isinstance(value, str) else ascii(value)
    return quoted if len(quoted) <= LONGEST_SHOWN else f"{quoted[: LONGEST_SHOWN - 1]}…"


class LedgerError(Exception):
    """An error that the user can correct; it has a code and a page in docs/errors."""

    code: ClassVar[str] = "LEDGER-000"
    exit_code: ClassVar[int] = 1

    def __init__(self, *, where: str, seen: str, why: str, remedy: str) -> None:
        super().__init__(f"{where}: {seen}")
        self.where = where
        self.seen = seen
        self.why = why
        self.remedy = remedy

    def message(self) -> str:
        """The whole message, as the command line prints it."""
        return (
            f"{self.code} {self.where}\n"
            f"  seen:   {self.seen}\n"
            f"  why:    {self.why}\n"
            f"  remedy: {self.remedy}"
        )

    def as_dict(self) -> dict[str, str]:
        return {
            "code": self.code,
            "where": self.where,
            "seen": self.seen,
            "why": self.why,
            "remedy": self.remedy,
        }

    def __str__(self) -> str:
        return self.message()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle all fields of the error; its constructor may accept other arguments."""
        return _restore_error, (type(self), self.args, self.__dict__)


def _restore_error(
    kind: type[LedgerError], args: tuple[Any, ...], parts: dict[str, Any]
) -> LedgerError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(parts)
    return error


class WrongUse(LedgerError):
    """The command is not valid: a wrong option, an impossible period, a missing home."""

    code = "USE-000"
    exit_code = 2


class BadInput(WrongUse):
    """A file or a value that people wrote is not valid."""

    code = "INPUT-000"


class InvalidValue(BadInput):
    """One value (a time, an amount, a count, a name) is not in the form that the place needs."""

    code = "VALUE-001"


class UnknownName(WrongUse):
    """A command names a document, a query, a product or another thing that does not exist."""

    code = "NAME-001"


class InvalidSetting(BadInput):
    """A file of settings is missing, unreadable, or has a value that is not valid."""

    code = "CONF-001"


class WrongFolder(WrongUse):
    """The folder that a command names is not one that it can use."""

    code = "HOME-001"


class PortTaken(WrongUse):
    """Another process uses a port that a command would listen on."""

    code = "UP-001"


class NotBillable(LedgerError):
    """The period was checked and may not be billed."""

    code = "GATE-000"


class CheckFailed(LedgerError):
    """A check failed."""

    code = "CHECK-000"


class FileDamaged(CheckFailed):
    """A file of the ledger does not have the form or the bytes with which it was written."""

    code = "FILE-001"


class OtherVersionNeeded(CheckFailed):
    """Another version of gpu-ledger reads, counts or renders something otherwise."""

    code = "VERSION-001"


class EvidenceChanged(CheckFailed):
    """Bytes, decisions or records are not those whose hash was written down."""

    code = "HASH-000"


class TemporarilyUnavailable(LedgerError):
    """A source, a disk or a lock could not be used; nothing was changed."""

    code = "LOOK-000"
    exit_code = 3
