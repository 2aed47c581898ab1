"""The JSON of objects, which lists and watches show again and again as they are.

Put here: the cache of objects' texts. Not here: documents (`objects`), requests.

A version of an object never changes, so its text is made once: a list of an hour later repeats
most of it, and every watcher receives the same.
"""

from __future__ import annotations

import json
from collections import OrderedDict

from fake_gpu.kubernetes.forms import Document
from fake_gpu.kubernetes.objects import Change
from fake_gpu.kubernetes.resources import Resource

# Characters of all texts that are kept: some 5,000 pods, each of 2 to 4 kB.
LARGEST_CACHE = 16_000_000


class ObjectTexts:
    """Texts of the versions of objects that were shown last."""

    def __init__(self) -> None:
        self._items: OrderedDict[Change, str] = OrderedDict()
        self.size = 0

    def item(self, change: Change) -> str:
        """As a list shows the object: without the fields that all objects of the list share."""
        known = self._items.get(change)
        if known is None:
            document = change.object
            del document["kind"], document["apiVersion"]
            known = self._items[change] = encoded(document)
            self.size += len(known)
            while self.size > LARGEST_CACHE:
                self.size -= len(self._items.popitem(last=False)[1])
        return known

    def whole(self, resource: Resource, change: Change) -> str:
        """As a watch shows it."""
        head = f'{{"apiVersion":"{resource.group_version}","kind":"{resource.kind}",'
        return head + self.item(change)[1:]


def encoded(document: Document) -> str:
    """A document as a server sends it."""
    return json.dumps(document, separators=(",", ":"))
