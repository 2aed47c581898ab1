"""kube-state-metrics: Kubernetes objects as lines, in the order and the words of the real one.

Put here: the families of each kind of object, after kube-state-metrics 2.15.
Not here: the objects (`fake_gpu.kubernetes`).

A family is a pure function of one object. So the series of an object stay the same between two of
its versions, and a month needs no walk over scrapes.
"""
