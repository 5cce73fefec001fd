"""An account for `make preflight`, and the faults that a test plants in it. ANSWERS has what a good account answers where moto lacks the
operation; each fault has answers of its own."""

import copy
import functools
import json
import urllib.error

import account
import preflight
from transformed import REGION

ACCOUNT = "123456789012"
VALKEY = [
    {"Engine": "valkey", "EngineVersion": version, "CacheParameterGroupFamily": f"valkey{version[0]}"}
    for version in ("7.2.6", "8.0.1", "8.1.0", "9.0.0")
]
QUOTAS = {"L-F678F1CE": 5.0, "L-1B52E74A": 20.0, "L-DFE45DF3": 300.0}


def quotas(**changed):
    values = QUOTAS | {code.replace("_", "-"): value for code, value in changed.items()}
    return lambda given: {"Quota": {"Value": values[given["QuotaCode"]]}}


ANSWERS = {
    "GetAccountSettings": {"AccountLimit": {"ConcurrentExecutions": 1000, "UnreservedConcurrentExecutions": 1000}},
    "DescribeCacheEngineVersions": {"CacheEngineVersions": VALKEY},
    "DescribeReservedCacheNodesOfferings": {"ReservedCacheNodesOfferings": [{"CacheNodeType": "cache.m7g.large"}]},
    "DescribeUserGroups": "UserGroupNotFound",
    "DescribeServerlessCaches": "ServerlessCacheNotFoundFault",
    "ListResponseHeadersPolicies": {"ResponseHeadersPolicyList": {}},
    "DescribeFunction": "NoSuchFunctionExists",
    "GetServiceQuota": quotas(),
    "GetRole": {"Role": {}},
    "DescribeRegions": {"Regions": [{"RegionName": name, "OptInStatus": "opted-in"} for name in (REGION, "us-east-1")]},
    # moto's table has a quarter of what a new account's has.
    "DescribeLimits": {"TableMaxReadCapacityUnits": 40_000, "TableMaxWriteCapacityUnits": 40_000},
}

environment = functools.cache(preflight.Environment)


class World(account.Account):
    """An account, and what would be deployed into it."""

    def __init__(self, name="prod", redis="nodes"):
        super().__init__(ANSWERS)
        self.environment = copy.deepcopy(environment(name))
        self.stack = self.environment.stack
        self.discover, self.fault_of_cli = lambda issuer: issuer, lambda: None
        self.give(AlarmEmail="oncall@example.com", **({"Redis": redis} if redis else {}))

    def give(self, **given):
        """Sets parameters, the name of the stack, what is asked without boto3, and, by the names of operations, answers."""
        for name, value in given.items():
            if name == "stack":
                self.environment.stack = value
            elif name in ("discover", "fault_of_cli"):
                setattr(self, name, value)
            elif name in self.environment.parameters:
                self.environment.parameters[name] = value
            else:
                self.answers[name] = value

    def account(self):
        account.Account.current = self
        asked = preflight.Account(self.environment, account.session(REGION), ACCOUNT)
        asked.discover, asked.fault_of_cli = self.discover, self.fault_of_cli
        return asked

    def findings(self, subject=None):
        """Of all checks, or of the one about `subject`."""
        # The check of the stack reads its state, which the others use.
        checks = [one for one in preflight.CHECKS if subject in (None, one.subject) or one.subject == "stack"]
        return [one for one in preflight.run(self.account(), checks) if subject in (None, one.subject)]


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


def stack(name, status, **parameters):
    """The only stack of the account, with no resource."""
    given = [{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()]
    found = {"Stacks": [{"StackName": name, "StackStatus": status, "Parameters": given}]}
    return {
        "DescribeStacks": lambda asked: found if asked["StackName"] == name else "ValidationError",
        "ListStackResources": {"StackResourceSummaries": []},
    }


NO_STACK = {"DescribeStacks": "ValidationError"}
SAM_STACK = "aws-sam-cli-managed-default"


def named(result, field, *names):
    """A list of things, each with only a name."""
    return {result: [{field: name} for name in names]}


def subnets(zones, vpc="vpc-0123"):
    return {"Subnets": [{"VpcId": vpc, "AvailabilityZone": f"{REGION}{zone}"} for zone in zones]}


# A network that exists, with a subnet in two zones and an endpoint.
ENDPOINTS = {"VpcEndpoints": [{"State": "available"}]}
NAMED_NETWORK = {"VpcId": "vpc-0123", "SubnetIds": "subnet-1,subnet-2"}
NETWORK = NAMED_NETWORK | {"DescribeVpcs": {"Vpcs": [{}]}, "DescribeSubnets": subnets("ab"), "DescribeVpcEndpoints": ENDPOINTS}
ZONES = [{"ZoneName": f"{REGION}{zone}", "ZoneId": f"use1-az{number}", "State": "available"} for number, zone in enumerate("dcba")]

PAGES_NAME = "hongbao-prod-page-ap-east-1"
POLICIES = {
    None: {"NextMarker": "more"},
    "more": {"Items": [{"ResponseHeadersPolicy": {"ResponseHeadersPolicyConfig": {"Name": PAGES_NAME}}}]},
}
OFFERED = [{"InstanceType": "m7g.large", "Location": f"ap-east-1{zone}"} for zone in "ab"]
CONTROL = {"OriginAccessControlList": {"Items": [{"Name": PAGES_NAME}]}}

VAULT = "arn:aws:backup:eu-west-1:{}:backup-vault:elsewhere".format
MANAGED, UNMANAGED = (
    {"ResourceTypeOptInPreference": {"DynamoDB": True}, "ResourceTypeManagementPreference": {"DynamoDB": managed}} for managed in (True, False)
)
TABLE = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/restored"

SECRET = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:x-abcdef"
WEBHOOKS = {"WebhookUrl": "https://app.example/webhooks", "WebhookSecretArn": SECRET}
GOOD_SECRET = {"GetSecretValue": {"SecretString": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}
GOOD_KEYS = {"GetSecretValue": {"SecretString": json.dumps({"keys": [{"kty": "oct", "kid": "2027-1", "k": "A" * 43}]})}}

CERTIFICATE = f"arn:aws:acm:{{}}:{ACCOUNT}:certificate/12345678-1234-1234-1234-123456789012".format


def issued(domain, status="ISSUED"):
    return {"DescribeCertificate": {"Certificate": {"DomainName": domain, "Status": status}}}


PAGE = {"Page": "true", "PageDomain": "red.example", "PageCertificateArn": CERTIFICATE("us-east-1")}
ENTRANCE = {"EntranceDomain": "api.example", "EntranceCertificateArn": CERTIFICATE(REGION)}
KEY = {"CustomerKeyArn": f"arn:aws:kms:{REGION}:{ACCOUNT}:key/12345678-1234-1234-1234-123456789012"}
ISSUER = {"JwtIssuer": "https://issuer.example/", "JwtAudience": "app"}


def key(state):
    return {"DescribeKey": {"KeyMetadata": {"KeyState": state}}}


def distributions(*names):
    return {"ListDistributions": {"DistributionList": {"Items": [{"Aliases": {"Items": [name]}} for name in names]}}}


def silent(issuer):
    raise urllib.error.URLError("no such host")


# Every option at once, in an account where all of it is there.
WITH_ALL = PAGE | KEY | WEBHOOKS | GOOD_SECRET | issued("red.example") | key("Enabled") | {"Events": "true", "RedisShards": "3"}

# Each fault: the subject that must find the text, what plants the fault, and what mends it.
FAILS = [
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
        {"Page": "true", "DescribeFunction": {"FunctionSummary": {}}},
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
    ("parameters", "RestoredTable=hongbao-restored does not have the form ^(arn:", {"RestoredTable": "hongbao-restored"}, {"RestoredTable": ""}),
    ("parameters", "RedisUrl does not have the form", {"RedisUrl": "secret"}, {"RedisUrl": ""}),
    ("parameters", "Rollout=AtOnce is none of: AllAtOnce, ", {"Rollout": "AtOnce"}, {"Rollout": "AllAtOnce"}),
    ("parameters", "GrabRate=many is no whole number", {"GrabRate": "many"}, {"GrabRate": "5000"}),
    ("parameters", "GrabRate=0 is less than 1", {"GrabRate": "0"}, {"GrabRate": "5000"}),
    ("parameters", "GrabProvisioned=00 is no whole number", {"GrabProvisioned": "00"}, {"GrabProvisioned": "0"}),
    ("parameters", "UserRate=10001 is not from 0 to 10000", {"UserRate": "10001"}, {"UserRate": "20"}),
    ("days", "no time zone of the IANA has this name", {"DayZone": "Asia/Peking"}, {"DayZone": "America/Sao_Paulo"}),
    ("stack", "no name for a stack", {"stack": "hongbao-" + "x" * 22}, {"stack": "hongbao-prod"}),
    ("stack", "no name for a stack", {"stack": "hongbao--prod"}, {"stack": "hongbao-prod"}),
    ("stack", "no name for a stack", {"stack": "hongbao-prod-"}, {"stack": "hongbao-prod"}),
    ("stack", "ROLLBACK_COMPLETE", stack("hongbao-prod", "ROLLBACK_COMPLETE"), NO_STACK),
    ("stack", "UPDATE_ROLLBACK_FAILED", stack("hongbao-prod", "UPDATE_ROLLBACK_FAILED"), stack("hongbao-prod", "UPDATE_ROLLBACK_COMPLETE")),
    ("stack", "somebody deploys it now", stack("hongbao-prod", "UPDATE_IN_PROGRESS"), stack("hongbao-prod", "UPDATE_COMPLETE")),
    ("aws cli", "this machine has no AWS CLI", {"fault_of_cli": lambda: "this machine has no AWS CLI"}, {"fault_of_cli": lambda: None}),
    ("uploads", "nothing can be uploaded", stack(SAM_STACK, "ROLLBACK_COMPLETE"), NO_STACK),
    ("dynamodb", "table/restored does not exist", {"RestoredTable": TABLE}, {"DescribeTable": {"Table": {}}}),
    (
        "dynamodb",
        "need the ARN of the stream",
        {"RestoredTable": TABLE, "Events": "true", "DescribeTable": {"Table": {}}},
        {"RestoredTable": f"{TABLE}/stream/2026-11-26T00:00:00.000"},
    ),
    ("network", "the region has 1 VPCs of 1", {"GetServiceQuota": quotas(L_F678F1CE=1.0)}, {"GetServiceQuota": quotas()}),
    (
        "network",
        "gateway endpoints of 1",
        {"GetServiceQuota": quotas(L_1B52E74A=1.0), "DescribeVpcEndpoints": ENDPOINTS},
        {"GetServiceQuota": quotas()},
    ),
    ("network", "VpcId=vpc-0123 does not exist", NAMED_NETWORK, NETWORK),
    ("network", "0 of them are in vpc-0123", NETWORK | {"DescribeSubnets": subnets("ab", "vpc-other")}, NETWORK),
    ("network", "lie in one zone", NETWORK | {"DescribeSubnets": subnets("aa")}, NETWORK),
    # Without any default subnet, CloudFormation lists all zones.
    ("zones", "2 zones with a default subnet (ap-east-1a, ap-east-1b)", {"DescribeSubnets": subnets("ab")}, {"DescribeSubnets": subnets("")}),
    (
        "zones",
        "Lambda has no functions in ap-east-1a (use1-az3)",
        {"Redis": "serverless", "DescribeAvailabilityZones": {"AvailabilityZones": ZONES}, "DescribeSubnets": subnets("abc")},
        {"DescribeSubnets": subnets("bcd")},
    ),
    ("webhooks", "there is no secret", WEBHOOKS, GOOD_SECRET),
    ("webhooks", "less than 24 bytes", WEBHOOKS | {"GetSecretValue": {"SecretString": "whsec_MTIzNDU="}}, GOOD_SECRET),
    ("tickets", "there is no secret", {"TicketSecretArn": SECRET}, GOOD_KEYS),
    ("tickets", "must have one key or two", {"TicketSecretArn": SECRET, "GetSecretValue": {"SecretString": '{"keys": []}'}}, GOOD_KEYS),
    (
        "names",
        "a schedule hongbao-prod-settle-2 already",
        {"ListSchedules": named("Schedules", "Name", "hongbao-prod-settle-2")},
        {"ListSchedules": {"Schedules": []}},
    ),
    (
        "names",
        "a log group /aws/vendedlogs/hongbao-prod/access already",
        {"DescribeLogGroups": named("logGroups", "logGroupName", "/aws/vendedlogs/hongbao-prod/access")},
        {"DescribeLogGroups": named("logGroups", "logGroupName", "/aws/vendedlogs/hongbao-prod/access-2")},
    ),
    (
        "names",
        "an alarm hongbao-prod-FunctionErrors already",
        {"DescribeAlarms": named("MetricAlarms", "AlarmName", "hongbao-prod-FunctionErrors")},
        {"DescribeAlarms": named("MetricAlarms", "AlarmName", "hongbao-prod-2-FunctionErrors")},
    ),
    (
        "names",
        "a dashboard hongbao-prod already",
        {"ListDashboards": named("DashboardEntries", "DashboardName", "hongbao-prod")},
        {"ListDashboards": named("DashboardEntries", "DashboardName", "hongbao-prod-2")},
    ),
    ("names", "an event bus hongbao-prod already", {"Events": "true", "DescribeEventBus": {}}, usual("DescribeEventBus")),
    (
        "names",
        f"an origin access control {PAGES_NAME} already",
        {"Page": "true", "ListOriginAccessControls": CONTROL},
        usual("ListOriginAccessControls"),
    ),
    (
        "names",
        "a sign-in domain hongbao-prod-123456789012 already",
        {"Page": "true", "DescribeUserPoolDomain": {"DomainDescription": {"UserPoolId": "other"}}},
        {"DescribeUserPoolDomain": {"DomainDescription": {}}},
    ),
    (
        "names",
        "a target group hongbao-prod-g already",
        ENTRANCE | {"DescribeTargetGroups": {"TargetGroups": [{"TargetGroupArn": "other"}]}},
        usual("DescribeTargetGroups"),
    ),
    ("page", "the certificate is in ap-east-1", PAGE | {"PageCertificateArn": CERTIFICATE(REGION)}, PAGE | issued("red.example")),
    ("page", "there is no certificate", PAGE, issued("red.example")),
    ("page", "is PENDING_VALIDATION", PAGE | issued("red.example", "PENDING_VALIDATION"), issued("red.example")),
    ("page", "the certificate is for blue.example, not for red.example", PAGE | issued("blue.example"), issued("*.example")),
    ("page", "has the name red.example already", PAGE | issued("red.example") | distributions("red.example"), distributions("blue.example")),
    (
        "entrance",
        "the certificate is in us-east-1; the load balancer reads only those in ap-east-1",
        ENTRANCE | {"EntranceCertificateArn": CERTIFICATE("us-east-1")},
        ENTRANCE | issued("api.example"),
    ),
    ("entrance", "the certificate is for red.example, not for api.example", ENTRANCE | issued("red.example"), issued("api.example")),
    ("key", "does not exist in ap-east-1", KEY, key("Enabled")),
    ("key", "is Disabled", KEY | key("Disabled"), key("Enabled")),
    ("issuer", "no discovery document", ISSUER | {"discover": silent}, {"discover": lambda issuer: issuer}),
    (
        "issuer",
        "names the issuer https://issuer.example, not https://issuer.example/",
        ISSUER | {"discover": lambda issuer: "https://issuer.example"},
        {"JwtIssuer": "https://issuer.example"},
    ),
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
    (
        "kept values",
        "does not name DayZone, which keeps Europe/Berlin",
        stack("hongbao-prod", "UPDATE_COMPLETE", DayZone="Europe/Berlin", Release="a"),
        {"DayZone": "Europe/Berlin"},
    ),
    # The stacks hongbao-prod-2 and hongbao-prod-orders are others.
    (
        "left behind",
        "left the table hongbao-prod-Table-1A2B3C",
        {"ListTables": {"TableNames": ["hongbao-prod-Table-1A2B3C"]}, "DescribeTable": {"Table": {}}},
        {"ListTables": {"TableNames": ["hongbao-prod-2-Table-1A2B3C", "hongbao-prod-orders"]}},
    ),
    ("left behind", "left the user pool", {"ListUserPools": {"UserPools": [{"Id": "other", "Name": "hongbao-prod"}]}}, {"ListUserPools": {"UserPools": []}}),
    ("network", "has no endpoint for DynamoDB", NETWORK | {"DescribeVpcEndpoints": {"VpcEndpoints": []}}, NETWORK),
]
FAULTS = [(kind, *row) for kind, rows in (("fails", FAILS), ("look", LOOKS)) for row in rows]
