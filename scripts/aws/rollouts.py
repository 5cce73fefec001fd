"""Tries what deployments of new versions rely on: in a stack with one function and the real hook, which CloudFormation and CodeDeploy
update as they do the deployment. `make spike` runs it. Each try goes on from where the one before has ended."""

import importlib.util
import json
import sys
import time

import botocore.exceptions

from preflight import ROOT
from releases import RUNNING, UNDOING, Release
from trial import Trial, Wrong, read, registers, until

HOOK = ROOT / "scripts/aws/pre_traffic"
# An update with a deployment takes a minute. A deployment under a raised alarm ends at once or not at all.
UPDATE_S, BEGIN_S, REFUSAL_S = 900, 60, 90
# So long after a deployment that failed one may begin that leads back.
BACK_S = 15
AT_ONCE, CANARY = "AllAtOnce", "Canary10Percent5Minutes"
FUNCTION = "Settle"
DEPLOYED = (FUNCTION, f"{FUNCTION}Aliaslive", f"{FUNCTION}DeploymentGroup", "ServerlessDeploymentApplication", "PreTraffic")
# What is of template.yaml.
PROPERTIES = {
    FUNCTION: ("AutoPublishAlias", "AutoPublishAliasAllProperties", "AutoPublishCodeSha256", "DeploymentPreference"),
    "PreTraffic": ("FunctionName", "Runtime", "Handler", "MemorySize", "Timeout"),
    "EdgeKey": ("GenerateSecretString",),
}
TRIES = []
tries = registers(TRIES)


def pre_traffic():
    spec = importlib.util.spec_from_file_location("pre_traffic", HOOK / "index.py")
    module = importlib.util.module_from_spec(spec)
    # SAM uploads the whole folder, so it gets no bytecode.
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    spec.loader.exec_module(module)
    sys.dont_write_bytecode = before
    return module


def template():
    """stacks/rollouts.yaml, with what the deployment's template says."""
    made, main = read("stacks/rollouts.yaml"), read("template.yaml")
    resources, of = made["Resources"], main["Resources"]
    made["Parameters"] |= {name: main["Parameters"][name] for name in ("Rollout", "Release")}
    made["Conditions"] = {"ShiftsGradually": main["Conditions"]["ShiftsGradually"]}
    for name, keys in PROPERTIES.items():
        resources[name].setdefault("Properties", {}).update({key: of[name]["Properties"][key] for key in keys})
    # The same line as other functions have it.
    key = of["Grab"]["Properties"]["Environment"]["Variables"]["EDGE_KEY"]["Fn::If"][1]
    resources[FUNCTION]["Properties"]["Environment"]["Variables"]["EDGE_KEY"] = key
    statements = [one for policy in of["PreTrafficRole"]["Properties"]["Policies"] for one in policy["PolicyDocument"]["Statement"]]
    [deployments] = [one for one in statements if "codedeploy:GetDeployment" in one["Action"]]
    [policy] = resources["PreTrafficRole"]["Properties"]["Policies"]
    policy["PolicyDocument"]["Statement"][-1] = deployments
    # Code in a template has one file, of at most 4,096 characters.
    request = json.loads((HOOK / "requests.json").read_text())[FUNCTION]
    from_file = '(pathlib.Path(__file__).parent / "requests.json").read_text()'
    code = (HOOK / "index.py").read_text()
    assert from_file in code
    resources["PreTraffic"]["Properties"]["InlineCode"] = code.replace(from_file, repr(json.dumps({FUNCTION: request})))
    resources[FUNCTION]["Properties"]["InlineCode"] = f"def handler(*_):\n    return {request['answer']!r}\n"
    return made


class Rollouts(Trial):
    """The stack, with what `make deploy` and `make rollback` do to it."""

    def __init__(self, session, stack):
        super().__init__(session, stack, template(), TRIES, {"Rollout": AT_ONCE, "Release": "00"})
        self.releases, self.before = 0, set()

    def wait(self):
        super().wait()
        # Without an alias nothing is deployed, and no try that deploys runs.
        if self.outcomes.get(f"{FUNCTION}Aliaslive", "") is None:
            self.release = Release(self.client, self.stack, sleep=time.sleep)

    def live(self):
        """The version that has the requests, and whether a second one has a part of them."""
        return self.release.alias(FUNCTION, "live")

    def newest(self):
        found = self.client("lambda").list_versions_by_function(FunctionName=self.ids[FUNCTION])["Versions"]
        return max(int(one["Version"]) for one in found if one["Version"] != "$LATEST")

    def begin(self, rollout, release=True):
        """Begins an update of the stack: with a new release, or only with another kind of rollout."""
        self.before, self.releases = set(self.deployments()), self.releases + release
        self.parameters = {"Rollout": rollout, "Release": f"{self.releases:02x}"}
        self.client("cloudformation").update_stack(**self.given())
        until(lambda: True if self.rests() is None else None, BEGIN_S)

    def deploy(self, rollout, **given):
        """The stack's status, once the update is over."""
        self.begin(rollout, **given)
        return until(self.rests, UPDATE_S) or f"not done after {UPDATE_S} s"

    def move(self):
        """Deploys a release to all requests at once. Returns its version."""
        status = self.deploy(AT_ONCE)
        live, newest = self.live(), self.newest()
        if status != "UPDATE_COMPLETE" or live != (newest, False):
            why = "; ".join(filter(None, (error_of(info) for info in self.news())))
            raise Wrong(f"the stack is {status}, and requests go to version {live[0]} in place of {newest}: {why}")
        return newest

    def deployments(self):
        pages = self.client("codedeploy").get_paginator("list_deployments").paginate(
            applicationName=self.release.application, deploymentGroupName=self.release.groups[FUNCTION]
        )
        return [one for page in pages for one in page["deployments"]]

    def info(self, deployment):
        return self.client("codedeploy").get_deployment(deploymentId=deployment)["deploymentInfo"]

    def news(self):
        """The deployments of the last update, in their order."""
        found = [self.info(one) for one in self.deployments() if one not in self.before]
        if not found:
            raise Wrong(f"the application {self.release.application} has no deployment of the update")
        return sorted(found, key=lambda info: info["createTime"])

    def hook(self, info):
        """What CodeDeploy says of the hook in a deployment."""
        codedeploy, given = self.client("codedeploy"), {"deploymentId": info["deploymentId"]}
        targets = codedeploy.list_deployment_targets(**given)["targetIds"]
        found = codedeploy.batch_get_deployment_targets(**given, targetIds=targets)["deploymentTargets"] if targets else []
        events = [event for target in found for event in target.get("lambdaTarget", {}).get("lifecycleEvents", [])]
        return next((one["status"] for one in events if one["lifecycleEventName"] == "BeforeAllowTraffic"), "not called")

    def under_alarm(self, **config):
        """How a deployment back to the first version ends that begins without CloudFormation. Afterwards all is as before."""
        codedeploy, (version, _) = self.client("codedeploy"), self.live()
        properties = {"Name": self.ids[FUNCTION], "Alias": "live", "CurrentVersion": str(version), "TargetVersion": "1"}
        content = {"version": 0.0, "Resources": [{FUNCTION: {"Type": "AWS::Lambda::Function", "Properties": properties}}]}
        try:
            begun = codedeploy.create_deployment(
                applicationName=self.release.application,
                deploymentGroupName=self.release.groups[FUNCTION],
                revision={"revisionType": "AppSpecContent", "appSpecContent": {"content": json.dumps(content)}},
                **config,
            )["deploymentId"]
        except botocore.exceptions.ClientError as error:
            return f"refused ({error.response['Error']['Code']})"

        def ended():
            info = self.info(begun)
            return None if info["status"] in RUNNING else info

        info = until(ended, REFUSAL_S) or {"status": "InProgress"}
        time.sleep(BACK_S)
        # It stops what still runs, and waits for what leads back.
        self.release.end_deployments()
        if self.live() != (version, False):
            self.release.point(FUNCTION, "live", version)
        return f"{info['status']} ({error_of(info)})" if error_of(info) else info["status"]


def error_of(info):
    return info.get("errorInformation", {}).get("message", "")


@tries("edge key", FUNCTION, "EdgeKey")
def edge_key(stack):
    key = stack.client("secretsmanager").get_secret_value(SecretId=stack.ids["EdgeKey"])["SecretString"]
    variables = stack.client("lambda").get_function_configuration(FunctionName=stack.ids[FUNCTION])["Environment"]["Variables"]
    if variables["EDGE_KEY"] != key:
        raise Wrong(f"the function has {len(variables['EDGE_KEY'])} characters that are not the secret's {len(key)}")
    return f"the function has the secret's {len(key)} characters in its variable"


@tries("revision", *DEPLOYED)
def revision(stack):
    status = stack.deploy(AT_ONCE)
    first, newest = stack.news()[0], stack.newest()
    given = first["revision"]
    try:
        found = pre_traffic().deployed(given)
    except (KeyError, TypeError):
        raise Wrong(f"the hook can't read it: {json.dumps(given)}") from None
    if found != (stack.ids[FUNCTION], str(newest)):
        raise Wrong(f"the hook reads {found} of version {newest}: {json.dumps(given)}")
    return f"{stack.release.application} has it, and the hook reads version {newest} in its {given['revisionType']}; the stack is {status}"


@tries("hook", *DEPLOYED)
def hook(stack):
    first = stack.news()[0]
    if first["creator"] != "CloudFormation":
        raise Wrong(f"CloudFormation's deployment is of the creator {first['creator']}")
    if (called := stack.hook(first)) != "Succeeded" or first["status"] != "Succeeded":
        raise Wrong(f"the hook is {called}, and the deployment {first['status']}: {error_of(first)}")
    return f"the hook of {first['creator']}'s deployment is {called}"


@tries("rollback", *DEPLOYED)
def rollback(stack):
    stack.release.good()
    good, _ = stack.live()
    stack.begin(CANARY)
    found = until(lambda: "canary" if stack.live()[1] else stack.rests(), UPDATE_S)
    if found != "canary":
        raise Wrong(f"no canary began, and the stack is {found}: {error_of(stack.news()[0])}")
    begun = time.monotonic()
    stack.release.rollback("good")
    live, status = stack.live(), stack.status()
    if (live, status) != ((good, False), "UPDATE_ROLLBACK_COMPLETE"):
        both = " and to another" if live[1] else ""
        raise Wrong(f"requests go to version {live[0]}{both}; version {good} is the good one, and the stack is {status}")
    return f"it ended a canary: all is at version {good} after {time.monotonic() - begun:.0f} s, and the stack is {status}"


@tries("the way back", *DEPLOYED)
def way_back(stack):
    back = stack.news()[1:]
    seen = ", ".join(f"{info['creator']} {info['status']}, its hook {stack.hook(info)}" for info in back) or "none"
    if not back or any(info["creator"] not in UNDOING or info["status"] != "Succeeded" for info in back):
        raise Wrong(f"deployments that lead back: {seen}")
    if any(stack.hook(info) not in ("Succeeded", "Skipped", "not called") for info in back):
        raise Wrong(f"the hook closes the way back: {seen}")
    return seen


@tries("after a rollback", *DEPLOYED)
def after_rollback(stack):
    version = stack.move()
    stack.release.good()
    return f"the next deployment moved requests to version {version}"


# CloudFormation still believes that the alias is at the version that was left.
@tries("after the good one", *DEPLOYED)
def after_good(stack):
    was = stack.live()[0]
    stack.release.rollback("good")
    before = stack.live()[0]
    if before == was:
        raise Wrong(f"no version was good before {was}")
    return f"requests went back from version {was} to {before}, and the next deployment moved them to {stack.move()}"


@tries("under an alarm", *DEPLOYED, "Alarm")
def under_alarm(stack):
    # Without a new release only the deployment group changes.
    status = stack.deploy(CANARY, release=False)
    if status != "UPDATE_COMPLETE":
        raise Wrong(f"the group takes no alarm: the stack is {status}")
    stack.client("cloudwatch").set_alarm_state(AlarmName=stack.ids["Alarm"], StateValue="ALARM", StateReason="spike")
    canary, at_once = stack.under_alarm(), stack.under_alarm(deploymentConfigName="CodeDeployDefault.LambdaAllAtOnce")
    seen = f"a canary is {canary}; AllAtOnce, with the alarm in the group, is {at_once}"
    if canary.startswith(("Succeeded", "InProgress")):
        raise Wrong(seen)
    return seen


@tries("past an alarm", *DEPLOYED, "Alarm")
def past_alarm(stack):
    return f"Rollout=AllAtOnce moved requests to version {stack.move()}, although the alarm is raised"


# The runbook stops functions so. A deployment must not start them again.
@tries("a stopped function", *DEPLOYED)
def stopped(stack):
    client, given = stack.client("lambda"), {"FunctionName": stack.ids[FUNCTION]}
    client.put_function_concurrency(**given, ReservedConcurrentExecutions=0)
    version = stack.move()
    left = client.get_function_concurrency(**given).get("ReservedConcurrentExecutions")
    if left != 0:
        raise Wrong(f"the deployment of version {version} changed a reserved concurrency of 0 to {left}: functions that are stopped run again")
    return f"the deployment of version {version} left a reserved concurrency of 0"
