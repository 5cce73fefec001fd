"""Puts all changes of the code into one program, each behind a switch, so that a change needs no build of its own.

`a < b` becomes `(if crate::changed_none(&[1, 2]) { a < b } else if crate::changed(1) {/*1*/ a <= b } …)`, and a function begins with
`if crate::changed(3) {/*3*/ return Ok(()); }`. The comments say which change an error of the compiler is about.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import tree_sitter_rust
from tree_sitter import Language, Node, Parser

from texts import located, nodes, text_of

# What comes at the end of the library. The number of the change is in HONGBAO_CHANGE; the numbers of all switches that a process comes
# by go to the file HONGBAO_CHANGES_REACHED.
SWITCH = """
#[doc(hidden)]
pub fn changed(number: u32) -> bool {
    use std::io::Write;
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    static CHANGE: LazyLock<Option<u32>> = LazyLock::new(|| std::env::var("HONGBAO_CHANGE").ok()?.parse().ok());
    static REACHED: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];
    static FILE: LazyLock<Option<std::fs::File>> = LazyLock::new(|| {
        let path = std::env::var_os("HONGBAO_CHANGES_REACHED")?;
        Some(std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap())
    });
    let reached = &REACHED[number as usize];
    if !reached.load(Relaxed) && !reached.swap(true, Relaxed) && let Some(mut file) = FILE.as_ref() {
        file.write_all(format!("{number}\\n").as_bytes()).unwrap();
    }
    *CHANGE == Some(number)
}

#[doc(hidden)]
pub fn changed_none(numbers: &[u32]) -> bool {
    // Each is reached, so this looks at all of them.
    numbers.iter().fold(true, |none, &number| none & !changed(number))
}
"""

PARSER = Parser(Language(tree_sitter_rust.language()))

# An operator's change is a change of all that it belongs to: `||` for the first `&&` of `a && b && c` joins b and c.
OPERATIONS = {"binary_expression", "unary_expression", "compound_assignment_expr"}


@dataclass(frozen=True)
class Change:
    """A change that cargo-mutants has found: `text` in the place of the bytes from `start` to `end` of a file."""

    file: str
    line: int
    genre: str
    start: int
    end: int
    text: str
    # The changed lines, each run of blanks as one; for a function's value its name and type, and the value.
    before: str
    after: str

    @classmethod
    def read(cls, change: dict, source: str) -> "Change":
        """A change of the list that `cargo mutants --list --json` prints."""
        lines = source.splitlines(keepends=True)
        start, end = (sum(map(len, lines[:at["line"] - 1])) + at["column"] - 1 for at in (change["span"]["start"], change["span"]["end"]))
        told = located(source, start, end, change["replacement"])
        before, after = told.before, told.after
        if change["genre"] == "FnValue":
            before, after = f"{change['function']['function_name']} {change['function']['return_type']}".strip(), change["replacement"]
        return cls(change["file"], told.line, change["genre"], len(source[:start].encode()), len(source[:end].encode()),
                   change["replacement"], before, after)

    def key(self) -> tuple[str, str, str]:
        return self.file, self.before, self.after

    def module(self) -> str:
        parts = self.file.split("/")
        if parts[0] == "functions":
            return "/".join(parts[:2])
        if parts[2:] == ["domain", "split.rs"]:
            return "domain/split"
        return "/".join(parts[2:4] if len(parts) > 4 else parts[2:3])

    def place(self) -> str:
        return f"{self.file}:{self.line}"

    def __str__(self) -> str:
        return f"{self.place()}\n- {self.before}\n+ {self.after}".rstrip()


@dataclass
class Text:
    """A source to which texts are added. The one that opens first closes last."""

    opening: dict[int, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    closing: dict[int, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))

    def surround(self, start: int, end: int, before: str, after: str) -> None:
        self.opening[start].append((end, before))
        self.closing[end].insert(0, (start, after))

    def applied(self, source: bytes) -> str:
        parts, at = [], 0
        for place in sorted({*self.opening, *self.closing}):
            parts.append(source[at:place].decode())
            # Of those that end here, the last to begin was inside the others; of those that begin here, the last to end is outside.
            parts += [text for _, text in sorted(self.closing[place], key=lambda item: -item[0])]
            parts += [text for _, text in sorted(self.opening[place], key=lambda item: -item[0])]
            at = place
        return "".join(parts) + source[at:].decode()


@dataclass
class Switched:
    """A source with its changes behind switches."""

    text: str
    # By the number of the change: why it does not compile, or why it can't be behind a switch.
    refused: dict[int, str] = field(default_factory=dict)
    impossible: dict[int, str] = field(default_factory=dict)


def switched(source: bytes, changes: dict[int, Change], library: str, constant: set[str]) -> Switched:
    """The source with these changes, by number, each behind a switch of the library. The compiler itself calls the functions
    `constant`."""
    root = PARSER.parse(source).root_node
    text, result, functions = Text(), Switched(""), []
    # The replaced texts of a range, by the number of the change.
    choices: dict[tuple[int, int], dict[int, str]] = defaultdict(dict)
    for number, change in changes.items():
        node = root.named_descendant_for_byte_range(change.start, change.end)
        function = next((outer for outer in ancestors(node) if outer.type in ("function_item", "const_item", "static_item")), None)
        if function is None or function.type != "function_item" or text_of(function.child_by_field_name("name")) in constant:
            result.impossible[number] = "the compiler computes it"
            continue
        functions.append(function)
        if change.genre == "FnValue":
            returned = function.child_by_field_name("return_type")
            if returned and text_of(returned).startswith("impl "):
                result.impossible[number] = "the function's type has no name"
                continue
            text.surround(change.start, change.end, f"if {library}::changed({number}) {{{mark(number)} return {change.text}; }} ", "")
        elif change.genre == "MatchArmGuard":
            choices[change.start, change.end][number] = change.text
        elif change.genre == "MatchArm":
            pattern = child(node, "match_pattern")
            if not any(takes_all(arm) for arm in node.parent.named_children if arm.type == "match_arm" and arm != node):
                result.refused[number] = "no other arm takes all values"
                continue
            guard = pattern.child_by_field_name("condition")
            unchanged = f"!{library}::changed({number}){mark(number)}"
            if guard:
                text.surround(guard.start_byte, guard.end_byte, f"{unchanged} && (", ")")
            else:
                text.surround(pattern.end_byte, pattern.end_byte, f" if {unchanged}", "")
        elif change.genre == "StructField":
            # The change takes the comma too, so the node is the whole list.
            fields, node = node, next(each for each in node.children if each.start_byte == change.start)
            rest = text_of(child(fields, "base_field_initializer")).removeprefix("..")
            value = node.child_by_field_name("value")
            name = text_of(node.child_by_field_name("field") or node)
            before = f"if {library}::changed({number}) {{{mark(number)} ({rest}).{name} }} else {{ "
            at = value or node
            text.surround(at.start_byte, at.end_byte, before if value else f"{name}: {before}", " }")
        else:
            while node.parent and node.parent.type in OPERATIONS:
                node = node.parent
            if node.type == "let_chain":
                result.refused[number] = "a let is no operand"
                continue
            if node.type not in OPERATIONS:
                result.impossible[number] = f"its expression is not in the syntax tree: {node.type}"
                continue
            before = source[node.start_byte:change.start].decode()
            after = source[change.end:node.end_byte].decode()
            choices[node.start_byte, node.end_byte][number] = before + change.text + after
    for (start, end), texts in choices.items():
        # The first branch gives all others their type, so it is what the source has.
        numbers = ", ".join(str(number) for number in texts)
        branches = "".join(f" else if {library}::changed({number}) {{{mark(number)} {on_one_line(choice)} }}" for number, choice in texts.items())
        text.surround(start, end, f"(if {library}::changed_none(&[{numbers}]) {{ ", f" }}{branches} else {{ unreachable!() }})")
    result.text = text.applied(not_constant(source, functions))
    return result


def mark(number: int) -> str:
    return f"/*{number}*/"


def marked(source: bytes, place: int) -> int | None:
    """The change that this place of a source belongs to."""
    text = source[:place].decode()
    marks = list(re.finditer(r"/\*(\d+)\*/", text))
    # A function's end may be far from the last change of it, and has nothing to do with that.
    return int(marks[-1][1]) if marks and text.count("\n", marks[-1].end()) < 3 else None


def takes_all(arm: Node) -> bool:
    pattern = child(arm, "match_pattern")
    name = text_of(pattern)
    return not pattern.child_by_field_name("condition") and name.isidentifier() and not name[0].isupper()


def not_constant(source: bytes, functions: list[Node]) -> bytes:
    """The source, as long as it was. The compiler itself can't call these functions any more: it does not know the switches."""
    data = bytearray(source)
    for function in functions:
        for word in (word for each in function.children if each.type == "function_modifiers" for word in each.children):
            if word.type == "const":
                data[word.start_byte:word.end_byte] = b" " * 5
    return bytes(data)


def ancestors(node: Node) -> Iterator[Node]:
    at: Node | None = node
    while at is not None:
        yield at
        at = at.parent


def child(node: Node, kind: str) -> Node:
    return next(each for each in node.children if each.type == kind)


def on_one_line(text: str) -> str:
    """The text without comments, on one line."""
    root = PARSER.parse(text.encode()).root_node
    data = bytearray(text.encode())
    comments = [node for node in nodes(root) if node.type in ("line_comment", "block_comment")]
    for node in reversed(comments):
        del data[node.start_byte:node.end_byte]
    return " ".join(data.decode().splitlines())
