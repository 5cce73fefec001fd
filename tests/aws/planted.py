"""An account for `make preflight`, in which a test plants faults.

The account is moto's. For operations that moto lacks, ANSWERS has the answers of a good account. Each answer is validated
against botocore's own model of the operation, as botocore's Stubber does.
"""

import copy
import functools
import json
import sys

import boto3
from botocore.exceptions import ClientError
from botocore.validate import validate_parameters
from moto.cloudformation.models import cloudformation_backends
from transformed import REGION, ROOT

sys.path.insert(0, str(ROOT / "scripts/aws"))

import preflight  # noqa: E402
from environment import Environment  # noqa: E402

ACCOUNT = "123456789012"
VALKEY = [
    {"Engine": "valkey", "EngineVersion": version, "CacheParameterGroupFamily": f"valkey{version[0]}"}
    for version in ("7.2.6", "8.0.1", "8.1.0", "9.0.0")
]
QUOTAS = {"L-F678F1CE": 5.0, "L-1B52E74A": 20.0, "L-DFE45DF3": 300.0}
ANSWERS = {
    "GetAccountSettings": {"AccountLimit": {"ConcurrentExecutions": 1000, "UnreservedConcurrentExecutions": 1000}},
    "GetCapacityProvider": "ResourceNotFoundException",
    "DescribeCacheEngineVersions": {"CacheEngineVersions": VALKEY},
    "DescribeReservedCacheNodesOfferings": {"ReservedCacheNodesOfferings": [{"CacheNodeType": "cache.m7g.large"}]},
    "DescribeUserGroups": "UserGroupNotFound",
    "DescribeServerlessCaches": "ServerlessCacheNotFoundFault",
    "ListResponseHeadersPolicies": {"ResponseHeadersPolicyList": {"MaxItems": 100, "Quantity": 0, "Items": []}},
    "DescribeFunction": "NoSuchFunctionExists",
    "GetServiceQuota": lambda given: {"Quota": {"Value": QUOTAS[given["QuotaCode"]]}},
    # moto's table has a quarter of what a new account's has.
    "DescribeLimits": {"TableMaxReadCapacityUnits": 40_000, "TableMaxWriteCapacityUnits": 40_000},
}


class Session(boto3.session.Session):
    """Clients whose calls are recorded, and answered as the current world says. Making one takes a second, so all tests
    share them."""

    world = None

    def __init__(self, region):
        super().__init__(region_name=region)
        self.events.register("before-parameter-build", lambda params, context, **_: context.update(given=params))
        self.events.register("before-call", lambda **given: Session.world.answer(**given))
        self.client = functools.cache(
            lambda service, region_name, config: super(Session, self).client(service, region_name)
        )


session = functools.cache(Session)
planting = functools.cache(lambda service, region: boto3.client(service, region_name=region))
environment = functools.cache(Environment)


class World:
    """An account, and what would be deployed into it."""

    def __init__(self, name="prod"):
        self.environment = copy.deepcopy(environment(name))
        self.stack, self.region = self.environment.stack, REGION
        self.answers, self.calls = dict(ANSWERS), []
        self.discover = lambda issuer: issuer
        self.set(AlarmEmail="oncall@example.com")
        Session.world = self

    def set(self, **parameters):
        unknown = set(parameters) - set(self.environment.parameters)
        assert not unknown, f"the template has no {unknown}"
        self.environment.parameters |= parameters

    def client(self, service, region=None):
        """A client that may plant."""
        return planting(service, region or self.region)

    def account(self):
        Session.world = self
        account = preflight.Account(self.environment, session(self.region), ACCOUNT)
        account.discover = self.discover
        return account

    def answer(self, model, context, **_):
        self.calls.append(model.name)
        answer = self.answers.get(model.name)
        if callable(answer):
            answer = answer(context["given"])
        if answer is None:
            return None
        if isinstance(answer, str):
            raise ClientError({"Error": {"Code": answer, "Message": "planted"}}, model.name)
        validate_parameters(answer, model.output_shape)
        return type("Response", (), {"status_code": 200}), copy.deepcopy(answer)

    def findings(self, subject=None):
        """Of all checks, or of the one about `subject`."""
        # The first check reads the state of the stack, which the others use.
        checks = [one for one in preflight.CHECKS if subject in (None, one.subject) or one is preflight.CHECKS[0]]
        return [one for one in preflight.run(self.account(), checks) if subject in (None, one.subject)]

    def make_stack(self, name, status="CREATE_COMPLETE", resources=None):
        """A stack with these resources, or with a queue."""
        body = {"Resources": resources or {"Queue": {"Type": "AWS::SQS::Queue"}}}
        self.client("cloudformation").create_stack(StackName=name, TemplateBody=json.dumps(body))
        cloudformation_backends[ACCOUNT][self.region].get_stack(name).status = status

    def delete_stack(self, name):
        self.client("cloudformation").delete_stack(StackName=name)
