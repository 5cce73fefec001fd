"""The function publish gets each change of tests/events.json that is an event. shared/src/events.rs makes the events, and openapi.yaml
shows them."""

import json
import re

import pytest
import yaml
from emulated import client
from moto.events.models import EventPattern


@pytest.fixture(scope="module")
def cases(repository):
    return json.loads((repository / "tests/events.json").read_text())


@pytest.fixture
def sources(stack):
    """What each function gets its batches from, by the function's logical id."""
    ids = {stack.live(logical_id): logical_id for _, logical_id, _ in stack.functions()}
    found = {ids[source["FunctionName"]]: source for source in stack.noted("AWS::Lambda::EventSourceMapping").values()}
    webhooks = {"PublishToQueue", "Notify"}
    assert set(found) == {"nodes": webhooks | {"PublishToBus"}, "serverless": webhooks, "existing": set()}[stack.way]
    if not found:
        pytest.skip("events are off")
    return found


def test_the_filters_pass_each_change_that_is_an_event_once_and_no_other(sources, cases):
    filters = sources["PublishToQueue"]["FilterCriteria"]["Filters"]
    patterns = [EventPattern.load(given["Pattern"]) for given in filters]
    for case in cases:
        passed = sum(pattern.matches_event(case["record"]) for pattern in patterns)
        assert passed == (1 if case["events"] else 0), case["case"]


def test_the_document_shows_each_event_with_all_its_fields(cases, repository):
    event = yaml.safe_load((repository / "openapi.yaml").read_text())["webhooks"]["event"]["post"]
    documented = [example["value"] for example in event["requestBody"]["content"]["application/json"]["examples"].values()]
    by_type = {shown["type"]: shown["data"] for shown in documented}
    fields = {}
    for event in (event for case in cases for event in case["events"]):
        fields.setdefault(event["type"], set()).update(event)
    assert {kind: set(detail) for kind, detail in by_type.items()} == fields


def test_a_change_goes_from_the_table_to_the_bus_and_the_queue(stack, sources):
    source = sources["PublishToQueue"]
    assert source["EventSourceArn"].startswith("arn:aws:dynamodb") and "/stream/" in source["EventSourceArn"]
    assert source["StartingPosition"] == "TRIM_HORIZON", "else what is committed before polling begins has no event"
    # A failed record never keeps another one waiting for longer than it takes to part them.
    assert source["BisectBatchOnFunctionError"] and source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert (source["MaximumRetryAttempts"], source["MaximumRecordAgeInSeconds"]) == (-1, 12 * 3600)
    assert "EventDeadLetters" in source["DestinationConfig"]["OnFailure"]["Destination"]
    variables = {logical_id: each["Environment"]["Variables"] for _, logical_id, each in stack.functions()}
    assert variables["PublishToQueue"]["EVENT_TARGET"] == stack.outputs["WebhooksUrl"]
    if "PublishToBus" in sources:
        settings = ("EventSourceArn", "StartingPosition", "FilterCriteria", "MaximumRecordAgeInSeconds", "DestinationConfig")
        assert [sources["PublishToBus"][name] for name in settings] == [source[name] for name in settings]
        assert variables["PublishToBus"]["EVENT_TARGET"].endswith(":event-bus/hongbao-test")
    for publish in (variables[name] for name in ("PublishToQueue", "PublishToBus") if name in sources):
        assert publish["EVENT_DEAD_LETTERS"] == stack.outputs["EventDeadLettersUrl"]


def test_a_message_is_tried_for_a_day_then_kept(stack, sources, repository):
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
    source = sources["Notify"]
    assert source["EventSourceArn"] == attributes["QueueArn"]
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"], "else one failure repeats all"
    assert source["BatchSize"] == 10 and source["ScalingConfig"] == {"MaximumConcurrency": 20}
