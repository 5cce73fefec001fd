#!/usr/bin/env python3
"""Puts the figures and charts of a benchmark run into the documents.

    make bench && scripts/record-bench.py                           # from target/bench
    make bench ARGS="--only A,B,C,D --rounds 9 --scheme 'lua-queue pipelined;ours'" && scripts/record-bench.py
    make bench SERVER=valkey ARGS="--only A,B,C,D --rounds 9 --scheme 'lua-queue pipelined;ours'" && scripts/record-bench.py target/bench-valkey
    make size && scripts/record-bench.py target/size                # the functions
    make bench ARGS="--only tls,million" && scripts/record-bench.py # calls over TLS, and a rush over nodes and processes
    make growth && scripts/record-bench.py target/growth            # growth, by counting

In docs/PERFORMANCE.md and docs/SCALE.md each block

    <!-- report: Functions -->
    <!-- end of report -->

receives the section of the report with this title (up to its colon), under the command, commit, day and server of the run. A block
whose section the run lacks stays as it is. A run with the workloads A to E also becomes docs/benchmarks/REPORT.md, and each
docs/images/bench-X.svg becomes its X.svg. The sentences around the blocks are for a person: read them again.

A run with A to D, and no more, compares servers. It becomes docs/benchmarks/REPORT-redis.md or REPORT-valkey.md, and changes no other figure. From
both of these comes the block

    <!-- both servers -->
    <!-- end of both servers -->
"""

import argparse
import pathlib
import re
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(<!-- report: (.+?) -->\n).*?(<!-- end of report -->)", re.DOTALL)
BOTH = re.compile(r"(<!-- both servers -->\n).*?(<!-- end of both servers -->)", re.DOTALL)
WORKLOADS = {"A", "B", "C", "D", "L", "E"}
COMPARED = {"A", "B", "C", "D"}
# The sections with this engine beside lua-queue, and the mode that each is of.
BESIDE = {"One user a call": "one user a call", "Collected calls": "collected"}
# Their columns after a row's name that stand side by side.
WIDTH = 8
COLUMNS = {0: "grabs/s", 3: "CPU µs", 2: "÷ lua-queue's grabs/s", 5: "÷ its CPU"}


class Report:
    def __init__(self, path):
        self.text = path.read_text()
        header, *rest = re.split(r"^## ", self.text, flags=re.MULTILINE)
        self.run = re.search(r"^- Run: (.+)$", header, re.MULTILINE)[1]
        # Such as "Valkey 9.1.2". None: the run counts, and is the same on each server.
        machine = re.search(r"^- Machine: .*; (\w+ [\w.]+)", header, re.MULTILINE)
        self.server = machine and machine[1]
        self.sections = {}
        for section in rest:
            title, text = section.split("\n", 1)
            self.sections[title.split(":")[0]] = text.strip()

    def is_whole(self):
        return WORKLOADS <= self.sections.keys()

    def compares_servers(self):
        return WORKLOADS & self.sections.keys() == COMPARED and {*BESIDE, "Goals"} <= self.sections.keys()

    def rows(self, section):
        """The table's rows by their names: cells as text."""
        table = [line for line in self.sections[section].splitlines() if line.startswith("| ") and not line.startswith("| |")]
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
        return {name: figures for name, *figures in cells}


def beside_each_other(redis, valkey):
    """The block with the figures of both servers."""
    for report in (redis, valkey):
        yield f"- {report.server}: {report.run}"
    yield ""
    servers = [redis.server.split()[0], valkey.server.split()[0]]
    heads = [f"{server}: {what}" for what in COLUMNS.values() for server in servers]
    yield "| | " + " | ".join(heads) + " |"
    yield "|---|" + "---:|" * len(heads)
    for section, mode in BESIDE.items():
        tables = [report.rows(section) for report in (redis, valkey)]
        assert all(len(row) == WIDTH for table in tables for row in table.values()), f"{section} has other columns than this script knows"
        for name in (name for name in tables[0] if name in tables[1]):
            cells = [table[name][column] for column in COLUMNS for table in tables]
            yield f"| {name}, {mode} | " + " | ".join(cells) + " |"
    yield ""
    yield "| goal | bound | " + " | ".join(servers) + " |"
    yield "|---|---:|---:|---:|"
    goals = [report.rows("Goals") for report in (redis, valkey)]
    for name in (name for name in goals[0] if name in goals[1] and name != "goal"):
        values = [f"**{value}**" if met.strip("*") == "no" else value for _, value, met in (table[name] for table in goals)]
        yield f"| {name} | {goals[0][name][0]} | " + " | ".join(values) + " |"


def arguments():
    parser = argparse.ArgumentParser(description="Puts the figures and charts of a benchmark run into the documents.")
    parser.add_argument("run", nargs="?", type=pathlib.Path, default=ROOT / "target/bench", help="the folder of the report")
    parser.add_argument("--docs", type=pathlib.Path, default=ROOT / "docs", help="the folder of the documents")
    return parser.parse_args()


def main():
    given = arguments()
    report = Report(given.run / "report.md")
    if report.is_whole() and not report.server.startswith("Redis"):
        sys.exit(f"record-bench: the figures of the pages are of Redis, and the run in {given.run} was made on {report.server}")
    if not report.compares_servers():
        if BESIDE.keys() & report.sections.keys() and not report.is_whole():
            sys.exit(f"record-bench: the run in {given.run} has only some of the workloads A to D, or of A to E")
        return record(report, given.run, given.docs)
    of_server = given.docs / "benchmarks"
    (of_server / f"REPORT-{report.server.split()[0].lower()}.md").write_text(report.text)
    reports = [of_server / name for name in ("REPORT-redis.md", "REPORT-valkey.md")]
    if all(path.exists() for path in reports):
        both = "\n".join(beside_each_other(*map(Report, reports)))
        page = given.docs / "PERFORMANCE.md"
        page.write_text(BOTH.sub(lambda block: f"{block[1]}{both}\n{block[2]}", page.read_text()))


def record(report, run, docs):
    def filled(block):
        before, title, after = block.groups()
        if title not in report.sections:
            return block[0]
        on = f", on {report.server}" if report.server else ""
        return f"{before}{report.run}{on}:\n\n{report.sections[title]}\n{after}"

    for page in [docs / "PERFORMANCE.md", docs / "SCALE.md"]:
        page.write_text(BLOCK.sub(filled, page.read_text()))
    if report.is_whole():
        (docs / "benchmarks/REPORT.md").write_text(report.text)
        for chart in (docs / "images").glob("bench-*.svg"):
            drawn = run / chart.name.removeprefix("bench-")
            if drawn.exists():
                shutil.copy(drawn, chart)


if __name__ == "__main__":
    main()
