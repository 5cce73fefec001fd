"""An account for `make preflight`, and the faults that a test plants in it. Each mends itself afterwards.

The account is moto's. For operations that moto lacks, ANSWERS has the answers of a good account. Each answer is validated
against botocore's own model of the operation, as botocore's Stubber does.
"""

import copy
import functools
import json
import urllib.error

import boto3
import preflight
from botocore.exceptions import ClientError
from botocore.validate import validate_parameters
from moto.acm.models import acm_backends
from moto.cloudformation.models import cloudformation_backends
from transformed import REGION

ACCOUNT = "123456789012"
VALKEY = [
    {"Engine": "valkey", "EngineVersion": version, "CacheParameterGroupFamily": f"valkey{version[0]}"}
    for version in ("7.2.6", "8.0.1", "8.1.0", "9.0.0")
]
QUOTAS = {"L-F678F1CE": 5.0, "L-1B52E74A": 20.0, "L-DFE45DF3": 300.0}
ANSWERS = {
    "GetAccountSettings": {"AccountLimit": {"ConcurrentExecutions": 1000, "UnreservedConcurrentExecutions": 1000}},
    "DescribeCacheEngineVersions": {"CacheEngineVersions": VALKEY},
    "DescribeReservedCacheNodesOfferings": {"ReservedCacheNodesOfferings": [{"CacheNodeType": "cache.m7g.large"}]},
    "DescribeUserGroups": "UserGroupNotFound",
    "DescribeServerlessCaches": "ServerlessCacheNotFoundFault",
    "ListResponseHeadersPolicies": {"ResponseHeadersPolicyList": {"MaxItems": 100, "Quantity": 0, "Items": []}},
    "DescribeFunction": "NoSuchFunctionExists",
    "GetServiceQuota": lambda given: {"Quota": {"Value": QUOTAS[given["QuotaCode"]]}},
    "GetRole": {"Role": {"Path": "/", "RoleName": "r", "RoleId": "AROAEXAMPLEEXAMPLE00", "Arn": "arn:aws:iam::123456789012:role/r", "CreateDate": 0}},
    "DescribeRegions": {"Regions": [{"RegionName": name, "OptInStatus": "opted-in"} for name in (REGION, "us-east-1")]},
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
        made = functools.cache(super().client)
        # Without its configuration, which is a new object for each account.
        self.client = lambda service, region_name, config: made(service, region_name)


session = functools.cache(Session)
planting = functools.cache(lambda service, region=REGION: boto3.client(service, region_name=region))
environment = functools.cache(preflight.Environment)


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


class World:
    """An account, and what would be deployed into it."""

    def __init__(self, name="prod", redis="nodes"):
        self.environment = copy.deepcopy(environment(name))
        self.stack, self.region = self.environment.stack, REGION
        self.answers, self.calls = dict(ANSWERS), []
        self.discover, self.fault_of_cli = lambda issuer: issuer, lambda: None
        self.set(AlarmEmail="oncall@example.com")
        if redis:
            self.set(Redis=redis)
        Session.world = self

    def set(self, **parameters):
        unknown = set(parameters) - set(self.environment.parameters)
        assert not unknown, f"the template has no {unknown}"
        self.environment.parameters |= parameters

    def give(self, **given):
        """Sets parameters and, by the names of operations, answers."""
        answers = {name: value for name, value in given.items() if name not in self.environment.parameters}
        self.answers |= answers
        self.set(**{name: value for name, value in given.items() if name not in answers})

    def client(self, service, region=None):
        """A client that may plant."""
        return planting(service, region or self.region)

    def account(self):
        Session.world = self
        account = preflight.Account(self.environment, session(self.region), ACCOUNT)
        account.discover, account.fault_of_cli = self.discover, self.fault_of_cli
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
        # The check of the stack reads its state, which the others use.
        checks = [one for one in preflight.CHECKS if subject in (None, one.subject) or one.subject == "stack"]
        return [one for one in preflight.run(self.account(), checks) if subject in (None, one.subject)]

    def make_stack(self, name, status="CREATE_COMPLETE", resources=None, parameters=None):
        """A stack with these resources, or with a queue."""
        declared = {key: {"Type": "String", "Default": value} for key, value in (parameters or {}).items()}
        body = {"Parameters": declared, "Resources": resources or {"Queue": {"Type": "AWS::SQS::Queue"}}}
        self.client("cloudformation").create_stack(StackName=name, TemplateBody=json.dumps(body))
        cloudformation_backends[ACCOUNT][self.region].get_stack(name).status = status

    def delete_stack(self, name):
        self.client("cloudformation").delete_stack(StackName=name)


def executions(limit, unreserved):
    return {"AccountLimit": {"ConcurrentExecutions": limit, "UnreservedConcurrentExecutions": unreserved}}


def roles(number):
    return {"SummaryMap": {"Roles": number, "RolesQuota": 1000, "Policies": 5, "PoliciesQuota": 1500}}


def regions(status):
    return {"Regions": [{"RegionName": REGION, "OptInStatus": status}]}


def cache_nodes(number):
    return {"CacheClusters": [{"CacheClusterId": "other", "NumCacheNodes": number}]}


def usual(operation):
    return {operation: ANSWERS.get(operation)}


PAGES_NAME = "hongbao-prod-page-ap-east-1"
HEADERS_POLICY = {
    "Type": "custom",
    "ResponseHeadersPolicy": {"Id": "1", "LastModifiedTime": 0, "ResponseHeadersPolicyConfig": {"Name": PAGES_NAME}},
}
POLICIES = {None: {"MaxItems": 1, "Quantity": 0, "NextMarker": "more"}, "more": {"MaxItems": 100, "Quantity": 1, "Items": [HEADERS_POLICY]}}
FUNCTION = {
    "Name": PAGES_NAME,
    "FunctionConfig": {"Comment": "", "Runtime": "cloudfront-js-2.0"},
    "FunctionMetadata": {"FunctionARN": "arn:aws:cloudfront::1:function/f", "LastModifiedTime": 0},
}
OFFERED = [{"InstanceType": "m7g.large", "Location": f"ap-east-1{zone}"} for zone in "ab"]

VAULT = "arn:aws:backup:eu-west-1:{}:backup-vault:elsewhere".format
MANAGED, UNMANAGED = (
    {"ResourceTypeOptInPreference": {"DynamoDB": True}, "ResourceTypeManagementPreference": {"DynamoDB": managed}} for managed in (True, False)
)

# Faults of parameters and of answers that moto lacks: the subject that must find the text, what plants the fault, and what mends it.
GIVEN = [
    ("region", "ap-east-1 is an opt-in region that this account has not enabled", {"DescribeRegions": regions("not-opted-in")}, {"DescribeRegions": regions("opted-in")}),
    ("region", "AWS has no region ap-east-1", {"DescribeRegions": {"Regions": []}}, {"DescribeRegions": regions("opt-in-not-required")}),
    ("lambda concurrency", "runs 10 executions at a time", {"GetAccountSettings": executions(10, 10)}, {"GetAccountSettings": executions(110, 110)}),
    (
        "lambda concurrency",
        "SettleConcurrency=10 can't be reserved: 100 of the account's 100 are free",
        {"GetAccountSettings": executions(100, 100)},
        {"SettleConcurrency": "0"},
    ),
    ("redis' role", "its service-linked role is missing", {"GetRole": "NoSuchEntity", "Redis": "serverless"}, {"Redis": "existing"}),
    (
        "lambda concurrency",
        "SettleConcurrency=510 can't be reserved: 600 of the account's 1000",
        {"SettleConcurrency": "510", "GetAccountSettings": executions(1000, 600)},
        {"GetAccountSettings": executions(1000, 610)},
    ),
    (
        "lambda concurrency",
        "SettleConcurrency=10, GrabProvisioned=900 can't be reserved",
        {"GrabProvisioned": "900"},
        {"GrabProvisioned": "800"},
    ),
    ("roles and policies", "roles fit into the account", {"GetAccountSummary": roles(995)}, {"GetAccountSummary": roles(5)}),
    ("zones", "Zones names 2 zones (ap-east-1a, ap-east-1b)", {"Zones": "ap-east-1a,ap-east-1b"}, {"Zones": "ap-east-1c,ap-east-1a,ap-east-1b"}),
    ("zones", "Zones has ap-east-1x, which this account does not have", {"Zones": "ap-east-1a,ap-east-1b,ap-east-1x"}, {"Zones": ""}),
    (
        "zones",
        "ap-east-1c has no m7g.large",
        {"DescribeInstanceTypeOfferings": {"InstanceTypeOfferings": OFFERED}},
        {"Redis": "serverless"},
    ),
    ("redis", "no Valkey 9.0 in", {"DescribeCacheEngineVersions": {"CacheEngineVersions": VALKEY[:-1]}}, usual("DescribeCacheEngineVersions")),
    ("redis", "cache.t4g.small has no durability", {"RedisNodeType": "cache.t4g.small"}, {"RedisNodeType": "cache.r8g.large"}),
    ("redis", "has no cache.m7g.larger", {"RedisNodeType": "cache.m7g.larger"}, {"RedisNodeType": "cache.m7g.large"}),
    ("redis", "3 more nodes don't fit", {"DescribeCacheClusters": cache_nodes(298)}, {"DescribeCacheClusters": cache_nodes(297)}),
    ("names", "a Redis user hongbao-prod-functions already", {"DescribeUsers": {"Users": [{"UserId": "hongbao-prod-functions"}]}}, usual("DescribeUsers")),
    (
        "names",
        "a Redis user group hongbao-prod-users already",
        {"DescribeUserGroups": {"UserGroups": [{"UserGroupId": "hongbao-prod-users"}]}},
        usual("DescribeUserGroups"),
    ),
    (
        "names",
        "a serverless cache hongbao-prod-cache-1 already",
        {"Redis": "serverless", "DescribeServerlessCaches": {"ServerlessCaches": [{"ServerlessCacheName": "hongbao-prod-cache-1"}]}},
        {"Redis": "nodes"},
    ),
    (
        "names",
        f"a response headers policy {PAGES_NAME} already",
        {"Page": "true", "ListResponseHeadersPolicies": lambda given: {"ResponseHeadersPolicyList": POLICIES[given.get("Marker")]}},
        usual("ListResponseHeadersPolicies"),
    ),
    (
        "names",
        f"a CloudFront function {PAGES_NAME} already",
        {"Page": "true", "DescribeFunction": {"FunctionSummary": FUNCTION}},
        usual("DescribeFunction"),
    ),
    (
        "backups",
        "AWS Backup does not manage backups of DynamoDB",
        {"BackupVaultArn": VAULT(ACCOUNT), "DescribeRegionSettings": UNMANAGED, "DescribeBackupVault": {"BackupVaultName": "elsewhere"}},
        {"DescribeRegionSettings": MANAGED},
    ),
    (
        "backups",
        f"there is no vault {VAULT(ACCOUNT)}",
        {"BackupVaultArn": VAULT(ACCOUNT), "DescribeRegionSettings": MANAGED, "DescribeBackupVault": "ResourceNotFoundException"},
        {"DescribeBackupVault": {"BackupVaultName": "elsewhere"}},
    ),
    (
        "web acl",
        "there is no web ACL arn:aws:wafv2:us-east-1:1:global/webacl/page/0",
        {"PageWebAclArn": "arn:aws:wafv2:us-east-1:1:global/webacl/page/0", "GetWebACL": "WAFNonexistentItemException"},
        {"GetWebACL": {"LockToken": "t"}},
    ),
    ("parameters", "JwtIssuer needs JwtAudience", {"JwtIssuer": "https://issuer.example/"}, {"JwtAudience": "app"}),
    ("parameters", "EntranceDomain needs EntranceCertificateArn", {"EntranceDomain": "api.example"}, {"EntranceDomain": ""}),
    ("parameters", "RestoredTable=hongbao-restored does not have the form ^(arn:", {"RestoredTable": "hongbao-restored"}, {"RestoredTable": ""}),
    ("parameters", "PageCertificateArn=abc does not have the form", {"PageCertificateArn": "abc", "PageDomain": "red.example"}, {"PageCertificateArn": ""}),
    ("parameters", "BackupVaultArn=elsewhere does not have the form", {"BackupVaultArn": "elsewhere"}, {"BackupVaultArn": ""}),
    ("parameters", "Redis=existing needs RedisUrl", {"Redis": "existing", "VpcId": "vpc-0123", "SubnetIds": "subnet-1"}, {"RedisUrl": "redis://a"}),
    ("parameters", "Redis=existing needs VpcId", {"Redis": "existing", "RedisUrl": "redis://a"}, {"VpcId": "vpc-0123", "SubnetIds": "subnet-1"}),
    ("parameters", "RedisUrl does not have the form", {"RedisUrl": "secret"}, {"RedisUrl": ""}),
    ("parameters", "Rollout=AtOnce is none of: AllAtOnce, ", {"Rollout": "AtOnce"}, {"Rollout": "AllAtOnce"}),
    ("parameters", "LogRetentionDays=31 is none of: 1, ", {"LogRetentionDays": "31"}, {"LogRetentionDays": "30"}),
    ("parameters", "GrabRate=many is no whole number", {"GrabRate": "many"}, {"GrabRate": "5000"}),
    ("parameters", "GrabRate=0 is less than 1", {"GrabRate": "0"}, {"GrabRate": "5000"}),
    ("parameters", "GrabProvisioned=00 is no whole number", {"GrabProvisioned": "00"}, {"GrabProvisioned": "0"}),
    ("parameters", "UserRate=10001 is not from 0 to 10000", {"UserRate": "10001"}, {"UserRate": "20"}),
    ("days", "no time zone of the IANA has this name", {"DayZone": "Asia/Peking"}, {"DayZone": "America/Sao_Paulo"}),
]
# The same for what works, but not as somebody may expect.
LOOKS = [
    ("lambda concurrency", "runs 500 executions at a time", {"GetAccountSettings": executions(500, 500)}, usual("GetAccountSettings")),
    ("api gateway", "GrabRate=20000", {"GrabRate": "20000"}, {"GrabRate": "5000"}),
    (
        "dynamodb",
        "666 claims",
        {"GrabRate": "10000", "DescribeLimits": {"TableMaxReadCapacityUnits": 4_000, "TableMaxWriteCapacityUnits": 4_000}},
        usual("DescribeLimits"),
    ),
    (
        "redis",
        "ElastiCache may have no cache.m7g.large",
        {"DescribeReservedCacheNodesOfferings": {"ReservedCacheNodesOfferings": []}},
        usual("DescribeReservedCacheNodesOfferings"),
    ),
    ("redis", "drops keys at its limit", {"Redis": "serverless", "GrabAck": "redis"}, {"Redis": "nodes"}),
    (
        "backups",
        "is of the account 210987654321",
        {"BackupVaultArn": VAULT("210987654321"), "DescribeRegionSettings": MANAGED},
        {"BackupVaultArn": ""},
    ),
    ("alarms", "no alarm reaches anybody", {"AlarmEmail": ""}, {"AlarmEmail": "oncall@example.com"}),
]


def of_given(planted, mended):
    def plant(world):
        world.give(**planted)
        yield
        world.give(**mended)

    return plant


# The subject that must find the text, the kind of finding, and a generator that plants the fault, and mends it after its `yield`.
FAULTS = {
    f"{subject}: {text}": (subject, text, kind, of_given(planted, mended))
    for kind, rows in (("fails", GIVEN), ("look", LOOKS))
    for subject, text, planted, mended in rows
}


def fault(subject, text, kind="fails"):
    """A fault: `subject` must find `text`. The generator plants it first, and mends it after its `yield`."""

    def registered(plant):
        FAULTS[plant.__name__] = (subject, text, kind, plant)
        return plant

    return registered


@fault("parameters", "the template has no parameter GrabRates")
def a_parameter_that_does_not_exist(world):
    world.environment.parameters["GrabRates"] = "5000"
    yield
    del world.environment.parameters["GrabRates"]


@fault("stack", "no name for a stack")
def a_long_name(world):
    world.environment.stack = "hongbao-" + "x" * 22
    yield
    world.environment.stack = world.stack


@fault("stack", "no name for a stack")
def a_name_with_a_double_hyphen(world):
    world.environment.stack = "hongbao--prod"
    yield
    world.environment.stack = world.stack


@fault("stack", "no name for a stack")
def a_name_with_a_hyphen_last(world):
    world.environment.stack = "hongbao-prod-"
    yield
    world.environment.stack = world.stack


@fault("stack", "ROLLBACK_COMPLETE")
def a_first_creation_that_failed(world):
    world.make_stack(world.stack, "ROLLBACK_COMPLETE")
    yield
    world.delete_stack(world.stack)


@fault("stack", "UPDATE_ROLLBACK_FAILED")
def an_update_that_is_stuck(world):
    world.make_stack(world.stack, "UPDATE_ROLLBACK_FAILED")
    yield
    cloudformation_backends[ACCOUNT][REGION].get_stack(world.stack).status = "UPDATE_ROLLBACK_COMPLETE"


@fault("stack", "somebody deploys it now")
def a_deployment_in_progress(world):
    world.make_stack(world.stack, "UPDATE_IN_PROGRESS")
    yield
    cloudformation_backends[ACCOUNT][REGION].get_stack(world.stack).status = "UPDATE_COMPLETE"


@fault("kept values", "does not name DayZone, which keeps Europe/Berlin", "look")
def a_value_that_is_no_more_named(world):
    world.make_stack(world.stack, parameters={"DayZone": "Europe/Berlin", "Release": "a"})
    yield
    world.set(DayZone="Europe/Berlin")


@fault("aws cli", "this machine has no AWS CLI")
def no_aws_cli(world):
    mended, world.fault_of_cli = world.fault_of_cli, lambda: "this machine has no AWS CLI: install version 2"
    yield
    world.fault_of_cli = mended


@fault("uploads", "nothing can be uploaded")
def a_broken_bucket_of_sam(world):
    world.make_stack("aws-sam-cli-managed-default", "ROLLBACK_COMPLETE")
    yield
    world.delete_stack("aws-sam-cli-managed-default")


@fault("left behind", "left the table hongbao-prod-Table-1A2B3C", "look")
def a_table_of_an_earlier_stack(world):
    # The stacks hongbao-prod-2 and hongbao-prod-orders are others.
    for name in ("hongbao-prod-Table-1A2B3C", "hongbao-prod-2-Table-1A2B3C", "hongbao-prod-orders"):
        make_table(name)
    yield
    world.client("dynamodb").delete_table(TableName="hongbao-prod-Table-1A2B3C")


@fault("left behind", "left the user pool", "look")
def a_user_pool_of_an_earlier_stack(world):
    pool = world.client("cognito-idp").create_user_pool(PoolName=world.stack)["UserPool"]["Id"]
    yield
    world.client("cognito-idp").delete_user_pool(UserPoolId=pool)


@fault("dynamodb", "table/restored does not exist")
def a_restored_table_that_is_absent(world):
    world.set(RestoredTable="arn:aws:dynamodb:ap-east-1:123456789012:table/restored")
    yield
    make_table("restored")


@fault("dynamodb", "need the ARN of the stream")
def a_restored_table_without_its_stream(world):
    a_table = "arn:aws:dynamodb:ap-east-1:123456789012:table/restored-with-events"
    make_table(a_table.partition("/")[2])
    world.set(RestoredTable=a_table, Events="true")
    yield
    world.set(RestoredTable=f"{a_table}/stream/2026-11-26T00:00:00.000")


@fault("network", "the region has 5 VPCs of 5")
def no_room_for_a_network(world):
    ec2 = world.client("ec2")
    vpcs = [ec2.create_vpc(CidrBlock=f"10.{number}.0.0/16")["Vpc"]["VpcId"] for number in range(4)]
    yield
    ec2.delete_vpc(VpcId=vpcs[0])


@fault("network", "gateway endpoints of 1")
def no_room_for_an_endpoint(world):
    world.answers["GetServiceQuota"] = lambda given: {
        "Quota": {"Value": (QUOTAS | {"L-1B52E74A": 1.0})[given["QuotaCode"]]}
    }
    world.client("ec2").create_vpc_endpoint(
        VpcId=world.client("ec2").describe_vpcs()["Vpcs"][0]["VpcId"],
        VpcEndpointType="Gateway",
        ServiceName=f"com.amazonaws.{REGION}.s3",
    )
    yield
    world.answers["GetServiceQuota"] = ANSWERS["GetServiceQuota"]


def existing(world, zones=(0, 1)):
    """A network with a subnet in each of these zones, and with an endpoint."""
    ec2 = world.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    names = [zone["ZoneName"] for zone in ec2.describe_availability_zones()["AvailabilityZones"]]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.9.{place}.0/24", AvailabilityZone=names[zone])["Subnet"]["SubnetId"]
        for place, zone in enumerate(zones)
    ]
    ec2.create_vpc_endpoint(VpcId=vpc, VpcEndpointType="Gateway", ServiceName=f"com.amazonaws.{REGION}.dynamodb")
    world.set(VpcId=vpc, SubnetIds=",".join(subnets))


@fault("network", "VpcId=vpc-0123 does not exist")
def a_network_that_is_absent(world):
    world.set(VpcId="vpc-0123", SubnetIds="subnet-1,subnet-2")
    yield
    existing(world)


@fault("network", "0 of them are in vpc-")
def subnets_of_another_network(world):
    existing(world)
    good = world.environment.parameters["SubnetIds"]
    others = world.client("ec2").describe_subnets(Filters=[{"Name": "default-for-az", "Values": ["true"]}])["Subnets"]
    world.set(SubnetIds=",".join(subnet["SubnetId"] for subnet in others))
    yield
    world.set(SubnetIds=good)


@fault("network", "lie in one zone")
def subnets_in_one_zone(world):
    existing(world, zones=(0, 0))
    yield
    existing(world)


@fault("network", "has no endpoint for DynamoDB", "look")
def a_network_without_an_endpoint(world):
    existing(world)
    ec2 = world.client("ec2")
    ec2.delete_vpc_endpoints(
        VpcEndpointIds=[one["VpcEndpointId"] for one in ec2.describe_vpc_endpoints()["VpcEndpoints"]]
    )
    yield
    existing(world)


def keep_default_subnets(world, kept):
    """Deletes the default subnets in all other zones."""
    ec2 = world.client("ec2")
    for subnet in ec2.describe_subnets(Filters=[{"Name": "default-for-az", "Values": ["true"]}])["Subnets"]:
        if subnet["AvailabilityZone"][-1] not in kept:
            ec2.delete_subnet(SubnetId=subnet["SubnetId"])


@fault("zones", "2 zones with a default subnet (ap-east-1a, ap-east-1b)")
def two_default_subnets(world):
    keep_default_subnets(world, "ab")
    yield
    # Without any default subnet, CloudFormation lists all zones.
    keep_default_subnets(world, "")


@fault("zones", "Lambda has no functions in us-east-1e (use1-az3)")
def a_zone_without_lambda(world):
    world.region = "us-east-1"
    keep_default_subnets(world, "cdef")
    keep_default_subnets(world, "cef")
    yield
    keep_default_subnets(world, "")


def make_secret(world, text):
    """Webhooks with a secret of this text."""
    arn = world.client("secretsmanager").create_secret(Name="webhooks", SecretString=text)["ARN"]
    world.set(WebhookUrl="https://app.example/webhooks", WebhookSecretArn=arn)


@fault("webhooks", "there is no secret")
def no_secret_of_webhooks(world):
    world.set(WebhookUrl="https://app.example/webhooks", WebhookSecretArn=f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:x-abcdef")
    yield
    make_secret(world, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")


@fault("webhooks", "less than 24 bytes")
def a_short_secret_of_webhooks(world):
    make_secret(world, "whsec_MTIzNDU=")
    yield
    world.client("secretsmanager").put_secret_value(SecretId="webhooks", SecretString="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")


@fault("tickets", "there is no secret")
def no_secret_of_tickets(world):
    world.set(TicketSecretArn=f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:x-abcdef")
    yield
    text = json.dumps({"keys": [{"kty": "oct", "kid": "2027-1", "k": "A" * 43}]})
    world.set(TicketSecretArn=world.client("secretsmanager").create_secret(Name="tickets", SecretString=text)["ARN"])


@fault("tickets", "must have one key or two")
def a_secret_of_tickets_without_keys(world):
    arn = world.client("secretsmanager").create_secret(Name="tickets", SecretString='{"keys": []}')["ARN"]
    world.set(TicketSecretArn=arn)
    yield
    # The public key of RFC 8037.
    key = {"kty": "OKP", "crv": "Ed25519", "kid": "2027-1", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
    text = json.dumps({"keys": [key]})
    world.client("secretsmanager").put_secret_value(SecretId="tickets", SecretString=text)


@fault("names", "a schedule hongbao-prod-settle-2 already")
def a_schedule(world):
    made = {
        "Name": "hongbao-prod-settle-2",
        "ScheduleExpression": "rate(1 minute)",
        "FlexibleTimeWindow": {"Mode": "OFF"},
    }
    target = {"Arn": "arn:aws:sqs:ap-east-1:123456789012:q", "RoleArn": "arn:aws:iam::123456789012:role/r"}
    world.client("scheduler").create_schedule(**made, Target=target)
    yield
    world.client("scheduler").delete_schedule(Name=made["Name"])


@fault("names", "a log group /aws/vendedlogs/hongbao-prod/access already")
def a_log_group(world):
    names = [f"/aws/vendedlogs/hongbao-prod/{name}" for name in ("access", "access-2")]
    for name in names:
        world.client("logs").create_log_group(logGroupName=name)
    yield
    world.client("logs").delete_log_group(logGroupName=names[0])


@fault("names", "an alarm hongbao-prod-FunctionErrors already")
def an_alarm(world):
    for name in ("hongbao-prod-FunctionErrors", "hongbao-prod-2-FunctionErrors"):
        make_alarm(name)
    yield
    world.client("cloudwatch").delete_alarms(AlarmNames=["hongbao-prod-FunctionErrors"])


@fault("names", "a dashboard hongbao-prod already")
def a_dashboard(world):
    body = json.dumps({"widgets": []})
    for name in ("hongbao-prod", "hongbao-prod-2"):
        world.client("cloudwatch").put_dashboard(DashboardName=name, DashboardBody=body)
    yield
    world.client("cloudwatch").delete_dashboards(DashboardNames=["hongbao-prod"])


@fault("names", "an event bus hongbao-prod already")
def an_event_bus(world):
    world.set(Events="true")
    world.client("events").create_event_bus(Name=world.stack)
    yield
    world.client("events").delete_event_bus(Name=world.stack)


@fault("names", "an origin access control hongbao-prod-page-ap-east-1 already")
def an_origin_access_control(world):
    world.set(Page="true")
    config = {"Name": "hongbao-prod-page-ap-east-1", "SigningProtocol": "sigv4", "SigningBehavior": "always"}
    made = world.client("cloudfront").create_origin_access_control(
        OriginAccessControlConfig=config | {"OriginAccessControlOriginType": "s3"}
    )
    yield
    world.client("cloudfront").delete_origin_access_control(Id=made["OriginAccessControl"]["Id"])


@fault("names", "a sign-in domain hongbao-prod-123456789012 already")
def a_sign_in_domain(world):
    world.set(Page="true")
    cognito = world.client("cognito-idp")
    pool, domain = cognito.create_user_pool(PoolName="other")["UserPool"]["Id"], f"hongbao-prod-{ACCOUNT}"
    cognito.create_user_pool_domain(UserPoolId=pool, Domain=domain)
    yield
    cognito.delete_user_pool_domain(UserPoolId=pool, Domain=domain)


def request_certificate(world, domain="red.example", region="us-east-1", status="ISSUED"):
    arn = world.client("acm", region).request_certificate(DomainName=domain)["CertificateArn"]
    acm_backends[ACCOUNT][region]._certificates[arn].status = status
    world.set(Page="true", PageDomain="red.example", PageCertificateArn=arn)


@fault("page", "the certificate is in ap-east-1")
def a_certificate_elsewhere(world):
    request_certificate(world, region=REGION)
    yield
    request_certificate(world)


@fault("page", "there is no certificate")
def a_certificate_that_is_absent(world):
    arn = f"arn:aws:acm:us-east-1:{ACCOUNT}:certificate/12345678-1234-1234-1234-123456789012"
    world.set(Page="true", PageDomain="red.example", PageCertificateArn=arn)
    yield
    request_certificate(world)


@fault("page", "is PENDING_VALIDATION")
def a_certificate_that_is_pending(world):
    request_certificate(world, status="PENDING_VALIDATION")
    yield
    request_certificate(world)


@fault("page", "the certificate is for blue.example, not for red.example")
def a_certificate_of_another_name(world):
    request_certificate(world, "blue.example")
    yield
    request_certificate(world, "*.example")


@fault("page", "has the name red.example already")
def a_name_of_another_distribution(world):
    request_certificate(world)
    origin = {
        "Id": "o",
        "DomainName": "o.example",
        "CustomOriginConfig": {"HTTPPort": 80, "HTTPSPort": 443, "OriginProtocolPolicy": "https-only"},
    }
    config = {
        "CallerReference": "r",
        "Aliases": {"Quantity": 1, "Items": ["red.example"]},
        "Origins": {"Quantity": 1, "Items": [origin]},
        "DefaultCacheBehavior": {"TargetOriginId": "o", "ViewerProtocolPolicy": "https-only", "MinTTL": 0},
        "Comment": "",
        "Enabled": False,
    }
    cloudfront = world.client("cloudfront", "us-east-1")
    made = cloudfront.create_distribution(DistributionConfig=config)
    yield
    cloudfront.delete_distribution(Id=made["Distribution"]["Id"], IfMatch=made["ETag"])


def entrance_certificate(world, domain="api.example", region=REGION):
    request_certificate(world, domain, region)
    arn = world.environment.parameters["PageCertificateArn"]
    world.set(Page="false", PageDomain="", PageCertificateArn="", EntranceDomain="api.example", EntranceCertificateArn=arn)


@fault("entrance", "the certificate is in us-east-1; the load balancer reads only those in ap-east-1")
def a_certificate_of_the_page(world):
    entrance_certificate(world, region="us-east-1")
    yield
    entrance_certificate(world)


@fault("entrance", "the certificate is for red.example, not for api.example")
def a_certificate_for_the_page(world):
    entrance_certificate(world, "red.example")
    yield
    entrance_certificate(world)


@fault("names", "a target group hongbao-prod-g already")
def a_target_group(world):
    entrance_certificate(world)
    made = world.client("elbv2").create_target_group(Name="hongbao-prod-g", TargetType="lambda")["TargetGroups"]
    yield
    world.client("elbv2").delete_target_group(TargetGroupArn=made[0]["TargetGroupArn"])


@fault("key", "does not exist in ap-east-1")
def a_key_that_is_absent(world):
    world.set(CustomerKeyArn=f"arn:aws:kms:{REGION}:{ACCOUNT}:key/12345678-1234-1234-1234-123456789012")
    yield
    make_key(world)


@fault("key", "is Disabled")
def a_key_that_is_disabled(world):
    make_key(world)
    key = world.environment.parameters["CustomerKeyArn"].rpartition("/")[2]
    world.client("kms").disable_key(KeyId=key)
    yield
    world.client("kms").enable_key(KeyId=key)


def make_key(world):
    world.set(CustomerKeyArn=world.client("kms").create_key()["KeyMetadata"]["Arn"])


@fault("issuer", "no discovery document")
def an_issuer_that_is_silent(world):
    def silent(issuer):
        raise urllib.error.URLError("no such host")

    world.set(JwtIssuer="https://issuer.example/", JwtAudience="app")
    world.discover = silent
    yield
    world.discover = lambda issuer: issuer


@fault("issuer", "names the issuer https://issuer.example, not https://issuer.example/")
def an_issuer_with_another_name(world):
    world.set(JwtIssuer="https://issuer.example/", JwtAudience="app")
    world.discover = lambda issuer: "https://issuer.example"
    yield
    world.set(JwtIssuer="https://issuer.example")


def with_all(world):
    """Every option at once, in an account where all of it is there."""
    request_certificate(world)
    make_key(world)
    make_secret(world, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    world.set(Events="true", RedisShards="3")
    return world
