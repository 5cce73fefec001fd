"""Faults of Redis, of names that are taken, and of what the parameters name."""

import json
import urllib.error

from faults import fault, make_secret
from moto.acm.models import acm_backends
from planted import ACCOUNT, ANSWERS, VALKEY
from transformed import REGION


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
