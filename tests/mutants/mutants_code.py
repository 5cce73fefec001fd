"""Changes the code in small ways, one at a time, and lists the changes that no test notices.

    make mutants-code                                every change
    make mutants-code SHARD=3/20                     the fourth twentieth of them: 0/20 is the first
    make mutants-code ARGS="--module service/grab"   those of one module: see its table
    make mutants-code ARGS="--line shared/src/domain/part.rs:40"   those of a line, or of several: repeat the option
    make mutants-code ARGS=--list                    only lists them

cargo-mutants finds the changes. All of them are built into one program, each behind a switch (see switches.py), so that one build
serves them all. It works on a clone of the last commit and of the changed files that Git knows, in target/mutants-code.

The judges are the tests of the library and the simulation. Each test first runs by itself, without a change, and tells which switches
it reaches. A change is judged by the tests that reach it, until one fails. The rest, if nobody has explained it, goes to the tests of
the whole, with real stores and programs. The quickest of those that reach a change judge it, for four minutes at most.
explained-code.txt lists the changes that no test need notice. The exit code is 1 if there is another one, or if the list has a change
that does not exist.
"""

import atexit
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

from judges import ROOT, Failed, Verdict, at_once, each, explained_in, lock, options, report, run, selected, start, write_details
from switches import SWITCH, Change, marked, switched

WORK = ROOT / "target" / "mutants-code"
TREE = WORK / "tree"
# Files with the switches that a test reaches.
REACHED = WORK / "reached"
# What tests leave behind when they are ended. It is not in the clone, because some tests look for tools in the folders above.
TEMPORARY = Path(tempfile.gettempdir()) / f"hongbao-mutants-code-{os.getpid()}"
EXPLAINED = Path(__file__).with_name("explained-code.txt")
SOURCES = [*(f"shared/src/{module}/**" for module in ("domain", "ledger", "service", "memory", "http", "batching")), "functions/settle/src/**"]

# The programs of tests, in the order in which they judge, and the tests that they leave out.
JUDGES = {
    # A third of the library's time, for one figure.
    "shared": re.compile("::a_large_packet_that_changes_costs_"),
    "settle": None,
    "backlog": None,
    "portions": None,
    # These need seeds that do what they did when they were recorded. A change that makes no difference moves them too.
    "conformance": re.compile("^the_model_rejects_mutants$"),
    "seeds": re.compile("^every_planted_bug"),
}
# The tests of the whole start servers and the functions' programs, and take seconds each. So they judge only what the others have not
# noticed. Some code is reached by all of them; then the quickest judge.
WHOLE, WHOLE_MOST_S = "it", 240.0
LIBRARIES = ("shared", "settle")
ENVIRONMENT = {"SIMULATION_SEEDS": "100", "HONGBAO_TEST_SCRIPTS_SEED": "1", "RUST_TEST_THREADS": "2", "TMPDIR": str(TEMPORARY)}
# The slowest test may take so much longer with a change before it counts as one that never ends.
SLOWER_MAX, SLOWEST_LEAST_S = 4, 20.0
ATTEMPTS_MAX = 50
# A server of the tests may start too late, if others run beside it.
TRIES = 3
UNREACHED = "no test reaches it"


@dataclass
class Judge:
    """A program of tests."""

    name: str
    path: Path
    folder: Path
    # What each test takes by itself, in seconds, and the switches that it reaches.
    seconds: dict[str, float] = field(default_factory=dict)
    reaches: dict[str, set[int]] = field(default_factory=dict)

    def run(self, tests: list[str], timeout_s: float, **environment: str) -> Verdict:
        return run([str(self.path), "--exact", *tests], self.folder, {**ENVIRONMENT, **environment}, timeout_s)[0]

    def tests(self, left_out: re.Pattern[str] | None) -> list[str]:
        told = subprocess.run([self.path, "--list", "--format", "terse"], check=True, stdout=subprocess.PIPE, text=True).stdout
        names = [line.removesuffix(": test") for line in told.splitlines() if line.endswith(": test")]
        return [name for name in names if not (left_out and left_out.search(name))]

    def measure(self, test: str) -> None:
        """Without a change each test passes, or its verdicts mean nothing."""
        file = REACHED / f"{self.name}.{test.replace(':', '.')}"
        for _ in range(TRIES):
            verdict = self.run([test], 30 * SLOWEST_LEAST_S, HONGBAO_CHANGES_REACHED=str(file))
            if verdict.what == "survived":
                break
        else:
            raise Failed(f"nothing is changed, and still {test}: {verdict.what}, {verdict.by}")
        self.seconds[test] = verdict.seconds
        self.reaches[test] = {int(number) for number in file.read_text().split()} if file.exists() else set()

    def judge(self, number: int) -> Verdict | None:
        """None if no test reaches the change."""
        tests = sorted((test for test in self.seconds if number in self.reaches[test]), key=self.seconds.__getitem__)
        if not tests:
            return None
        if self.name == WHOLE:
            until = accumulate(self.seconds[test] for test in tests)
            tests = [test for test, seconds in zip(tests, until) if seconds < WHOLE_MOST_S] or tests[:1]
        timeout_s = SLOWEST_LEAST_S + SLOWER_MAX * self.seconds[tests[-1]]
        verdict = self.run(tests, timeout_s, HONGBAO_CHANGE=str(number))
        while self.name == WHOLE and verdict.by in tests:
            # So that no server that started too late is a verdict, a test must fail twice. If it does not, the others judge.
            again = self.run([verdict.by], timeout_s, HONGBAO_CHANGE=str(number))
            if again.what != "survived":
                return Verdict(again.what, verdict.by, verdict.seconds + again.seconds)
            tests.remove(verdict.by)
            verdict = self.run(tests, timeout_s, HONGBAO_CHANGE=str(number)) if tests else again
        return verdict


def cargo(*arguments: str) -> tuple[bool, list[dict]]:
    """Whether cargo succeeded, and its messages."""
    environment = {**os.environ, "CARGO_TARGET_DIR": str(WORK / "build"), "RUSTFLAGS": "--allow warnings"}
    done = subprocess.run(["cargo", *arguments, "--message-format=json"], cwd=TREE, env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True)
    return done.returncode == 0, [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def git(*arguments: str, folder: Path = ROOT) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def check_out() -> None:
    """Makes the clone: of what is committed, and of changes to files that Git knows."""
    lock(WORK)
    for folder in (REACHED, TEMPORARY):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    atexit.register(shutil.rmtree, TEMPORARY, ignore_errors=True)
    if not TREE.exists():
        git("clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(TREE))
    git("checkout", "--quiet", "--force", "--detach", git("stash", "create") or git("rev-parse", "HEAD"), folder=TREE)
    # The tests look for tools there.
    with contextlib.suppress(FileExistsError):
        (TREE / ".tools").symlink_to(ROOT / ".tools")


def all_changes() -> dict[int, Change]:
    """The changes, by number."""
    environment = {**os.environ, "PATH": f"{ROOT}/.tools/bin:{os.environ['PATH']}"}
    command = ["cargo-mutants", "mutants", "--list", "--json"]
    command += [word for sources in SOURCES for word in ("--file", sources)] + ["--exclude", "functions/*/src/main.rs"]
    found = json.loads(subprocess.run(command, cwd=TREE, env=environment, check=True, stdout=subprocess.PIPE).stdout)
    texts = {change["file"]: (TREE / change["file"]).read_text() for change in found}
    return {number: Change.read(change, texts[change["file"]]) for number, change in enumerate(found, 1)}


class Program:
    """The clone with the changes behind switches."""

    def __init__(self, changes: dict[int, Change]):
        self.changes = changes
        self.sources = {file: (TREE / file).read_bytes() for file in {change.file for change in changes.values()}}
        # By the number of the change: why it does not compile, and why it can't be behind a switch.
        self.refused: dict[int, str] = {}
        self.impossible: dict[int, str] = {}
        library = TREE / "shared/src/lib.rs"
        library.write_text(library.read_text() + SWITCH.replace("COUNT", str(len(changes) + 1)))

    def possible(self) -> dict[int, Change]:
        return {number: change for number, change in self.changes.items() if number not in self.refused and number not in self.impossible}

    def make_compile(self) -> None:
        """Leaves out, again and again, what the compiler's errors are about."""
        constant: set[str] = set()
        for _ in range(ATTEMPTS_MAX):
            self.write(constant)
            good, messages = cargo("check", "--package", "shared", "--package", "settle", "--all-targets")
            if good:
                return
            errors = [message["message"] for message in messages
                      if message["reason"] == "compiler-message" and message["message"]["level"] == "error" and message["message"]["spans"]]
            if not errors:
                raise Failed("the clone does not compile, and the compiler does not say where")
            before = set(self.refused)
            for error in errors:
                if called := re.search(r"non-const .*\b(\w+)` in constants", error["message"]):
                    constant.add(called[1])
                    continue
                number = blamed(error)
                if number is None or number in before:
                    raise Failed(f"this is about no change:\n{error['rendered']}")
                self.refused.setdefault(number, error["message"])
        raise Failed("the clone does not compile")

    def write(self, constant: set[str]) -> None:
        possible = self.possible()
        for file, source in self.sources.items():
            own = {number: change for number, change in possible.items() if change.file == file}
            result = switched(source, own, "crate" if file.startswith("shared") else "shared", constant)
            self.refused |= result.refused
            self.impossible |= result.impossible
            if (TREE / file).read_text() != result.text:
                (TREE / file).write_text(result.text)

    def judges(self, workers: int, left_out: dict[str, re.Pattern[str] | None]) -> list[Judge]:
        """Builds the tests, and runs each of them without a change."""
        targets = [word for name in left_out if name not in LIBRARIES for word in ("--test", name)]
        packages = [word for name in (*LIBRARIES, "simulation", "tests") for word in ("--package", name)]
        good, messages = cargo("test", "--no-run", *packages, "--lib", *targets)
        if not good:
            raise Failed(f"the tests do not compile with the switches: see cargo test in {TREE}")
        built = {message["target"]["name"]: message for message in messages
                 if message["reason"] == "compiler-artifact" and message["executable"] and message["profile"]["test"]}
        judges = []
        for name, pattern in left_out.items():
            judge = Judge(name, Path(built[name]["executable"]), Path(built[name]["manifest_path"]).parent)
            at_once(workers, judge.measure, judge.tests(pattern))
            judges.append(judge)
        return judges

    def whole(self, workers: int) -> list[Judge]:
        """The same for the tests of the whole, and the programs that they start."""
        if not cargo("build", "--workspace", "--bins")[0]:
            raise Failed(f"the programs do not compile with the switches: see cargo build in {TREE}")
        return self.judges(workers, {WHOLE: None})


def blamed(error: dict) -> int | None:
    """The change that an error of the compiler is about."""
    for span in sorted(error["spans"], key=lambda span: not span["is_primary"]):
        path = TREE / span["file_name"]
        if path.exists() and (number := marked(path.read_bytes(), span["byte_end"])):
            return number
    return None


def judged(number: int, judges: list[Judge], before: Verdict | None = None) -> Verdict:
    """The verdict of these judges. Those `before` them noticed nothing."""
    seconds, by = (before.seconds, before.by) if before else (0.0, UNREACHED)
    for judge in judges:
        if verdict := judge.judge(number):
            seconds, by = seconds + verdict.seconds, verdict.by
            if verdict.what != "survived":
                return Verdict(verdict.what, by, seconds)
    return Verdict("survived", by, seconds)


def verdicts_of(numbers: list[int], program: Program, explained: set[int], workers: int) -> dict[int, Verdict]:
    possible = program.possible()
    judges = program.judges(workers, JUDGES)
    verdicts = each([number for number in numbers if number in possible], lambda number: judged(number, judges), workers, lambda _: None)
    left = [number for number, verdict in verdicts.items() if verdict.what == "survived" and number not in explained]
    if left:
        details = WORK / "left.txt"
        write_details({program.changes[number]: verdicts[number] for number in left}, details)
        print(f"{len(left)} are left for the tests of the whole: {details.relative_to(ROOT)}", file=sys.stderr, flush=True)
        whole = program.whole(workers)

        def survived(number: int) -> None:
            print(f"no test notices\n{program.changes[number]}\n", flush=True)

        verdicts |= each(left, lambda number: judged(number, whole, verdicts[number]), workers, survived)
    for number in numbers:
        if number in program.refused:
            verdicts[number] = Verdict("does not compile", program.refused[number], 0)
        elif number in program.impossible:
            verdicts[number] = Verdict("not tried", program.impossible[number], 0)
    return verdicts


def main() -> int:
    parser = options(__doc__, "module", "service/grab")
    parser.add_argument("--line", action="append", default=[], help="only those that begin on this line, such as shared/src/domain/part.rs:40")
    asked = parser.parse_args()
    check_out()
    changes = all_changes()
    explained = explained_in(EXPLAINED, {change.key() for change in changes.values()})

    if nowhere := set(asked.line) - {change.place() for change in changes.values()}:
        raise Failed(f"no change begins at {', '.join(sorted(nowhere))}")

    def line_or_module(number: int) -> str:
        place = changes[number].place()
        return place if place in asked.line else changes[number].module()

    numbers = selected(list(changes), line_or_module, [*(asked.module or []), *asked.line], asked.shard)
    if asked.list:
        print(*(changes[number] for number in numbers), sep="\n\n")
        return 0
    program = Program(changes)
    program.make_compile()
    known = {number for number, change in changes.items() if change.key() in explained}
    verdicts = {changes[number]: verdict for number, verdict in verdicts_of(numbers, program, known, asked.workers).items()}
    return report("module", verdicts, Change.module, {changes[number] for number in known}, ["does not compile", "not tried"], WORK)


if __name__ == "__main__":
    start("mutants-code", main)
