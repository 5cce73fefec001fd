"""Each price in the documents is one that scripts/cost.py computes, of what the templates make and the functions write."""

import json
import re
import subprocess
import sys

import pytest
from transformed import ROOT, looped, source


def computed(*options):
    command = [sys.executable, ROOT / "scripts/cost.py", "--json", *options]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.fixture(scope="module")
def costs():
    return computed()


def values(of):
    """Each number of an answer."""
    for one in of.values():
        yield from values(one) if isinstance(one, dict) else [one] if isinstance(one, (int, float)) else []


def test_each_price_in_a_document_is_computed(costs):
    others = [computed("--serverless", "0"), computed("--month-users", "200000")]
    dollars, with_tickets = costs["dollars"], computed("--tickets", "1")["dollars"]
    known = {value for one in [costs, *others] for value in values(one)}
    known |= {sum(parts.values()) for parts in costs["a_million"].values()}
    known |= {dollars["month"] - dollars["user pool"], with_tickets["at rest"] - dollars["at rest"]}
    printed = {f"{value:.{digits}f}" for value in known for digits in (0, 2)} | {f"{value:g}" for value in known}
    for page in [*(ROOT / "docs").glob("*.md"), ROOT / "CHANGELOG.md"]:
        prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
        assert set(re.findall(r"\$(\d+(?:\.\d+)?)", prose)) <= printed, page.name
    # A load balancer lies in as many zones as it has subnets.
    balancer = source("stacks/entrance.yaml")["Resources"]["Balancer"]["Properties"]
    assert len(balancer["Subnets"]["Fn::If"][1]) == costs["inputs"]["zones"]


def watched(*conditions):
    """How many metrics the alarms' expressions have, where these conditions hold."""

    def count(query):
        if "Fn::If" in query:
            condition, then, other = query["Fn::If"]
            return count(then if condition in conditions else other)
        return int("MetricStat" in query)

    alarms = [one for one in looped("stacks/watch.yaml")["Resources"].values() if one["Type"] == "AWS::CloudWatch::Alarm"]
    made = [one["Properties"] for one in alarms if one.get("Condition") in (None, *conditions)]
    return sum(1 if "MetricName" in alarm else sum(map(count, alarm["Metrics"])) for alarm in made)


def test_each_metric_of_an_alarm_is_paid(costs):
    given, always = costs["inputs"], watched()
    assert given["alarm-metrics"] == always
    assert given["alarm-metrics-serverless"] == watched("RedisIsServerless") - always
    assert given["alarm-metrics-node"] * given["nodes"] == watched("RedisIsNodes") - always
    assert given["alarm-metrics-alb"] == watched("HasBalancer") - always


def test_each_metric_that_is_written_is_paid(costs):
    given, code = costs["inputs"], lambda name: (ROOT / name).read_text()
    written = lambda name: set(re.findall(r'^ +\("(\w+)", "', code(name).partition("mod tests")[0], re.M))
    assert given["metrics"] == len(written("functions/settle/src/metric.rs"))
    assert given["audit-metrics"] == len(written("functions/audit/src/metric.rs"))
    outcomes = set(re.findall(r'^ +(?:Self|GrabEnd)::\w+ => "(\w+)"', code("shared/src/telemetry.rs"), re.M))
    of_grabs = set(re.findall(r'"((?!Grabs|Count)[A-Z][a-zA-Z]+)"', code("functions/grab/src/metric.rs").partition("mod tests")[0]))
    assert outcomes and of_grabs == {"Outcome", "Replays", "Repairs", "ScriptCalls", "ClaimLatency", "ColdStarts", "Milliseconds"}
    assert given["grab-metrics"] == len(outcomes) + 5


def test_settle_runs_as_often_as_it_is_scheduled(costs):
    schedules = [one for one in source()["Resources"].values() if one["Type"] == "AWS::Scheduler::Schedule"]
    assert costs["inputs"]["settle-runs"] == sum(one["Properties"]["ScheduleExpression"] == "rate(1 minute)" for one in schedules)


def test_the_defaults_are_the_cheap_ones(costs):
    template = source()
    assert (template["Parameters"]["Redis"]["Default"], template["Parameters"]["GrabAck"]["Default"]) == ("serverless", "ledger")
    assert costs["inputs"]["serverless"] == 1
    pool = source("stacks/state.yaml")["Resources"]["UserPool"]["Properties"]
    # The plan has authenticator apps, but no second factor by mail.
    assert (pool["UserPoolTier"], pool["EnabledMfas"]) == ("LITE", ["SOFTWARE_TOKEN_MFA"])
