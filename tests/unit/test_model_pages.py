"""The models' page as one file: its order and its added values.

Put here: cases that need no dbt. Not here: the page itself (`scenarios/test_thin_line`).
"""

from __future__ import annotations

import json

from warehouse.model_pages import as_shown


def test_the_page_sorts_nodes_and_keeps_the_order_of_columns() -> None:
    told = '{"nodes": {"b": {"columns": {}}, "a": {}}, "disabled": []}'
    same = '{"nodes": {"a": {}, "b": {"columns": {}}}, "disabled": []}'
    assert as_shown(told, {}) == as_shown(same, {}) == same
    columns = '{"nodes": {"a": {"columns": {"y": {"type": ""}, "x": {"type": ""}}}}}'
    assert as_shown(columns, {}) == columns


def test_the_type_of_a_column_comes_from_its_contract() -> None:
    """dbt's page shows `column.type`, which only a catalogue fills."""
    columns = {"seconds": {"data_type": "bigint"}, "free": {"data_type": None}}
    shown = json.loads(as_shown(json.dumps({"nodes": {"a": {"columns": columns}}}), {}))
    assert shown["nodes"]["a"]["columns"]["seconds"]["type"] == "bigint"
    assert shown["nodes"]["a"]["columns"]["free"]["type"] == ""
