"""The alarms and the dashboard: each alarm notifies the operator and is in the runbook, each metric exists."""

import functools
import json
import re

import pytest
from cloudwatch import READ_MORE, ids_of, metrics_of, state
from emulated import ACCOUNT, STACK, client


@pytest.fixture(scope="module")
def alarms(stack):
    found = client("cloudwatch").describe_alarms(MaxRecords=100)["MetricAlarms"]
    return {alarm["AlarmName"].removeprefix(f"{STACK}-"): alarm for alarm in found}


def of_template(stack):
    return {
        resource["Properties"]["AlarmName"]["Fn::Sub"].partition("-")[2]
        for resource in stack.template["Resources"].values()
        if resource["Type"] == "AWS::CloudWatch::Alarm"
    }


def test_each_alarm_notifies_the_topic(stack, alarms):
    topic = stack.outputs["AlarmTopicArn"]
    for name, alarm in alarms.items():
        assert alarm["AlarmActions"] == alarm["OKActions"] == [topic], name
        assert len(metrics_of(alarm)) in range(1, 11), f"{name}: CloudWatch takes ten metrics"
    redis = {name for name in alarms if name.startswith("Redis")}
    assert redis == {
        "nodes": {
            "RedisMemory",
            "RedisCpu",
            "RedisEvictions",
            "RedisConnections",
            "RedisTraffic",
        },
        "serverless": {"RedisServerlessMemory", "RedisServerlessThrottles", "RedisServerlessEvictions"},
        "existing": set(),
    }[stack.way]


@pytest.fixture(scope="module")
def runbook(repository):
    return (repository / "docs/RUNBOOK.md").read_text()


def test_each_alarm_names_the_page_of_its_symptom(alarms, runbook):
    rows = re.findall(r"^\| \[([^]]+)\]\(#([\w-]+)\) \| ([^|]+) \| [^|]+ \| [123] \|$", runbook, re.M)
    pages = {alarm: (title, anchor) for title, anchor, listed in rows for alarm in re.findall(r"`(\w+)`", listed)}
    sections = dict(section.split("\n", 1) for section in re.split(r"^## ", runbook, flags=re.M)[1:])
    for name, alarm in alarms.items():
        title, anchor = pages[name]
        assert alarm["AlarmDescription"].endswith(f". docs/RUNBOOK.md#{anchor}"), name
        assert re.search(r"\n```sh\n.+?\n```\n\n\*\*Meaning\.\*\*.*\n\*\*Action\.\*\*", sections[title], re.S), name


def test_the_runbook_knows_no_other_alarm(stack, runbook):
    index = runbook.split("## Index\n")[1].split("\n## ")[0]
    assert {name for row in re.findall(r"^\| \[.*$", index, re.M) for name in re.findall(r"`([A-Z]\w+[a-z]\w*)`", row.split("|")[2])} == of_template(stack)


def test_the_runbooks_commands_name_messages_and_metrics_that_exist(runbook, repository):
    commands = "\n".join(re.findall(r"^ *```sh\n(.*?)^ *```", runbook, re.M | re.S))
    code = sources(repository)
    for message in re.findall(r'fields\.message = "([^"*]+)', commands):
        assert f'"{message}' in code, f"no function logs: {message}"
    metrics = re.findall(r"^ *engine (\w+) \w+$", commands, re.M)
    assert metrics and set(metrics) <= emitted(repository)
    # CloudWatch answers nothing for a metric that it does not know. What alarms or the dashboard watch is known.
    watched = set(re.findall(r"\w+", (repository / "stacks/watch.yaml").read_text()))
    of_aws = re.findall(r"^ *(?:by_node|by_function|points AWS/\w+) (\w+)", commands, re.M)
    assert len(of_aws) > 10 and set(of_aws) <= watched


@functools.cache
def sources(repository):
    return "".join(path.read_text() for path in repository.glob("**/src/**/*.rs") if "target" not in path.parts)


def emitted(repository):
    return set(re.findall(r'"([A-Z][A-Za-z]+)"', sources(repository)))


def test_the_engines_metrics_exist(stack, alarms, repository):
    ours = {m["MetricName"] for a in alarms.values() for m in metrics_of(a) if m["Namespace"] == "hongbao"}
    body = client("cloudwatch").get_dashboard(DashboardName=STACK)["DashboardBody"]
    widgets = json.loads(body)["widgets"]
    for widget in widgets:
        for metric in widget["properties"]["metrics"]:
            if metric[0] == "hongbao":
                ours.add(metric[1])
                assert metric[2:4] == ["Table", stack.outputs["TableName"]], metric
    assert ours <= emitted(repository)


def test_the_dashboard_shows_each_outcome_and_what_the_stack_has(stack, repository):
    widgets = json.loads(client("cloudwatch").get_dashboard(DashboardName=STACK)["DashboardBody"])["widgets"]
    places = [(widget["x"], widget["y"]) for widget in widgets]
    assert len(set(places)) == len(places)
    shown = [[part for part in metric if isinstance(part, str)] for w in widgets for metric in w["properties"]["metrics"]]
    assert not [metric for metric in shown if "" in metric], "of a function or queue that the stack does not have"
    ends = (repository / "shared/src/telemetry.rs").read_text()
    outcomes = {metric[5] for metric in shown if metric[1:2] == ["Grabs"]}
    assert outcomes == set(re.findall(r'^ +(?:Self|GrabEnd)::\w+ => "(\w+)"', ends, re.M)) and outcomes
    of_events = {
        function: [metric[1] for metric in shown if metric[2:4] == ["FunctionName", stack.ids.get(function)]]
        for function in ("PublishToBus", "PublishToQueue", "Notify")
    }
    publish, notify = ["IteratorAge", "Errors"], ["Errors", "Throttles"]
    assert of_events == {
        "nodes": {"PublishToBus": publish, "PublishToQueue": publish, "Notify": notify},
        "serverless": {"PublishToBus": [], "PublishToQueue": publish, "Notify": notify},
        "existing": {"PublishToBus": [], "PublishToQueue": [], "Notify": []},
    }[stack.way]
    balancers = {metric[3] for metric in shown if metric[:1] == ["AWS/ApplicationELB"]}
    assert balancers == ({f"{stack.ids['Balancer']}.LoadBalancerFullName"} if "EntranceDomain" in stack.parameters else set())
    queues = {metric[3] for metric in shown if metric[2:3] == ["QueueName"]}
    assert queues == {url.rpartition("/")[2] for url in client("sqs").list_queues().get("QueueUrls", [])}


def test_the_topic_takes_alarms_and_the_events_of_redis(stack):
    """A failover is no metric. ElastiCache publishes it, if the topic lets it."""
    [policy] = stack.noted("AWS::SNS::TopicPolicy").values()
    assert policy["Topics"] == [stack.outputs["AlarmTopicArn"]]
    alarms_may, redis_may = policy["PolicyDocument"]["Statement"]
    assert alarms_may["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    assert alarms_may["Condition"] == {"StringEquals": {"aws:SourceAccount": ACCOUNT}}
    assert redis_may["Action"] == "sns:Publish" and redis_may["Condition"] == {"StringEquals": {"aws:SourceOwner": ACCOUNT}}
    for group in stack.noted("AWS::ElastiCache::ReplicationGroup").values():
        assert group["NotificationTopicArn"] == stack.outputs["AlarmTopicArn"]


def test_cloudwatch_looks_back_as_far_as_each_alarm_does(alarms):
    for name, alarm in alarms.items():
        periods = {query["MetricStat"]["Period"] for query in alarm.get("Metrics", []) if "MetricStat" in query} or {alarm["Period"]}
        [period] = periods
        most = 7 * 24 * 3600 if period >= 3600 else 24 * 3600
        assert period * alarm["EvaluationPeriods"] <= most, name


def test_alarms_watch_each_function_queue_vault_and_node(stack, alarms):
    # A minimum or a sum over the ranges of settle would hide one that is stuck.
    assert alarms["OutboxAge"]["Statistic"] == alarms["RefundsLate"]["Statistic"] == "Maximum"
    entrances = {metric["Namespace"] for metric in metrics_of(alarms["ApiFaults"])}
    assert entrances == {"AWS/ApiGateway"} | ({"AWS/ApplicationELB"} if "EntranceDomain" in stack.parameters else set())
    queues = [d["Value"] for m in metrics_of(alarms.get("DeadLetters", {"Metrics": []})) for d in m["Dimensions"]]
    found = [url.rpartition("/")[2] for url in client("sqs").list_queues().get("QueueUrls", [])]
    assert sorted(queues) == sorted(name for name in found if "DeadLetters" in name)
    vaults = {d["Value"] for m in metrics_of(alarms.get("BackupsFailing", {"Metrics": []})) for d in m["Dimensions"]}
    assert vaults == ({stack.ids["BackupVault"], "elsewhere"} if "BackupVaultArn" in stack.parameters else set())
    functions = {d["Value"] for m in metrics_of(alarms["FunctionErrors"]) for d in m["Dimensions"]}
    assert functions == {configuration["FunctionName"] for _, _, configuration in stack.called()}
    if stack.way == "nodes":
        nodes = {d["Value"] for m in metrics_of(alarms["RedisMemory"]) for d in m["Dimensions"]}
        # moto names the group after its logical id; ElastiCache names its nodes after the group.
        [group] = stack.noted("AWS::ElastiCache::ReplicationGroup").values()
        shards, per_shard = int(group["NumNodeGroups"]), int(group["ReplicasPerNodeGroup"]) + 1
        assert (shards, per_shard) == (2, 3)
        assert nodes == {
            f"{stack.ids['RedisNodes']}-{shard + 1:04}-{node + 1:03}" for shard in range(shards) for node in range(per_shard)
        }


# Their report says each time whether it is over, or their event is that there is no report. Each has one metric, or needs both of its metrics.
REPORTED = {"WithdrawalPending", "OutboxAge", "OutboxParked", "RefundsLate", "AuditImbalance", "AuditUnjudged", "SettleMissing", "AuditMissing"}


def test_any_one_metric_of_an_alarm_raises_it_and_its_silence_ends_it(alarms):
    """Most metrics of an alarm have no value when one has. test_weeks.py tries each alarm over time."""
    for name, alarm in alarms.items():
        ids = ids_of(alarm)
        # A share needs both of its metrics.
        if name in REPORTED or {"count", "requests"} & set(ids):
            continue
        periods = alarm.get("DatapointsToAlarm", alarm["EvaluationPeriods"])
        much = 1000 + 2 * alarm["Threshold"] * (10**9 if "bytes" in ids else 3600 if "age" in ids else 1)
        for one in ids:
            alone = {metric: [much if metric == one else None] * periods for metric in ids}
            assert state(alarm, "OK", **alone) == "ALARM", f"{name} is not raised by {one} alone"
            silence = [None] * (alarm["EvaluationPeriods"] + READ_MORE)
            after = state(alarm, "ALARM", **{metric: values + silence for metric, values in alone.items()})
            assert after != "ALARM", f"{name} stays raised after an event of {one}"
