"""What the documents say about costs is what scripts/cost.py computes, in the prices of the region of their example."""

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


def document(name):
    return re.sub(r"\s+", " ", (ROOT / "docs" / name).read_text())


def changelog():
    return document("../CHANGELOG.md")


def test_the_table_is_the_one_that_is_printed(costs):
    text = document("PERFORMANCE.md")
    kinds = ["wins", "losses", "sends", "views"]
    for part in costs["a_million"]["wins"]:
        values = [costs["a_million"][kind][part] for kind in kinds]
        if any(values):
            assert f"| {part} | {' | '.join(f'${value:.2f}' for value in values)} |" in text
    sums = [sum(costs["a_million"][kind].values()) for kind in kinds]
    assert f"| together | {' | '.join(f'**${value:.2f}**' for value in sums)} |" in text


def test_the_sums_are_those_that_are_printed(costs):
    text, dollars = document("PERFORMANCE.md"), costs["dollars"]
    users = dollars["user pool"]
    redis = dollars["at rest, serverless"]
    assert (
        f"a deployment costs ${dollars['at rest']:.0f} a month: ${redis:.0f} for ElastiCache Serverless, "
        f"${dollars['watching']:.0f} for metrics, alarms and the dashboard." in text
    )
    assert f"a deployment without traffic costs ${dollars['at rest']:.0f} a month." in changelog()
    assert f"in its place it costs ${computed('--serverless', '0')['dollars']['at rest']:.0f}." in text
    assert f"on 100 slips costs {100 * dollars['rush']:.1f} cents. **A month of small groups** costs ${dollars['month'] - users:.0f}:" in text
    many = computed("--month-users", "200000")["dollars"]["user pool"]
    assert f"from 10,001 on: ${users:.0f} for 50,000. Above 100,000 each costs less: ${many:.0f} for 200,000." in text
    given = costs["inputs"]
    assert f"${given['table-price']} for a GB and a month, and ${given['recovery-price']:.2f} for its point-in-time recovery" in text
    key = computed("--own-key", "1")["dollars"]["KMS"] - dollars["KMS"]
    assert f"${dollars['KMS']:.2f} a month (assumed), and ${key:.0f} more with `CustomerKeyArn`" in text
    assert (
        f"(`PageWebAclArn`) costs ${given['web-acl-price']} a month, ${given['web-acl-rule-price']} for each of its rules, "
        f"and ${given['web-acl-request-price']:.2f} for a million requests" in text
    )


def test_a_load_balancer_pays_where_the_documents_say_so(costs):
    dollars = costs["dollars"]
    month, pays = f"{dollars['load balancer']:.0f}", f"{dollars['load balancer pays, millions']:.0f} million requests a month on"
    losses = f"${dollars['losses, alb']:.2f} instead of ${dollars['losses, api']:.2f}"
    assert f"makes a million losses {losses}. It costs ${month} a month, with an address in each of three zones, so it pays from {pays}." in document("PERFORMANCE.md")
    assert f"A million losing grabs then costs {losses}, and a month ${month} more: it pays from {pays} (`scripts/cost.py`)" in document("OPERATE.md")
    # It lies in as many zones as it has subnets.
    balancer = source("stacks/entrance.yaml")["Resources"]["Balancer"]["Properties"]
    assert len(balancer["Subnets"]["Fn::If"][1]) == costs["inputs"]["zones"]


def test_tickets_need_an_endpoint(costs):
    month = computed("--tickets", "1")["dollars"]["at rest"] - costs["dollars"]["at rest"]
    assert f"by an endpoint in three zones, at about ${month:.0f} a month." in document("OPERATE.md")


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


def test_the_choice_of_redis_follows_from_the_prices(costs):
    text, dollars, given = document("OPERATE.md"), costs["dollars"], costs["inputs"]
    assert (
        f"`serverless` costs ${dollars['at rest, serverless']:.0f} a month while nobody grabs, three nodes of the default type "
        f"${dollars['at rest, nodes']:.0f}." in text
    )
    slot = given["slot-ecpus"]
    assert f"more than {slot / given['loss-ecpus']:,.0f} grabs or {slot / given['win-ecpus']:,.0f} wins a second." in text
    assert f"takes {slot:,} ECPUs a second" in text
    assert f"A loss takes {given['loss-ecpus']}, a win {given['win-ecpus']} (assumed)" in text
    assert f"{round(costs['redis_alike'], -2):,.0f} grabs a second all month" in text


def test_the_region_of_the_prices_is_that_of_the_example(costs):
    assert f"export AWS_REGION={costs['region']}\n" in (ROOT / "docs/DEPLOY.md").read_text()
    assert f"published prices of {costs['region']}" in document("PERFORMANCE.md")


def test_the_defaults_are_the_cheap_ones(costs):
    template = source()
    assert (template["Parameters"]["Redis"]["Default"], template["Parameters"]["GrabAck"]["Default"]) == ("serverless", "ledger")
    assert costs["inputs"]["serverless"] == 1
    pool = source("stacks/state.yaml")["Resources"]["UserPool"]["Properties"]
    # The plan has authenticator apps, but no second factor by mail.
    assert (pool["UserPoolTier"], pool["EnabledMfas"]) == ("LITE", ["SOFTWARE_TOKEN_MFA"])
