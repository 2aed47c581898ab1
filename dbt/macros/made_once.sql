{#-
    Tables and views, made once. A build begins with an empty file that no other process opens, and is
    thrown away when a model fails: there is nothing to set aside, to rename, to drop or to undo.
    dbt's own materializations do all of that, which took longer than most models.
-#}
{% materialization table, adapter='duckdb' -%}
    {{ return(made_once('table', create_table_as(False, this, compiled_code))) }}
{%- endmaterialization %}


{% materialization view, adapter='duckdb' -%}
    {{ return(made_once('view', create_view_as(this, compiled_code))) }}
{%- endmaterialization %}


{% macro made_once(kind, statement) -%}
    {%- set response, _ = adapter.execute(statement) -%}
    {%- do store_result('main', response=response, agate_table=none) -%}
    {{ return({'relations': [this.incorporate(type=kind)]}) }}
{%- endmacro %}
