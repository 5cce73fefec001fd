"""The alarms and the dashboard: each alarm notifies the operator and is in the runbook, each metric exists."""

import json
import re

import pytest
from emulated import STACK, client
from transformed import source


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


def metrics_of(alarm):
    if "MetricName" in alarm:
        return [alarm]
    return [query["MetricStat"]["Metric"] for query in alarm["Metrics"] if "MetricStat" in query]


def test_each_alarm_notifies_the_topic(stack, alarms):
    topic = stack.outputs["AlarmTopicArn"]
    for name, alarm in alarms.items():
        assert alarm["AlarmActions"] == alarm["OKActions"] == [topic], name
        assert len(metrics_of(alarm)) in range(1, 11), f"{name}: CloudWatch takes ten metrics"
    redis = {name for name in alarms if name.startswith("Redis")}
    assert redis == {
        "nodes": {"RedisMemory", "RedisCpu", "RedisEvictions"},
        "serverless": {"RedisServerlessMemory", "RedisServerlessThrottles", "RedisServerlessEvictions"},
        "existing": set(),
    }[stack.way]


@pytest.fixture(scope="module")
def runbook(repository):
    return (repository / "docs/RUNBOOK.md").read_text()


def test_the_runbook_has_a_row_and_a_section_for_each_alarm(stack, runbook):
    rows = re.findall(r"^\| \[`(\w+)`\]\(#(\w+)\) \| [^|]+ \| `([^`]+)` \| [123] \|$", runbook, re.M)
    assert {name for name, _, _ in rows} == of_template(stack) and len(rows) == len(of_template(stack))
    sections = dict(section.split("\n", 1) for section in re.split(r"^## ", runbook, flags=re.M)[1:])
    for name, anchor, command in rows:
        assert anchor == name.lower()
        form = r"\n\*\*Signal\.\*\*.*\n\*\*First command\.\*\*\n\n```sh\n(.*?)\n```\n\n\*\*Meaning\.\*\*.*\n\*\*Action\.\*\*"
        found = re.match(form, sections[name], re.S)
        assert found and found[1] == command, name


def test_the_runbooks_commands_name_what_exists(stack, runbook, repository):
    commands = "\n".join(re.findall(r"^ *```sh\n(.*?)^ *```", runbook, re.M | re.S))
    resources, outputs = source()["Resources"], stack.template["Outputs"]
    assert set(re.findall(r"\$\(resource (\w+)\)", commands)) <= set(resources)
    assert set(re.findall(r"\$\(output (\w+)\)", commands)) <= set(outputs)
    assert {f"{name}Logs" for name in re.findall(r"^ *logs (\w+) ", commands, re.M)} <= set(resources)
    code = sources(repository)
    for message in re.findall(r'fields\.message = "([^"*]+)', commands):
        assert f'"{message}' in code, f"no function logs: {message}"
    metrics = re.findall(r"^ *engine (\w+) \w+$", commands, re.M)
    assert metrics and set(metrics) <= emitted(repository)


def sources(repository):
    return "".join(path.read_text() for path in repository.glob("**/src/**/*.rs") if "target" not in path.parts)


def emitted(repository):
    return set(re.findall(r'"([A-Z][A-Za-z]+)"', sources(repository)))


def test_the_engines_metrics_exist_or_are_known_to_be_missing(stack, alarms, ahead, repository):
    ours = {m["MetricName"] for a in alarms.values() for m in metrics_of(a) if m["Namespace"] == "hongbao"}
    body = client("cloudwatch").get_dashboard(DashboardName=STACK)["DashboardBody"]
    widgets = json.loads(body)["widgets"]
    for widget in widgets:
        for metric in widget["properties"]["metrics"]:
            if metric[0] == "hongbao":
                ours.add(metric[1])
                assert metric[2:4] == ["Table", stack.outputs["TableName"]], metric
    in_code = emitted(repository)
    assert ours <= in_code | set(ahead["metrics"]), "neither in the code nor in tests/aws/ahead.json"
    assert not in_code & set(ahead["metrics"]), "tests/aws/ahead.json: the code emits these now"
    assert set(ahead["metrics"]) <= ours


def test_the_alarms_that_matter_most(stack, alarms):
    table = [{"Name": "Table", "Value": stack.outputs["TableName"]}]
    age = alarms["OutboxAge"]
    assert (age["Threshold"], age["Dimensions"], age["Statistic"]) == (120_000, table, "Maximum")
    imbalance = alarms["AuditImbalance"]
    assert (imbalance["MetricName"], imbalance["Threshold"]) == ("AuditImbalances", 0)
    assert imbalance["ComparisonOperator"] == "GreaterThanThreshold" and imbalance["Dimensions"] == table
    ranges = int(stack.parameters.get("SettleRanges", "1"))
    missing = alarms["SettleMissing"]
    # Five runs of each range are due in five minutes. One may be missing in each range, but not a whole range.
    assert 5 * (ranges - 1) < missing["Threshold"] <= 5 * ranges - ranges
    assert missing["TreatMissingData"] == alarms["AuditMissing"]["TreatMissingData"] == "breaching"
    queues = [d["Value"] for m in metrics_of(alarms["DeadLetters"]) for d in m["Dimensions"]]
    found = [url.rpartition("/")[2] for url in client("sqs").list_queues()["QueueUrls"]]
    assert sorted(queues) == sorted(name for name in found if "DeadLetters" in name)
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
