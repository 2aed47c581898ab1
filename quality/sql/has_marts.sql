-- Whether the marts exist.
select count(*) as table_count
from information_schema.tables
where
    table_schema = 'marts'
    and table_name = 'fct_coverage'
