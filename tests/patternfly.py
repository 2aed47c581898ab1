"""PatternFly's rules for the portal's pages, selected from its npm package.

Put here: the selection of rules and variables.
Not here: our own rules (`portal/static/portal.css`), or downloading the package
(`servers/test_portal_styles`).

The package has 2 MB of rules. The selection has the rules whose classes are all on our pages,
without media queries, and the variables that these rules use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "@patternfly/patternfly"
VERSION = "6.6.1"
FILES = (
    "base/patternfly-variables.css",
    *(
        f"components/{name}.css"
        for name in (
            "Alert/alert",
            "Button/button",
            "Card/card",
            "FormControl/form-control",
            "Label/label",
            "Table/table",
            "Title/title",
        )
    ),
)
PORTAL = Path(__file__).parents[1] / "portal"
# Pages contain these as `pf-m-` and a variable.
VARIED = {f"pf-m-{kind}" for kind in ("success", "warning", "info", "green", "red", "blue", "grey")}
HEADER = f"""\
/*! PatternFly {VERSION}, https://www.patternfly.org, Copyright Red Hat, Inc., MIT licence
   (patternfly-licence.txt: the text that @patternfly/react-core {VERSION} has).
   Made by tests/servers/test_portal_styles.py with GPU_LEDGER_WRITE_GOLDEN=1. */
"""

_CLASS = re.compile(r"\.([\w-]+)")
_USED = re.compile(r"var\((--[\w-]+)")

Declarations = list[tuple[str, str]]


def select_rules(package: Path) -> str:
    """The style sheet for our pages, from an unpacked package."""
    known = _classes_on_pages()
    rules: list[tuple[str, Declarations]] = []
    for name in FILES:
        for selectors, declarations in _rules((package / name).read_text(encoding="utf-8")):
            kept = [one for one in selectors if _is_kept(one, known)]
            if kept:
                rules.append((",".join(kept), declarations))
    used = _used_variables(rules)
    lines = []
    for selector, declarations in rules:
        body = ";".join(
            f"{name}:{value}"
            for name, value in declarations
            if not name.startswith("--") or name in used
        )
        if body:
            lines.append(f"{selector}{{{body}}}\n")
    return HEADER + "".join(lines)


def _classes_on_pages() -> set[str]:
    text = "".join(
        path.read_text(encoding="utf-8") for path in sorted((PORTAL / "templates").iterdir())
    )
    return VARIED | set(re.findall(r"pf-(?:v6-c|m)-[\w-]*\w", text))


def _is_kept(selector: str, known: set[str]) -> bool:
    """Whether the selector is the root or has only our classes; excluded classes do not matter."""
    named = _CLASS.findall(re.sub(r":not\([^()]*\)", "", selector))
    return selector == ":root" or (bool(named) and set(named) <= known)


def _used_variables(rules: list[tuple[str, Declarations]]) -> set[str]:
    """The variables that a declaration uses, directly or through other variables."""
    values: dict[str, list[str]] = {}
    waiting: set[str] = set()
    for _, declarations in rules:
        for name, value in declarations:
            if name.startswith("--"):
                values.setdefault(name, []).append(value)
            else:
                waiting |= set(_USED.findall(value))
    used: set[str] = set()
    while waiting:
        name = waiting.pop()
        used.add(name)
        waiting |= {one for value in values.get(name, ()) for one in _USED.findall(value)} - used
    return used


def _rules(text: str) -> Iterator[tuple[list[str], Declarations]]:
    """Selectors and declarations of each top-level rule."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    place = 0
    while (opened := text.find("{", place)) >= 0:
        depth, end = 1, opened
        while depth:
            end += 1
            depth += {"{": 1, "}": -1}.get(text[end], 0)
        head = text[place:opened].strip()
        if not head.startswith("@"):
            yield _split(head, ","), _declarations(text[opened + 1 : end])
        place = end + 1


def _declarations(body: str) -> Declarations:
    pairs = (one.partition(":") for one in _split(body, ";"))
    return [(name.strip(), " ".join(value.split())) for name, _, value in pairs]


def _split(text: str, separator: str) -> list[str]:
    """The parts between separators outside parentheses and quotes."""
    found = re.findall(
        rf"""(?:[^{separator}("']|"[^"]*"|'[^']*'|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))+""",
        text,
    )
    return [" ".join(part.split()) for part in found if part.strip()]
