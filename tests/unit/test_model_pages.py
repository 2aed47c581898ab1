"""The models' page as one file: what in it is put in order.

Put here: cases that need no dbt. Not here: the page itself (`scenarios/test_thin_line_reports`).
"""

from __future__ import annotations

from warehouse.model_pages import in_order


def test_what_dbt_met_in_another_order_is_the_same_page_and_columns_keep_theirs() -> None:
    told = '{"nodes": {"b": {"columns": {"y": 1, "x": 2}}, "a": {}}, "disabled": []}'
    same = '{"nodes": {"a": {}, "b": {"columns": {"y": 1, "x": 2}}}, "disabled": []}'
    assert in_order(told) == in_order(same) == same
