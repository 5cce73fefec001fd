"""The account of every test: moto's, with clients that all tests share, and with answers for what moto lacks or what a test plants."""

import copy
import functools
import json
import time

import boto3
from botocore.exceptions import ClientError
from botocore.validate import validate_parameters
from transformed import REGION

DUMMIES = {"string": "x" * 20, "integer": 0, "long": 0, "boolean": False, "timestamp": 0}


def filled(shape, given):
    """The answer with the fields that the operation always has and no test names."""
    if shape.type_name == "list":
        return [filled(shape.member, one) for one in given or [None] * shape.metadata.get("min", 0)]
    if shape.type_name != "structure":
        return DUMMIES[shape.type_name] if given is None else given
    given = given or {}
    wanted = {*given, *shape.required_members}
    return given | {name: filled(of, given.get(name)) for name, of in shape.members.items() if name in wanted}


@functools.cache
def session(region, may_write=False):
    """Its calls go to the current account first. Making a client takes a second, so all tests share them; preflight's refuse to write."""
    made = boto3.session.Session(region_name=region)
    made.events.register("before-parameter-build", lambda params, context, **_: context.update(given=params))
    made.events.register("before-call", lambda **given: Account.current.answer(**given))
    client = functools.cache(made.client)
    # Without the configuration, which is a new object for each caller, and without keys.
    made.client = lambda service, region_name=region, **_: client(service, region_name=region_name)
    return made


planting = functools.cache(lambda service, region=REGION: boto3.client(service, region_name=region))


class Account:
    """`answers` has what moto does not answer, by the names of operations: an answer, or a code of an error. It may also be a function of
    what was given, which returns one of these, or `None` for moto's answer. Each answer is validated against botocore's own model."""

    current = None

    def __init__(self, answers):
        Account.current = self
        self.answers, self.calls = dict(answers), []

    def answer(self, model, context, **_):
        self.calls.append(model.name)
        answer = self.answers.get(model.name)
        if callable(answer):
            answer = answer(context["given"])
        if answer is None:
            return None
        if isinstance(answer, str):
            raise ClientError({"Error": {"Code": answer, "Message": "planted"}}, model.name)
        answer = filled(model.output_shape, copy.deepcopy(answer))
        validate_parameters(answer, model.output_shape)
        return type("Response", (), {"status_code": 200}), answer


def make_stack(name, resources=None, outputs=None):
    """A stack with these resources, or with a queue."""
    body = {"Resources": resources or {"Queue": {"Type": "AWS::SQS::Queue"}}}
    if outputs:
        body["Outputs"] = {key: {"Value": value} for key, value in outputs.items()}
    planting("cloudformation").create_stack(StackName=name, TemplateBody=json.dumps(body))


def make_table(name, **given):
    planting("dynamodb").create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "PK", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "PK", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
        **given,
    )


ALARM = {
    "ComparisonOperator": "GreaterThanThreshold",
    "MetricName": "m",
    "Namespace": "n",
    "Period": 60,
    "EvaluationPeriods": 1,
    "Threshold": 1.0,
    "Statistic": "Sum",
}


def make_alarm(name):
    planting("cloudwatch").put_metric_alarm(AlarmName=name, **ALARM)


class Clock:
    """Only sleeping moves it, so that no test waits."""

    def __init__(self, slept=lambda seconds: None):
        self.now_s, self.slept = 0.0, slept

    def monotonic(self):
        return self.now_s

    def sleep(self, seconds):
        self.now_s += seconds
        self.slept(seconds)

    def __getattr__(self, name):
        return getattr(time, name)
