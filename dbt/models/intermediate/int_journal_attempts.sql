select distinct
    cluster_id,
    attempt_id
from {{ ref('int_attempts_used') }}
where source = 'kubernetes'
