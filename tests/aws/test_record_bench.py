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
    return folder


def record(docs, run):
    script = [sys.executable, ROOT / "scripts/record-bench.py", "--docs", docs, run]
    done = subprocess.run(script, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def both_servers(page):
    return page.read_text().split("<!-- both servers -->\n")[1].split("<!-- end of both servers -->")[0]


def test_both_servers_stand_side_by_side_whichever_is_recorded_last(docs, tmp_path):
    page = docs / "PERFORMANCE.md"
    before = page.read_text()
    record(docs, run_of(tmp_path / "redis", "Redis 7.0.15", "make bench", "2,222", "1.11", "**no**"))
    assert page.read_text() == before, "Valkey's run is missing"
    record(docs, run_of(tmp_path / "valkey", "Valkey 9.1.2", "make bench SERVER=valkey", "1,111", "1.56"))
    block = both_servers(page)
    assert "- Valkey 9.1.2: `make bench SERVER=valkey`, commit `abc`, 2026-01-31\n" in block
    assert "| A, 20 under way, one user a call | 2,222 | 1,111 | 5.0 | 5.0 | 1.11 | 1.56 | 0.50 | 0.50 |" in block
    assert "| A, 20 under way, collected | 2,222 | 1,111 |" in block
    assert "| A: grabs/s | ≥ 1.4 | **1.11 (1.00–1.50)** | 1.56 (1.00–1.50) |" in block
    assert "Valkey 9.1.2" in (docs / "benchmarks/REPORT-valkey.md").read_text()


def test_a_comparison_of_servers_changes_no_other_figure(docs, tmp_path):
    record(docs, run_of(tmp_path / "valkey", "Valkey 9.1.2", "make bench SERVER=valkey", "1,111", "1.56"))
    before = {path: path.read_text() for path in docs.rglob("*.md")}
    record(docs, run_of(tmp_path / "redis", "Redis 7.0.15", "make bench", "2,222", "1.11"))
    page = docs / "PERFORMANCE.md"
    for path, text in before.items():
        after = path.read_text()
        assert after == text or path == page and after.replace(both_servers(page), "") in text.replace(text.split("<!-- both servers -->\n")[1].split("<!-- end of both")[0], ""), path


def test_a_whole_run_fills_the_pages(docs, tmp_path):
    record(docs, run_of(tmp_path / "redis", "Redis 7.0.15", "make bench", "2,222", "1.11", workloads="ABCDLE"))
    text = (docs / "PERFORMANCE.md").read_text()
    assert "`make bench`, commit `abc`, 2026-01-31, on Redis 7.0.15:\n\n| | ours, grabs/s" in text
    assert "| L of Redis 7.0.15 |" in text
    assert "L of Redis" in (docs / "benchmarks/REPORT.md").read_text()
    assert not (docs / "benchmarks/REPORT-redis.md").exists()


def test_a_run_that_counts_names_no_server(docs, tmp_path):
    run = tmp_path / "growth"
    run.mkdir()
    title = "Growth by the readers of a packet"
    (run / "report.md").write_text(f"# Growth\n\n- Run: `make growth`, commit `abc`, 2026-01-31\n\n## {title}\n\n| counted |\n")
    record(docs, run)
    assert f"<!-- report: {title} -->\n`make growth`, commit `abc`, 2026-01-31:\n\n| counted |\n<!-- end" in (docs / "SCALE.md").read_text()
