"""What the paper's Tables 7 and 8 say: RMSE and cosine similarity on GP-2D, GP-3D, TP-2D and TP-3D."""

from __future__ import annotations

PROBLEMS = ("GP-2D", "GP-3D", "TP-2D", "TP-3D")
_ROWS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "kef": ((8.836, 6.625, 8.852, 13.694), (0.475, 0.410, 0.532, 0.485)),
    "nkef": ((4.322, 4.402, 5.936, 8.402), (0.556, 0.434, 0.384, 0.318)),
    "kef-cg-imq": ((3.009, 5.197, 6.093, 5.473), (0.286, 0.308, 0.303, 0.538)),
    "kef-cg-rbf": ((1.145, 2.237, 2.869, 4.370), (0.621, 0.457, 0.479, 0.428)),
    "nu-method-imq": ((4.682, 9.171, 8.019, 10.810), (0.337, 0.286, 0.251, 0.384)),
    "nu-method-imqp": ((4.682, 9.171, 11.530, 5.872), (0.337, 0.286, 0.374, 0.411)),
    "nu-method-rbf": ((1.718, 4.035, 4.278, 5.200), (0.809, 0.759, 0.628, 0.786)),
    "ssge": ((1.166, 1.989, 1.753, 4.822), (0.943, 0.601, 0.661, 0.521)),
    "stein": ((0.912, 4.058, 3.519, 7.251), (0.778, 0.851, 0.626, 0.590)),
    "network": ((0.664, 1.375, 1.093, 3.199), (0.956, 0.889, 0.737, 0.706)),
}


def paper(name: str, problem: str, kind: str) -> float | None:
    """The paper's "rmse" or "cosine" of an estimator, None if it has no such row."""
    if name not in _ROWS:
        return None
    return _ROWS[name][("rmse", "cosine").index(kind)][PROBLEMS.index(problem)]
