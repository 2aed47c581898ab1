"""How busy a pod makes its devices: a step function with exact integrals.

Put here: the function and its arithmetic.
Not here: how a scenario writes it (`fake_gpu.scenario.utilisation`).
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Utilisation:
    """How busy a pod makes its devices, as a step function of the seconds since it started.

    Steps are repeated `repeat` times (None: for ever) and then `after_pct` holds. Everything is
    periodic and whole, so an average or an energy over any time has a closed form.
    """

    steps: tuple[tuple[int, int], ...]  # (seconds > 0, per cent 0..100)
    repeat: int | None = None
    after_pct: int = 0
    # Calculated once: exporters read them at every step of every device.
    period_seconds: int = field(init=False, repr=False, compare=False)
    is_level: bool = field(init=False, repr=False, compare=False)  # one per cent in all steps

    def __post_init__(self) -> None:
        object.__setattr__(self, "period_seconds", sum(seconds for seconds, _ in self.steps))
        object.__setattr__(self, "is_level", len({pct for _, pct in self.steps}) == 1)

    def pct_at(self, elapsed: int) -> int:
        """Per cent at `elapsed` seconds after the start; 0 before it."""
        if elapsed < 0:
            return 0
        lap, rest = divmod(elapsed, self.period_seconds)
        if self.repeat is not None and lap >= self.repeat:
            return self.after_pct
        for seconds, pct in self.steps:
            if rest < seconds:
                return pct
            rest -= seconds
        raise AssertionError("a rest shorter than the period lies in one of its steps")


IDLE = Utilisation(((3600, 0),))
BUSY = Utilisation(((3600, 100),))
