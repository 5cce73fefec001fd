"""Each command of docs/RUNBOOK.md, and of what docs/OPERATE.md has for every day, runs on an emulated deployment. What it does is tried
elsewhere. Here a command that does not exist, or that names what does not exist, fails."""

import re

import emulated
import pytest
import rehearsal
from conftest import WAYS

OPERATE = (emulated.ROOT / "docs/OPERATE.md").read_text()
RUNBOOK = (emulated.ROOT / "docs/RUNBOOK.md").read_text() + OPERATE[OPERATE.index("\n## Rotating the edge key\n") :]
BLOCK = r"^( *)```sh\n(.*?)^ *```$"


def blocks():
    """The commands of each entry, by its heading and their place in it."""
    for section in re.split(r"^## ", RUNBOOK, flags=re.M)[1:]:
        heading, text = section.split("\n", 1)
        for number, (indent, commands) in enumerate(re.findall(BLOCK, text, re.M | re.S), 1):
            yield f"{heading} {number}", re.sub(f"^{indent}", "", commands, flags=re.M)


BLOCKS = dict(blocks())
# What it sets is set for this machine.
BLOCKS.pop("Preparation 1")
PREPARATION = BLOCKS.pop("Preparation 2")
HELPERS = re.findall(r"^(\w+)\(\) [{(]", PREPARATION, re.M)


def in_sentences():
    """Commands between backquotes that no block has."""
    text = re.sub(BLOCK, "", RUNBOOK, flags=re.M | re.S)
    found = re.findall(rf"`((?:{'|'.join(HELPERS)}) [^`]+)`", text)
    return sorted({command for command in found if command not in "\n".join(BLOCKS.values())})


@pytest.fixture(scope="module")
def night(nobody, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, emulated.emulator():
        patch.setattr(emulated, "STACK", rehearsal.STACK)
        made = rehearsal.Night(tmp_path_factory.mktemp("night"), WAYS["nodes"])
        yield made
        made.close()


@pytest.mark.parametrize("place", BLOCKS)
def test_the_commands_of_an_entry_run(night, place):
    right, said = night.run(PREPARATION, BLOCKS[place])
    assert right, said


@pytest.mark.parametrize("command", in_sentences())
def test_the_commands_in_its_sentences_run(night, command):
    right, said = night.run(PREPARATION, command)
    assert right, said


def test_the_deployments_are_the_stacks_own(night):
    right, said = night.run(PREPARATION, BLOCKS["A bad deployment 1"])
    assert right and re.search("\tGrab\t", said) and "Other" not in said, said


def test_an_attacker_is_found_stopped_and_let_in_again(night):
    packet = night.send("attacked")
    right, said = night.run(PREPARATION, BLOCKS["Somebody with valid tokens attacks 2"])
    assert right and re.search("^(user +)?bob$", said, re.M), said
    right, said = night.run(PREPARATION, BLOCKS["Closing a packet, suspending a user 2"])
    assert right, said
    assert night.grab(packet)[1]["code"] == "account-suspended"
    right, said = night.run(PREPARATION, BLOCKS["Closing a packet, suspending a user 3"])
    assert right, said
    assert night.grab(packet)[1]["outcome"] == "grabbed"


def test_a_refund_that_was_missing_comes(night):
    packet = night.send("refunded")
    right, said = night.run(PREPARATION, 'operator --json \'{"reason": "due"}\' "$(output ApiUrl)/operator/packets/$PACKET/close"', PACKET=packet)
    assert right, said
    right, said = night.run(PREPARATION, BLOCKS["A refund does not come 1"], PACKET=packet)
    assert right and re.search("^status +closed$", said, re.M), said
    right, said = night.run(PREPARATION, BLOCKS["A refund does not come 2"], PACKET=packet)
    assert right and re.search("^status +settled$", said, re.M), said


@pytest.mark.parametrize(
    "command",
    [
        'echo "$(output NoSuchOutput)"',
        'echo "$(resource NoSuchResource)"',
        "no_such_command",
        "logs NoSuchFunction '{ $.level = \"ERROR\" }'",
        "query Send 'fields.user = 1",
        "aws sqs purge-queue --no-such-option",
        "admin no-such-command",
        'operator "$(output ApiUrl)/no/such/route"',
        "make no-such-target ENV=prod",
    ],
)
def test_a_command_that_names_what_does_not_exist_fails(night, command):
    right, said = night.run(PREPARATION, command)
    assert not right, said
