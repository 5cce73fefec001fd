"""The bus and the queue of webhooks get the events of tests/events.json. The code of the local stack makes the same events, and
docs/INTEGRATE.md shows them."""

import json
import re

import pytest
from emulated import client
from jsonata import Jsonata
from moto.events.models import EventPattern


@pytest.fixture(scope="module")
def cases(repository):
    return json.loads((repository / "tests/events.json").read_text())


@pytest.fixture
def pipes(stack):
    """The pipes by the service of their target."""
    found = {pipe["Target"].split(":")[2]: pipe for pipe in stack.noted("AWS::Pipes::Pipe").values()}
    assert set(found) == {"nodes": {"events", "sqs"}, "serverless": {"sqs"}, "existing": set()}[stack.way]
    if not found:
        pytest.skip("events are off")
    return found


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


def test_the_filters_pass_each_change_that_is_an_event_once_and_no_other(stack, pipes, cases):
    for pipe in pipes.values():
        patterns = [
            EventPattern.load(given["Pattern"]) for given in pipe["SourceParameters"]["FilterCriteria"]["Filters"]
        ]
        for case in cases:
            passed = sum(pattern.matches_event(case["record"]) for pattern in patterns)
            assert passed == (1 if case["events"] else 0), case["case"]


def test_changes_become_events(stack, pipes, cases):
    cases = [case for case in cases if case["events"]]
    for case in cases:
        events = translate(stack, [case["record"]])
        assert isinstance(events, list), case["case"]
        # Their fields come in this order too.
        assert [list(event.items()) for event in events] == [list(event.items()) for event in case["events"]], case["case"]
    together = translate(stack, [case["record"] for case in cases])
    assert together == [event for case in cases for event in case["events"]]
    # The seed, the passphrase's digest and the recipients stay secret, and so does the app's own data.
    for secret in ("seed", "passphrase", "recipients", "metadata", "5e5e", "d1d1", "shop"):
        assert secret not in json.dumps(together)


def test_the_document_shows_each_event_with_all_its_fields(cases, repository):
    documented = re.findall(r"```json\n(.*?)```", (repository / "docs/INTEGRATE.md").read_text(), re.S)
    by_type = {event["type"]: event["data"] for event in map(json.loads, documented)}
    fields = {}
    for event in (event for case in cases for event in case["events"]):
        fields.setdefault(event["type"], set()).update(event)
    assert {kind: set(detail) for kind, detail in by_type.items()} == fields


def test_the_pipes_go_from_the_table_to_the_bus_and_the_queue(stack, pipes, cases):
    for pipe in pipes.values():
        assert pipe["Source"].startswith("arn:aws:dynamodb") and "/stream/" in pipe["Source"]
        stream = pipe["SourceParameters"]["DynamoDBStreamParameters"]
        most = max(len(case["events"]) for case in cases)
        assert stream["BatchSize"] * most <= 10, "neither target accepts more in a call"
        assert "EventDeadLetters" in stream["DeadLetterConfig"]["Arn"]
        assert "EventTranslator" in pipe["Enrichment"]
    bus, queue = pipes.get("events"), pipes["sqs"]
    if bus:
        assert bus["Target"].endswith(":event-bus/hongbao-test")
        assert bus["TargetParameters"] == {"EventBridgeEventBusParameters": {"Source": "hongbao", "DetailType": "$.type"}}
    # A message is an event.
    assert "TargetParameters" not in queue and queue["Target"].endswith(stack.outputs["WebhooksUrl"].rpartition("/")[2])


def test_a_message_is_tried_for_a_day_then_kept(stack, pipes, repository):
    sqs, url = client("sqs"), stack.outputs["WebhooksUrl"]
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    [notify] = [configuration for program, _, configuration in stack.functions() if program == "notify"]
    redrive = json.loads(attributes["RedrivePolicy"])
    # notify sets events aside. SQS must not, while they wait for two weeks and are received each hour.
    assert 14 * 24 < int(redrive["maxReceiveCount"]) <= 1000
    assert redrive["deadLetterTargetArn"].endswith(stack.outputs["WebhookDeadLettersUrl"].rpartition("/")[2])
    assert int(attributes["VisibilityTimeout"]) >= 6 * notify["Timeout"], "as Lambda advises"
    assert int(attributes["MessageRetentionPeriod"]) == 14 * 24 * 3600
    answer = (repository / "functions/notify/src/client.rs").read_text()
    assert notify["Timeout"] >= 2 * int(re.search(r"ANSWER_MAX: Duration = Duration::from_secs\((\d+)\)", answer)[1])
    [source] = stack.noted("AWS::Lambda::EventSourceMapping").values()
    assert source["EventSourceArn"] == attributes["QueueArn"]
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"], "else one failure repeats all"
    assert source["BatchSize"] == 10 and source["ScalingConfig"] == {"MaximumConcurrency": 20}
