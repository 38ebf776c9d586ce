"""`python -m benchmarks.runtime.idle CONTENDER COUNT [--traced]`: make idle actors in this process and print, as JSON, what they took."""

from __future__ import annotations

import importlib
import json
import sys

from benchmarks.runtime.meter import Meter
from benchmarks.runtime.suite import CONTENDERS


def main(arguments: list[str]) -> None:
    name, count, *flags = arguments
    meter = Meter(traced="--traced" in flags)
    importlib.import_module(CONTENDERS[name].partition(":")[0]).idle(int(count), meter)
    print(json.dumps({"grown": meter.grown, "total": meter.total}))


if __name__ == "__main__":
    main(sys.argv[1:])
