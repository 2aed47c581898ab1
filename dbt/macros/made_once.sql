{#-
    Tables and views that are created once. A build begins with an empty file that no other process
    opens, and a failed build deletes the file. So no earlier table has to be renamed or dropped.
    dbt's own materializations do this, and took longer than most models.

    With the target `load`, another engine has computed the tables, and their rows are loaded.
-#}
{% materialization table, adapter='duckdb' -%}
    {%- set rows = computed_rows() if target.name == 'load' else compiled_code -%}
    {{ return(made_once('table', create_table_as(False, this, rows))) }}
{%- endmaterialization %}


{% materialization view, adapter='duckdb' -%}
    {{ return(made_once('view', create_view_as(this, compiled_code))) }}
{%- endmaterialization %}


{#- The rows that another engine computed, with the types of the contract where there is one. -#}
{% macro computed_rows() -%}
    select
        {% if config.get('contract').enforced %}
            {%- for column in model.columns.values() %}
                cast({{ column.name }} as {{ column.data_type }}) as {{ column.name }}
                {{- ', ' if not loop.last }}
            {%- endfor %}
        {% else %}
            *
        {% endif %}
    from computed.{{ this.identifier }}
{%- endmacro %}


{% macro made_once(kind, statement) -%}
    {%- set response, _ = adapter.execute(statement) -%}
    {%- do store_result('main', response=response, agate_table=none) -%}
    {{ return({'relations': [this.incorporate(type=kind)]}) }}
{%- endmacro %}
