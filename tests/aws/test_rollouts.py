"""`make spike` tries in a stack with one function how CodeDeploy and CloudFormation deploy versions and take them back. The account is that
of test_releases.py. Only the last test deploys to moto."""

import io
import json
from unittest import mock

import boto3
import emulated
import pytest
import test_releases
from botocore.exceptions import ClientError
from emulated import client
from transformed import REGION, transformed

import rollouts
import trial

STACK = "hongbao-dev-spike-rollouts"
KEY = 64 * "k"
# The release of which a deployment fails.
FAILING = {"a deployment after a rollback fails": "03", "a deployment after the good release was left fails": "04", "the alarm stops it": "05"}


class Client:
    """The account, with the errors of one service."""

    def __init__(self, account, service):
        self.account, self.exceptions = account, test_releases.REAL[service].exceptions

    def __getattr__(self, operation):
        return getattr(self.account, operation)


class Account(test_releases.Account):
    """An account in which all of it holds, except for `fault`. Each sleep is a step of CodeDeploy and of CloudFormation."""

    def __init__(self, fault=None):
        super().__init__([rollouts.FUNCTION])
        self.fault, self.exists, self.given, self.now_s = fault, False, {}, 0.0
        # The status of the stack after the next step, if there is no deployment. Whether the group has the alarm, and that is raised.
        self.next, self.watched, self.alarmed = None, False, False
        self.concurrency = {}

    def client(self, service):
        return Client(self, service)

    # --- a clock

    def monotonic(self):
        return self.now_s

    def sleep(self, seconds):
        self.now_s += seconds
        if self.status == "CREATE_IN_PROGRESS":
            self.status = "CREATE_COMPLETE"
        elif self.next and not self.running():
            self.status, self.next = self.next, None
        else:
            self.wait(None)
            if self.status == "UPDATE_ROLLBACK_COMPLETE" and self.fault == "the stack can't go back":
                self.status = "UPDATE_ROLLBACK_FAILED"

    def running(self):
        return [one for one in self.deployments.values() if one["status"] == "InProgress"]

    # --- CloudFormation

    def create_stack(self, **given):
        self.check("cloudformation", "create_stack", given)
        self.exists, self.given, self.status = True, parameters(given), "CREATE_IN_PROGRESS"
        if self.fault == "interrupted":
            raise KeyboardInterrupt

    def delete_stack(self, StackName):
        assert not self.status.startswith("UPDATE") or not self.status.endswith("_IN_PROGRESS"), "CloudFormation refuses it"
        self.exists = False

    def describe_stacks(self, StackName):
        assert StackName == STACK
        if not self.exists:
            raise ClientError({"Error": {"Code": "ValidationError"}}, "DescribeStacks")
        return super().describe_stacks(StackName)

    def list_stack_resources(self, StackName):
        found = super().list_stack_resources(StackName)["StackResourceSummaries"]
        names = {"PreTraffic": "AWS::Lambda::Function", "EdgeKey": "AWS::SecretsManager::Secret", "Alarm": "AWS::CloudWatch::Alarm"}
        found += [{"ResourceType": kind, "LogicalResourceId": name, "PhysicalResourceId": name} for name, kind in names.items()]
        made = [one | {"ResourceStatus": "CREATE_COMPLETE"} for one in found]
        if self.fault == "no alias":
            made = [one for one in made if one["LogicalResourceId"] != "SettleAliaslive"]
        return {"StackResourceSummaries": made}

    def update_stack(self, **given):
        self.check("cloudformation", "update_stack", given)
        was, self.given = self.given, parameters(given)
        self.status, rollout = "UPDATE_IN_PROGRESS", self.given["Rollout"]
        self.watched, self.next = rollout != "AllAtOnce", "UPDATE_COMPLETE"
        if self.given["Release"] == was["Release"]:
            return
        if self.fault == "a deployment starts it again":
            settle = json.loads(given["TemplateBody"])["Resources"]["Settle"]["Properties"]
            self.concurrency = {"ReservedConcurrentExecutions": settle.get("ReservedConcurrentExecutions")}
        self.versions["Settle"] += 1
        new, fails = self.versions["Settle"], self.given["Release"] == FAILING.get(self.fault)
        gradual = rollout != "AllAtOnce" and self.fault != "no canary"
        self.begin(new, gradual, "somebody" if self.fault == "another creator" and new == 2 else "CloudFormation", fails)
        self.next = None if gradual else "UPDATE_ROLLBACK_COMPLETE" if fails else "UPDATE_COMPLETE"

    # --- CodeDeploy and Lambda

    def begin(self, new, gradual, creator, fails):
        old, _ = self.aliases["Settle", "live"]
        info = {"creator": creator, "back": old, "status": "Failed" if fails else "InProgress" if gradual else "Succeeded"}
        if fails:
            info["errorInformation"] = {"message": "planted"}
        else:
            self.aliases["Settle", "live"] = (old, {str(new): 0.1}) if gradual else (new, {})
        properties = {"Name": "the-Settle", "Alias": "live", "CurrentVersion": str(old), "TargetVersion": str(new)}
        if self.fault == "no target version":
            del properties["TargetVersion"]
        if self.fault == "another version":
            properties["TargetVersion"] = str(old)
        content = json.dumps({"version": 0.0, "Resources": [{"Settle": {"Type": "AWS::Lambda::Function", "Properties": properties}}]})
        info["revision"] = {"revisionType": "AppSpecContent", "appSpecContent": {"content": content}}
        # A canary has the name that test_releases.py gives it.
        id_ = "d-Settle" if info["status"] == "InProgress" else f"d-Settle-{len(self.deployments)}"
        self.deployments[id_] = info
        return id_

    def list_deployments(self, applicationName, deploymentGroupName, includeOnlyStatuses=None):
        if self.fault == "another application":
            return {"deployments": []}
        every = {one["status"] for one in self.deployments.values()}
        return super().list_deployments(applicationName, deploymentGroupName, includeOnlyStatuses or every)

    def get_deployment(self, deploymentId):
        info = self.deployments[deploymentId] | {"deploymentId": deploymentId, "createTime": list(self.deployments).index(deploymentId)}
        if self.fault == "another way back" and info["creator"] == "codeDeployRollback":
            info["creator"] = "autoRollback"
        return {"deploymentInfo": info}

    def create_deployment(self, **given):
        self.check("codedeploy", "create_deployment", given)
        assert (given["applicationName"], given["deploymentGroupName"]) == ("the-application", "group-Settle")
        content = json.loads(given["revision"]["appSpecContent"]["content"])
        properties = content["Resources"][0]["Settle"]["Properties"]
        assert self.aliases["Settle", "live"] == (int(properties["CurrentVersion"]), {}) and self.watched
        at_once = given.get("deploymentConfigName") == "CodeDeployDefault.LambdaAllAtOnce"
        passes = self.fault == "a canary ignores alarms" or (at_once and self.fault == "AllAtOnce ignores alarms")
        return {"deploymentId": self.begin(int(properties["TargetVersion"]), False, "user", self.alarmed and not passes)}

    def list_deployment_targets(self, **given):
        self.check("codedeploy", "list_deployment_targets", given)
        return {"targetIds": ["target"]}

    def batch_get_deployment_targets(self, **given):
        self.check("codedeploy", "batch_get_deployment_targets", given)
        back = self.deployments[given["deploymentId"]]["creator"] == "codeDeployRollback"
        fails = self.fault == ("the hook fails on the way back" if back else "the hook fails")
        events = [{"lifecycleEventName": "BeforeAllowTraffic", "status": "Failed" if fails else "Succeeded"}]
        return {"deploymentTargets": [{"lambdaTarget": {"lifecycleEvents": events}}]}

    def list_versions_by_function(self, FunctionName):
        assert FunctionName == "the-Settle"
        return {"Versions": [{"Version": "$LATEST"}] + [{"Version": str(n + 1)} for n in range(self.versions["Settle"])]}

    def get_function_configuration(self, FunctionName, Qualifier="$LATEST"):
        value = "{{resolve:secretsmanager:x}}" if self.fault == "the reference itself" else KEY
        return {"Environment": {"Variables": {"EDGE_KEY": value}}}

    def put_function_concurrency(self, FunctionName, ReservedConcurrentExecutions):
        assert FunctionName == "the-Settle"
        self.concurrency = {"ReservedConcurrentExecutions": ReservedConcurrentExecutions}

    def get_function_concurrency(self, FunctionName):
        return self.concurrency

    def get_secret_value(self, SecretId):
        assert SecretId == "EdgeKey"
        return {"SecretString": KEY}

    def set_alarm_state(self, **given):
        self.check("cloudwatch", "set_alarm_state", given)
        self.alarmed = given["StateValue"] == "ALARM"


def parameters(given):
    return {one["ParameterKey"]: one["ParameterValue"] for one in given["Parameters"]}


@pytest.fixture(autouse=True)
def services(monkeypatch):
    real = {service: boto3.client(service, region_name=REGION) for service in ("secretsmanager", "cloudwatch")}
    monkeypatch.setattr(test_releases, "REAL", test_releases.REAL | real)


def run(monkeypatch, fault=None):
    account = Account(fault)
    for module in (rollouts, trial):
        monkeypatch.setattr(module, "time", account)
    out = io.StringIO()
    try:
        held = trial.prove([rollouts.Rollouts(account, STACK)], out)
    finally:
        assert not account.exists
    lines = [line for line in out.getvalue().splitlines() if line.startswith("  ")]
    return held, {line[8:26].strip(): (line[:8].strip(), line[27:]) for line in lines}, account


def test_where_all_of_it_holds_it_says_so_and_deletes_the_stack(monkeypatch):
    held, found, account = run(monkeypatch)
    assert held and {kind for kind, _ in found.values()} == {"held"}, found
    assert list(found) == [subject for subject, _, _ in rollouts.TRIES] and len(found) == 10
    assert "codeDeployRollback Succeeded, its hook Succeeded" in found["the way back"][1]
    assert "from version 4 to 2, and the next deployment moved them to 5" in found["after the good one"][1]
    assert found["under an alarm"][1].count("Failed (planted)") == 2
    assert account.at() == [7]
    assert account.now_s < 300, "each wait ends once what it waits for is there"


def test_it_says_what_all_at_once_does_under_an_alarm(monkeypatch):
    held, found, _ = run(monkeypatch, "AllAtOnce ignores alarms")
    assert held and "a canary is Failed (planted); AllAtOnce, with the alarm in the group, is Succeeded" in found["under an alarm"][1]


@pytest.mark.parametrize(
    "fault, subject, text",
    [
        ("the reference itself", "edge key", "28 characters that are not the secret's 64"),
        ("another application", "revision", "the application the-application has no deployment"),
        ("no target version", "revision", "the hook can't read it"),
        ("another version", "revision", "the hook reads ('the-Settle', '1') of version 2"),
        ("another creator", "hook", "of the creator somebody"),
        ("the hook fails", "hook", "the hook is Failed"),
        ("the stack can't go back", "rollback", "version 2 is the good one, and the stack is UPDATE_ROLLBACK_FAILED"),
        ("no canary", "rollback", "no canary began, and the stack is UPDATE_COMPLETE"),
        ("another way back", "the way back", "autoRollback Succeeded"),
        ("the hook fails on the way back", "the way back", "the hook closes the way back"),
        ("a deployment after a rollback fails", "after a rollback", "requests go to version 2 in place of 4: planted"),
        ("a deployment after the good release was left fails", "after the good one", "requests go to version 2 in place of 5: planted"),
        ("a canary ignores alarms", "under an alarm", "a canary is Succeeded"),
        ("a deployment starts it again", "a stopped function", "version 7 changed a reserved concurrency of 0 to 2"),
        ("the alarm stops it", "past an alarm", "requests go to version 5 in place of 6: planted"),
    ],
)
def test_what_does_not_hold_is_named(monkeypatch, fault, subject, text):
    held, found, _ = run(monkeypatch, fault)
    kind, seen = found[subject]
    assert not held and kind == "no" and text in seen, found
    # The fault was the only one. Some tries go on from what did not happen.
    others = {other for other, (kind, _) in found.items() if kind != "held"} - {subject}
    assert others == {
        "another application": set(found) - {"edge key", "revision"},
        "no canary": {"the way back"},
        "a deployment after a rollback fails": {"after the good one"},
    }.get(fault, set())


def test_it_says_what_was_not_made(monkeypatch):
    held, found, _ = run(monkeypatch, "no alias")
    assert not held and found.pop("edge key")[0] == "held"
    assert set(found.values()) == {("no", "SettleAliaslive: was not made")}


def test_it_deletes_its_stack_after_an_interruption(monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        run(monkeypatch, "interrupted")


def test_it_deletes_a_stack_only_once_an_update_is_over(monkeypatch):
    account = Account()
    monkeypatch.setattr(trial, "time", account)
    stack = rollouts.Rollouts(account, STACK)
    account.exists, account.status, account.next = True, "UPDATE_IN_PROGRESS", "UPDATE_COMPLETE"
    stack.delete()
    assert not account.exists


# --- the template

def made():
    from samtranslator.translator.managed_policy_translator import ManagedPolicyLoader
    from samtranslator.translator.transform import transform

    return transform(rollouts.template(), {"Rollout": rollouts.CANARY, "Release": "00"}, ManagedPolicyLoader(mock.Mock()))


def test_its_deployments_are_those_of_the_deployment():
    resources, of = made()["Resources"], transformed()["Resources"]
    for name in ("SettleDeploymentGroup", "CodeDeployServiceRole", "ServerlessDeploymentApplication"):
        assert resources[name] == of[name]
    alias, other = resources["SettleAliaslive"], of["SettleAliaslive"]
    assert alias["UpdatePolicy"] == other["UpdatePolicy"] and set(alias) == set(other)
    assert resources["SettleVersion00"]["DeletionPolicy"] == "Retain"


def test_its_hook_is_the_real_one_and_its_function_answers_it():
    resources = rollouts.template()["Resources"]
    code = resources["PreTraffic"]["Properties"]["InlineCode"]
    assert len(code) <= 4096, "CloudFormation takes no more in a template"
    hook, settle = {"__file__": "index.py", "__name__": "index"}, {}
    exec(code, hook)  # noqa: S102
    exec(resources["Settle"]["Properties"]["InlineCode"], settle)  # noqa: S102
    request = hook["REQUESTS"]["Settle"]
    assert hook["differs"](settle["handler"](request["event"], None), request["answer"]) is None
    assert hook["UNDOING"] == rollouts.UNDOING


def test_an_emulator_takes_the_template(monkeypatch):
    with emulated.emulator():
        monkeypatch.setattr(emulated, "STACK", STACK)
        emulated.Noted.made = {}
        emulated.parsing.get_model_map().update(emulated.OURS)
        emulated.create(STACK, made(), {"Rollout": rollouts.CANARY, "Release": "00"})
        stack = rollouts.Rollouts(boto3.session.Session(region_name=REGION), STACK)
        stack.wait()
        assert stack.live() == (1, False) and stack.newest() == 1
        needed = {name for _, names, _ in rollouts.TRIES for name in names}
        assert needed <= set(stack.ids) and not any(stack.outcomes[name] for name in needed)
        [group] = emulated.Noted.made["AWS::CodeDeploy::DeploymentGroup"].values()
        assert group["AlarmConfiguration"]["Alarms"] == [{"Name": f"{STACK}-RolloutErrors"}]
        assert client("cloudwatch").describe_alarms(AlarmNames=[f"{STACK}-RolloutErrors"])["MetricAlarms"]
