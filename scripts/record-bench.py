#!/usr/bin/env python3
"""Puts the figures and charts of a benchmark run into docs/PERFORMANCE.md.

    make bench && scripts/record-bench.py                           # from target/bench
    make size && scripts/record-bench.py target/size                # the functions
    make bench ARGS="--only tls" && scripts/record-bench.py         # calls over TLS
    make growth && scripts/record-bench.py target/growth            # growth, by counting

Each block

    <!-- report: Functions -->
    <!-- end of report -->

receives the section of the report with this title (up to its colon), under the command, commit, day and server of the run. A block
whose section the run lacks stays as it is. A run with the workloads A to E also becomes plan/src/recorded.txt, and each
docs/images/bench-X.svg becomes its X.svg. The sentences around the blocks are for a person: read them again.
"""

import argparse
import pathlib
import re
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(<!-- report: (.+?) -->\n).*?(<!-- end of report -->)", re.DOTALL)
WORKLOADS = {"A", "B", "C", "D", "L", "E"}
# The rows that a plan reads.
PLANNED = re.compile(r"^\| (?:scheme|\*\*ours|lua-queue pipelined)|^(?!\| )", re.MULTILINE)


class Report:
    def __init__(self, path):
        text = path.read_text()
        self.header, *rest = re.split(r"^## ", text, flags=re.MULTILINE)
        self.run = re.search(r"^- Run: (.+)$", self.header, re.MULTILINE)[1]
        # Such as "Valkey 9.1.2". None: the run counts, and is the same on each server.
        machine = re.search(r"^- Machine: .*; (\w+ [\w.]+)", self.header, re.MULTILINE)
        self.server = machine and machine[1]
        self.titles, self.sections = {}, {}
        for section in rest:
            title, text = section.split("\n", 1)
            name = title.split(":")[0]
            self.titles[name], self.sections[name] = title, text.strip()

    def is_whole(self):
        return WORKLOADS <= self.sections.keys()

    def planned(self):
        """The part of the report from which `hongbao-admin plan` takes its figures."""
        yield self.header.rstrip()
        for name in sorted(WORKLOADS - {"L"}):
            rows = [line for line in self.sections[name].splitlines() if PLANNED.match(line)]
            yield "\n".join([f"## {self.titles[name]}", "", *rows])


def arguments():
    parser = argparse.ArgumentParser(description="Puts the figures and charts of a benchmark run into docs/PERFORMANCE.md.")
    parser.add_argument("run", nargs="?", type=pathlib.Path, default=ROOT / "target/bench", help="the folder of the report")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="the folder of the repository")
    return parser.parse_args()


def main():
    given = arguments()
    report, docs = Report(given.run / "report.md"), given.root / "docs"
    if WORKLOADS & report.sections.keys() and not (report.is_whole() and report.server.startswith("Redis")):
        sys.exit(f"record-bench: the page has figures of a whole run on Redis, and the run in {given.run} is another one")

    def filled(block):
        before, title, after = block.groups()
        if title not in report.sections:
            return block[0]
        on = f", on {report.server}" if report.server else ""
        return f"{before}{report.run}{on}:\n\n{report.sections[title]}\n{after}"

    page = docs / "PERFORMANCE.md"
    page.write_text(BLOCK.sub(filled, page.read_text()))
    if report.is_whole():
        (given.root / "plan/src/recorded.txt").write_text("\n\n".join(report.planned()) + "\n")
        for chart in (docs / "images").glob("bench-*.svg"):
            drawn = given.run / chart.name.removeprefix("bench-")
            if drawn.exists():
                shutil.copy(drawn, chart)


if __name__ == "__main__":
    main()
