"""The values and the arithmetic of all stages; pure, without imports of other packages.

Put here: values (intervals, periods, devices, money, decisions), their rules, and the errors.
Not here: files, sockets, clocks, databases, or code of a single stage.
"""
