"""CodeDeploy calls this function before requests reach a new version of another function. It sends the new version one request that
changes nothing, and tells CodeDeploy whether the answer is the expected one. requests.json has each request and its answer."""

import json
import os
import pathlib
import re
import time

import boto3
import botocore.exceptions

REQUESTS = json.loads((pathlib.Path(__file__).parent / "requests.json").read_text())
# A new version may not be active yet, and a store may fail over.
TRIES, PAUSE_S = 6, 10
# Who makes deployments that lead back. The way back is never closed.
UNDOING = ("codeDeployRollback", "CloudFormationRollback")


def deployed(revision):
    """The name of the function that is deployed, and its new version. CodeDeploy accepts the revision as JSON and as YAML."""
    text = (revision.get("appSpecContent") or revision["string"])["content"]

    def value(key):
        return re.search(rf"""\b{key}["']?\s*:\s*["']?([^"',\s}}]+)""", text)[1]

    return value("Name").rpartition(":")[2], value("TargetVersion")


def differs(answer, expected):
    """What of the answer is not as expected, or `None`. The answer may have more fields."""
    if "body" in expected and "body" in answer:
        answer = answer | {"body": json.loads(answer["body"])}
    for key, value in expected.items():
        found = answer.get(key)
        if isinstance(value, dict) and isinstance(found, dict):
            found = {name: found.get(name) for name in value}
        if found != value:
            return f"{key} is {found}, not {value}"
    return None


def fault(lambda_, name, version):
    """What is wrong with the version's answer, or `None`."""
    [kind] = [kind for kind in REQUESTS if os.environ.get(kind) == name]
    request = REQUESTS[kind]
    try:
        # A function that is closed runs no call, so no request can reach the version either.
        if lambda_.get_function_concurrency(FunctionName=name).get("ReservedConcurrentExecutions") == 0:
            return None
        answer = lambda_.invoke(FunctionName=name, Qualifier=version, Payload=json.dumps(request["event"]).encode())
    except botocore.exceptions.ClientError as error:
        return str(error)
    text = answer["Payload"].read().decode()
    return f"it failed: {text}" if answer.get("FunctionError") else differs(json.loads(text), request["answer"])


def tried(codedeploy, lambda_, deployment, pause_s):
    """Whether the new version answers as it must."""
    info = codedeploy.get_deployment(deploymentId=deployment)["deploymentInfo"]
    if info.get("creator") in UNDOING:
        return True
    name, version = deployed(info["revision"])
    for left in reversed(range(TRIES)):
        wrong = fault(lambda_, name, version)
        print(json.dumps({"function": name, "version": version, "wrong": wrong, "tries_left": left}))
        if wrong is None:
            return True
        if left:
            time.sleep(pause_s)
    return False


def handler(event, _context, pause_s=PAUSE_S):
    codedeploy, status = boto3.client("codedeploy"), "Failed"
    try:
        if tried(codedeploy, boto3.client("lambda"), event["DeploymentId"], pause_s):
            status = "Succeeded"
    finally:
        # Without a status CodeDeploy would wait for an hour.
        codedeploy.put_lifecycle_event_hook_execution_status(
            deploymentId=event["DeploymentId"],
            lifecycleEventHookExecutionId=event["LifecycleEventHookExecutionId"],
            status=status,
        )
