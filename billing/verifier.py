"""Checks a bundle with nothing but Python's standard library: no database, no other file of ours.

    python verifier.py BUNDLE.zip [--head head.json]

Put here: all checks of issued documents, short enough to be read before it is used.
Not here: imports from the rest of gpu-ledger. It calculates amounts again from the documents alone.

It checks that the record's events form one chain, which ends at the attested head if one is given;
that the bundle has exactly the files that the event at the end of the chain issued, each with the
hash that the event names; that document numbers have no gaps; that every line is seconds x weight x
rate / 3600, rounded once; that pods and workload-days add up to lines, lines to totals, and cents
are apportioned by largest remainder; that the CSV files agree with the sealed documents; that a
void negates its document. It lists the claims that a bundle alone cannot prove.

Run a verifier from another place than the bundle: a changed bundle can have a changed verifier.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import re
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"
VERIFIER = "verifier.py"
FIXED_TIME = (1980, 1, 1, 0, 0, 0)
LARGEST_BUNDLE_BYTES = 4 << 30
"""4 GiB: the limit of a plain ZIP; a month of the largest tenant is a few megabytes."""

CSV_FILES = {".csv": "lines", "-pods.csv": "pods"}
NEEDED_COLUMNS = {"invoice", "line", "cluster_id", "device_seconds", "cost", "currency"}
_NUMBER = re.compile(r"([A-Z]+)-([0-9]{6,18})", re.ASCII)
_AMOUNT = re.compile(r"(-?)([0-9]{1,30})(?:\.([0-9]{1,9}))?", re.ASCII)
_WEIGHT = re.compile(r"[0-9]{1,18}/[0-9]{1,18}", re.ASCII)


_UNREADABLE = (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, csv.Error)
"""The exceptions of Python for a document of another form."""


class VerificationFailed(Exception):
    """A check failed; the text names the place and the values."""


@dataclass
class Report:
    """The passed checks, the problems, and the claims that the bundle alone cannot prove."""

    checked: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unverified: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return bool(self.checked) and not self.problems

    def run(self, title: str, check: Callable[[], int]) -> None:
        """Run one check, which returns how many things it compared."""
        try:
            count = check()
        except VerificationFailed as wrong:
            self.problems.append(f"{title}: {wrong}")
        except _UNREADABLE as cause:
            self.problems.append(f"{title}: not readable ({type(cause).__name__}: {cause})")
        except RecursionError:
            self.problems.append(f"{title}: not readable (nested too deeply)")
        else:
            self.checked.append(f"{title}: {count}")


@dataclass
class Bundle:
    """The name of a bundle (a month, or the number of a document), its files and its events."""

    name: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)

    def sealed(self, digest: str) -> dict[str, Any]:
        """The sealed document with this hash; KeyError where the bundle does not have it."""
        body = self.files[f"sealed/{digest}.json"]
        if _sha256(body) != digest:
            raise VerificationFailed(f"sealed/{digest}.json has the hash {_sha256(body)}")
        document = _read_object(body)
        if canonical(document) != body:
            raise VerificationFailed(f"sealed/{digest}.json is not in its canonical form")
        return document

    def has(self, digest: str) -> bool:
        return f"sealed/{digest}.json" in self.files

    @property
    def issued(self) -> dict[str, str]:
        """Number -> hash of every document that the chain issued."""
        return {number: digest for event in self.events for number, digest in _documents_of(event)}

    @property
    def last(self) -> dict[str, Any]:
        return self.events[-1]

    @property
    def is_month(self) -> bool:
        closed = self.last["body"]["period"] if self.last["kind"] == "period_closed" else None
        return bool(closed and self.name == closed)


def verify(body: bytes, head: bytes | None = None) -> Report:
    """Check the bytes of a bundle, against the bytes of a attested head if they are given."""
    report, bundle = Report(), Bundle()
    report.run("files in the bundle, each as listed", lambda: _read(body, bundle))
    if not report.problems:
        report.run("events in the chain", lambda: _check_chain(bundle))
    if report.problems:
        return report
    if head is not None:
        report.run("events up to the attested head", lambda: _check_head(bundle, head))
    else:
        report.unverified.append(
            "the chain as a whole: without a head that was kept outside (--head), a record that "
            "was written again from its first event is not noticed"
        )
    report.run("document numbers without a gap", lambda: _check_numbers(bundle))
    report.run(f"files of {bundle.name} as issued", lambda: _check_files(report, bundle))
    if report.problems:
        return report
    for number, digest in bundle.issued.items():
        if bundle.has(digest):
            _check_document(report, number, digest, bundle)
    _name_the_rest(report, bundle)
    return report


def _check_document(report: Report, number: str, digest: str, bundle: Bundle) -> None:
    document = bundle.sealed(digest)

    def check(title: str, checked: Callable[[], int]) -> None:
        report.run(f"{number}: {title}", checked)

    check("number and kind", lambda: _check_kind(number, document))
    check("lines priced again", lambda: _check_prices(document))
    check("pods and days add up to lines", lambda: _check_parts(document))
    check("cents add up to the total", lambda: _check_cents(document))
    check("CSV files say the same", lambda: _check_csv(document, bundle.files))
    check("basis of the document", lambda: _check_basis(report, document, bundle))
    check("documents that it voids", lambda: _check_void(report, document, bundle))


def _name_the_rest(report: Report, bundle: Bundle) -> None:
    absent = sum(not bundle.has(digest) for digest in bundle.issued.values())
    if absent:
        report.unverified.append(
            f"{absent} other documents of the chain: the chain names their hashes, "
            "this bundle does not hold them"
        )
    report.unverified.append(
        "the texts of PDF, TXT, HTML and FOCUS files: they have the bytes that were issued; "
        "their contents are not compared with the sealed documents"
    )
    report.unverified.append(
        f"{VERIFIER} has the bytes that were issued, as far as the verifier that is running now "
        "was not taken from this bundle itself"
    )
    report.unverified.append(
        "the evidence behind the amounts: it is not in a bundle; `gpu-ledger explain` shows it to "
        "a person who has access to the provider's home"
    )


# The bundle ------------------------------------------------------------------------------------


def write_bundle(name: str, files: dict[str, bytes]) -> bytes:
    """The one way in which these files are a bundle: sorted, stored, without times or rights."""
    listed = {path: _sha256(body) for path, body in files.items()}
    manifest = canonical({"schema": "gpu-ledger/bundle/1", "bundle": name, "files": listed})
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for path, body in sorted({**files, MANIFEST: manifest}.items()):
            entry = zipfile.ZipInfo(path, FIXED_TIME)
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            archive.writestr(entry, body)
    return out.getvalue()


def _read(body: bytes, bundle: Bundle) -> int:
    """Read the bundle; writing the same files again must give the same bytes, to the last one."""
    if len(body) > LARGEST_BUNDLE_BYTES:
        raise VerificationFailed(f"more than {LARGEST_BUNDLE_BYTES} bytes")
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            entries = archive.infolist()
            # Nothing in a bundle is compressed, and no two files share bytes: a ZIP bomb is neither
            # unpacked nor read.
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
                raise VerificationFailed("a file in it is compressed")
            if sum(entry.file_size for entry in entries) > len(body):
                raise VerificationFailed("its files are larger together than the bundle")
            found = {entry.filename: archive.read(entry) for entry in entries}
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError) as cause:
        raise VerificationFailed(f"not a readable ZIP file ({cause})") from None
    except UnicodeDecodeError as cause:
        raise VerificationFailed(f"a file name is not text ({cause})") from None
    if len(found) != len(entries):
        raise VerificationFailed("a name occurs twice")
    if MANIFEST not in found:
        raise VerificationFailed(f"{MANIFEST} is missing")
    manifest = _read_object(found.pop(MANIFEST))
    listed, name = dict(manifest["files"]), str(manifest["bundle"])
    for path in sorted({*listed, *found}):
        if path not in found:
            raise VerificationFailed(f"{path} is listed and missing")
        if listed.get(path) != _sha256(found[path]):
            raise VerificationFailed(f"{path} is not what is listed")
    if write_bundle(name, found) != body:
        raise VerificationFailed("bytes outside the files were changed")
    bundle.name, bundle.files = name, found
    return len(found)


def _sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def canonical(document: object) -> bytes:
    """The canonical JSON of the ledger: sorted keys, ASCII, no spaces, a line end."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return text.encode("ascii") + b"\n"


def _read_object(body: bytes) -> dict[str, Any]:
    """A JSON object; every number in it is whole."""
    document = json.loads(body, parse_float=_refuse, parse_constant=_refuse)
    if not isinstance(document, dict):
        raise VerificationFailed("it is not a JSON object")
    return document


def _refuse(text: str) -> int:
    raise ValueError(f"{text} is not a whole number")


# The chain -------------------------------------------------------------------------------------


def _check_chain(bundle: Bundle) -> int:
    bodies = [bundle.files[name] for name in sorted(bundle.files) if name.startswith("events/")]
    if not bodies:
        raise VerificationFailed("there is none")
    previous, fence = "", 0
    for place, body in enumerate(bodies, start=1):
        event = _read_object(body)
        if event["sequence"] != place:
            raise VerificationFailed(f"event {event['sequence']} stands at place {place}")
        if f"events/{place:010}.json" not in bundle.files:
            raise VerificationFailed(f"no file is named for event {place}")
        if canonical(event) != body:
            raise VerificationFailed(f"event {place} is not in its canonical form")
        if event["previous_sha256"] != previous:
            raise VerificationFailed(f"event {place} does not follow the one before it")
        if event["fence"] < fence:
            raise VerificationFailed(
                f"event {place} was written by a writer that had been overtaken"
            )
        previous, fence = _sha256(body), event["fence"]
        bundle.events.append(event)
    return len(bodies)


def _check_head(bundle: Bundle, head: bytes) -> int:
    """A head names the last event at its time, and that event's hash."""
    attested = _read_object(head)
    place = int(attested["sequence"])
    body = bundle.files.get(f"events/{place:010}.json", b"")
    if place < 1 or _sha256(body) != attested["sha256"]:
        raise VerificationFailed(f"event {place} is not the one that was attested")
    return place


def _documents_of(event: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for entry in event["body"].get("documents", []):
        yield entry["number"], entry["sha256"]


def _check_numbers(bundle: Bundle) -> int:
    issued = [number for event in bundle.events for number, _ in _documents_of(event)]
    series: dict[str, list[int]] = {}
    for number in issued:
        parts = _NUMBER.fullmatch(number)
        if parts is None:
            raise VerificationFailed(f"{number!r} is not a document number")
        series.setdefault(parts[1], []).append(int(parts[2]))
    for name, places in series.items():
        if places != list(range(1, len(places) + 1)):
            raise VerificationFailed(f"the series {name} has a gap, or a number twice")
    return len(issued)


# The files -------------------------------------------------------------------------------------


def _check_files(report: Report, bundle: Bundle) -> int:
    """The bundle has every file that it must have, no other one, and each with its hash."""
    expected = _expected_files(bundle)
    for name in sorted({*expected, *bundle.files}):
        if name not in bundle.files:
            report.problems.append(f"{name}: missing; it was issued")
        elif name not in expected:
            report.problems.append(f"{name}: it was never issued with {bundle.name}")
        elif _sha256(bundle.files[name]) != expected[name]:
            found = _sha256(bundle.files[name])
            report.problems.append(f"{name}: issued as {expected[name]}, found {found}")
    return len(expected)


def _expected_files(bundle: Bundle) -> dict[str, str]:
    """Name -> hash of every file of a month's bundle, or of a document's, by its last event."""
    chain = {f"events/{event['sequence']:010}.json": _sha256(canonical(event))
             for event in bundle.events}  # fmt: skip
    end = {"sequence": len(bundle.events), "sha256": _sha256(canonical(bundle.last))}
    expected = {**chain, "head.json": _sha256(canonical(end))}
    listed = _listed(bundle, bundle.last)
    sealed: set[str] = set()
    if bundle.is_month:
        expected |= {name: listed[name] for name in listed if not name.startswith("documents/")}
        for event in bundle.events:
            if event["body"].get("period") == bundle.name:
                files = _listed(bundle, event)
                expected |= {name: files[name] for name in files if name.startswith("documents/")}
                sealed |= _seals_of(event)
    else:
        issued = dict(_documents_of(bundle.last))
        if bundle.name not in issued:
            raise VerificationFailed(f"the last event of the chain did not issue {bundle.name}")
        own = re.compile(rf"documents/{re.escape(bundle.name)}[.-].*")
        expected |= {name: listed[name] for name in listed if own.fullmatch(name)}
        expected[VERIFIER] = listed[VERIFIER]
        voided = bundle.issued.get(bundle.last["body"].get("voids", ""), issued[bundle.name])
        sealed = {bundle.last["body"]["files_sha256"], issued[bundle.name], voided}
    return expected | {f"sealed/{digest}.json": digest for digest in sealed}


def _listed(bundle: Bundle, event: dict[str, Any]) -> dict[str, str]:
    """Name -> hash of the files that an event issued."""
    digest = event["body"].get("files_sha256")
    if digest is None:
        raise VerificationFailed(
            f"event {event['sequence']}, at the end of the chain, issued no files"
        )
    if not bundle.has(digest):
        raise VerificationFailed(
            f"sealed/{digest}.json, the list of the files of event {event['sequence']}, is missing"
        )
    return dict(bundle.sealed(digest)["files"])


def _seals_of(event: dict[str, Any]) -> set[str]:
    """Hashes of the documents, basis, statement and corrections of an event."""
    seals = {digest for _, digest in _documents_of(event)}
    for name, value in event["body"].items():
        if name.endswith("_sha256"):
            seals.add(value)
        elif name.endswith("_sha256s") and name != "enclosed_sha256s":
            seals.update(value)  # enclosed ones are the record's copies of files beside them
    return seals


# One document ----------------------------------------------------------------------------------


def nanos(text: str) -> int:
    """Decimal text as whole 10^-9 units, exactly."""
    parts = _AMOUNT.fullmatch(text)
    if parts is None:
        raise ValueError(f"{text[:80]!r} is not an amount")
    sign, whole, decimals = parts.groups(default="")
    return int(f"{sign}{whole}{decimals:0<9}")


def _weight(text: str) -> Fraction:
    if not _WEIGHT.fullmatch(text):
        raise ValueError(f"{text[:80]!r} is not a weight")
    return Fraction(text)


def half_even(value: Fraction) -> int:
    """The nearest whole number; of two equally near ones, the even one."""
    below, rest = value.numerator // value.denominator, value % 1
    return below + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and below % 2 == 1))


def _check_kind(number: str, document: dict[str, Any]) -> int:
    if document["number"] != number:
        raise VerificationFailed(
            f"the chain issued {number}, and the document says {document['number']}"
        )
    if (document["document"] == "void") != bool(document["voids"]):
        raise VerificationFailed(
            f"it is a {document['document']} and voids {document['voids'] or 'nothing'}"
        )
    return 1


def _check_prices(document: dict[str, Any]) -> int:
    rates = {rate["rate_id"]: rate for rate in document["rates"]}
    for line in document["lines"]:
        # A correction's price may be one that was amended since; a void may take one back.
        may_be_of_others = line["kind"] in ("correction", "void")
        if line["rate_id"] and not may_be_of_others and line["rate_id"] not in rates:
            raise VerificationFailed(
                f"line {line['line']} names a rate that is not on the document"
            )
        if line["credited"]:
            _check_credit(line, document["lines"])
            continue
        rate = rates.get(line["rate_id"])
        if rate and nanos(rate["rate_per_hour"]) != nanos(line["rate_per_hour"]):
            raise VerificationFailed(f"line {line['line']} has another rate than {line['rate_id']}")
        _check_price(line)
    return len(document["lines"])


def _check_credit(credit: dict[str, Any], lines: list[dict[str, Any]]) -> None:
    """A credit is never larger than its line; its pods are compared in `_check_parts`."""
    if credit["kind"] != "credit":
        return  # a correction or a void of one
    same = ("cluster_id", "gpu_class", "mig_profile", "weight", "weight_policy", "rate_id")
    key = [credit[name] for name in (*same, "started_at")]
    for line in lines:
        if line["kind"] == "usage" and [line[name] for name in (*same, "started_at")] == key:
            if nanos(credit["cost"]) > 0 or nanos(line["cost"]) + nanos(credit["cost"]) < 0:
                raise VerificationFailed(
                    f"line {credit['line']} gives back more than line {line['line']} has"
                )
            return
    raise VerificationFailed(f"line {credit['line']} credits no line")


def _check_price(line: dict[str, Any]) -> None:
    """The cost of a line is the price after it minus the cost before it; a void negates it."""
    sign = -1 if line["kind"] == "void" else 1
    before, cost_before = line["device_seconds_before"], nanos(line["cost_before"])
    if line["kind"] not in ("correction", "void") and (before or cost_before):
        raise VerificationFailed(f"line {line['line']} corrects something, and is no correction")
    after = before + sign * line["device_seconds"]
    expected = sign * (_price(after, line) - cost_before)
    if expected != nanos(line["cost"]):
        raise VerificationFailed(
            f"line {line['line']} costs {line['cost']}, its parts give {expected} nanos"
        )


def _price(seconds: int, line: dict[str, Any]) -> int:
    return half_even(
        Fraction(seconds) * _weight(line["weight"]) * nanos(line["rate_per_hour"]) / 3600
    )


def _check_parts(document: dict[str, Any]) -> int:
    """Seconds and costs of pods and of workload-days are those of the usage lines."""
    made = {line["line"]: line for line in document["lines"] if line["kind"] != "correction"}
    for part in ("pods", "workload_days"):
        seconds = dict.fromkeys(made, 0)
        cost = dict.fromkeys(made, 0)
        for entry in document[part]:
            seconds[entry["line"]] += entry["device_seconds"]
            cost[entry["line"]] += nanos(entry["cost"])
        for number, line in made.items():
            if line["kind"] == "void" and not seconds[number]:
                continue  # it voids a correction, which has no pods of its own
            if (seconds[number], cost[number]) != (line["device_seconds"], nanos(line["cost"])):
                raise VerificationFailed(
                    f"{part} of line {number} give {seconds[number]} s and {cost[number]} nanos, "
                    f"the line has {line['device_seconds']} s and {line['cost']}"
                )
    return len(document["pods"]) + len(document["workload_days"])


def _check_cents(document: dict[str, Any]) -> int:
    lines = document["lines"]
    if [line["line"] for line in lines] != list(range(1, len(lines) + 1)):
        raise VerificationFailed("the lines are not numbered one by one")
    exact = sum(nanos(line["cost"]) for line in lines)
    if exact != nanos(document["total_cost"]):
        raise VerificationFailed(
            f"the lines cost {exact} nanos, the document says {document['total_cost']}"
        )
    texts = [document["total_billed_cost"], *(line["billed_cost"] for line in lines)]
    amounts = [nanos(text) for text in texts]
    unit = 10 ** (9 - len(texts[0].partition(".")[2]))
    if any(amount % unit for amount in amounts):
        raise VerificationFailed("an amount has parts of a cent")
    if not document["currency"]:
        if any(amounts):
            raise VerificationFailed("there is no currency, and still an amount")
        return len(lines)
    total, *billed = amounts
    # The cents of a void are those of the document that it voids, negated: see there.
    is_void = document["document"] == "void"
    if not is_void and billed != _shared_out([nanos(line["cost"]) for line in lines], unit):
        raise VerificationFailed("the cents are not shared out by largest remainder")
    if sum(billed) != total:
        raise VerificationFailed("the lines do not add up to the total")
    tax = half_even(Fraction(document["tax"]["percent"] or 0) * total / 100 / unit) * unit
    if [nanos(document["tax"]["amount"]), nanos(document["total_payable"])] != [tax, total + tax]:
        raise VerificationFailed("tax or the amount to pay does not follow from the total")
    return len(lines)


def _shared_out(costs: list[int], unit: int) -> list[int]:
    """The total rounded once; the cents that are left go to the largest remainders, in order."""
    left = half_even(Fraction(sum(costs), unit)) - sum(cost // unit for cost in costs)
    order = sorted(range(len(costs)), key=lambda place: (-(costs[place] % unit), place))
    raised = set(order[:left])
    return [(cost // unit + (place in raised)) * unit for place, cost in enumerate(costs)]


def _check_csv(document: dict[str, Any], files: dict[str, bytes]) -> int:
    clusters = {line["line"]: line["cluster_id"] for line in document["lines"]}
    shared = {"invoice": document["number"], **{n: document[n] for n in ("tenant", "currency")}}
    rows_checked = 0
    for suffix, part in CSV_FILES.items():
        name = f"documents/{document['number']}{suffix}"
        if name not in files:
            continue
        rows = list(csv.DictReader(io.StringIO(files[name].decode("utf-8"), newline="")))
        if len(rows) != len(document[part]):
            raise VerificationFailed(
                f"{name} has {len(rows)} rows, the document has {len(document[part])}"
            )
        for row, entry in zip(rows, document[part], strict=True):
            said = {"cluster_id": clusters[entry["line"]], **shared, **entry}
            if not NEEDED_COLUMNS <= set(row) <= set(said):
                raise VerificationFailed(f"{name} has the columns {', '.join(map(str, row))}")
            for column in row:
                # A spreadsheet would execute some names; the CSV puts a quote before those.
                if row[column] not in (str(said[column]), f"'{said[column]}"):
                    raise VerificationFailed(
                        f"{name} says {column} {row[column]!r}, not {said[column]!r}"
                    )
        rows_checked += len(rows)
    return rows_checked


def _check_basis(report: Report, document: dict[str, Any], bundle: Bundle) -> int:
    """The event that issued the document stands on the basis that it names."""
    stands_on = document["stands_on"]
    digest = stands_on["basis_sha256"]
    if digest not in {event["body"].get("basis_sha256", "") for event in bundle.events}:
        raise VerificationFailed("no event stands on the basis that it names")
    if not bundle.has(digest):
        report.unverified.append(
            f"{document['number']}: its basis (decisions, checks, hashes of the evidence) is in "
            "the bundle of the month, not in this one"
        )
        return 1
    basis = bundle.sealed(digest)
    recomputed = {
        "evidence_sha256": _sha256(canonical({"evidence": basis["evidence"]})),
        "checks_sha256": _sha256(canonical({"checks": basis["check"]["checks"]})),
        "product_facts_sha256": _sha256(canonical(basis["product_facts"])),
        "facts_sha256": basis["facts_sha256"],
        "decisions_sha256": basis["decisions_sha256"],
        "code_version": basis["code_version"],
    }
    for name, value in recomputed.items():
        if stands_on[name] != value:
            raise VerificationFailed(f"{name} is {stands_on[name]}, and the basis gives {value}")
    if not basis["check"]["is_billable"]:
        raise VerificationFailed("it was checked not billable")
    return len(stands_on)


def _check_void(report: Report, document: dict[str, Any], bundle: Bundle) -> int:
    if not document["voids"]:
        return 0
    digest = bundle.issued.get(document["voids"])
    if digest is None:
        raise VerificationFailed(f"{document['voids']} was never issued")
    if not bundle.has(digest):
        report.unverified.append(
            f"{document['number']}: {document['voids']}, which it voids, is not in this bundle"
        )
        return 1
    original = bundle.sealed(digest)
    for line, negated in zip(original["lines"], document["lines"], strict=True):
        for name in ("cost", "billed_cost"):
            if nanos(line[name]) != -nanos(negated[name]):
                raise VerificationFailed(f"line {line['line']} is not negated in {name}")
        if line["device_seconds"] != -negated["device_seconds"]:
            raise VerificationFailed(f"line {line['line']} is not negated in device_seconds")
    return len(original["lines"])


def read_bundle(path: Path) -> bytes:
    """At most one byte more than a bundle may have, however large the file is."""
    with path.open("rb") as file:
        return file.read(LARGEST_BUNDLE_BYTES + 1)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Check a bundle of issued documents.")
    parser.add_argument("bundle", type=Path, help="the ZIP file")
    parser.add_argument("--head", type=Path, help="a copy of head.json that was kept outside")
    options = parser.parse_args(arguments)
    try:
        head = options.head.read_bytes() if options.head else None
        report = verify(read_bundle(options.bundle), head)
    except OSError as cause:
        parser.error(f"{cause.filename}: {cause.strerror}")
    for line in report.checked:
        print(f"ok          {line}")
    for line in report.unverified:
        print(f"not checked {line}")
    for line in report.problems:
        print(f"WRONG       {line}")
    print("verified" if report.passed else "NOT verified")
    return 0 if report.passed else 1


if __name__ == "__main__":
    sys.exit(main())
