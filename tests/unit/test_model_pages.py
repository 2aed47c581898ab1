"""The models' page as one file: what in it is put in order, and what is filled in.

Put here: cases that need no dbt. Not here: the page itself (`scenarios/test_thin_line`).
"""

from __future__ import annotations

import json

from warehouse.model_pages import as_shown


def test_what_dbt_met_in_another_order_is_the_same_page_and_columns_keep_theirs() -> None:
    told = '{"nodes": {"b": {"columns": {}}, "a": {}}, "disabled": []}'
    same = '{"nodes": {"a": {}, "b": {"columns": {}}}, "disabled": []}'
    assert as_shown(told, {}) == as_shown(same, {}) == same
    columns = '{"nodes": {"a": {"columns": {"y": {"type": ""}, "x": {"type": ""}}}}}'
    assert as_shown(columns, {}) == columns


def test_a_columns_type_by_its_contract_stands_where_the_page_looks() -> None:
    """dbt's page shows `column.type`, which only a catalogue would have filled."""
    columns = {"seconds": {"data_type": "bigint"}, "free": {"data_type": None}}
    shown = json.loads(as_shown(json.dumps({"nodes": {"a": {"columns": columns}}}), {}))
    assert shown["nodes"]["a"]["columns"]["seconds"]["type"] == "bigint"
    assert shown["nodes"]["a"]["columns"]["free"]["type"] == ""
