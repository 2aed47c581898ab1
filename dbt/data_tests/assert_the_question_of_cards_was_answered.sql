-- Every question about MIG layouts has its answer; an unanswered one would count no card.
select questions.*
from {{ ref('int_card_questions') }} as questions
left join {{ ref('stg_devices__card_answers') }} as answers
    on
        questions.gpu_class = answers.gpu_class
        and questions.wanted_code = answers.wanted_code
        and questions.offered_code = answers.offered_code
        and questions.mig_card_count = answers.mig_card_count
where answers.gpu_class is null
