"""Remembers which versions of a stack's functions are good, and sends requests back to them. Needs credentials.

    releases.py STACK deployed                 fails if nobody let SAM execute the change set, after which it exits with 0
    releases.py STACK good                     the live versions are good: `make deploy` says so once it is done
    releases.py STACK rollback                 ends a deployment that runs; requests go to the last good release, or from that to the one before
    releases.py STACK rollback before          to the one before, also after a deployment that CloudFormation has undone
    releases.py STACK rollback FUNCTION VERSION   one function (its logical id in template.yaml) goes to a version

Only the last one leads to a version with another table, Redis or edge key.

Three aliases of each function are all that is remembered: `live` answers, `good` was live when a deployment had ended well, and
`before` was good before that. Lambda deletes no version that has an alias.
"""

import json
import os
import pathlib
import sys
import time

# The state of a deployment that has not ended.
RUNNING = ["Created", "Queued", "InProgress", "Ready"]
# Who makes deployments that lead back.
UNDOING = ("codeDeployRollback", "CloudFormationRollback")
# What has another value after a change that only goes forward: the older version would write to what is not used any more, or refuse users.
FORWARD = ("TABLE_NAME", "REDIS_URL", "EDGE_KEY", "TICKET_SECRET")
# A Redis that is changed in the same update may take long.
WAIT_S, PAUSE_S = 3600, 5


class Refused(Exception):
    """Nothing was changed, or no more than was said."""


class Release:
    """The functions of a stack with their aliases."""

    def __init__(self, client, stack, sleep=time.sleep):
        self.client, self.stack, self.sleep = client, stack, sleep
        # Names by logical id.
        self.functions, self.groups, self.application = {}, {}, None
        for page in client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=stack):
            for of in page["StackResourceSummaries"]:
                kind, logical_id, name = of["ResourceType"], of["LogicalResourceId"], of.get("PhysicalResourceId", "")
                if of["ResourceStatus"] == "DELETE_COMPLETE" or not name:
                    continue
                if kind == "AWS::Lambda::Alias":
                    # arn:aws:lambda:<region>:<account>:function:<name>:live
                    self.functions[logical_id.removesuffix("Aliaslive")] = name.split(":")[6]
                elif kind == "AWS::CodeDeploy::DeploymentGroup":
                    self.groups[logical_id.removesuffix("DeploymentGroup")] = name
                elif kind == "AWS::CodeDeploy::Application":
                    self.application = name
        if not self.functions:
            raise Refused(f"{stack} has no function with an alias")

    def status(self):
        [found] = self.client("cloudformation").describe_stacks(StackName=self.stack)["Stacks"]
        return found["StackStatus"]

    def alias(self, function, name):
        """The version of an alias, or `None`, and whether a second version has a part of its requests."""
        lambda_ = self.client("lambda")
        try:
            found = lambda_.get_alias(FunctionName=self.functions[function], Name=name)
        except lambda_.exceptions.ResourceNotFoundException:
            return None, False
        weights = (found.get("RoutingConfig") or {}).get("AdditionalVersionWeights")
        return int(found["FunctionVersion"]), bool(weights)

    def differing(self, function, version, other):
        """Which of the variables that only go forward two versions of a function have with other values."""
        name, read = self.functions[function], self.client("lambda").get_function_configuration
        found = [read(FunctionName=name, Qualifier=str(one)).get("Environment", {}).get("Variables", {}) for one in (version, other)]
        return [variable for variable in FORWARD if found[0].get(variable) != found[1].get(variable)]

    def point(self, function, name, version):
        given = {"FunctionName": self.functions[function], "Name": name, "FunctionVersion": str(version)}
        if self.alias(function, name)[0] is None:
            self.client("lambda").create_alias(**given)
        else:
            self.client("lambda").update_alias(**given, RoutingConfig={"AdditionalVersionWeights": {}})

    def good(self):
        """The live versions are good. What was good is `before`."""
        status = self.status()
        live = {function: self.alias(function, "live") for function in self.functions}
        if all(self.alias(function, "good") == found for function, found in live.items()):
            return
        shared = [function for function, (_, is_shared) in live.items() if is_shared]
        if status not in ("CREATE_COMPLETE", "UPDATE_COMPLETE") or shared:
            raise Refused(f"{self.stack} is {status}, and requests move to new versions of {', '.join(shared) or 'none'}: not recorded as good")
        for function, (version, _) in live.items():
            last, _ = self.alias(function, "good")
            if last == version:
                continue
            if last is not None:
                self.point(function, "before", last)
            self.point(function, "good", version)
            print(f"{function}: version {version} is good")

    def running(self):
        """The deployments that have not ended, and whether each leads back."""
        codedeploy = self.client("codedeploy")
        for group in self.groups.values():
            pages = codedeploy.get_paginator("list_deployments").paginate(
                applicationName=self.application, deploymentGroupName=group, includeOnlyStatuses=RUNNING
            )
            for deployment in (one for page in pages for one in page["deployments"]):
                found = codedeploy.get_deployment(deploymentId=deployment)["deploymentInfo"]
                yield deployment, found.get("creator") in UNDOING

    def end_deployments(self):
        """Stops what moves requests to new versions, and waits until CodeDeploy and CloudFormation have undone it. Returns the stack's
        status, and whether there was a deployment."""
        codedeploy, said, found = self.client("codedeploy"), None, False
        for _ in range(WAIT_S // PAUSE_S):
            running = list(self.running())
            found = found or bool(running)
            for deployment, undoes in running:
                if not undoes:
                    print(f"stopping the deployment {deployment}")
                    try:
                        codedeploy.stop_deployment(deploymentId=deployment, autoRollbackEnabled=True)
                    except codedeploy.exceptions.DeploymentAlreadyCompletedException:
                        pass
            status = self.status()
            if not running and not status.endswith("_IN_PROGRESS"):
                return status, found
            if status != said:
                print(f"{self.stack} is {status}: waiting until it is done")
                said = status
            self.sleep(PAUSE_S)
        raise Refused(f"{self.stack} is still {said}. What it does: aws cloudformation describe-stack-events --stack-name {self.stack}")

    def rollback(self, name):
        """To `good`; from there, or where `name` says so, to `before`."""
        status, ended = self.end_deployments()
        aliases = {of: {function: self.alias(function, of) for function in self.functions} for of in ("live", "good", "before")}
        away = [function for function in self.functions if aliases["live"][function] != aliases["good"][function]]
        if not any(version for version, _ in aliases["good"].values()):
            raise Refused("no release is recorded as good. Give each function a version: make rollback ENV=prod ARGS='Send 6'")
        if name == "good" and not away:
            if ended:
                print(f"all requests are at the last good release of {self.stack}")
                return
            if "ROLLBACK" in status:
                raise Refused(
                    "the last deployment has been undone, so requests are at the last good release. To the one before: ARGS=before"
                )
            name = "before"
        targets = {function: version for function, (version, _) in aliases[name].items() if version}
        if not targets:
            raise Refused("no release is recorded that was good before this one")
        others = [f"{variable} of {one}" for one, to in targets.items() for variable in self.differing(one, aliases["live"][one][0], to)]
        if others:
            raise Refused(
                f"those versions have another {', '.join(others)}. Go forward: mend it, and make deploy. To go back all the same, give each "
                "function a version: make rollback ENV=prod ARGS='Send 6'"
            )
        for function in sorted(set(self.functions) - set(targets)):
            print(f"{function} stays: it has no version that was {'good' if name == 'good' else 'good before'}")
        for function, version in targets.items():
            self.move(function, version)

    def move_one(self, function, version):
        """One function to a given version."""
        lambda_ = self.client("lambda")
        if function not in self.functions:
            raise Refused(f"there is no function {function}: there are {', '.join(sorted(self.functions))}")
        try:
            lambda_.get_function_configuration(FunctionName=self.functions[function], Qualifier=version)
        except lambda_.exceptions.ResourceNotFoundException:
            raise Refused(f"{function} has no version {version}") from None
        self.end_deployments()
        self.move(function, int(version))

    def move(self, function, version):
        """Sends all requests to a version, which counts as good from now on. No later rollback leads to a newer one."""
        was = self.alias(function, "live")
        if was != (version, False):
            self.point(function, "live", version)
            print(f"{function}: from version {was[0]} to {version}")
        self.point(function, "good", version)
        before, _ = self.alias(function, "before")
        if before is not None and before >= version:
            self.client("lambda").delete_alias(FunctionName=self.functions[function], Name="before")


def deployed(client, stack):
    """Refuses if the stack has another release than the build."""
    built = json.loads(pathlib.Path(".aws-sam/build/parameters.yaml").read_text())["Release"].strip('"\\')
    [found] = client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
    has = {one["ParameterKey"]: one["ParameterValue"] for one in found.get("Parameters", [])}
    if found["StackStatus"] == "REVIEW_IN_PROGRESS" or has.get("Release") != built:
        raise Refused("nothing was deployed: the change set was not executed")


def main(arguments, client):
    match arguments:
        case [stack, "deployed"]:
            deployed(client, stack)
        case [stack, "good"]:
            Release(client, stack).good()
        case [stack, "rollback"]:
            Release(client, stack).rollback("good")
        case [stack, "rollback", "before"]:
            Release(client, stack).rollback("before")
        case [stack, "rollback", function, version] if version.isdecimal():
            Release(client, stack).move_one(function, version)
        case _:
            raise Refused("usage: make rollback ENV=prod [ARGS=before | ARGS='FUNCTION VERSION']")


if __name__ == "__main__":
    import functools

    import boto3
    import botocore.exceptions

    try:
        # The CLI reads both variables of the region, boto3 only the second one.
        session = boto3.session.Session(region_name=os.environ.get("AWS_REGION"))
        main(sys.argv[1:], functools.cache(session.client))
    except (Refused, botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
        sys.exit(f"{sys.argv[2] if len(sys.argv) > 2 else 'releases'}: {error}")
