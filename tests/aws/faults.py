"""The faults that a test plants in an account before `make preflight`. Each mends itself afterwards."""

import json
import urllib.error

from moto.acm.models import acm_backends
from moto.cloudformation.models import cloudformation_backends
from planted import ACCOUNT, ANSWERS, QUOTAS, VALKEY
from transformed import REGION

FAULTS = {}


def fault(subject, text, kind="fails"):
    """A fault: `subject` must find `text`. The generator plants it first, and mends it after its `yield`."""

    def registered(plant):
        FAULTS[plant.__name__] = (subject, text, kind, plant)
        return plant

    return registered


@fault("stack", "no name for a stack")
def a_long_name(world):
    world.environment.stack = "hongbao-" + "x" * 22
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


@fault("uploads", "nothing can be uploaded")
def a_broken_bucket_of_sam(world):
    world.make_stack("aws-sam-cli-managed-default", "ROLLBACK_COMPLETE")
    yield
    world.delete_stack("aws-sam-cli-managed-default")


@fault("left behind", "left the table hongbao-prod-Table-1A2B3C", "look")
def a_table_of_an_earlier_stack(world):
    # The stacks hongbao-prod-2 and hongbao-prod-orders are others.
    for name in ("hongbao-prod-Table-1A2B3C", "hongbao-prod-2-Table-1A2B3C", "hongbao-prod-orders"):
        world.client("dynamodb").create_table(
            TableName=name,
            KeySchema=[{"AttributeName": "PK", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "PK", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
    yield
    world.client("dynamodb").delete_table(TableName="hongbao-prod-Table-1A2B3C")


@fault("left behind", "left the user pool", "look")
def a_user_pool_of_an_earlier_stack(world):
    pool = world.client("cognito-idp").create_user_pool(PoolName=world.stack)["UserPool"]["Id"]
    yield
    world.client("cognito-idp").delete_user_pool(UserPoolId=pool)


@fault("lambda concurrency", "SettleConcurrency=10 can't be reserved: 10 of the account's 10 are free")
def a_new_account(world):
    limits = {"ConcurrentExecutions": 10, "UnreservedConcurrentExecutions": 10}
    world.answers["GetAccountSettings"] = {"AccountLimit": limits}
    yield
    world.set(SettleConcurrency="0")


@fault("lambda concurrency", "SettleConcurrency=510 can't be reserved: 600 of the account's 1000")
def concurrency_that_others_reserved(world):
    world.set(SettleConcurrency="510")
    limits = {"ConcurrentExecutions": 1000, "UnreservedConcurrentExecutions": 600}
    world.answers["GetAccountSettings"] = {"AccountLimit": limits}
    yield
    world.answers["GetAccountSettings"] = {"AccountLimit": limits | {"UnreservedConcurrentExecutions": 610}}


@fault("lambda concurrency", "runs 10 executions at a time", "look")
def few_executions(world):
    world.answers["GetAccountSettings"] = {
        "AccountLimit": {"ConcurrentExecutions": 10, "UnreservedConcurrentExecutions": 10}
    }
    yield
    world.answers["GetAccountSettings"] = ANSWERS["GetAccountSettings"]


@fault("lambda concurrency", "SettleConcurrency=10, GrabProvisioned=900 can't be reserved")
def no_room_for_provisioned(world):
    world.set(GrabProvisioned="900")
    yield
    world.set(GrabProvisioned="800")


@fault("lambda concurrency", "AccountConcurrency=1000, but the quota is 3000", "look")
def another_quota_than_the_alarms(world):
    world.set(AccountConcurrency="1000")
    world.answers["GetAccountSettings"] = {
        "AccountLimit": {"ConcurrentExecutions": 3000, "UnreservedConcurrentExecutions": 3000}
    }
    yield
    world.set(AccountConcurrency="3000")


@fault("api gateway", "GrabRate=20000", "look")
def a_rate_above_the_accounts(world):
    world.set(GrabRate="20000")
    yield
    world.set(GrabRate="5000")


@fault("dynamodb", "666 claims", "look")
def a_table_with_few_units(world):
    world.set(GrabRate="10000")
    world.answers["DescribeLimits"] = {"TableMaxReadCapacityUnits": 4_000, "TableMaxWriteCapacityUnits": 4_000}
    yield
    world.answers["DescribeLimits"] = ANSWERS["DescribeLimits"]


@fault("dynamodb", "table/restored does not exist")
def a_restored_table_that_is_absent(world):
    world.set(RestoredTable="arn:aws:dynamodb:ap-east-1:123456789012:table/restored")
    yield
    world.client("dynamodb").create_table(
        TableName="restored",
        KeySchema=[{"AttributeName": "PK", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "PK", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )


@fault("dynamodb", "need the ARN of the stream")
def a_restored_table_without_its_stream(world):
    a_table = "arn:aws:dynamodb:ap-east-1:123456789012:table/restored-with-events"
    world.client("dynamodb").create_table(
        TableName=a_table.partition("/")[2],
        KeySchema=[{"AttributeName": "PK", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "PK", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    world.set(RestoredTable=a_table, Events="true")
    yield
    world.set(RestoredTable=f"{a_table}/stream/2026-11-26T00:00:00.000")


@fault("roles and policies", "roles fit into the account")
def no_room_for_roles(world):
    summary = {"Roles": 995, "RolesQuota": 1000, "Policies": 5, "PoliciesQuota": 1500}
    world.answers["GetAccountSummary"] = {"SummaryMap": summary}
    yield
    world.answers["GetAccountSummary"] = {"SummaryMap": summary | {"Roles": 5}}


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


@fault("zones", "Zones names 2 zones (ap-east-1a, ap-east-1b)")
def two_zones(world):
    world.set(Zones="ap-east-1a,ap-east-1b")
    yield
    world.set(Zones="ap-east-1c,ap-east-1a,ap-east-1b")


@fault("zones", "Zones has ap-east-1x, which this account does not have")
def a_zone_that_is_absent(world):
    world.set(Zones="ap-east-1a,ap-east-1b,ap-east-1x")
    yield
    world.set(Zones="")


@fault("zones", "Lambda has no functions in us-east-1e (use1-az3)")
def a_zone_without_lambda(world):
    world.region = "us-east-1"
    keep_default_subnets(world, "cdef")
    keep_default_subnets(world, "cef")
    yield
    keep_default_subnets(world, "")


@fault("zones", "ap-east-1c has no m7g.large")
def a_zone_without_graviton(world):
    offered = [{"InstanceType": "m7g.large", "Location": f"ap-east-1{zone}"} for zone in "ab"]
    world.answers["DescribeInstanceTypeOfferings"] = {"InstanceTypeOfferings": offered}
    yield
    world.set(Redis="serverless")


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


@fault("redis", "no Valkey 9.0 in")
def an_engine_that_is_not_there_yet(world):
    world.answers["DescribeCacheEngineVersions"] = {"CacheEngineVersions": VALKEY[:-1]}
    yield
    world.answers["DescribeCacheEngineVersions"] = ANSWERS["DescribeCacheEngineVersions"]


@fault("redis", "RedisDurability=sync does not exist on cache.t4g.small")
def a_node_without_durability(world):
    world.set(RedisNodeType="cache.t4g.small")
    yield
    world.set(RedisDurability="disabled")


@fault("redis", "has no cache.m7g.larger")
def a_node_type_that_is_absent(world):
    world.set(RedisNodeType="cache.m7g.larger")
    yield
    world.set(RedisNodeType="cache.m7g.large")


@fault("redis", "ElastiCache may have no cache.m7g.large", "look")
def a_node_type_that_is_not_reserved(world):
    world.answers["DescribeReservedCacheNodesOfferings"] = {"ReservedCacheNodesOfferings": []}
    yield
    world.answers["DescribeReservedCacheNodesOfferings"] = ANSWERS["DescribeReservedCacheNodesOfferings"]


@fault("redis", "3 more nodes don't fit")
def no_room_for_nodes(world):
    world.answers["DescribeCacheClusters"] = {"CacheClusters": [{"CacheClusterId": "other", "NumCacheNodes": 298}]}
    yield
    world.answers["DescribeCacheClusters"] = {"CacheClusters": [{"CacheClusterId": "other", "NumCacheNodes": 297}]}


@fault("names", "a Redis user hongbao-prod-functions already")
def a_redis_user(world):
    world.answers["DescribeUsers"] = {"Users": [{"UserId": "hongbao-prod-functions"}]}
    yield
    del world.answers["DescribeUsers"]


@fault("names", "a Redis user group hongbao-prod-users already")
def a_redis_user_group(world):
    world.answers["DescribeUserGroups"] = {"UserGroups": [{"UserGroupId": "hongbao-prod-users"}]}
    yield
    world.answers["DescribeUserGroups"] = ANSWERS["DescribeUserGroups"]


@fault("names", "a serverless cache hongbao-prod-serverless already")
def a_serverless_cache(world):
    world.set(Redis="serverless")
    world.answers["DescribeServerlessCaches"] = {
        "ServerlessCaches": [{"ServerlessCacheName": "hongbao-prod-serverless"}]
    }
    yield
    world.set(Redis="nodes")


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


@fault("names", "an alarm hongbao-prod-FunctionErrors already")
def an_alarm(world):
    given = {
        "MetricName": "m",
        "Namespace": "n",
        "Period": 60,
        "EvaluationPeriods": 1,
        "Threshold": 1.0,
        "Statistic": "Sum",
    }
    for name in ("hongbao-prod-FunctionErrors", "hongbao-prod-2-FunctionErrors"):
        world.client("cloudwatch").put_metric_alarm(AlarmName=name, ComparisonOperator="GreaterThanThreshold", **given)
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


@fault("names", "a response headers policy hongbao-prod-page-ap-east-1 already")
def a_headers_policy(world):
    world.set(Page="true")
    config = {"Name": "hongbao-prod-page-ap-east-1"}
    item = {
        "Type": "custom",
        "ResponseHeadersPolicy": {"Id": "1", "LastModifiedTime": 0, "ResponseHeadersPolicyConfig": config},
    }
    listed = {"MaxItems": 100, "Quantity": 1, "Items": [item]}
    pages = {None: {"MaxItems": 1, "Quantity": 0, "NextMarker": "more"}, "more": listed}
    world.answers["ListResponseHeadersPolicies"] = lambda given: {
        "ResponseHeadersPolicyList": pages[given.get("Marker")]
    }
    yield
    world.answers["ListResponseHeadersPolicies"] = ANSWERS["ListResponseHeadersPolicies"]


@fault("names", "a CloudFront function hongbao-prod-page-ap-east-1 already")
def a_cloudfront_function(world):
    world.set(Page="true")
    summary = {
        "Name": "hongbao-prod-page-ap-east-1",
        "FunctionConfig": {"Comment": "", "Runtime": "cloudfront-js-2.0"},
        "FunctionMetadata": {"FunctionARN": "arn:aws:cloudfront::1:function/f", "LastModifiedTime": 0},
    }
    world.answers["DescribeFunction"] = {"FunctionSummary": summary}
    yield
    world.answers["DescribeFunction"] = ANSWERS["DescribeFunction"]


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


@fault("instances", "the capacity provider does not exist")
def a_capacity_provider_that_is_absent(world):
    world.set(GrabCapacityProviderArn=f"arn:aws:lambda:{REGION}:{ACCOUNT}:capacity-provider:grabs")
    yield
    make_provider(world)


@fault("instances", "the capacity provider is Pending")
def a_capacity_provider_that_is_pending(world):
    make_provider(world, "Pending")
    yield
    make_provider(world)


def make_provider(world, state="Active"):
    arn = f"arn:aws:lambda:{REGION}:{ACCOUNT}:capacity-provider:grabs"
    needed = {
        "VpcConfig": {"SubnetIds": ["subnet-1"], "SecurityGroupIds": ["sg-1"]},
        "PermissionsConfig": {"CapacityProviderOperatorRoleArn": f"arn:aws:iam::{ACCOUNT}:role/operator"},
    }
    world.answers["GetCapacityProvider"] = {"CapacityProvider": {"CapacityProviderArn": arn, "State": state} | needed}
    world.set(GrabCapacityProviderArn=arn)


@fault("issuer", "JwtIssuer needs JwtAudience")
def an_issuer_without_audience(world):
    world.set(JwtIssuer="https://issuer.example/")
    yield
    world.set(JwtAudience="app")


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


@fault("days", "no time zone of the IANA has this name")
def a_zone_that_is_none(world):
    world.set(DayZone="Asia/Peking")
    yield
    world.set(DayZone="America/Sao_Paulo")


@fault("alarms", "no alarm reaches anybody", "look")
def no_address(world):
    world.set(AlarmEmail="")
    yield
    world.set(AlarmEmail="oncall@example.com")


def with_all(world):
    """Every option at once, in an account where all of it is there."""
    request_certificate(world)
    make_key(world)
    make_provider(world)
    make_secret(world, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    world.set(Events="true", RedisShards="3")
    return world
