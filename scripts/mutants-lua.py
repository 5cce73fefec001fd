#!/usr/bin/env python3
"""Changes the Lua scripts in small ways, one at a time, and lists the changes that no test notices.

    scripts/mutants-lua.py [--shard 3/20] [--script grab.lua]

The simulation judges a change first, then the tests of the scripts. A script's text lies in both programs, word for word. So a change needs no build: it is written into a copy of the
program, over the text, and the script's first comment gives way. tests/mutants-lua.txt has the changes that need not be noticed.
The exit code is 1 if another one is not.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parent.parent

# What builds the programs that judge. They have these names and arguments, and fail if they notice the change.
BUILDS = [["build", "--bin", "simulate"], ["test", "--no-run", "--test", "it"]]
JUDGES = {"simulate": ["--seeds", "150"], "it": ["scripts::", "--skip", "all_keys_of_a_part"]}
# One node, and random commands that are the same each time.
ENVIRONMENT = {"HONGBAO_TEST_SCRIPTS_SEED": "1", "RUST_TEST_THREADS": "3"}
TIMEOUT_S = 120
SCRIPTS = sorted((ROOT / "shared/src/redis/lua").glob("*.lua"))
EXPLAINED = ROOT / "tests/mutants-lua.txt"

# A comment or a string is one piece, so that nothing in it counts as an operator.
PIECES = re.compile(r"""--.*|'[^'\n]*'|"[^"\n]*"|[=~<>]=|\.\.|[A-Za-z_]\w*|\d+|\S""")
OPERATORS = {
    "==": ["~="], "~=": ["=="], "<": ["<=", ">="], "<=": ["<"], ">": [">=", "<="], ">=": [">"],
    "and": ["or"], "or": ["and"], "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "not": [""], "true": ["false"], "false": ["true"],
}
# What a statement on one line may look like. `local` is left out: without it the script does not compile.
STATEMENT = re.compile(r"^\s*(?!(local|if|for|while|else|elseif|end|return|repeat|until|function)\b)\S.*\)\s*(--.*)?$|^\s*[\w.\[\]]+ = .*$")


@dataclass(frozen=True)
class Change:
    """`text` in the place of the characters from `start` to `end` of a script."""

    script: Path
    start: int
    end: int
    text: str

    def lines(self) -> tuple[str, str]:
        """The changed line before and after, each run of blanks as one."""
        source = self.script.read_text()
        first, last = source.rfind("\n", 0, self.start) + 1, (source + "\n").find("\n", self.end)
        before, after = source[first:last], source[first:self.start] + self.text + source[self.end:last]
        return " ".join(before.split()), " ".join(after.split())

    def __str__(self) -> str:
        return "{}\n- {}\n+ {}".format(self.script.name, *self.lines()).rstrip()

    def bytes(self) -> bytes:
        """The changed script, as long as it was."""
        source = self.script.read_text()
        text, size = (source[:self.start] + self.text + source[self.end:]).encode(), len(source.encode())
        comment = re.search(rb"^--.*", text, re.MULTILINE)
        excess = max(0, len(text) - size)
        text = text[:comment.end() - excess] + text[comment.end():]
        return text.ljust(size)


def changes(script: Path) -> list[Change]:
    """All changes of a script, in the order of their places."""
    source = script.read_text()
    found, at = [], 0
    for piece in PIECES.finditer(source):
        word, (start, end) = piece[0], piece.span()
        others = OPERATORS.get(word, [])
        if word.isdigit():
            others = [str(int(word) + 1)]
        elif word[0] in "'\"" and re.fullmatch(r"\$\w+", word[1:-1]):
            others = [f"{word[0]}$x{word[0]}"]
        found += [Change(script, start, end, other) for other in others]
    for condition in re.finditer(r"^\s*(?:if|elseif) (.+?) then\b", source, re.MULTILINE):
        found += [Change(script, *condition.span(1), value) for value in ("true", "false")]
    for line in source.splitlines(keepends=True):
        if STATEMENT.match(line.rstrip()) and not line.lstrip().startswith("--"):
            found.append(Change(script, at, at + len(line.rstrip("\n")), ""))
        at += len(line)
    return sorted(found, key=lambda change: (change.start, change.end, change.text))


def is_noticed(judge: Path, arguments: list[str], change: Change | None) -> bool:
    """Whether a judge fails. A change that never ends is noticed too."""
    data = judge.read_bytes()
    if change:
        original = change.script.read_bytes()
        if original not in data:
            sys.exit(f"mutants-lua: {judge.name} does not have the text of {change.script.name}")
        judge.write_bytes(data.replace(original, change.bytes()))
    quiet = {"env": {**os.environ, **ENVIRONMENT}, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    running = subprocess.Popen([judge, *arguments], cwd=ROOT / "tests", start_new_session=True, **quiet)
    try:
        return running.wait(TIMEOUT_S) != 0
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)  # With the servers that it has started.
        return running.wait() != 0
    finally:
        judge.write_bytes(data)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--shard", default="0/1", help="0/20 is the first twentieth of the changes")
    arguments.add_argument("--script", help="only the changes of this script")
    asked = arguments.parse_args()
    first, step = map(int, asked.shard.split("/"))
    chosen = [change for script in SCRIPTS for change in changes(script) if asked.script in (None, script.name)][first::step]
    originals = {}
    for build in BUILDS:
        built = subprocess.check_output(["cargo", *build, "--workspace", "--message-format=json"], cwd=ROOT, text=True)
        made = map(json.loads, built.splitlines())
        originals |= {each["target"]["name"]: Path(each["executable"]) for each in made if each.get("executable")}
    benches: SimpleQueue[dict[str, Path]] = SimpleQueue()
    for number in range(os.cpu_count() or 1):
        benches.put({name: Path(shutil.copy2(originals[name], originals[name].with_name(f"mutant-{name}-{number}"))) for name in JUDGES})

    def judge(change: Change | None) -> bool:
        bench = benches.get()
        try:
            return any(is_noticed(bench[name], arguments, change) for name, arguments in JUDGES.items())
        finally:
            benches.put(bench)

    explained = set(re.split(r"\n\n+", re.sub(r"^#.*\n", "", EXPLAINED.read_text(), flags=re.MULTILINE).strip()))
    if judge(None):
        sys.exit("mutants-lua: nothing is changed, and still the tests fail")
    with ThreadPoolExecutor(benches.qsize()) as pool:
        missed = [change for change, noticed in zip(chosen, pool.map(judge, chosen)) if not noticed and str(change) not in explained]
    for program in Path(originals["it"]).parent.glob("mutant-*"):
        program.unlink()
    print(*missed, sep="\n\n")
    print(f"{len(chosen)} changes, {len(missed)} that no test notices and {EXPLAINED.name} does not explain")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
