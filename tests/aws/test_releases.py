"""Which release is good, and how requests go back to it. moto has no deployments, so the first tests run on a small account of their
own, and the last one on the emulated stack."""

import functools
import json
import sys

import boto3
import pytest
from emulated import STACK, client
from transformed import ROOT

sys.path.insert(0, str(ROOT / "scripts/aws"))
import releases  # noqa: E402
from release import quoted  # noqa: E402

ARN = "arn:aws:lambda:ap-east-1:123456789012:function:"
REAL = {service: boto3.client(service, region_name="ap-east-1") for service in ("lambda", "codedeploy", "cloudformation")}


class Account:
    """A stack with functions, their aliases, and deployments. It does what CodeDeploy and CloudFormation do, one step each time that
    somebody waits."""

    def __init__(self, functions=("Send", "Grab", "Settle")):
        self.functions, self.status, self.deployments, self.calls = functions, "CREATE_COMPLETE", {}, []
        self.release = "a1"
        self.versions = dict.fromkeys(functions, 1)
        self.aliases = {(function, "live"): (1, {}) for function in functions}
        self.exceptions, self.variables = REAL["lambda"].exceptions, {}

    def client(self, service):
        self.exceptions = REAL[service].exceptions
        return self

    # --- what a deployment does

    def deploy(self, *canaries, fails=False, moved=None):
        """New versions of all functions. `canaries` are still at a tenth, and the others at `moved`: all, if `None`."""
        moved = self.functions if moved is None else moved
        self.status = "UPDATE_IN_PROGRESS" if canaries else "UPDATE_COMPLETE"
        for function in self.functions:
            old, new = self.versions[function], self.versions[function] + 1
            self.versions[function] = new
            if function in canaries:
                self.aliases[function, "live"] = (old, {str(new): 0.1})
                self.deployments[f"d-{function}"] = {"creator": "CloudFormation", "status": "InProgress", "back": old}
            elif function in moved and not fails:
                self.aliases[function, "live"] = (new, {})
        if fails:
            self.status = "UPDATE_ROLLBACK_COMPLETE"

    def wait(self, _):
        """CodeDeploy takes the requests back, then CloudFormation the other functions."""
        undoing = [one for one in self.deployments.values() if one["creator"] == "codeDeployRollback" and one["status"] == "InProgress"]
        if undoing:
            for one in undoing:
                one["status"] = "Succeeded"
                self.aliases[one["function"], "live"] = (one["back"], {})
        elif self.status == "UPDATE_IN_PROGRESS":
            self.status = "UPDATE_ROLLBACK_IN_PROGRESS"
        elif self.status == "UPDATE_ROLLBACK_IN_PROGRESS":
            self.status = "UPDATE_ROLLBACK_COMPLETE"
            for function in self.functions:
                good = self.aliases.get((function, "good"))
                self.aliases[function, "live"] = good or self.aliases[function, "live"]

    # --- the services

    def check(self, service, operation, given):
        """The service knows this operation and these parameters."""
        model = REAL[service].meta.service_model.operation_model(REAL[service].meta.method_to_api_mapping[operation])
        assert set(given) <= set(model.input_shape.members), given
        self.calls.append((operation, given))

    def get_paginator(self, operation):
        service = "cloudformation" if operation == "list_stack_resources" else "codedeploy"

        class Pages:
            def paginate(_, **given):
                self.check(service, operation, given)
                return [getattr(self, operation)(**given)]

        return Pages()

    def list_stack_resources(self, StackName):
        resource = lambda kind, logical_id, name: {
            "ResourceType": kind, "LogicalResourceId": logical_id, "PhysicalResourceId": name, "ResourceStatus": "UPDATE_COMPLETE"
        }
        found = [resource("AWS::CodeDeploy::Application", "ServerlessDeploymentApplication", "the-application")]
        for function in self.functions:
            found.append(resource("AWS::Lambda::Function", function, f"the-{function}"))
            found.append(resource("AWS::Lambda::Alias", f"{function}Aliaslive", f"{ARN}the-{function}:live"))
            found.append(resource("AWS::CodeDeploy::DeploymentGroup", f"{function}DeploymentGroup", f"group-{function}"))
        return {"StackResourceSummaries": found}

    def describe_stacks(self, StackName):
        return {"Stacks": [{"StackStatus": self.status, "Parameters": [{"ParameterKey": "Release", "ParameterValue": self.release}]}]}

    def list_deployments(self, applicationName, deploymentGroupName, includeOnlyStatuses):
        assert applicationName == "the-application"
        function = deploymentGroupName.removeprefix("group-")
        found = [id_ for id_, one in self.deployments.items() if id_.startswith(f"d-{function}") and one["status"] in includeOnlyStatuses]
        return {"deployments": found}

    def get_deployment(self, deploymentId):
        return {"deploymentInfo": self.deployments[deploymentId]}

    def stop_deployment(self, **given):
        self.check("codedeploy", "stop_deployment", given)
        stopped = self.deployments[given["deploymentId"]]
        assert stopped["status"] == "InProgress" and stopped["creator"] == "CloudFormation"
        assert given["autoRollbackEnabled"] is True, "else the alias keeps two versions, and no later deployment begins"
        stopped["status"] = "Stopped"
        undoing = stopped | {"creator": "codeDeployRollback", "status": "InProgress", "function": given["deploymentId"][2:]}
        self.deployments[given["deploymentId"] + "-back"] = undoing

    def name(self, given):
        return given["FunctionName"].removeprefix("the-"), given["Name"]

    def get_alias(self, **given):
        if self.name(given) not in self.aliases:
            raise self.exceptions.ResourceNotFoundException({"Error": {"Code": "ResourceNotFoundException"}}, "GetAlias")
        version, weights = self.aliases[self.name(given)]
        return {"FunctionVersion": str(version)} | ({"RoutingConfig": {"AdditionalVersionWeights": weights}} if weights else {})

    def create_alias(self, **given):
        self.check("lambda", "create_alias", given)
        assert self.name(given) not in self.aliases
        self.aliases[self.name(given)] = (int(given["FunctionVersion"]), {})

    def update_alias(self, **given):
        self.check("lambda", "update_alias", given)
        assert not self.deployments.get(f"d-{self.name(given)[0]}", {}).get("status") == "InProgress", "CodeDeploy moves it"
        assert self.name(given) in self.aliases
        self.aliases[self.name(given)] = (int(given["FunctionVersion"]), given["RoutingConfig"]["AdditionalVersionWeights"])

    def delete_alias(self, **given):
        self.check("lambda", "delete_alias", given)
        del self.aliases[self.name(given)]

    def get_function_configuration(self, FunctionName, Qualifier):
        function = FunctionName.removeprefix("the-")
        if int(Qualifier) > self.versions[function]:
            raise self.exceptions.ResourceNotFoundException({"Error": {"Code": "ResourceNotFoundException"}}, "GetFunction")
        variables = self.variables.get((function, int(Qualifier)))
        return {} if variables is None else {"Environment": {"Variables": variables}}

    # --- what the tests ask

    def run(self, *arguments):
        release = functools.partial(releases.Release, sleep=self.wait)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(releases, "Release", release)
            releases.main(["a-stack", *arguments], self.client)

    def refuses(self, match, *arguments):
        before = dict(self.aliases)
        with pytest.raises(releases.Refused, match=match):
            self.run(*arguments)
        assert self.aliases == before

    def at(self, alias="live"):
        """The version of each function under this alias; all requests go there."""
        found = [self.aliases.get((function, alias), (None, {})) for function in self.functions]
        assert not any(weights for _, weights in found)
        return [version for version, _ in found]


@pytest.fixture
def account():
    """A stack that was deployed three times: its functions are at version 3."""
    account = Account()
    account.run("good")
    for _ in range(2):
        account.deploy()
        account.run("good")
    assert (account.at(), account.at("good"), account.at("before")) == ([3] * 3, [3] * 3, [2] * 3)
    account.calls.clear()
    return account


def test_a_deployment_without_a_change_records_nothing(account):
    account.run("good")
    assert not [call for call in account.calls if call[0] != "list_stack_resources"]


def test_what_is_not_done_is_not_recorded(account):
    account.deploy("Send")
    account.refuses("is UPDATE_IN_PROGRESS, and requests move to new versions of Send", "good")
    account.status = "UPDATE_COMPLETE"
    account.refuses("requests move to new versions of Send", "good")
    # A deployment was undone, and the next one brings back what is live: SAM finds no change, and all is well.
    undone = Account()
    undone.run("good")
    undone.deploy(fails=True)
    undone.run("good")
    other = Account()
    other.deploy(fails=True)
    other.refuses("is UPDATE_ROLLBACK_COMPLETE", "good")


def test_a_rollback_ends_a_canary_and_goes_no_further_than_the_good_release(account):
    account.deploy("Send", "Grab")
    account.run("rollback")
    stopped = {given["deploymentId"] for operation, given in account.calls if operation == "stop_deployment"}
    assert stopped == {"d-Send", "d-Grab"}
    # Settle had changed at once, and CloudFormation took it back.
    assert account.at() == [3] * 3 == account.at("good") and account.at("before") == [2] * 3


def test_a_rollback_leaves_a_deployment_alone_that_leads_back(account):
    account.deploy("Send")
    account.stop_deployment(deploymentId="d-Send", autoRollbackEnabled=True)
    account.calls.clear()
    account.run("rollback")
    assert not [call for call in account.calls if call[0] == "stop_deployment"] and account.at() == [3] * 3


def test_functions_that_a_failed_update_left_behind_return_too(account):
    account.deploy(moved=["Send"])
    account.status = "UPDATE_ROLLBACK_FAILED"
    account.aliases["Grab", "live"] = (3, {"4": 0.1})
    assert account.aliases["Send", "live"] == (4, {})
    account.run("rollback")
    assert account.at() == [3] * 3 == account.at("good")


def test_a_release_that_ended_well_and_is_bad_gives_way_to_the_one_before(account):
    account.run("rollback")
    assert account.at() == [2] * 3 == account.at("good")
    # 3 is bad, and nothing older is remembered.
    account.refuses("no release is recorded that was good before", "rollback")


def test_after_a_rollback_a_new_release_is_recorded_over_the_one_that_is_live(account):
    account.run("rollback")
    # Nothing has changed, so CloudFormation leaves the aliases.
    account.run("good")
    assert (account.at("good"), account.at("before")) == ([2] * 3, [None] * 3)
    account.deploy()
    account.run("good")
    assert (account.at(), account.at("before")) == ([4] * 3, [2] * 3)
    account.run("rollback")
    assert account.at() == [2] * 3, "never to 3, which had failed"


def test_after_a_deployment_that_was_undone_only_a_wish_goes_further_back(account):
    account.deploy(fails=True)
    account.refuses("the last deployment has been undone", "rollback")
    account.run("rollback", "before")
    assert account.at() == [2] * 3


def test_one_function_goes_to_a_given_version(account):
    account.run("rollback", "Grab", "1")
    assert (account.at(), account.at("good")) == ([3, 1, 3], [3, 1, 3])
    # The next one doesn't lead Grab forwards.
    account.run("rollback")
    assert account.at() == [2, 1, 2]


@pytest.mark.parametrize("variable", releases.FORWARD)
def test_no_rollback_leads_to_another_table_redis_or_edge_key(account, variable):
    account.variables = {("Grab", 3): {"CURRENCY": "CNY", variable: "new-secret"}, ("Grab", 2): {"CURRENCY": "EUR", variable: "old-secret"}}
    for name in ([], ["before"]):
        account.refuses(rf"^those versions have another {variable} of Grab\. Go forward", "rollback", *name)
    # A variable that the older version lacks.
    del account.variables["Grab", 2]
    account.refuses(f"another {variable} of Grab", "rollback")
    account.run("rollback", "Grab", "2")
    assert account.at() == [3, 2, 3]


def test_other_variables_go_back(account):
    account.variables = {("Grab", version): {"TABLE_NAME": "same", "USER_RATE": str(version)} for version in (2, 3)}
    account.run("rollback")
    assert account.at() == [2] * 3


def test_a_change_set_that_was_not_executed_is_no_deployment(tmp_path, monkeypatch):
    build = tmp_path / ".aws-sam/build"
    build.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    (build / "parameters.yaml").write_text(json.dumps({"Release": quoted(quoted("a1"))}))
    account = Account()
    account.run("deployed")
    account.release = "a0"
    account.refuses("nothing was deployed", "deployed")
    account.release, account.status = "a1", "REVIEW_IN_PROGRESS"
    account.refuses("nothing was deployed", "deployed")


def test_what_does_not_exist_is_named(account):
    account.refuses("Grab has no version 9", "rollback", "Grab", "9")
    account.refuses("there is no function Nobody: there are Grab, Send, Settle", "rollback", "Nobody", "1")
    account.refuses("usage", "rollback", "Grab")
    account.refuses("usage", "rollback", "Grab", "x")
    with pytest.raises(releases.Refused, match="no function with an alias"):
        releases.Release(Account(()).client, "a-stack")


def test_a_stack_without_a_record_needs_versions(account):
    fresh = Account()
    fresh.refuses("no release is recorded as good", "rollback")


def test_a_function_that_is_new_has_nothing_before(account, capsys):
    account.functions += ("Notify",)
    account.versions["Notify"], account.aliases["Notify", "live"] = 0, (1, {})
    account.deploy()
    account.run("good")
    account.run("rollback")
    assert account.at() == [3, 3, 3, 1] and "Notify stays" in capsys.readouterr().out


def test_make_records_what_it_deployed_and_rolls_back():
    makefile = (ROOT / "Makefile").read_text()
    deploy = makefile.partition("\ndeploy:")[2].partition("\n# make preflight")[0]
    assert deploy.index("sam deploy") < deploy.index("scripts/aws/releases.py $(STACK) good")
    assert "scripts/aws/releases.py $(STACK) rollback $(ARGS)\n" in makefile


def test_on_the_emulated_stack_each_function_goes_back(stack, capsys):
    functions = {logical_id for _, logical_id, _ in stack.functions()}
    release = releases.Release(client, STACK)
    assert set(release.functions) == functions
    live = {function: release.alias(function, "live")[0] for function in functions}
    release.good()
    for function, version in live.items():
        client("lambda").update_function_code(FunctionName=release.functions[function], ZipFile=function.encode())
        new = client("lambda").publish_version(FunctionName=release.functions[function])["Version"]
        assert int(new) == version + 1
        release.point(function, "live", new)
    release.good()
    # moto has no paginator for deployments, and no deployment.
    release.running = lambda: []
    release.rollback("good")
    assert {function: release.alias(function, "live")[0] for function in functions} == live
    assert {function: release.alias(function, "good")[0] for function in functions} == live
    with pytest.raises(releases.Refused, match="good before"):
        release.rollback("good")
