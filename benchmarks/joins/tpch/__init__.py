"""TPC-H's 22 statements, with the parameters of its validation, as a benchmark's workloads.

Q11's fraction is the one of scale factor 1 at every scale.
"""

from pathlib import Path

from ..workloads import Workload

HERE = Path(__file__).parent
WHOLE_TPCH = tuple(Workload(file.stem, file.read_text(), reads=()) for file in sorted(HERE.glob("q*.sql")))
