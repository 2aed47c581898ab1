"""The words and the arithmetic that every stage shares; pure, and importing nothing of ours.

Put here: values (intervals, periods, devices, money, decisions), their rules, and the errors.
Not here: files, sockets, clocks, databases, or anything that a single stage needs alone.
"""
