"""Changes of a text, and what programs that read a syntax tree have in common."""

from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node


@dataclass(frozen=True)
class TextChange:
    """`text` in the place of the characters from `start` to `end` of a source."""

    start: int
    end: int
    text: str
    # The first line that it changes, counted from 1. Then all lines that it changes, before and after, each run of blanks as one.
    line: int
    before: str
    after: str

    def apply(self, source: str) -> str:
        return source[:self.start] + self.text + source[self.end:]


def located(source: str, start: int, end: int, text: str) -> TextChange:
    first = source.rfind("\n", 0, start) + 1
    last = source.find("\n", end)
    last = len(source) if last < 0 else last
    before, after = (" ".join(lines.split()) for lines in (source[first:last], source[first:start] + text + source[end:last]))
    return TextChange(start, end, text, source.count("\n", 0, start) + 1, before, after)


def nodes(root: Node) -> Iterator[Node]:
    yield root
    for child in root.children:
        yield from nodes(child)


def text_of(node: Node) -> str:
    return node.text.decode()
