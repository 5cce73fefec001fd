"""The events that reach the bus, from items as shared/src/ledger/items.rs writes them, agree with docs/EVENTS.md."""

import json
import re

import pytest
from jsonata import Jsonata
from moto.events.models import EventPattern

PACKET, AT = "38FS4S83HF3Y07WMYNH727QYT0", 1795181402391
TIME = "2026-11-20T13:30:02.391Z"
META = {
    "packet_id": {"S": PACKET},
    "sender_id": {"S": "alice"},
    "split": {"S": "random"},
    "split_version": {"N": "1"},
    "seed": {"S": "5e" * 32},
    "currency": {"S": "CNY"},
    "total_amount": {"N": "10000"},
    "slip_count": {"N": "10"},
    "slip_cap": {"N": "20000"},
    "greeting": {"S": "恭喜发财"},
    "created_at": {"N": str(AT)},
    "expires_at": {"N": str(AT)},
    "ack": {"S": "ledger"},
    "passphrase_digest": {"S": "d1" * 32},
    "recipients": {"L": [{"S": "bob"}]},
    "status": {"S": "open"},
    "due_shard": {"N": "3"},
}


def settled(refunded_count, refunded_amount):
    changes = {
        "status": "S:settled",
        "claimed_count": f"N:{10 - refunded_count}",
        "claimed_amount": f"N:{10000 - refunded_amount}",
        "refunded_count": f"N:{refunded_count}",
        "refunded_amount": f"N:{refunded_amount}",
    }
    item = {key: value for key, value in META.items() if key != "due_shard"}
    return item | {key: dict([value.split(":")]) for key, value in changes.items()}


def record(name, pk, sk, item):
    image = {"PK": {"S": pk}, "SK": {"S": sk}, **item}
    keys = {"PK": {"S": pk}, "SK": {"S": sk}}
    return {"eventName": name, "eventSource": "aws:dynamodb", "dynamodb": {"Keys": keys, "NewImage": image}}


CLAIM = {
    "packet_id": {"S": PACKET},
    "slip": {"N": "7"},
    "amount": {"N": "1234"},
    "at": {"N": str(AT)},
    "sender_id": {"S": "alice"},
    "greeting": {"S": "恭喜发财"},
}
SENT = record("INSERT", f"PACKET#{PACKET}", "META", META)
CLAIMED = record("INSERT", "USER#bob@例.example", f"CLAIM#{PACKET}", CLAIM)
REFUNDED = record("MODIFY", f"PACKET#{PACKET}", "META", settled(3, 2500))
PASSED = [SENT, CLAIMED, REFUNDED]
FILTERED_OUT = [
    # Settled, but every slip was claimed.
    record("MODIFY", f"PACKET#{PACKET}", "META", settled(0, 0)),
    record("INSERT", f"PART#{PACKET}#0", "AMOUNTS", {"amounts": {"B": "AAAA"}}),
    record("INSERT", f"SLIPS#{PACKET}#0", "000007", {"slip": {"N": "7"}, "user_id": {"S": "bob"}, "amount": {"N": "1234"}}),
    record("MODIFY", "USER#bob", "WALLET", {"balance": {"N": "1234"}}),
    record("INSERT", "USER#alice", f"SENT#{PACKET}", {"amount": {"N": "10000"}}),
    record("INSERT", "USER#alice", f"REFUND#{PACKET}#000007", {"amount": {"N": "2500"}}),
    record("INSERT", "USER#alice", "DEPOSIT#d-1", {"amount": {"N": "10000"}}),
    record("INSERT", "USER#alice", "KEY#k-1", {"packet_id": {"S": PACKET}}),
    # A claim never changes. One that is restored is not a new claim.
    CLAIMED | {"eventName": "MODIFY"},
    {**record("REMOVE", "USER#bob", f"CLAIM#{PACKET}", CLAIM)},
]


@pytest.fixture
def pipe(stack):
    pipes = list(stack.noted("AWS::Pipes::Pipe").values())
    if stack.way != "nodes":
        assert not pipes
        pytest.skip("events are off")
    [pipe] = pipes
    return pipe


def translate(stack, records):
    """The events that the state machine's only state makes of the records."""
    machine = next(
        resource["Properties"]
        for resource in stack.template["Resources"].values()
        if resource["Type"] == "AWS::StepFunctions::StateMachine"
    )
    definition = machine["Definition"]
    assert (machine["StateMachineType"], definition["QueryLanguage"]) == ("EXPRESS", "JSONata")
    [state] = definition["States"].values()
    assert (state["Type"], state["End"]) == ("Pass", True)
    expression = state["Output"].removeprefix("{%").removesuffix("%}").replace("${Currency}", "CNY")
    evaluated = Jsonata(expression)
    evaluated.assign("states", {"input": records})
    return evaluated.evaluate(None)


def test_the_filters_pass_three_kinds_of_items_and_no_other(stack, pipe):
    patterns = [
        EventPattern.load(given["Pattern"]) for given in pipe["SourceParameters"]["FilterCriteria"]["Filters"]
    ]
    matches = lambda record: sum(pattern.matches_event(record) for pattern in patterns)
    assert [matches(record) for record in PASSED] == [1, 1, 1]
    assert [matches(record) for record in FILTERED_OUT] == [0] * len(FILTERED_OUT)


def test_items_become_events(stack, pipe, repository):
    events = translate(stack, PASSED)
    assert events == [
        {
            "type": "PacketSent",
            "packet_id": PACKET,
            "sender_id": "alice",
            "split": "random",
            "total_amount": 10000,
            "count": 10,
            "currency": "CNY",
            "greeting": "恭喜发财",
            "created_at": TIME,
            "expires_at": TIME,
        },
        {
            "type": "SlipClaimed",
            "packet_id": PACKET,
            "sender_id": "alice",
            "user_id": "bob@例.example",
            "slip": 7,
            "amount": 1234,
            "currency": "CNY",
            "grabbed_at": TIME,
        },
        {
            "type": "PacketRefunded",
            "packet_id": PACKET,
            "sender_id": "alice",
            "refunded_count": 3,
            "refunded_amount": 2500,
            "claimed_count": 7,
            "claimed_amount": 7500,
            "total_amount": 10000,
            "currency": "CNY",
        },
    ]
    # The seed, the passphrase's digest and the recipients stay secret.
    for secret in ("seed", "passphrase", "recipients", "5e5e", "d1d1"):
        assert secret not in json.dumps(events)
    documented = re.findall(r"```json\n(.*?)```", (repository / "docs/EVENTS.md").read_text(), re.S)
    by_type = {event["detail-type"]: event["detail"] for event in map(json.loads, documented)}
    assert {kind: list(detail) for kind, detail in by_type.items()} == {event["type"]: list(event) for event in events}


def test_one_record_is_a_list_too(stack, pipe):
    [event] = translate(stack, [CLAIMED])
    assert event["type"] == "SlipClaimed"


def test_the_pipe_goes_from_the_table_to_the_bus(stack, pipe):
    stream = pipe["SourceParameters"]["DynamoDBStreamParameters"]
    assert pipe["Source"].startswith("arn:aws:dynamodb") and "/stream/" in pipe["Source"]
    assert pipe["Target"].endswith(":event-bus/hongbao-test")
    assert pipe["TargetParameters"] == {"EventBridgeEventBusParameters": {"Source": "hongbao", "DetailType": "$.type"}}
    assert stream["BatchSize"] <= 10, "an event bus accepts no more"
    assert "EventDeadLetters" in stream["DeadLetterConfig"]["Arn"]
    assert "EventTranslator" in pipe["Enrichment"]
