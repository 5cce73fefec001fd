"""Changes the Lua scripts in small ways, one at a time, and lists the changes that no test notices.

    make mutants-lua                             every change of every script
    make mutants-lua SHARD=3/20                  the fourth twentieth of them: 0/20 is the first
    make mutants-lua ARGS="--script grab.lua"    those of one script
    make mutants-lua ARGS=--list                 only lists them

A script's text lies in the programs that call it, word for word. So a change needs no build and no door in the product: this program
writes it into a copy of the program, over the text. The changed script has as many bytes, since its first comment gives way.

The judges are the tests of the scripts on a real server, on one node, with fixed seeds, and for the operator's scripts those of
hongbao-admin. The first test that fails ends a run. explained-lua.txt lists the changes that no test need notice. The exit code is 1 if
there is another one, or if the list has a change that does not exist.
"""

import contextlib
import json
import os
import queue
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from judges import ROOT, Failed, Verdict, at_once, each, explained_in, lock, options, report, run, selected, start
from lua import changes, fitted
from texts import TextChange

WORK = ROOT / "target" / "mutants-lua"
EXPLAINED = Path(__file__).with_name("explained-lua.txt")
HOT, ADMIN = ROOT / "shared/src/redis/lua", ROOT / "admin/src"
SCRIPTS = [*sorted(HOT.glob("*.lua")), *sorted(ADMIN.glob("*.lua"))]

# One server is enough: a cluster runs the same script.
JUDGES = {
    HOT: ["scripts::", "--skip", "on_a_cluster", "--skip", "scripts::keys"],
    ADMIN: ["admin::a_packet", "admin::a_rebuil"],
}
ENVIRONMENT = {
    # One node, and fewer random cases, the same each time: see tests/it/scripts.rs.
    "HONGBAO_TEST_SCRIPTS_SEED": "1",
    "RUST_TEST_THREADS": "3",
}
# A changed script may run for ever. The tests wait for a server for ten seconds; many do so one after the other.
SLOWER_MAX = 5
TIMEOUT_LEAST_S = 60
# What a test says if its servers do not start, whatever the script. The verdict then counts for nothing.
NO_SERVER = ("gave up waiting for", "does not start")
TRIES = 3


@dataclass(frozen=True)
class Mutant:
    script: Path
    change: TextChange

    def key(self) -> tuple[str, str, str]:
        return self.script.name, self.change.before, self.change.after

    def __str__(self) -> str:
        return f"{self.script.relative_to(ROOT)}:{self.change.line}\n- {self.change.before}\n+ {self.change.after}".rstrip()


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
            environment = {**ENVIRONMENT, "TMPDIR": str(self.temporary)}
            verdict, said = run([str(self.tests), "--nocapture", *JUDGES[home]], ROOT / "tests", environment, timeout_s)
            if not any(complaint in said for complaint in NO_SERVER):
                return verdict
        raise Failed("the tests' servers do not start")


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


def built_tests() -> Path:
    """Builds the tests as `make test` does. Returns their program."""
    build = ["cargo", "test", "--workspace", "--test", "it", "--no-run", "--message-format=json-render-diagnostics"]
    output = subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    messages = (json.loads(line) for line in output.splitlines())
    programs = [Path(message["executable"]) for message in messages
                if message["reason"] == "compiler-artifact" and message["executable"] and message["target"]["name"] == "it"]
    return programs[0]


def judged(mutants: list[Mutant], tests: Path, workers: int, explained: set[tuple[str, str, str]]) -> dict[Mutant, Verdict]:
    benches: queue.Queue[Bench] = queue.Queue()
    made = [Bench(number, tests) for number in range(workers)]
    at_once(workers, lambda bench: bench.prove({mutant.script.parent for mutant in mutants}), made)
    for bench in made:
        benches.put(bench)

    def judge(mutant: Mutant) -> Verdict:
        bench = benches.get()
        try:
            return bench.verdict(mutant)
        finally:
            benches.put(bench)

    def survived(mutant: Mutant) -> None:
        if mutant.key() not in explained:
            print(f"no test notices\n{mutant}\n", flush=True)

    return each(mutants, judge, workers, survived)


def main() -> int:
    asked = options(__doc__, "script", "grab.lua").parse_args()
    lock(WORK)
    everything = [Mutant(script, change) for script in SCRIPTS for change in changes(script.read_text())]
    explained = explained_in(EXPLAINED, {mutant.key() for mutant in everything})
    mutants = selected(everything, lambda mutant: mutant.script.name, asked.script, asked.shard)
    if asked.list:
        print(*mutants, sep="\n\n")
        return 0
    verdicts = judged(mutants, built_tests(), min(asked.workers, len(mutants)), explained)
    known = {mutant for mutant in mutants if mutant.key() in explained}
    return report("script", {mutant: verdicts[mutant] for mutant in mutants}, lambda mutant: mutant.script.name, known, [], WORK)


if __name__ == "__main__":
    start("mutants-lua", main)
