"""Checks a bundle with nothing but Python's standard library: no database, no other file of ours.

    python verifier.py BUNDLE.zip [--head head.json]

Put here: everything a receiver needs to check what was issued; under 500 lines, so that it can be
read before it is trusted.
Not here: anything imported from the rest of the ledger. It recomputes what the ledger computed,
from the words on the document alone.

What it checks: the bundle is exactly the files that it lists; the record's events form one chain,
which ends at the witnessed head if one is given; the documents are those that the events issued,
and their numbers have no gaps; every line is seconds x weight x rate / 3600, rounded once; pods and
workload-days add up to lines, lines add up to totals, cents are shared out by largest remainder;
the CSV files say what the sealed documents say; a void negates its document.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"
FIXED_TIME = (1980, 1, 1, 0, 0, 0)
LARGEST_BUNDLE_BYTES = 4 << 30
"""4 GiB: the limit of a plain ZIP; a month of the largest tenant is a few megabytes."""

NANOS = 10**9
CSV_FILES = {".csv": "lines", "-pods.csv": "pods"}


class Wrong(Exception):
    """Something is not as it must be; the text says where and what."""


@dataclass
class Report:
    """What was checked, and what was wrong; both in the order in which it was looked at."""

    checked: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return bool(self.checked) and not self.problems

    def run(self, what: str, check: Callable[[], int]) -> None:
        """Run one check; it returns how many things it looked at, and none is a problem too."""
        try:
            count = check()
        except Wrong as wrong:
            self.problems.append(f"{what}: {wrong}")
        except (KeyError, ValueError, TypeError, IndexError, ArithmeticError) as cause:
            self.problems.append(f"{what}: not readable ({type(cause).__name__}: {cause})")
        else:
            self.checked.append(f"{what}: {count}")


def verify(body: bytes, head: bytes | None = None) -> Report:
    """Check the bytes of a bundle, against the bytes of a witnessed head if they are given."""
    report = Report()
    files: dict[str, bytes] = {}
    report.run("files in the bundle, each as listed", lambda: _read(body, files))
    if report.problems:
        return report
    events = _events(files)
    documents = {name: body for name, body in files.items() if name.startswith("sealed/")}
    report.run("events in the chain", lambda: _check_chain(events, files))
    if head is not None:
        report.run("events up to the head that was witnessed", lambda: _check_head(events, head))
    if report.problems:
        return report
    issued = list(_issued(events))
    report.run("document numbers without a gap", lambda: _check_numbers(issued))
    report.run("sealed documents under their hash", lambda: _check_seals(documents))
    report.run("documents issued by the chain", lambda: _check_issued(files, issued))
    for number, document in _documents(files, issued):
        _check_document(report, number, document, files)
    return report


def _check_document(
    report: Report, number: str, document: dict[str, Any], files: dict[str, bytes]
) -> None:
    report.run(f"{number}: lines priced again", lambda: _check_prices(document))
    report.run(f"{number}: pods and days add up to lines", lambda: _check_parts(document))
    report.run(f"{number}: cents add up to the total", lambda: _check_cents(document))
    report.run(f"{number}: CSV files say the same", lambda: _check_csv(document, files))
    report.run(f"{number}: what it stands on", lambda: _check_basis(document, files))
    if document["voids"]:
        report.run(f"{number}: negates {document['voids']}", lambda: _check_void(document, files))


# The bundle ------------------------------------------------------------------------------------


def write_bundle(files: dict[str, bytes]) -> bytes:
    """The one way in which these files are a bundle: sorted, stored, without times or rights."""
    listed = {name: _sha256(body) for name, body in files.items()}
    manifest = canonical({"schema": "gpu-ledger/bundle/1", "files": listed})
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, body in sorted({**files, MANIFEST: manifest}.items()):
            entry = zipfile.ZipInfo(name, FIXED_TIME)
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            archive.writestr(entry, body)
    return out.getvalue()


def _read(body: bytes, files: dict[str, bytes]) -> int:
    """Read the bundle; writing the same files again must give the same bytes, to the last one."""
    if len(body) > LARGEST_BUNDLE_BYTES:
        raise Wrong(f"{len(body)} bytes, at most {LARGEST_BUNDLE_BYTES} are read")
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            names = archive.namelist()
            # Nothing in a bundle is compressed: what says so is not even unpacked.
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise Wrong("a file in it is compressed")
            found = {name: archive.read(name) for name in names}
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError) as cause:
        raise Wrong(f"not a readable ZIP file ({cause})") from None
    except UnicodeDecodeError as cause:
        raise Wrong(f"a file name is not text ({cause})") from None
    if len(set(names)) != len(names):
        raise Wrong("a name occurs twice")
    manifest = found.pop(MANIFEST, b"")
    if not manifest:
        raise Wrong(f"{MANIFEST} is missing")
    listed = json.loads(manifest)["files"]
    for name in sorted({*listed, *found}):
        if name not in found:
            raise Wrong(f"{name} is listed and missing")
        if listed.get(name) != _sha256(found[name]):
            raise Wrong(f"{name} is not what is listed")
    if write_bundle(found) != body:
        raise Wrong("bytes outside the files were changed")
    files.update(found)
    return len(found)


def _sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def canonical(document: object) -> bytes:
    """The canonical JSON of the ledger: sorted keys, ASCII, no spaces, a line end."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return text.encode("ascii") + b"\n"


# The chain -------------------------------------------------------------------------------------


def _events(files: dict[str, bytes]) -> list[bytes]:
    return [files[name] for name in sorted(files) if name.startswith("events/")]


def _check_chain(events: list[bytes], files: dict[str, bytes]) -> int:
    if not events:
        raise Wrong("there is none")
    previous, fence = "", 0
    for place, body in enumerate(events, start=1):
        event = json.loads(body)
        if event["sequence"] != place:
            raise Wrong(f"event {event['sequence']} stands at place {place}")
        if f"events/{place:010}.json" not in files:
            raise Wrong(f"no file is named for event {place}")
        if event["previous_sha256"] != previous:
            raise Wrong(f"event {place} does not follow the one before it")
        if event["fence"] < fence:
            raise Wrong(f"event {place} was written by a writer that had been overtaken")
        previous, fence = _sha256(body), event["fence"]
    if "head.json" in files:
        _check_head(events, files["head.json"])
    return len(events)


def _check_head(events: list[bytes], head: bytes) -> int:
    """A head says which event was the last one, and its hash; what says less is no head."""
    witnessed = json.loads(head)
    place = int(witnessed["sequence"])
    if not 0 < place <= len(events) or _sha256(events[place - 1]) != witnessed["sha256"]:
        raise Wrong(f"event {place} is not the one that was witnessed")
    return place


def _issued(events: list[bytes]) -> Iterator[tuple[str, str]]:
    """(number, hash) of every document that the chain issued."""
    for body in events:
        for entry in json.loads(body)["body"].get("documents", []):
            yield entry["number"], entry["sha256"]


def _check_numbers(issued: list[tuple[str, str]]) -> int:
    series: dict[str, list[int]] = {}
    for number, _ in issued:
        name, _, place = number.partition("-")
        series.setdefault(name, []).append(int(place))
    for name, places in series.items():
        if places != list(range(1, len(places) + 1)):
            raise Wrong(f"the series {name} has a gap, or a number twice")
    return len(issued)


def _check_seals(documents: dict[str, bytes]) -> int:
    for name, body in documents.items():
        if name != f"sealed/{_sha256(body)}.json":
            raise Wrong(f"{name} has another hash")
        if canonical(json.loads(body)) != body:
            raise Wrong(f"{name} is not in its canonical form")
    return len(documents)


def _check_issued(files: dict[str, bytes], issued: list[tuple[str, str]]) -> int:
    """Every document in the bundle was issued under its number and its hash."""
    found = list(_documents(files, issued))
    for number, document in found:
        if document["number"] != number:
            raise Wrong(f"{number} was issued, and the document says {document['number']}")
    sealed = {_sha256(body) for name, body in files.items() if name.startswith("sealed/")}
    known = {digest for _, digest in issued} | _grounds(files)
    if sealed - known:
        raise Wrong(f"{min(sealed - known)} was never issued")
    if not found:
        raise Wrong("there is none")
    return len(found)


def _grounds(files: dict[str, bytes]) -> set[str]:
    """Hashes of what the events stand on: bases, statements, corrections."""
    found: set[str] = set()
    for body in _events(files):
        for name, value in json.loads(body)["body"].items():
            if name.endswith("_sha256"):
                found.add(value)
            elif name.endswith("_sha256s"):
                found.update(value)
    return found


def _documents(
    files: dict[str, bytes], issued: list[tuple[str, str]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, digest in issued:
        body = files.get(f"sealed/{digest}.json")
        if body is not None:
            yield number, json.loads(body)


# One document ----------------------------------------------------------------------------------


def nanos(text: str) -> int:
    """Decimal text as whole 10^-9 units, exactly."""
    value = Fraction(text) * NANOS
    if value.denominator != 1 or any(sign in text for sign in "eE/_ "):
        raise ValueError(f"{text!r} is not an amount")
    return value.numerator


def half_even(value: Fraction) -> int:
    """The nearest whole number; of two equally near ones, the even one."""
    below, rest = value.numerator // value.denominator, value % 1
    return below + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and below % 2 == 1))


def _check_prices(document: dict[str, Any]) -> int:
    rates = {rate["rate_id"]: rate for rate in document["rates"]}
    for line in document["lines"]:
        # A correction's price may be one that was amended since; a void may take one back.
        may_be_of_others = line["kind"] in ("correction", "void")
        if line["rate_id"] and not may_be_of_others and line["rate_id"] not in rates:
            raise Wrong(f"line {line['line']} names a rate that is not on the document")
        if line["credited"]:
            _check_credit(line, document["lines"])
            continue
        rate = rates.get(line["rate_id"])
        if rate and nanos(rate["rate_per_hour"]) != nanos(line["rate_per_hour"]):
            raise Wrong(f"line {line['line']} has another rate than {line['rate_id']}")
        _check_price(line)
    return len(document["lines"])


def _check_credit(credit: dict[str, Any], lines: list[dict[str, Any]]) -> None:
    """A credit is what its pods cost (see their sum), and never more than its line has."""
    if credit["kind"] != "credit":
        return  # a correction or a void of one
    same = ("cluster_id", "gpu_class", "mig_profile", "weight", "weight_policy", "rate_id")
    key = [credit[name] for name in (*same, "started_at")]
    for line in lines:
        if line["kind"] == "usage" and [line[name] for name in (*same, "started_at")] == key:
            if nanos(credit["cost"]) > 0 or nanos(line["cost"]) + nanos(credit["cost"]) < 0:
                raise Wrong(f"line {credit['line']} gives back more than line {line['line']} has")
            return
    raise Wrong(f"line {credit['line']} credits no line")


def _check_price(line: dict[str, Any]) -> None:
    """What a line adds to what stood there before; a void takes exactly that away again."""
    sign = -1 if line["kind"] == "void" else 1
    before, cost_before = line["device_seconds_before"], nanos(line["cost_before"])
    if line["kind"] not in ("correction", "void") and (before or cost_before):
        raise Wrong(f"line {line['line']} corrects something, and is no correction")
    after = before + sign * line["device_seconds"]
    expected = sign * (_price(after, line) - cost_before)
    if expected != nanos(line["cost"]):
        raise Wrong(f"line {line['line']} costs {line['cost']}, its parts give {expected} nanos")


def _price(seconds: int, line: dict[str, Any]) -> int:
    return half_even(
        Fraction(seconds) * Fraction(line["weight"]) * nanos(line["rate_per_hour"]) / 3600
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
                raise Wrong(
                    f"{part} of line {number} give {seconds[number]} s and {cost[number]} nanos, "
                    f"the line has {line['device_seconds']} s and {line['cost']}"
                )
    return len(document["pods"]) + len(document["workload_days"])


def _check_cents(document: dict[str, Any]) -> int:
    lines = document["lines"]
    if [line["line"] for line in lines] != list(range(1, len(lines) + 1)):
        raise Wrong("the lines are not numbered one by one")
    exact = sum(nanos(line["cost"]) for line in lines)
    if exact != nanos(document["total_cost"]):
        raise Wrong(f"the lines cost {exact} nanos, the document says {document['total_cost']}")
    texts = [document["total_billed_cost"], *(line["billed_cost"] for line in lines)]
    unit = 10 ** (9 - len(document["total_billed_cost"].partition(".")[2]))
    if any(nanos(text) % unit for text in texts):
        raise Wrong("an amount has parts of a cent")
    if not document["currency"]:
        if any(nanos(text) for text in texts):
            raise Wrong("there is no currency, and still an amount")
        return len(lines)
    if document["document"] == "void":
        expected = None  # the cents of the document that it voids, negated: see there
    else:
        expected = _shared_out([nanos(line["cost"]) for line in lines], unit)
    billed = [nanos(line["billed_cost"]) for line in lines]
    if expected is not None and billed != expected:
        raise Wrong("the cents are not shared out by largest remainder")
    if sum(billed) != nanos(document["total_billed_cost"]):
        raise Wrong("the lines do not add up to the total")
    return len(lines)


def _shared_out(costs: list[int], unit: int) -> list[int]:
    """The total rounded once; the cents that are left go to the largest remainders, in order."""
    left = half_even(Fraction(sum(costs), unit)) - sum(cost // unit for cost in costs)
    order = sorted(range(len(costs)), key=lambda place: (-(costs[place] % unit), place))
    raised = set(order[:left])
    return [(cost // unit + (place in raised)) * unit for place, cost in enumerate(costs)]


def _check_csv(document: dict[str, Any], files: dict[str, bytes]) -> int:
    rows_checked = 0
    for suffix, part in CSV_FILES.items():
        name = f"documents/{document['number']}{suffix}"
        if name not in files:
            continue
        rows = list(csv.DictReader(io.StringIO(files[name].decode("utf-8"), newline="")))
        if len(rows) != len(document[part]):
            raise Wrong(f"{name} has {len(rows)} rows, the document has {len(document[part])}")
        for row, entry in zip(rows, document[part], strict=True):
            for column in set(row) & set(entry):
                # A spreadsheet would execute some names; the CSV puts a quote before those.
                if row[column] not in (str(entry[column]), f"'{entry[column]}"):
                    raise Wrong(f"{name} says {column} {row[column]!r}, not {entry[column]!r}")
        rows_checked += len(rows)
    return rows_checked


def _check_basis(document: dict[str, Any], files: dict[str, bytes]) -> int:
    """The event that issued the document stands on the basis that it names."""
    stands_on = document["stands_on"]
    bases = {json.loads(body)["body"].get("basis_sha256", "") for body in _events(files)}
    if stands_on["basis_sha256"] not in bases:
        raise Wrong("no event stands on the basis that it names")
    body = files.get(f"sealed/{stands_on['basis_sha256']}.json")
    if body is None:
        return len(stands_on)
    basis = json.loads(body)
    recomputed = {
        "evidence_sha256": _sha256(canonical({"evidence": basis["evidence"]})),
        "checks_sha256": _sha256(canonical({"checks": basis["judgement"]["checks"]})),
        "product_facts_sha256": _sha256(canonical(basis["product_facts"])),
        "facts_sha256": basis["facts_sha256"],
        "decisions_sha256": basis["decisions_sha256"],
        "code_version": basis["code_version"],
    }
    for name, value in recomputed.items():
        if stands_on[name] != value:
            raise Wrong(f"{name} is {stands_on[name]}, and the basis gives {value}")
    if not basis["judgement"]["is_billable"]:
        raise Wrong("it was judged not billable")
    return len(stands_on)


def _check_void(document: dict[str, Any], files: dict[str, bytes]) -> int:
    issued = dict(_issued(_events(files)))
    body = files.get(f"sealed/{issued.get(document['voids'], '')}.json")
    if body is None:
        if document["voids"] not in issued:
            raise Wrong("what it voids was never issued")
        return 1
    original = json.loads(body)
    for line, negated in zip(original["lines"], document["lines"], strict=True):
        for name in ("cost", "billed_cost"):
            if nanos(line[name]) != -nanos(negated[name]):
                raise Wrong(f"line {line['line']} is not negated in {name}")
        if line["device_seconds"] != -negated["device_seconds"]:
            raise Wrong(f"line {line['line']} is not negated in device_seconds")
    return len(original["lines"])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Check a bundle of issued documents.")
    parser.add_argument("bundle", type=Path, help="the ZIP file")
    parser.add_argument("--head", type=Path, help="head.json as a witness keeps it")
    options = parser.parse_args(arguments)
    head = options.head.read_bytes() if options.head else None
    report = verify(options.bundle.read_bytes(), head)
    for line in report.checked:
        print(f"ok    {line}")
    for line in report.problems:
        print(f"WRONG {line}")
    print("verified" if report.passed else "NOT verified")
    return 0 if report.passed else 1


if __name__ == "__main__":
    sys.exit(main())
