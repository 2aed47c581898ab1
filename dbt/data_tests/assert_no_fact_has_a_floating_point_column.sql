-- Invariant 26: money and quantities are whole numbers; no column of a mart has a floating-point
-- type.
select
    table_name,
    column_name,
    data_type
from information_schema.columns
where
    table_catalog = current_database()
    and table_schema = 'marts'
    and data_type in ('DOUBLE', 'FLOAT', 'REAL', 'HUGEINT')
