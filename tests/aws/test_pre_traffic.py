"""CodeDeploy's function lets only a version that answers as it must have requests. tests/it/functions/before_traffic.rs sends the
same requests to the real functions."""

import importlib.util
import io
import json
import sys

import botocore.exceptions
import pytest
import yaml
from emulated import ACCOUNT, REGION, client
from policies import allows, statements_of
from test_stack import ANSWERING, BEHIND
from transformed import ROOT, source

FOLDER = ROOT / "scripts/aws/pre_traffic"
REQUESTS = json.loads((FOLDER / "requests.json").read_text())
EVENT = {"DeploymentId": "d-1", "LifecycleEventHookExecutionId": "hook-1"}
spec = importlib.util.spec_from_file_location("pre_traffic", FOLDER / "index.py")
pre_traffic = importlib.util.module_from_spec(spec)
# SAM uploads the whole folder, so it gets no bytecode.
sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
spec.loader.exec_module(pre_traffic)
sys.dont_write_bytecode = before


class Aws:
    """CodeDeploy and Lambda, which answers with each of `answers` in turn, and then with the last."""

    def __init__(self, kind, answers, write=json.dumps, revision="appSpecContent", creator="CloudFormation", reserved=None):
        properties = {"Name": f"the-{kind}", "Alias": "live", "CurrentVersion": "7", "TargetVersion": "12"}
        content = write({"version": 0.0, "Resources": [{kind: {"Type": "AWS::Lambda::Function", "Properties": properties}}]})
        self.revision = {"revisionType": "AppSpecContent", revision: {"content": content}}
        self.answers, self.invoked, self.statuses = list(answers), [], []
        self.creator, self.reserved = creator, {} if reserved is None else {"ReservedConcurrentExecutions": reserved}

    def get_deployment(self, deploymentId):
        assert deploymentId == "d-1"
        return {"deploymentInfo": {"revision": self.revision, "creator": self.creator}}

    def put_lifecycle_event_hook_execution_status(self, **given):
        assert (given["deploymentId"], given["lifecycleEventHookExecutionId"]) == ("d-1", "hook-1")
        self.statuses.append(given["status"])

    def get_function_concurrency(self, FunctionName):
        assert FunctionName.startswith("the-")
        return self.reserved

    def invoke(self, FunctionName, Qualifier, Payload):
        self.invoked.append((FunctionName, Qualifier, json.loads(Payload)))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        failed = {"FunctionError": "Unhandled"} if "errorType" in answer else {}
        return {"Payload": io.BytesIO(json.dumps(answer).encode())} | failed


def run(monkeypatch, kind, answers, **given):
    aws = Aws(kind, answers, **given)
    for name in REQUESTS:
        monkeypatch.setenv(name, f"the-{name}")
    monkeypatch.setattr(pre_traffic.boto3, "client", lambda _: aws)
    try:
        pre_traffic.handler(EVENT, None, pause_s=0)
    finally:
        [status] = aws.statuses
    return status, aws.invoked


def good(kind):
    expected = REQUESTS[kind]["answer"]
    return expected | ({"body": json.dumps(expected["body"] | {"more": 1})} if "body" in expected else {"more": 1})


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_version_that_answers_as_it_must_gets_requests(monkeypatch, kind):
    status, invoked = run(monkeypatch, kind, [good(kind)])
    assert (status, invoked) == ("Succeeded", [(f"the-{kind}", "12", REQUESTS[kind]["event"])])


@pytest.mark.parametrize("kind", REQUESTS)
def test_any_other_answer_fails_the_deployment(monkeypatch, kind):
    for answer in ({"errorType": "x", "errorMessage": "the configuration is not valid"}, {}, {"statusCode": 503, "body": "{}"}):
        status, invoked = run(monkeypatch, kind, [answer])
        assert status == "Failed" and len(invoked) == pre_traffic.TRIES, answer


def test_another_code_under_the_same_status_fails_the_deployment(monkeypatch):
    other = good("Send") | {"body": json.dumps({"code": "account-suspended"})}
    assert run(monkeypatch, "Send", [other])[0] == "Failed"


def test_a_version_that_is_not_active_yet_is_tried_again(monkeypatch):
    pending = botocore.exceptions.ClientError({"Error": {"Code": "ResourceConflictException", "Message": "Pending"}}, "Invoke")
    status, invoked = run(monkeypatch, "Grab", [pending, {"statusCode": 503, "body": "{}"}, good("Grab")])
    assert status == "Succeeded" and len(invoked) == 3


@pytest.mark.parametrize("write", [json.dumps, yaml.safe_dump, lambda content: json.dumps(content, indent=2)])
@pytest.mark.parametrize("revision", ["appSpecContent", "string"])
def test_the_revision_may_have_either_form(monkeypatch, write, revision):
    status, invoked = run(monkeypatch, "View", [good("View")], write=write, revision=revision)
    assert status == "Succeeded" and invoked[0][:2] == ("the-View", "12")


def test_a_revision_that_cannot_be_read_fails_the_deployment_at_once(monkeypatch):
    with pytest.raises(TypeError):
        run(monkeypatch, "View", [good("View")], write=lambda _: "version: 0.0")


@pytest.mark.parametrize("creator", pre_traffic.UNDOING)
def test_the_way_back_is_open_to_any_version(monkeypatch, creator):
    assert creator in client("codedeploy").meta.service_model.shape_for("DeploymentCreator").enum
    assert run(monkeypatch, "View", [{"errorType": "x"}], creator=creator) == ("Succeeded", [])


def test_a_function_that_is_closed_is_not_tried(monkeypatch):
    throttled = botocore.exceptions.ClientError({"Error": {"Code": "TooManyRequestsException", "Message": "Rate Exceeded"}}, "Invoke")
    assert run(monkeypatch, "Wallet", [throttled], reserved=0) == ("Succeeded", [])
    for reserved in (2, None):
        assert run(monkeypatch, "Wallet", [throttled], reserved=reserved)[0] == "Failed"


def test_each_function_that_codedeploy_moves_has_a_request():
    assert set(REQUESTS) == ANSWERING | BEHIND
    variables = source()["Resources"]["PreTraffic"]["Properties"]["Environment"]["Variables"]
    assert set(variables) == set(REQUESTS)


def test_it_may_call_the_new_versions_and_answer_its_own_deployments(stack):
    configuration = client("lambda").get_function_configuration(FunctionName=stack.ids["PreTraffic"])
    # CodeDeploy's role may call only such names.
    assert configuration["FunctionName"] == "CodeDeployHook_hongbao-test" and configuration["Runtime"] == "python3.13"
    statements = statements_of(configuration["Role"].rpartition("/")[2])
    variables = configuration["Environment"]["Variables"]
    for logical_id in ANSWERING | BEHIND | {"Audit", "OperateRepair"}:
        if logical_id not in stack.ids:
            assert logical_id not in variables
            continue
        named = variables.get(logical_id) == stack.ids[logical_id]
        arn = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{stack.ids[logical_id]}:12"
        assert allows(statements, "lambda:GetFunctionConcurrency", arn.removesuffix(":12")) == named
        assert allows(statements, "lambda:InvokeFunction", arn) == named == (logical_id in REQUESTS), logical_id
    for group, ours in ((f"{stack.ids['ServerlessDeploymentApplication']}/any", True), ("another/any", False)):
        arn = f"arn:aws:codedeploy:{REGION}:{ACCOUNT}:deploymentgroup:{group}"
        for action in ("GetDeployment", "PutLifecycleEventHookExecutionStatus"):
            assert allows(statements, f"codedeploy:{action}", arn) == ours, group
