#!/usr/bin/env python3
"""Puts the figures and charts of a benchmark run into the documents.

    make bench && scripts/record-bench.py                    # from target/bench
    make size && scripts/record-bench.py target/size         # the functions
    make growth && scripts/record-bench.py target/growth     # growth, by counting

In docs/PERFORMANCE.md and docs/SCALE.md each block

    <!-- report: Functions -->
    <!-- end of report -->

receives the section of the report with this title (up to its colon), under the command, commit and day of the run. A block
whose section the run lacks stays as it is. A run with the workloads A to E also becomes docs/benchmarks/REPORT.md.
Each docs/images/bench-X.svg becomes the run's X.svg. The sentences around the blocks are for a person: read them again.
"""

import pathlib
import re
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
BLOCK = re.compile(r"(<!-- report: (.+?) -->\n).*?(<!-- end of report -->)", re.DOTALL)
WORKLOADS = {"A", "B", "C", "D", "L", "E"}


def main():
    run = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "target/bench"
    report = (run / "report.md").read_text()
    header, *rest = re.split(r"^## ", report, flags=re.MULTILINE)
    of_run = re.search(r"^- Run: (.+)$", header, re.MULTILINE)[1]
    sections = {}
    for section in rest:
        title, text = section.split("\n", 1)
        sections[title.split(":")[0]] = text.strip()

    def filled(block):
        before, title, after = block.groups()
        return f"{before}{of_run}:\n\n{sections[title]}\n{after}" if title in sections else block[0]

    for page in [DOCS / "PERFORMANCE.md", DOCS / "SCALE.md"]:
        page.write_text(BLOCK.sub(filled, page.read_text()))
    if WORKLOADS <= sections.keys():
        (DOCS / "benchmarks/REPORT.md").write_text(report)
    for chart in (DOCS / "images").glob("bench-*.svg"):
        drawn = run / chart.name.removeprefix("bench-")
        if drawn.exists():
            shutil.copy(drawn, chart)


if __name__ == "__main__":
    main()
