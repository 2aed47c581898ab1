"""The numbers of layouts of an 8-slot card, and the time to calculate them.

Run: python -m bench.mig_layouts
"""

from __future__ import annotations

import time

from domain.mig import family_geometry, layouts

SETS = {
    "1g 2g 3g 4g 7g": (19, 14, 9, 5, 0),
    "and wide 1g": (19, 15, 14, 9, 5, 0),
    "and one 1g+me": (19, 20, 15, 14, 9, 5, 0),
}


def main() -> None:
    geometry = family_geometry("8-slot-40gb")
    assert geometry is not None
    print(f"{'profiles':<16} {'positioned':>10} {'maximal':>8} {'placeable':>10} {'seconds':>8}")
    for name, ids in SETS.items():
        started = time.perf_counter()
        found = layouts(geometry, [p.profile for p in geometry.profiles if p.profile_id in ids])
        counts = (len(found.positioned), len(found.maximal), len(found.placeable))
        seconds = time.perf_counter() - started
        print(f"{name:<16} {counts[0]:>10} {counts[1]:>8} {counts[2]:>10} {seconds:>8.3f}")


if __name__ == "__main__":
    main()
