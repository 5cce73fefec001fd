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
        "nodes": {"RedisMemory", "RedisCpu", "RedisEvictions", "RedisConnections", "RedisReplication"},
        "serverless": {"RedisServerlessMemory", "RedisServerlessThrottles", "RedisServerlessEvictions"},
        "existing": set(),
    }[stack.way]


@pytest.fixture(scope="module")
def runbook(repository):
    return (repository / "docs/OPERATE.md").read_text()


def test_the_runbook_has_a_row_and_a_section_for_each_alarm(stack, runbook):
    rows = re.findall(r"^\| \[`(\w+)`\]\(#(\w+)\) \| [^|]+ \| [123] \|$", runbook, re.M)
    assert {name for name, _ in rows} == of_template(stack) and len(rows) == len(of_template(stack))
    sections = dict(section.split("\n", 1) for section in re.split(r"^### ", runbook, flags=re.M)[1:])
    for name, anchor in rows:
        assert anchor == name.lower()
        form = r"\n\*\*Signal\.\*\* [^\n]+\n\n```sh\n.+?\n```\n\n\*\*Meaning\.\*\*.*\n\*\*Action\.\*\*"
        assert re.match(form, sections[name], re.S), name


def test_the_runbooks_commands_name_what_exists(stack, runbook, repository):
    commands = "\n".join(re.findall(r"^ *```sh\n(.*?)^ *```", runbook, re.M | re.S))
    resources, outputs = source()["Resources"], stack.template["Outputs"]
    assert set(re.findall(r"\$\(resource (\w+)\)", commands)) <= set(resources)
    assert set(re.findall(r"\$\(output (\w+)\)", commands)) <= set(outputs)
    assert {f"{name}Logs" for name in re.findall(r"^ *logs (\w+) ", commands, re.M)} <= set(resources)
    queried = {name for names in re.findall(r"^ *query ([A-Z][A-Za-z,]+) ", commands, re.M) for name in names.split(",")}
    assert queried and {f"{name}Logs" for name in queried} <= set(resources)
    code = sources(repository)
    for message in re.findall(r'fields\.message = "([^"*]+)', commands):
        assert f'"{message}' in code, f"no function logs: {message}"
    metrics = re.findall(r"^ *engine (\w+) \w+$", commands, re.M)
    assert metrics and set(metrics) <= emitted(repository)


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


def test_the_alarms_that_matter_most(stack, alarms):
    table = [{"Name": "Table", "Value": stack.outputs["TableName"]}]
    age = alarms["OutboxAge"]
    assert (age["Threshold"], age["Dimensions"], age["Statistic"]) == (120_000, table, "Maximum")
    # A minimum or a sum over the ranges would hide one that is stuck.
    late = alarms["RefundsLate"]
    assert (late["MetricName"], late["Threshold"], late["Statistic"]) == ("DueAge", 900, "Maximum")
    assert late["ComparisonOperator"] == "GreaterThanThreshold" and late["Dimensions"] == table
    [period] = [query["MetricStat"]["Period"] for query in alarms["AuditMissing"]["Metrics"] if "MetricStat" in query]
    unaudited = period * alarms["AuditMissing"]["DatapointsToAlarm"]
    assert unaudited == (24 + 6) * 3600
    assert unaudited + period <= 7 * 24 * 3600, "CloudWatch looks back a week at most"
    imbalance = alarms["AuditImbalance"]
    assert (imbalance["MetricName"], imbalance["Threshold"]) == ("AuditImbalances", 0)
    assert imbalance["ComparisonOperator"] == "GreaterThanThreshold" and imbalance["Dimensions"] == table
    ranges = 2
    missing = alarms["SettleMissing"]
    # Five runs of each range are due in five minutes. One may be missing in each range, but not a whole range.
    assert 5 * (ranges - 1) < missing["Threshold"] <= 5 * ranges - ranges
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


class Series(list):
    """As many values as an alarm evaluates, with the operators that the alarms use. None: no value."""

    def __sub__(self, other):
        return Series(left - right for left, right in zip(self, other))

    def __gt__(self, other):
        return Series(value > other for value in self)


def raised(alarm, **metrics):
    """Whether CloudWatch raises the alarm for these values of its metrics, oldest first."""
    [expression] = [query["Expression"] for query in alarm["Metrics"] if "Expression" in query]
    periods = alarm["EvaluationPeriods"]
    spread = lambda value: value if isinstance(value, Series) else [value] * periods
    functions = {
        "FILL": lambda series, value: Series(value if one is None else one for one in series),
        "RUNNING_SUM": lambda series: Series(sum(series[: i + 1]) for i in range(len(series))),
        "IF": lambda condition, then, other: Series(
            a if is_so else b for is_so, a, b in zip(condition, spread(then), spread(other))
        ),
    }
    given = {name: Series(values[-periods:]) for name, values in metrics.items()}
    values = eval(expression, {}, functions | given)  # noqa: S307
    assert alarm["ComparisonOperator"] == "LessThanThreshold" and alarm["TreatMissingData"] == "ignore"
    return sum(value < alarm["Threshold"] for value in values) >= alarm["DatapointsToAlarm"]


def test_a_new_deployment_is_quiet_and_a_stopped_one_is_not(alarms):
    for name, alarm in alarms.items():
        assert alarm["TreatMissingData"] != "breaching", f"{name} would be raised before its first value"
    settle = alarms["SettleMissing"]
    due = int(settle["Threshold"])
    none, well = [None] * 3, [0, 0, 0]
    assert not raised(settle, runs=none, errors=none), "no run yet"
    assert not raised(settle, runs=[None, None, 1], errors=none), "the first minutes of a deployment"
    assert not raised(settle, runs=[None, 1, due], errors=none)
    assert not raised(settle, runs=[due, due, due], errors=well)
    assert raised(settle, runs=[due, None, None], errors=well), "the runs ended"
    assert raised(settle, runs=[due, due, due], errors=[0, 1, 1]), "the runs fail"
    audit = alarms["AuditMissing"]
    quarters = audit["DatapointsToAlarm"]
    assert audit["EvaluationPeriods"] == quarters + 1
    assert not raised(audit, reports=[None] * quarters + [1]), "the first audit"
    assert not raised(audit, reports=[None, 1] + [None] * (quarters - 1))
    assert raised(audit, reports=[1] + [None] * quarters), "no report between two audits and six hours"


def test_the_gateways_own_refusals_are_counted(stack, alarms):
    """API Gateway asks no function for them."""
    alarm = alarms["GatewayRefusals"]
    [expression] = [query["Expression"] for query in alarm["Metrics"] if "Expression" in query]
    names = {query["Id"]: query["MetricStat"]["Metric"] for query in alarm["Metrics"] if "MetricStat" in query}
    assert names.pop("requests")["MetricName"] == "Count"
    assert expression == " - ".join(["requests", *(f"FILL({name}, 0)" for name in names)])
    assert {metric["MetricName"] for metric in names.values()} == {"Invocations"}
    counted = {metric["Dimensions"][0]["Value"] for metric in names.values()}
    answering = {"send", "grab", "view", "wallet"}
    assert counted == {
        configuration["FunctionName"] for program, _, configuration in stack.called() if program in answering
    }
