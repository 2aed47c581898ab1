"""The labels of series: in the order in which servers compare them, and as responses write them.

Put here: label sets, and their texts, which are made once per series.
Not here: samples (`series`), which labels a target adds (`targets`).

All series of one metric have the same names of labels. So the place of each name in the sorted
text, and the external labels, are determined once; a series only fills in its values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter

from fake_gpu.exporters.exposition import escaped, labels_text
from fake_gpu.prometheus.go_json import encode
from fake_gpu.prometheus.matchers import Matcher, all_match

LabelPairs = tuple[tuple[str, str], ...]
# Of these there are very many, and a mapping of texts is not looked through for cycles.
Labels = dict[str, str]
METRIC = "__name__"
Selector = Callable[[Sequence[str]], tuple[str, ...]]
# Printable ASCII without quotes, backslashes, and the characters that JSON escapes for HTML.
_PLAIN = re.compile(r"[ !#-%'-;=?-\[\]-~]*")


class LabelLayout:
    """Sorted names of labels; some have values of their own in each series, others never change."""

    __slots__ = ("_exposed", "_exposition", "_order", "_select", "_text", "fixed", "names")

    def __init__(self, own: Sequence[str], fixed: Mapping[str, str]) -> None:
        """`own` are the names of a series' values, in the order of those; they win over others."""
        places = {name: place for place, name in enumerate(own)}
        self.names = own
        self.fixed = {name: value for name, value in fixed.items() if name not in places}
        names = sorted({*places, *self.fixed})
        self._select = make_selector([places[name] for name in names if name in places])
        pairs = [
            f'{_escape_percent(_quoted(name))}:"{self._shown(name, _inside)}"' for name in names
        ]
        self._text = f"{{{','.join(pairs)}}}"
        self._order = "\0".join(
            [f"{_escape_percent(name)}\0{self._shown(name, str)}" for name in names]
        )
        # An exposition has the name before all labels.
        labels = [name for name in names if name != METRIC]
        called = [METRIC] if METRIC in names else []
        first = [name for name in (*called, *labels) if name in places]
        self._exposed = make_selector([places[name] for name in first])
        pairs = [f'{name}="{self._shown(name, _escaped)}"' for name in labels]
        written = f"{{{','.join(pairs)}}}" if pairs else ""
        self._exposition = "".join([self._shown(name, str) for name in called]) + written

    def _shown(self, name: str, write: Callable[[str], str]) -> str:
        return _escape_percent(write(self.fixed[name])) if name in self.fixed else "%s"

    def text(self, values: Sequence[str]) -> str:
        """As a JSON object."""
        selected = self._select(values)
        return self._text % (selected if _is_plain(selected) else tuple(map(_inside, selected)))

    def exposition(self, values: Sequence[str]) -> str:
        """As a line of an exposition begins."""
        selected = self._exposed(values)
        return self._exposition % (
            selected if _is_plain(selected) else tuple(map(_escaped, selected))
        )

    def order(self, values: Sequence[str]) -> str:
        """As a text that compares as the labels do."""
        return self._order % self._select(values)

    def texts(self, many: Iterable[Sequence[str]]) -> list[str]:
        """`text` of many, which are looked through for odd characters at once."""
        return _fill(self._text, map(self._select, many), _inside)

    def expositions(self, many: Iterable[Sequence[str]]) -> list[str]:
        """`exposition` of many."""
        return _fill(self._exposition, map(self._exposed, many), _escaped)

    def orders(self, many: Iterable[Sequence[str]]) -> list[str]:
        """`order` of many."""
        return list(map(self._order.__mod__, map(self._select, many)))


def _fill(form: str, many: Iterable[tuple[str, ...]], write: Callable[[str], str]) -> list[str]:
    selected = list(many)
    if not _is_plain(chain.from_iterable(selected)):
        selected = [tuple(map(write, each)) for each in selected]
    return list(map(form.__mod__, selected))


def make_selector(places: Sequence[int]) -> Selector:
    """Selects the values at some places."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda values: tuple([values[place] for place in places])


def _is_plain(texts: Iterable[str]) -> bool:
    """Whether neither JSON, as Go writes it, nor an exposition escapes anything in them."""
    return _PLAIN.fullmatch("".join(texts)) is not None


def _escape_percent(text: str) -> str:
    """A constant text between the values of labels."""
    return text.replace("%", "%%")


def _escaped(text: str) -> str:
    """One text as an exposition writes it between quotes."""
    return escaped(text)


def _inside(text: str) -> str:
    """One text as JSON has it between quotes."""
    return encode(text)[1:-1]


@lru_cache(maxsize=1 << 15)
def _quoted(text: str) -> str:
    return encode(text)


class LabelSet:
    """The labels of one series, with their texts cached."""

    __slots__ = ("_labelled", "_layout", "_mapping", "_nameless", "_order", "_text", "_values")

    def __init__(self, labels: Iterable[tuple[str, str]]) -> None:
        self._mapping: Labels | None = dict(sorted(labels))
        self._layout: LabelLayout | None = None
        self._values: Sequence[str] = ()
        self._text: str | None = None
        self._order: str | None = None
        self._nameless: LabelSet | None = None
        self._labelled: tuple[tuple[str, str], LabelSet] | None = None

    @classmethod
    def laid_out(cls, layout: LabelLayout, values: Sequence[str]) -> LabelSet:
        """The labels whose own values are these."""
        made = cls.__new__(cls)
        made._layout, made._values = layout, values
        made._mapping = made._text = made._order = made._nameless = made._labelled = None
        return made

    @property
    def mapping(self) -> Labels:
        if self._mapping is None:
            assert self._layout is not None, "there is a mapping, or how to make it"
            own = zip(self._layout.names, self._values, strict=True)
            self._mapping = dict(sorted([*self._layout.fixed.items(), *own]))
        return self._mapping

    @property
    def key(self) -> LabelPairs:
        """The labels as a value that can be looked up."""
        return tuple(self.mapping.items())

    @property
    def text(self) -> str:
        """The labels as a JSON object."""
        if self._text is None:
            if self._layout is not None:
                self._text = self._layout.text(self._values)
            else:
                pairs = [f"{_quoted(name)}:{_quoted(own)}" for name, own in self.mapping.items()]
                self._text = f"{{{','.join(pairs)}}}"
        return self._text

    @property
    def exposition(self) -> str:
        """The series as a line of an exposition begins."""
        if self._layout is not None:
            return self._layout.exposition(self._values)
        labels = self.mapping
        shown = labels_text(pair for pair in labels.items() if pair[0] != METRIC)
        return f"{labels.get(METRIC, '')}{shown}"

    @property
    def order(self) -> str:
        """A text that compares as label sets compare, and much faster."""
        if self._order is None:
            if self._layout is not None:
                self._order = self._layout.order(self._values)
            else:
                self._order = "\0".join(chain.from_iterable(self.mapping.items()))
        return self._order

    def matches(self, matchers: Iterable[Matcher]) -> bool:
        """Whether all matchers hold."""
        return all_match(matchers, self.mapping)

    @property
    def nameless(self) -> LabelSet:
        """The labels of the result of a function over the series."""
        if self._nameless is None:
            if METRIC not in self.mapping:
                return self
            self._nameless = self.without((METRIC,))
        return self._nameless

    def labelled(self, name: str, value: str) -> LabelSet:
        """With one label of this value, the last such remembered; without it when that is ""."""
        pair = (name, value)
        if self._labelled is None or self._labelled[0] != pair:
            others = [own for own in self.mapping.items() if own[0] != name]
            self._labelled = (pair, LabelSet([*others, pair] if value else others))
        return self._labelled[1]

    def without(self, names: Container[str]) -> LabelSet:
        return LabelSet(pair for pair in self.mapping.items() if pair[0] not in names)
