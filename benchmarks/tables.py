"""Tables that nobody designed the package for, over five seeds: plants, drugs, sales, machines, tiny tasks.

    python benchmarks/tables.py [--method hierarchical-gp] [--seeds 5] [--only machines ...] [--out results/tables.json]

The tables are simulated by the scripts in examples/, each on its own. A run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

from scoreprior.bench.work import provenance

ROOT = Path(__file__).parents[1]
TABLES = ("plants_with_treatment", "dose_response", "daily_sales", "machines", "many_small_tasks")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", default="hierarchical-gp")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=TABLES, default=TABLES)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "tables.json")
    args = parser.parse_args()
    sys.path.insert(0, str(ROOT / "examples"))
    records = json.loads(args.out.read_text()) if args.out.exists() else []
    done = {(each["table"], each["method"], each["seed"]) for each in records}
    for table in args.only:
        for seed in range(args.seeds):
            if (table, args.method, seed) in done:
                continue
            begun = time.process_time()
            found = import_module(table).figures(seed, args.method)
            figures = {name: {k: round(float(v), 4) for k, v in each.items()} for name, each in found.items()}
            identity = {"table": table, "method": args.method, "seed": seed}
            stamp = {"created": datetime.now(UTC).isoformat(timespec="seconds"), "provenance": provenance()}
            records.append(
                identity | {"figures": figures, "cpu_seconds": round(time.process_time() - begun, 1)} | stamp
            )
            args.out.write_text(json.dumps(records, indent=1) + "\n")
            print(table, seed, figures, flush=True)


if __name__ == "__main__":
    main()
