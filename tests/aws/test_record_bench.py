"""scripts/record-bench.py puts the figures of a run where they belong. The figures here are made up, in scratch copies."""

import shutil
import subprocess
import sys

import pytest
from transformed import ROOT


@pytest.fixture
def copy(tmp_path):
    for name in ("docs/PERFORMANCE.md", "docs/images/bench-a-throughput.svg", "plan/src/recorded.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def run_of(folder, server="Redis 7.0.15", workloads="ABCDLE"):
    text = f"# Report\n\n- Run: `make bench`, commit `abc`, 2026-01-31\n- Machine: X, 2 logical processors; {server}, on a processor\n"
    text += "\n## One user a call\n\n| made up |\n"
    for name in workloads:
        text += f"\n## {name}: title\n\n| scheme | grabs/s |\n|---|---:|\n| no-lock | 1 |\n| **ours, one user a call** | {name} of {server} |\n"
    run = folder / "run"
    run.mkdir()
    (run / "report.md").write_text(text)
    (run / "a-throughput.svg").write_text("a chart")
    return run


def record(copy, run):
    return subprocess.run([sys.executable, ROOT / "scripts/record-bench.py", "--root", copy, run], capture_output=True, text=True)


def test_a_whole_run_fills_the_page_and_the_plan_and_draws_the_charts(copy, tmp_path):
    done = record(copy, run_of(tmp_path))
    assert done.returncode == 0, done.stderr
    page = (copy / "docs/PERFORMANCE.md").read_text()
    assert "<!-- report: One user a call -->\n`make bench`, commit `abc`, 2026-01-31, on Redis 7.0.15:\n\n| made up |\n<!-- end" in page
    assert "| L of Redis 7.0.15 |" in page
    planned = (copy / "plan/src/recorded.txt").read_text()
    assert planned.endswith("## E: title\n\n| scheme | grabs/s |\n|---|---:|\n| **ours, one user a call** | E of Redis 7.0.15 |\n")
    assert "- Run: `make bench`, commit `abc`" in planned and "no-lock" not in planned
    assert (copy / "docs/images/bench-a-throughput.svg").read_text() == "a chart"


@pytest.mark.parametrize("given", [{"server": "Valkey 9.1.2"}, {"workloads": "A"}, {"workloads": "ABCDL"}], ids=str)
def test_a_run_that_would_mix_figures_is_refused(copy, tmp_path, given):
    contents = lambda: {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    run, before = run_of(tmp_path, **given), contents()
    done = record(copy, run)
    assert (done.returncode, done.stderr.count("record-bench: the page has figures of a whole run on Redis")) == (1, 1)
    after = contents()
    assert {path: after[path] for path in before} == before


def test_a_run_that_counts_names_no_server(copy, tmp_path):
    run = tmp_path / "growth"
    run.mkdir()
    title = "Growth by the slips of a packet"
    (run / "report.md").write_text(f"# Growth\n\n- Run: `make growth`, commit `abc`, 2026-01-31\n\n## {title}\n\n| counted |\n")
    assert record(copy, run).returncode == 0
    assert f"<!-- report: {title} -->\n`make growth`, commit `abc`, 2026-01-31:\n\n| counted |\n<!-- end" in (copy / "docs/PERFORMANCE.md").read_text()
