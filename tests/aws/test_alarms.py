"""The alarms and the dashboard: each alarm notifies the operator and is in the runbook, each metric exists."""

import functools
import json
import re

import pytest
from cloudwatch import READ_MORE, ids_of, metrics_of, state
from emulated import ACCOUNT, STACK, client
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


def test_the_runbooks_commands_name_what_exists(stack, runbook, repository):
    pages = runbook + (repository / "docs/OPERATE.md").read_text()
    commands = "\n".join(re.findall(r"^ *```sh\n(.*?)^ *```", pages, re.M | re.S))
    resources, outputs = source()["Resources"], stack.template["Outputs"]
    # The transform makes resources, too.
    assert set(re.findall(r"\$\(resource (\w+)\)", commands)) <= set(resources) | set(stack.ids)
    assert set(re.findall(r"\$\(output (\w+)\)", commands)) <= set(outputs)
    assert {f"{name}Logs" for name in re.findall(r"^ *logs (\w+) ", commands, re.M)} <= set(resources)
    queried = {name for names in re.findall(r"^ *(?:query|insights) ([A-Z][A-Za-z,]+) ", commands, re.M) for name in names.split(",")}
    assert queried and {f"{name}Logs" for name in queried} <= set(resources)
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


def test_the_alarms_that_matter_most(stack, alarms):
    table = [{"Name": "Table", "Value": stack.outputs["TableName"]}]
    age = alarms["OutboxAge"]
    assert (age["Threshold"], age["Dimensions"], age["Statistic"]) == (120_000, table, "Maximum")
    # A minimum or a sum over the ranges would hide one that is stuck.
    late = alarms["RefundsLate"]
    assert (late["MetricName"], late["Threshold"], late["Statistic"]) == ("DueAge", 900, "Maximum")
    assert late["ComparisonOperator"] == "GreaterThanThreshold" and late["Dimensions"] == table
    imbalance = alarms["AuditImbalance"]
    assert (imbalance["MetricName"], imbalance["Threshold"]) == ("AuditImbalances", 0)
    assert imbalance["ComparisonOperator"] == "GreaterThanThreshold" and imbalance["Dimensions"] == table
    ranges = 2
    missing = alarms["SettleMissing"]
    # Five runs of each range are due in five minutes. One may be missing in each range, but not a whole range.
    assert 5 * (ranges - 1) < missing["Threshold"] <= 5 * ranges - ranges
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


# The reports of settle and audit say each time whether it is over. While there is no report, another alarm is raised.
REPORTED = {"WithdrawalPending", "OutboxAge", "OutboxParked", "RefundsLate", "AuditImbalance", "AuditUnjudged"}
# Their event is that there is no data. test_a_new_deployment_is_quiet_and_a_stopped_one_is_not tries them.
RAISED_BY_SILENCE = {"SettleMissing", "AuditMissing"}


def event_of(alarm, quiet=False):
    """Values of the alarm's metrics for as long as it takes to be raised, or in their place those of a quiet time."""
    periods = alarm.get("DatapointsToAlarm", alarm["EvaluationPeriods"])
    # Far beyond the threshold, also where it is a share of the requests or of the concurrency.
    unit = 10**9 if "bytes" in ids_of(alarm) else 3600 if "age" in ids_of(alarm) else 1
    much = 0 if quiet else 1000 + 2 * alarm["Threshold"] * unit
    # What the functions took or refused is taken off what the entrances count.
    inside = {"send", "grab", "view", "wallet"} if {"requests", "count"} & set(ids_of(alarm)) else set()
    return {name: [0 if name in inside else much] * periods for name in ids_of(alarm)}


def test_each_alarm_is_raised_by_an_event_and_ends_after_it(alarms):
    for name, alarm in alarms.items():
        if name in RAISED_BY_SILENCE:
            continue
        nothing = {metric: [] for metric in ids_of(alarm)}
        assert state(alarm, **nothing) != "ALARM", f"{name} is raised before its first value"
        event = event_of(alarm)
        assert state(alarm, "OK", **event) == "ALARM", f"{name} is not raised"
        silence = [None] * (alarm["EvaluationPeriods"] + READ_MORE)
        after = state(alarm, "ALARM", **{metric: values + silence for metric, values in event.items()})
        quiet = event_of(alarm, quiet=True)
        ended = state(alarm, "ALARM", **{metric: quiet[metric] * 5 for metric in quiet})
        assert ended == "OK", f"{name} stays raised, although all is well"
        assert (after == "ALARM") == (name in REPORTED), f"{name} after its event, without data: {after}"


def test_any_one_metric_of_an_alarm_raises_and_ends_it(alarms):
    """Most metrics of an alarm have no value when one has."""
    for name, alarm in alarms.items():
        # A share needs both of its metrics.
        if name in RAISED_BY_SILENCE | REPORTED or {"count", "requests"} & set(ids_of(alarm)):
            continue
        for one in ids_of(alarm):
            alone = {metric: [None] * len(values) if metric != one else values for metric, values in event_of(alarm).items()}
            assert state(alarm, "OK", **alone) == "ALARM", f"{name} is not raised by {one} alone"
            silence = [None] * (alarm["EvaluationPeriods"] + READ_MORE)
            after = state(alarm, "ALARM", **{metric: values + silence for metric, values in alone.items()})
            assert after != "ALARM", f"{name} stays raised after an event of {one}"


def test_a_filled_gap_cannot_hide_what_comes_late(alarms):
    """CloudWatch fills the newest period too, before its value has come."""
    expressions = {name: query["Expression"] for name, alarm in alarms.items() for query in alarm.get("Metrics", []) if "Expression" in query}
    filled = [alarms[name] for name, expression in expressions.items() if re.search(r"FILL\(\w+, 0\)", expression)]
    assert filled
    for alarm in filled:
        assert alarm["DatapointsToAlarm"] < alarm["EvaluationPeriods"], alarm["AlarmName"]


def raised(alarm, **metrics):
    """Whether these values raise it, oldest first."""
    return state(alarm, "OK", **metrics) == "ALARM"


def test_a_new_deployment_is_quiet_and_a_stopped_one_is_not(alarms):
    for name, alarm in alarms.items():
        assert alarm["TreatMissingData"] != "breaching", f"{name} would be raised before its first value"
    settle = alarms["SettleMissing"]
    due = int(settle["Threshold"])
    none, well = [None] * 3, [0, 0, 0]
    assert state(settle, runs=none, errors=none) == "INSUFFICIENT_DATA", "no run yet"
    assert not raised(settle, runs=[None, None, 1], errors=none), "the first minutes of a deployment"
    assert not raised(settle, runs=[None, 1, 1], errors=none), "its first period is not whole, and the newest value is late"
    assert not raised(settle, runs=[due, due, due], errors=well)
    assert raised(settle, runs=[due, None, None, None], errors=[0, None, None, None]), "the runs ended"
    assert state(settle, "ALARM", runs=[due] + [None] * 9, errors=well + [None] * 7) == "ALARM", "they are still missing an hour later"
    assert state(settle, "ALARM", runs=[None] * 9 + [1, due, due], errors=[None] * 9 + well) == "OK", "they go on"
    assert raised(settle, runs=[due, due, due], errors=[1, 1, 1]), "the runs fail"
    audit = alarms["AuditMissing"]
    hours = audit["EvaluationPeriods"]
    assert hours == 30 == audit.get("DatapointsToAlarm", hours)
    runs, silence = [120] * hours, [None] * hours
    young = [None] * 20 + [120] * 10
    assert state(audit, settled=young, unfinished=silence) == "INSUFFICIENT_DATA", "a new deployment"
    assert not raised(audit, settled=runs, unfinished=[*silence[1:], 0]), "the first audit"
    assert not raised(audit, settled=runs, unfinished=[0, *silence[1:]])
    assert raised(audit, settled=[120, *runs], unfinished=[0, *silence]), "none ended between two audits and six hours"
    assert raised(audit, settled=[120, *runs], unfinished=[1, *silence]), "the rest of one was lost"
    assert raised(audit, settled=runs, unfinished=silence), "none ever ended"
    assert state(audit, "ALARM", settled=runs, unfinished=[*silence[1:], 0]) == "OK", "one ended"


def test_one_failed_run_of_settle_or_audit_pages_nobody(stack, alarms):
    """The next run does its work. Nothing is left that somebody would have to remove."""
    errors = alarms["FunctionErrors"]
    for function in ("settle", "audit"):
        once = {name: [1] if name == function else [None] for name in ids_of(errors)}
        assert not raised(errors, **once), function
    assert not raised(alarms["SettleMissing"], runs=[10] * 5, errors=[0, 0, 1, 0, 0])
    for logical_id, properties in stack.noted("AWS::Lambda::EventInvokeConfig").items():
        assert "OnFailure" not in properties.get("DestinationConfig", {}), logical_id
    # The queues are those of events only.
    if stack.way == "existing":
        assert "DeadLetters" not in alarms and not client("sqs").list_queues().get("QueueUrls")


def test_the_gateways_own_refusals_are_counted(stack, alarms):
    """API Gateway asks no function for them."""
    alarm = alarms["GatewayRefusals"]
    [expression] = [query["Expression"] for query in alarm["Metrics"] if "Expression" in query]
    names = {query["Id"]: query["MetricStat"]["Metric"] for query in alarm["Metrics"] if "MetricStat" in query}
    assert names.pop("requests")["MetricName"] == "Count"
    all_requests = "requests"
    if "EntranceDomain" in stack.parameters:
        # What a load balancer forwards reaches a function too.
        assert names.pop("balanced")["MetricName"] == "RequestCount"
        assert names.pop("refused")["MetricName"] == "HTTPCode_ELB_4XX_Count"
        all_requests = "FILL(requests, 0) + FILL(balanced, 0) + FILL(refused, 0)"
    assert " ".join(expression.split()) == " - ".join([all_requests, *(f"FILL({name}, 0)" for name in names)])
    assert {metric["MetricName"] for metric in names.values()} == {"Invocations"}
    counted = {metric["Dimensions"][0]["Value"] for metric in names.values()}
    answering = {"send", "grab", "view", "wallet"}
    assert counted == {
        configuration["FunctionName"] for program, _, configuration in stack.called() if program in answering
    }


def test_the_load_balancers_requests_count_too(stack, alarms):
    """A gradual deployment would else shift users' requests unseen."""
    queries = {query["Id"]: query for query in alarms["ApiFaults"]["Metrics"]}
    assert {metric["Namespace"] for metric in metrics_of(alarms["ApiFaults"])} == (
        {"AWS/ApiGateway", "AWS/ApplicationELB"} if "EntranceDomain" in stack.parameters else {"AWS/ApiGateway"}
    )
    expression = queries.pop("value")["Expression"]
    assert set(re.findall(r"[a-z]+", expression)) == set(queries)
    for given in ({"count": 100, "faults": 2}, {"balanced": 100, "failed": 2}, {"balanced": 100, "crashed": 2}):
        if set(given) <= set(queries):
            values = {one: given.get(one, 0) for one in queries}
            functions = {"FILL": lambda value, _: value, "IF": lambda is_so, a, b: a if is_so else b}
            assert eval(expression, {}, functions | values) == 2, given  # noqa: S307
