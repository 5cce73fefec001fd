"""A stack that is made to try something, and always deleted. spike.py and rollouts.py have the tries."""

import contextlib
import dataclasses
import json
import sys
import time

import botocore.exceptions

from preflight import ROOT
from releases import Refused

# Lambda takes up to half an hour to leave a network.
CREATION_S, DELETION_S, PAUSE_S = 1200, 2700, 5
# The second one is for templates that SAM transforms.
CAPABILITIES = ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"]


class Wrong(Exception):
    """Something did not hold."""


def registers(found):
    """A decorator for tries. A try returns what it saw, or raises Wrong. It runs if the stack made each resource that it needs."""

    def tries(subject, *needed):
        def registered(function):
            found.append((subject, needed, function))
            return function

        return registered

    return tries


def read(name):
    # SAM's own reader knows the short forms of CloudFormation, such as `!Ref`.
    from samtranslator.yaml_helper import yaml_parse

    return yaml_parse((ROOT / name).read_text())


def until(work, seconds):
    """What `work` returns, once that is not `None`; else `None`."""
    end = time.monotonic() + seconds
    while True:
        found = work()
        if found is not None or time.monotonic() > end:
            return found
        time.sleep(PAUSE_S)


@dataclasses.dataclass
class Trial:
    session: object
    stack: str
    template: dict
    tries: list
    parameters: dict = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        self.clients, self.ids, self.outcomes = {}, {}, {}

    def client(self, service):
        if service not in self.clients:
            self.clients[service] = self.session.client(service)
        return self.clients[service]

    def status(self):
        try:
            return self.client("cloudformation").describe_stacks(StackName=self.stack)["Stacks"][0]["StackStatus"]
        except botocore.exceptions.ClientError as error:
            if error.response["Error"]["Code"] == "ValidationError":
                return None
            raise

    def rests(self):
        """The status, once nothing is in progress; `DELETE_COMPLETE` if there is no stack."""
        status = self.status() or "DELETE_COMPLETE"
        return None if status.endswith("_IN_PROGRESS") else status

    def given(self):
        parameters = [{"ParameterKey": name, "ParameterValue": value} for name, value in self.parameters.items()]
        body = json.dumps(self.template)
        return {"StackName": self.stack, "TemplateBody": body, "Parameters": parameters, "Capabilities": CAPABILITIES}

    def create(self):
        """Begins to make the stack. A resource that fails takes no other with it."""
        self.client("cloudformation").create_stack(**self.given(), DisableRollback=True)

    def wait(self):
        """Until the stack is made. Then each resource has an outcome: `None`, or why it was not made."""
        if until(self.rests, CREATION_S) is None:
            raise Wrong(f"{self.stack} is not made after {CREATION_S} s")
        pages = self.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=self.stack)
        for one in (one for page in pages for one in page["StackResourceSummaries"]):
            name, status = one["LogicalResourceId"], one["ResourceStatus"]
            self.ids[name] = one.get("PhysicalResourceId")
            self.outcomes[name] = None if status == "CREATE_COMPLETE" else f"{status} {one.get('ResourceStatusReason', '')}".strip()

    def delete(self):
        """Begins to delete the stack. CloudFormation refuses that during an update."""
        if "UPDATE" in (self.status() or ""):
            until(self.rests, DELETION_S)
        if self.status():
            self.client("cloudformation").delete_stack(StackName=self.stack)

    def wait_deleted(self):
        status = until(self.rests, DELETION_S)
        if status != "DELETE_COMPLETE":
            raise Wrong(f"{self.stack} could not be deleted ({status}): aws cloudformation delete-stack --stack-name {self.stack}")

    def run(self):
        """For each try its subject, `held`, `no` or `?`, and what was seen."""
        for subject, needed, function in self.tries:
            lacking = [f"{name}: {self.outcomes.get(name, 'was not made')}" for name in needed if self.outcomes.get(name, "") is not None]
            if lacking:
                cancelled = all("cancelled" in one for one in lacking)
                yield subject, "?" if cancelled else "no", "; ".join(lacking)
                continue
            try:
                yield subject, "held", function(self)
            except (Wrong, Refused) as wrong:
                yield subject, "no", str(wrong)
            except (botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError, OSError) as error:
                yield subject, "?", str(error)


def prove(trials, out=None):
    """Whether all of it held. The stacks are gone afterwards, whatever happens. All are made at once, and tried in their order."""
    out, begun, found = out or sys.stdout, time.monotonic(), []
    print("It makes these stacks, and deletes them:", *(trial.stack for trial in trials), file=out, flush=True)

    def wait_deleted(trial):
        trial.wait_deleted()
        print(f"{trial.stack} is deleted, after {time.monotonic() - begun:.0f} s.", file=out)

    # The last ones first: all begin to be deleted, then each is waited for, also if another can't be deleted.
    with contextlib.ExitStack() as end:
        for trial in trials:
            end.callback(wait_deleted, trial)
        for trial in trials:
            end.callback(trial.delete)
        for work in ("delete", "wait_deleted", "create"):
            for trial in trials:
                getattr(trial, work)()
        for trial in trials:
            trial.wait()
            for subject, kind, text in trial.run():
                found.append(kind)
                print(f"  {kind:<5} {subject:<18} {text}", file=out, flush=True)
    print(f"{found.count('held')} held, {found.count('no')} did not, {found.count('?')} could not be tried.", file=out)
    return set(found) == {"held"}
