"""Changes the Lua scripts in small ways, one at a time, and lists the changes that no test notices.

    mutants.py                        every change of every script
    mutants.py --shard 3/20           the fourth twentieth of them: 0/20 is the first
    mutants.py --script grab.lua      those of one script
    mutants.py --list                 only lists them

A script's text lies in the programs that call it, word for word. So a change needs no build and no door in the product: this program
writes it into a copy of the program, over the text. The changed script has as many bytes, since its first comment gives way.

The judges are the tests of the scripts on a real server, on one node, with fixed seeds, and for the operator's scripts those of
hongbao-admin. The first test that fails ends a run. explained.txt lists the changes that no test need notice. The exit code is 1 if
there is another one, or if the list has a change that does not exist.
"""

import argparse
import contextlib
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from changes import Change, changes, fitted
from explained import parse

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "target" / "mutants-lua"
EXPLAINED = Path(__file__).with_name("explained.txt")
HOT, ADMIN = ROOT / "shared/src/redis/lua", ROOT / "admin/src"
SCRIPTS = [*sorted(HOT.glob("*.lua")), *sorted(ADMIN.glob("*.lua"))]

# One server is enough: a cluster runs the same script.
JUDGES = {
    HOT: ["scripts::", "--skip", "on_a_cluster", "--skip", "scripts::keys"],
    ADMIN: ["admin::a_packet", "admin::a_rebuil"],
}
FAILED = re.compile(r"test (\S+) \.\.\. FAILED")

ENVIRONMENT = {
    # One node, and fewer random cases, the same each time: see tests/it/scripts.rs.
    "HONGBAO_TEST_SCRIPTS_SEED": "1",
    "REDIS_CONNECT_TIMEOUT_MS": "10000",
    "REDIS_RESPONSE_TIMEOUT_MS": "10000",
    "RUST_TEST_THREADS": "3",
    "RUST_BACKTRACE": "0",
}
# A changed script may run for ever. The tests wait for a server for ten seconds; many do so one after the other.
SLOWER_MAX = 5
TIMEOUT_LEAST_S = 60
# What a test says if its servers do not start, whatever the script. The verdict then counts for nothing.
NO_SERVER = ("gave up waiting for", "does not start", "does not answer")
TRIES = 3


@dataclass(frozen=True)
class Mutant:
    script: Path
    change: Change

    def key(self) -> tuple[str, str, str]:
        return self.script.name, self.change.before, self.change.after

    def __str__(self) -> str:
        return f"{self.script.relative_to(ROOT)}:{self.change.line}\n- {self.change.before}\n+ {self.change.after}".rstrip()


@dataclass(frozen=True)
class Verdict:
    """`what` is noticed, timed out or survived. `by` is the test that failed."""

    what: str
    by: str
    seconds: float


class Bench:
    """A folder like target/debug. It has copies of the programs that a worker changes, and the tests that judge them."""

    def __init__(self, number: int, tests: Path):
        self.folder = WORK / str(number)
        self.temporary = self.folder / "tmp"
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "debug/deps").mkdir(parents=True)
        # The tests find programs of the same build beside their folder.
        built = tests.parent.parent
        self.tests, self.admin = self.folder / "debug/deps/it", self.folder / "debug/hongbao-admin"
        for program in built.iterdir():
            if program.is_file() and os.access(program, os.X_OK) and program.name != self.admin.name:
                (self.folder / "debug" / program.name).symlink_to(program)
        shutil.copy2(tests, self.tests)
        shutil.copy2(built / self.admin.name, self.admin)
        programs = {HOT: self.tests, ADMIN: self.admin}
        self.programs = {script: programs[script.parent] for script in SCRIPTS}
        self.places = {script: places_of(script.read_bytes(), program) for script, program in self.programs.items()}
        self.timeout_s: dict[Path, float] = {}

    def prove(self, homes: set[Path]) -> None:
        """Without a change every test passes, or its verdicts mean nothing. How long that takes gives the limit for a change."""
        for home in sorted(homes):
            verdict = self.judge(home, 10 * TIMEOUT_LEAST_S)
            if verdict.what != "survived":
                raise Failed(f"no script is changed, and still: {verdict.what}, {verdict.by}")
            self.timeout_s[home] = max(TIMEOUT_LEAST_S, SLOWER_MAX * verdict.seconds)

    def verdict(self, mutant: Mutant) -> Verdict:
        script, home = mutant.script.read_text(), mutant.script.parent
        self.write(mutant.script, fitted(script, mutant.change))
        try:
            return self.judge(home, self.timeout_s[home])
        finally:
            self.write(mutant.script, script)

    def write(self, script: Path, text: str) -> None:
        for _ in range(100):
            # A process that was just killed may hold its program a little longer.
            with contextlib.suppress(OSError), open(self.programs[script], "r+b") as file:
                for place in self.places[script]:
                    file.seek(place)
                    file.write(text.encode())
                return
            time.sleep(0.05)
        raise Failed(f"{self.programs[script]} can't be written")

    def judge(self, home: Path, timeout_s: float) -> Verdict:
        for _ in range(TRIES):
            shutil.rmtree(self.temporary, ignore_errors=True)
            self.temporary.mkdir()
            environment = {**os.environ, **ENVIRONMENT, "TMPDIR": str(self.temporary)}
            verdict, said = run([str(self.tests), "--nocapture", *JUDGES[home]], environment, timeout_s)
            if not any(complaint in said for complaint in NO_SERVER):
                return verdict
        raise Failed("the tests' servers do not start")


class Failed(Exception):
    """What ends this program, other than its verdicts."""


def places_of(text: bytes, program: Path) -> list[int]:
    """Where a program has a script's text."""
    data, places = program.read_bytes(), []
    place = data.find(text)
    while place >= 0:
        places.append(place)
        place = data.find(text, place + 1)
    if not places:
        raise Failed(f"{program} does not have the text of a script")
    return places


running: set[int] = set()


def end(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def run(command: list[str], environment: dict[str, str], timeout_s: float) -> tuple[Verdict, str]:
    """Runs tests until one fails. Also returns what they said."""
    begun = time.monotonic()
    # The tests' servers are of their group, and end with it.
    process = subprocess.Popen(command, cwd=ROOT / "tests", env=environment, start_new_session=True,
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
        while (line := lines.get(timeout=max(0, begun + timeout_s - time.monotonic()))) is not None:
            said.append(line)
            if failed := FAILED.match(line):
                by = failed[1]
                break
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


def built_tests() -> Path:
    """Builds the tests as `make test` does. Returns their program."""
    build = ["cargo", "test", "--workspace", "--test", "it", "--no-run", "--message-format=json-render-diagnostics"]
    output = subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    messages = (json.loads(line) for line in output.splitlines())
    programs = [Path(message["executable"]) for message in messages
                if message["reason"] == "compiler-artifact" and message["executable"] and message["target"]["name"] == "it"]
    return programs[0]


def shard(mutants: list, part: int, parts: int) -> list:
    """A part of the list, from everywhere in it."""
    return mutants[part::parts]


def judged(mutants: list[Mutant], tests: Path, workers: int, explained: set[tuple[str, str, str]]) -> dict[Mutant, Verdict]:
    benches: queue.Queue[Bench] = queue.Queue()
    verdicts: dict[Mutant, Verdict] = {}
    begun = time.monotonic()

    def judge(mutant: Mutant) -> None:
        bench = benches.get()
        try:
            verdicts[mutant] = bench.verdict(mutant)
        finally:
            benches.put(bench)
        if verdicts[mutant].what == "survived" and mutant.key() not in explained:
            print(f"no test notices\n{mutant}\n", flush=True)
        if len(verdicts) % 100 == 0:
            print(f"{len(verdicts)} of {len(mutants)} changes in {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)

    with ThreadPoolExecutor(workers) as pool:
        try:
            made = [Bench(number, tests) for number in range(workers)]
            homes = {mutant.script.parent for mutant in mutants}
            list(pool.map(lambda bench: bench.prove(homes), made))
            for bench in made:
                benches.put(bench)
            list(pool.map(judge, mutants))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for group in list(running):
                end(group)
            raise
    return verdicts


def report(verdicts: dict[Mutant, Verdict], explained: set[tuple[str, str, str]]) -> int:
    """Prints a line for each script. Returns how many survivors the list does not explain."""
    columns = ["changes", "noticed", "timed out", "survivors", "unexplained"]
    print(f"{'script':<15}" + "".join(f"{column:>13}" for column in columns))
    unexplained = [mutant for mutant, verdict in verdicts.items() if verdict.what == "survived" and mutant.key() not in explained]
    total: Counter[str] = Counter()
    for script in SCRIPTS:
        whats = Counter(verdict.what for mutant, verdict in verdicts.items() if mutant.script == script)
        figures = Counter({"changes": whats.total(), "noticed": whats["noticed"], "timed out": whats["timed out"],
                           "survivors": whats["survived"], "unexplained": sum(mutant.script == script for mutant in unexplained)})
        if figures["changes"]:
            print(f"{script.name:<15}" + "".join(f"{figures[column]:>13}" for column in columns))
        total += figures
    print(f"{'all':<15}" + "".join(f"{total[column]:>13}" for column in columns))
    return len(unexplained)


def write_details(verdicts: dict[Mutant, Verdict]) -> Path:
    """Writes each verdict, in the order of the scripts, those that nobody noticed first."""
    order = sorted(verdicts.items(), key=lambda item: (item[1].what != "survived", item[1].what, item[0].script, item[0].change.start))
    lines = [f"{mutant}\n= {verdict.what} in {verdict.seconds:.1f} s {verdict.by}".rstrip() + "\n" for mutant, verdict in order]
    file = WORK / "verdicts.txt"
    file.write_text("\n".join(lines))
    return file


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--shard", default="0/1", help="which part of the changes, as K/N: 0/20 to 19/20")
    options.add_argument("--script", action="append", help="only those of this script, such as grab.lua")
    options.add_argument("--workers", type=int, default=os.cpu_count(), help="changes that are judged at once")
    options.add_argument("--list", action="store_true", help="only list the changes")
    asked = options.parse_args()
    part, parts = (int(number) for number in asked.shard.split("/"))
    everything = [Mutant(script, change) for script in SCRIPTS for change in changes(script.read_text())]
    explained = {(entry.script, entry.before, entry.after) for entry in parse(EXPLAINED.read_text())}
    if unknown := explained - {mutant.key() for mutant in everything}:
        for script, before, after in sorted(unknown):
            print(f"{EXPLAINED.relative_to(ROOT)} explains a change that does not exist:\n{script}\n- {before}\n+ {after}")
        return 1
    mutants = shard([mutant for mutant in everything if not asked.script or mutant.script.name in asked.script], part, parts)
    if asked.list:
        print(*mutants, sep="\n\n")
        return 0
    verdicts = judged(mutants, built_tests(), min(asked.workers, len(mutants)), explained)
    unexplained = report(verdicts, explained)
    noticed = [mutant for mutant, verdict in verdicts.items() if verdict.what != "survived" and mutant.key() in explained]
    for mutant in noticed:
        print(f"\nexplained, but noticed by {verdicts[mutant].by or 'the time'}\n{mutant}")
    print(f"\neach verdict: {write_details(verdicts).relative_to(ROOT)}")
    return 1 if unexplained else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        sys.exit(main())
    except Failed as failed:
        sys.exit(f"mutants-lua: {failed}")
