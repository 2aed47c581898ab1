"""Budget and provider alerts: what is notified, to whom, and the record of it.

Put here: alerts of an Alertmanager, and the records of notified steps.
Not here: the arithmetic of budgets (`domain.budgets`), or HTTP (`clients.alertmanager`).
"""
