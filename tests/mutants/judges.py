"""What the judges of changes have in common: tests that run until one fails, the verdicts, and the table of them."""

import argparse
import contextlib
import fcntl
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from explained import parse

ROOT = Path(__file__).resolve().parents[2]
COMMON = {"REDIS_CONNECT_TIMEOUT_MS": "10000", "REDIS_RESPONSE_TIMEOUT_MS": "10000", "RUST_BACKTRACE": "0"}
FAILED, PASSED = re.compile(r"test (\S+) \.\.\. FAILED"), re.compile(r"test \S+ \.\.\. ok")

T = TypeVar("T")


class Failed(Exception):
    """What ends a program, other than its verdicts."""


@dataclass(frozen=True)
class Verdict:
    """`what` is noticed, timed out or survived. `by` is the test that failed."""

    what: str
    by: str
    seconds: float


running: set[int] = set()


def end(session: int) -> None:
    """Ends all processes of a session. Some of the tests' programs have a group of their own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(session, signal.SIGKILL)
    with contextlib.suppress(FileNotFoundError):
        subprocess.run(["pkill", "-KILL", "-s", str(session)], check=False)


def run(command: list[str], folder: Path, environment: dict[str, str], timeout_s: float) -> tuple[Verdict, str]:
    """Runs tests until one fails, or none ends for so long. Also returns what they said."""
    begun = last = time.monotonic()
    # The tests' servers are of their session, and end with it.
    process = subprocess.Popen(command, cwd=folder, env={**os.environ, **COMMON, **environment}, start_new_session=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    running.add(process.pid)
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    said: list[str] = []
    what, by = "noticed", ""
    try:
        while (line := lines.get(timeout=max(0, last + timeout_s - time.monotonic()))) is not None:
            said.append(line)
            if failed := FAILED.match(line):
                by = failed[1]
                break
            if PASSED.match(line):
                last = time.monotonic()
            if line.startswith("test result: ok"):
                what = "survived"
    except queue.Empty:
        what = "timed out"
    finally:
        end(process.pid)
        process.wait()
        running.discard(process.pid)
    if what == "noticed" and not by:
        by = f"the end: {said[-1].strip() if said else 'no word'}"
    return Verdict(what, by, time.monotonic() - begun), "".join(said)


def lock(folder: Path) -> None:
    """Makes a folder, which is this process' own until that ends."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        fcntl.flock(os.open(folder / "lock", os.O_CREAT | os.O_WRONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise Failed(f"another run works in {folder.relative_to(ROOT)}") from error


def options(about: str, which: str, example: str) -> argparse.ArgumentParser:
    """The options of a program that changes something. `which` is what a change belongs to."""
    parser = argparse.ArgumentParser(description=about.split("\n\n")[0])
    parser.add_argument("--shard", type=part_of, default=(0, 1), help="which part of the changes, as K/N: 0/20 to 19/20")
    parser.add_argument(f"--{which}", action="append", help=f"only those of this {which}, such as {example}")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="changes that are judged at once")
    parser.add_argument("--list", action="store_true", help="only list the changes")
    return parser


def explained_in(file: Path, keys: set[tuple[str, str, str]]) -> set[tuple[str, str, str]]:
    """The changes that this list explains. Each must be one of `keys`."""
    explained = {(entry.file, entry.before, entry.after) for entry in parse(file.read_text())}
    for source, before, after in sorted(explained - keys):
        raise Failed(f"{file.relative_to(ROOT)} explains a change that does not exist:\n{source}\n- {before}\n+ {after}")
    return explained


def part_of(text: str) -> tuple[int, int]:
    """Reads a shard, as K/N."""
    part, _, parts = text.partition("/")
    if not (part.isdigit() and parts.isdigit() and int(part) < int(parts)):
        raise argparse.ArgumentTypeError("shards are 0/N to N-1/N")
    return int(part), int(parts)


def each(changes: list[T], judge: Callable[[T], Verdict], workers: int, survived: Callable[[T], None]) -> dict[T, Verdict]:
    """The verdict about each change. Calls `survived` as soon as no test has noticed one."""
    verdicts: dict[T, Verdict] = {}
    begun = time.monotonic()

    def one(change: T) -> None:
        verdicts[change] = judge(change)
        if verdicts[change].what == "survived":
            survived(change)
        if len(verdicts) % 100 == 0:
            print(f"{len(verdicts)} of {len(changes)} changes in {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)

    at_once(workers, one, changes)
    return verdicts


def at_once(workers: int, task: Callable[[T], None], items: Iterable[T]) -> None:
    """Runs the task for each item. If one fails, all end, with their tests."""
    with ThreadPoolExecutor(workers) as pool:
        try:
            list(pool.map(task, items))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for session in list(running):
                end(session)
            raise


def selected(changes: list[T], which: Callable[[T], str], wanted: list[str] | None, part: tuple[int, int]) -> list[T]:
    """A part of the changes of what is wanted, or of all. `which` is what a change belongs to."""
    first, step = part
    # They come from everywhere in the list.
    found = [change for change in changes if not wanted or which(change) in wanted][first::step]
    if not found:
        raise Failed(f"there is no such change; there are changes of {', '.join(sorted(set(map(which, changes))))}")
    return found


def report(title: str, verdicts: dict[T, Verdict], which: Callable[[T], str], explained: set[T], columns: list[str], folder: Path) -> int:
    """Prints a line for each of what the changes belong to. Returns the exit code: 1 if a survivor is not explained."""
    rows: dict[str, Counter[str]] = {}
    for change, verdict in verdicts.items():
        is_unexplained = verdict.what == "survived" and change not in explained
        rows.setdefault(which(change), Counter()).update(["changes", verdict.what, *["unexplained"] * is_unexplained])
    print_table(title, dict(sorted(rows.items())), ["changes", *columns, "noticed", "timed out", "survived", "unexplained"])
    for change in explained & verdicts.keys():
        if verdicts[change].what in ("noticed", "timed out"):
            print(f"\nexplained, but noticed by {verdicts[change].by or 'the time'}\n{change}")
    write_details(verdicts, folder / "verdicts.txt")
    print(f"\neach verdict: {(folder / 'verdicts.txt').relative_to(ROOT)}")
    return 1 if any(row["unexplained"] for row in rows.values()) else 0


def start(name: str, main: Callable[[], int]) -> None:
    """Runs a program. The tests that it has started end with it."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    try:
        sys.exit(main())
    except Failed as failed:
        sys.exit(f"{name}: {failed}")


def print_table(title: str, rows: dict[str, Counter[str]], columns: list[str]) -> None:
    """Prints a line for each row, and their sums."""
    total: Counter[str] = Counter()
    width = max(map(len, [title, *rows])) + 2
    print(f"{title:<{width}}" + "".join(f"{column:>18}" for column in columns))
    for name, figures in rows.items():
        print(f"{name:<{width}}" + "".join(f"{figures[column]:>18}" for column in columns))
        total += figures
    print(f"{'all':<{width}}" + "".join(f"{total[column]:>18}" for column in columns))


def write_details(verdicts: dict[T, Verdict], file: Path) -> None:
    """Writes each verdict, those about changes that nobody noticed first."""
    order = sorted(verdicts.items(), key=lambda item: (item[1].what != "survived", item[1].what))
    lines = [f"{change}\n= {verdict.what} in {verdict.seconds:.1f} s {verdict.by}".rstrip() + "\n" for change, verdict in order]
    file.write_text("\n".join(lines))
