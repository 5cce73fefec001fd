"""Small changes of a Lua script, found in its syntax tree."""

import re
from collections.abc import Iterator

import tree_sitter_lua
from tree_sitter import Language, Node, Parser

from texts import TextChange, located, nodes, text_of

PARSER = Parser(Language(tree_sitter_lua.language()))

OPERATORS = {
    "==": ["~="], "~=": ["=="], "<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"],
    "and": ["or"], "or": ["and"], "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"],
}
# A sibling takes the same arguments. It only reads, or writes or answers in another way.
COMMANDS = {
    "BITCOUNT": "STRLEN", "DEL": "EXISTS", "GET": "STRLEN", "HDEL": "HEXISTS", "HEXISTS": "HSTRLEN", "HGET": "HEXISTS",
    "HGETALL": "HKEYS", "HINCRBY": "HSET", "HLEN": "EXISTS", "HSET": "HSETNX", "PERSIST": "EXISTS", "PEXPIREAT": "PEXPIRE",
    "PTTL": "TTL", "ZREM": "ZSCORE",
}
OPTIONS = {"NX": "XX", "PX": "EX", "0": "1", "1": "0", "": "x"}
CALLS = {"call", "redis.call", "redis.pcall"}
MATCHES = {"match", "gmatch", "gsub"}
FIELD = re.compile(r"\$[a-z_]+")

# From where to where in the script, in bytes, and what comes there.
Replacement = tuple[int, int, str]


def changes(script: str) -> list[TextChange]:
    """All changes of a script, in the order of their places."""
    root = PARSER.parse(script.encode()).root_node
    if root.has_error:
        raise ValueError("the script has an error")
    everything = list(nodes(root))
    fields = sorted({text_of(node) for node in everything if node.type == "string_content" and FIELD.fullmatch(text_of(node))})
    # The tree counts bytes.
    places = [place for place, letter in enumerate(script) for _ in letter.encode()] + [len(script)]
    found: dict[str, TextChange] = {}
    for node in everything:
        for start, end, text in replacements(node, fields):
            change = located(script, places[start], places[end], text)
            # Two ways to the same script are one change.
            found.setdefault(change.apply(script), change)
    return sorted(found.values(), key=lambda change: (change.start, change.end))


def fitted(script: str, change: TextChange) -> str:
    """The changed script with as many bytes as before: its first comment gives way, and blanks fill up."""
    text, size = change.apply(script), len(script.encode())
    excess = len(text.encode()) - size
    if excess > 0:
        comment = re.search(r"^-- ?([ -~]*)", text, re.MULTILINE)
        if not comment or len(comment[1]) < excess:
            raise ValueError("the first comment is too short to give way")
        text = text[:comment.end() - excess] + text[comment.end():]
    return text + " " * (size - len(text.encode()))


def replacements(node: Node, fields: list[str]) -> Iterator[Replacement]:
    """What may come in a node's place, or in a part of it. Each kind of node is changed at one place of this function."""
    def whole(text: str) -> Replacement:
        return node.start_byte, node.end_byte, text

    match node.type:
        case "binary_expression":
            operator = node.children[1]
            for other in OPERATORS.get(operator.type, []):
                yield operator.start_byte, operator.end_byte, other
        case "unary_expression" if node.children[0].type == "not":
            yield node.start_byte, node.children[1].start_byte, ""
        case "number":
            number = int(text_of(node))
            others = [number - 1, number + 1] if number else [1]
            if number == 1 and is_first_of_sub(node):
                others = [2]  # Lua takes 0 for 1 there.
            for other in others:
                yield whole(str(other))
        case "true":
            yield whole("false")
        case "false":
            yield whole("true")
        case "string":
            yield from of_string(node, fields)
        case "if_statement" | "elseif_statement" | "while_statement":
            condition = node.child_by_field_name("condition")
            for other in ["false"] if node.type == "while_statement" else ["true", "false"]:
                yield condition.start_byte, condition.end_byte, other
        case "function_call" | "assignment_statement" if node.parent.type in ("block", "chunk"):
            yield whole("")
        case "return_statement":
            values = next((child for child in node.children if child.type == "expression_list"), None)
            values = values.named_children if values else []
            if len(values) == 1 and values[0].type == "table_constructor":
                values = values[0].named_children
            if len(values) > 1:
                first, second = values[:2]
                between = node.text[first.end_byte - node.start_byte:second.start_byte - node.start_byte].decode()
                yield first.start_byte, second.end_byte, text_of(second) + between + text_of(first)
        case "hash_bang_line":
            yield whole("#!lua")


def is_first_of_sub(node: Node) -> bool:
    """Whether it is where the `sub` of a string begins."""
    if node.parent.type != "arguments":
        return False
    name = node.parent.parent.child_by_field_name("name")
    start = 0 if name.type == "method_index_expression" else 1
    return re.split("[.:]", text_of(name))[-1] == "sub" and node.parent.named_children[start] == node


def of_string(node: Node, fields: list[str]) -> Iterator[Replacement]:
    # Inside of the quotes.
    start, end = node.start_byte + 1, node.end_byte - 1
    text = text_of(node)[1:-1]
    called = node.parent.parent if node.parent.type == "arguments" else None
    name = text_of(called.child_by_field_name("name")) if called else ""
    is_first = called is not None and called.child_by_field_name("arguments").named_children[0] == node
    if name in CALLS and is_first:
        if text in COMMANDS:
            yield start, end, COMMANDS[text]
    elif text in fields and len(fields) > 1:
        yield start, end, fields[(fields.index(text) + 1) % len(fields)]
    elif text in OPTIONS:
        yield start, end, OPTIONS[text]
    elif re.split("[.:]", name)[-1] in MATCHES and is_first:
        if text.startswith("^"):
            yield start, start + 1, ""
        if text.endswith("$"):
            yield end - 1, end, ""
        if not re.search(r"^\^|\$$", text):
            yield start, end, "x"
    else:
        yield start, end, ""
        for width in re.finditer(r"(?<=%)\d+(?=d)", text):
            yield start + width.start(), start + width.end(), ""
