"""Budget and provider alerts: notifications, their recipients, and the record of them.

Put here: alerts of an Alertmanager, and the records of notified steps.
Not here: the arithmetic of budgets (`domain.budgets`), or HTTP (`clients.alertmanager`).
"""
