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


@pytest.fixture
def docs(tmp_path):
    for name in ("PERFORMANCE.md", "SCALE.md", "benchmarks", "images"):
        copy = shutil.copytree if (ROOT / "docs" / name).is_dir() else shutil.copy
        copy(ROOT / "docs" / name, tmp_path / name)
    (tmp_path / "benchmarks/REPORT-valkey.md").unlink(missing_ok=True)
    return tmp_path


def run_of(folder, server, command, ours, ratio):
    text = f"# Report\n\n- Run: `{command}`, commit `abc`, 2026-01-31\n- Machine: X, 2 logical processors; {server}, on a processor\n"
    for title in ("One user a call", "Collected calls"):
        text += BESIDE.format(title=title, ours=ours, ratio=ratio)
    text += "".join(f"\n## {name}: title\n\n| {name} of {server} |\n" for name in "ABCDLE")
    folder.mkdir()
    (folder / "report.md").write_text(text)
    return folder


def record(docs, run, *flags):
    script = [sys.executable, ROOT / "scripts/record-bench.py", "--docs", docs, *flags, run]
    return subprocess.run(script, capture_output=True, text=True)


def test_both_servers_stand_side_by_side_whichever_is_recorded_last(docs, tmp_path):
    valkey = run_of(tmp_path / "valkey", "Valkey 9.1.2", "make bench SERVER=valkey", "1,111", "0.56")
    page = docs / "PERFORMANCE.md"
    before = page.read_text()
    done = record(docs, valkey, "--server", "valkey")
    assert done.returncode == 0, done.stderr
    block = page.read_text().split("<!-- both servers -->\n")[1].split("<!-- end of both servers -->")[0]
    assert "- Valkey 9.1.2: `make bench SERVER=valkey`, commit `abc`, 2026-01-31\n" in block
    outside = page.read_text().replace(block, "")
    assert outside == before.replace(before.split("<!-- both servers -->\n")[1].split("<!-- end of both servers -->")[0], "")
    assert "Valkey 9.1.2" in (docs / "benchmarks/REPORT-valkey.md").read_text()

    redis = run_of(tmp_path / "redis", "Redis 7.0.15", "make bench", "2,222", "1.11")
    done = record(docs, redis)
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    assert "| A, 20 under way, one user a call | 2,222 | 1,111 | 5.0 | 5.0 | 1.11 | 0.56 | 0.50 | 0.50 |" in text
    assert "| A, 20 under way, collected | 2,222 | 1,111 |" in text
    assert "`make bench`, commit `abc`, 2026-01-31, on Redis 7.0.15:\n\n| | ours, grabs/s" in text
    assert "L of Valkey" not in text and "L of Redis" in text


def test_a_run_on_the_other_server_is_refused(docs, tmp_path):
    valkey = run_of(tmp_path / "valkey", "Valkey 9.1.2", "make bench SERVER=valkey", "1,111", "0.56")
    before = {path: path.read_bytes() for path in docs.rglob("*") if path.is_file()}
    done = record(docs, valkey)
    assert done.returncode == 1
    assert done.stderr == f"record-bench: the run in {valkey} was made on Valkey 9.1.2, not on redis: give the right --server\n"
    assert {path: path.read_bytes() for path in docs.rglob("*") if path.is_file()} == before


def test_a_run_that_counts_names_no_server(docs, tmp_path):
    run = tmp_path / "growth"
    run.mkdir()
    title = "Growth by the readers of a packet"
    (run / "report.md").write_text(f"# Growth\n\n- Run: `make growth`, commit `abc`, 2026-01-31\n\n## {title}\n\n| counted |\n")
    done = record(docs, run)
    assert done.returncode == 0, done.stderr
    assert f"<!-- report: {title} -->\n`make growth`, commit `abc`, 2026-01-31:\n\n| counted |\n<!-- end" in (docs / "SCALE.md").read_text()
