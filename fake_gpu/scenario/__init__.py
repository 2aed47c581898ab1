"""What a scenario says, read strictly: YAML, traces, mig-parted files, the design's own config.

Put here: reading and checking what people write about an estate.
Not here: playing it through (`fake_gpu.estate`).
"""
