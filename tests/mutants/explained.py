"""The list of changes that no test need notice."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Explained:
    """A change, by the text of its lines and not by their number, and why no test need notice it."""

    file: str
    before: str
    after: str
    reason: str


def parse(text: str) -> list[Explained]:
    """Reads blocks with a blank line between them: a reason in comments, a file's name, and for each change `-` and `+`."""
    found = []
    for number, block in enumerate(text.strip().split("\n\n")):
        lines = block.splitlines()
        reason = [line.removeprefix("#").strip() for line in lines if line.startswith("#")]
        rest = lines[len(reason):]
        if not rest and number == 0:
            continue  # The head of the file.
        pairs = rest[1:]
        for before, after in zip(pairs[::2], pairs[1::2]):
            if before[:1] == "-" and after[:1] == "+":
                found.append(Explained(rest[0], before[1:].strip(), after[1:].strip(), " ".join(reason)))
        is_whole = reason and len(pairs) > 1 and len(pairs) % 2 == 0
        if not is_whole or any(line[:1] != "-+"[place % 2] for place, line in enumerate(pairs)):
            raise ValueError(f"not a reason, a file and its changes:\n{block}")
    return found
