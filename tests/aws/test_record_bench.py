"""scripts/record-bench.py puts the figures of each server where they belong. The figures here are made up, in scratch copies."""

import shutil
import subprocess
import sys

import pytest
from transformed import ROOT

BESIDE = """
## {title}

| | ours, grabs/s | lua-queue, grabs/s | ratio | ours, Redis CPU µs | lua-queue, Redis CPU µs | ratio | ours, p50 ms | ours, p99 ms |
|---|---:|---:|---:|---:|---:|---:|---:|---:|
| A, 20 under way | {ours} | 2,000 | {ratio} | 5.0 | 10.0 | 0.50 | 1.0 | 2.0 |
"""


GOALS = """
## Goals

| goal | bound | value | met |
|---|---:|---:|---|
| A: grabs/s | ≥ 1.4 | {ratio} (1.00–1.50) | {met} |
"""


@pytest.fixture
def docs(tmp_path):
    for name in ("PERFORMANCE.md", "SCALE.md", "benchmarks", "images"):
        copy = shutil.copytree if (ROOT / "docs" / name).is_dir() else shutil.copy
        copy(ROOT / "docs" / name, tmp_path / name)
    for report in (tmp_path / "benchmarks").glob("REPORT-*.md"):
        report.unlink()
    return tmp_path


def run_of(folder, server, command, ours, ratio, met="yes", workloads="ABCD"):
    text = f"# Report\n\n- Run: `{command}`, commit `abc`, 2026-01-31\n- Machine: X, 2 logical processors; {server}, on a processor\n"
    for title in ("One user a call", "Collected calls"):
        text += BESIDE.format(title=title, ours=ours, ratio=ratio)
    text += "".join(f"\n## {name}: title\n\n| {name} of {server} |\n" for name in workloads)
    text += GOALS.format(ratio=ratio, met=met)
    folder.mkdir()
    (folder / "report.md").write_text(text)
    (folder / "a-throughput.svg").write_text("a chart")
    return folder


def script(docs, run):
    return subprocess.run([sys.executable, ROOT / "scripts/record-bench.py", "--docs", docs, run], capture_output=True, text=True)


def record(docs, run):
    done = script(docs, run)
    assert done.returncode == 0, done.stderr


def contents(docs):
    return {path: path.read_bytes() for path in docs.rglob("*") if path.is_file()}


def around_the_block(page):
    before, block = page.read_text().split("<!-- both servers -->\n")
    block, after = block.split("<!-- end of both servers -->")
    return before, block, after


def on_redis(folder, **workloads):
    return run_of(folder / "redis", "Redis 7.0.15", "make bench", "2,222", "1.11", "**no**", **workloads)


def on_valkey(folder, **workloads):
    return run_of(folder / "valkey", "Valkey 9.1.2", "make bench SERVER=valkey", "1,111", "1.56", **workloads)


@pytest.mark.parametrize("order", [(on_redis, on_valkey), (on_valkey, on_redis)])
def test_both_servers_stand_side_by_side_whichever_is_recorded_last(docs, tmp_path, order):
    page = docs / "PERFORMANCE.md"
    before, old, after = around_the_block(page)
    charts = {path: path.read_bytes() for path in (docs / "images").iterdir()}
    record(docs, order[0](tmp_path))
    assert around_the_block(page) == (before, old, after), "the other server's run is missing"
    record(docs, order[1](tmp_path))
    assert (around_the_block(page)[0], around_the_block(page)[2]) == (before, after)
    block = around_the_block(page)[1]
    assert "- Valkey 9.1.2: `make bench SERVER=valkey`, commit `abc`, 2026-01-31\n" in block
    assert "| A, 20 under way, one user a call | 2,222 | 1,111 | 5.0 | 5.0 | 1.11 | 1.56 | 0.50 | 0.50 |" in block
    assert "| A, 20 under way, collected | 2,222 | 1,111 |" in block
    assert "| A: grabs/s | ≥ 1.4 | **1.11 (1.00–1.50)** | 1.56 (1.00–1.50) |" in block
    assert "Valkey 9.1.2" in (docs / "benchmarks/REPORT-valkey.md").read_text()
    assert {path: path.read_bytes() for path in (docs / "images").iterdir()} == charts


def test_a_whole_run_fills_the_pages_and_draws_the_charts(docs, tmp_path):
    run = on_redis(tmp_path, workloads="ABCDLE")
    record(docs, run)
    text = (docs / "PERFORMANCE.md").read_text()
    assert "`make bench`, commit `abc`, 2026-01-31, on Redis 7.0.15:\n\n| | ours, grabs/s" in text
    assert "| L of Redis 7.0.15 |" in text
    assert "L of Redis" in (docs / "benchmarks/REPORT.md").read_text()
    assert not (docs / "benchmarks/REPORT-redis.md").exists()
    assert (docs / "images/bench-a-throughput.svg").read_text() == "a chart"


@pytest.mark.parametrize("run, says", [
    (lambda folder: on_valkey(folder, workloads="ABCDLE"), "the figures of the pages are of Redis, and the run in {} was made on Valkey 9.1.2"),
    (lambda folder: on_redis(folder, workloads="A"), "the run in {} has only some of the workloads A to D, or of A to E"),
    (lambda folder: on_redis(folder, workloads="ABCDL"), "the run in {} has only some of the workloads A to D, or of A to E"),
])
def test_a_run_that_would_mix_figures_is_refused(docs, tmp_path, run, says):
    folder, before = run(tmp_path), contents(docs / "benchmarks")
    done = script(docs, folder)
    assert (done.returncode, done.stderr) == (1, f"record-bench: {says.format(folder)}\n")
    assert contents(docs / "benchmarks") == before


def test_a_run_that_counts_names_no_server(docs, tmp_path):
    run = tmp_path / "growth"
    run.mkdir()
    title = "Growth by the readers of a packet"
    (run / "report.md").write_text(f"# Growth\n\n- Run: `make growth`, commit `abc`, 2026-01-31\n\n## {title}\n\n| counted |\n")
    record(docs, run)
    assert f"<!-- report: {title} -->\n`make growth`, commit `abc`, 2026-01-31:\n\n| counted |\n<!-- end" in (docs / "SCALE.md").read_text()
