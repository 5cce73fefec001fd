"""Tries in the account what the deployment relies on and no document of AWS states. It makes two stacks of its own from stacks/spike.yaml
and stacks/rollouts.yaml, says what held, and always deletes them. It takes about a quarter of an hour and costs a few cents.

    make spike ENV=dev

Exit codes: 0, all of it held; 1, something did not; 2, the account can't be used.
"""

import argparse
import json
import sys
import time
import urllib.error
import urllib.request

import botocore.exceptions

import rollouts
from preflight import DENIED, Environment, session
from region import region_of
from trial import Trial, Wrong, prove, read, registers, until

# A new role is known everywhere after some seconds. An access log's lines arrive within some minutes.
ROLE_S, LOG_S = 60, 300
TRIES = []
tries = registers(TRIES)


def template():
    """stacks/spike.yaml, with what the deployment's templates say."""
    made, main, state = read("stacks/spike.yaml"), read("template.yaml")["Resources"], read("stacks/state.yaml")["Resources"]
    resources = made["Resources"]
    resources["Stage"]["Properties"]["AccessLogSettings"]["Format"] = main["Api"]["Properties"]["AccessLogSettings"]["Format"]
    for name, key in (("RedisUser", "AccessString"), ("RedisReader", "AccessString"), ("RedisServerless", "MajorEngineVersion")):
        resources[name]["Properties"][key] = state[name]["Properties"][key]
    [written] = [
        statement
        for policy in main["GrabRole"]["Properties"]["Policies"]
        for statement in policy["PolicyDocument"]["Statement"]
        if statement.get("Sid") == "WriteInTransactionsOnly"
    ]
    [policy] = resources["Writer"]["Properties"]["Policies"]
    policy["PolicyDocument"]["Statement"] = [written | {"Resource": {"Fn::GetAtt": ["Table", "Arn"]}}]
    page = read("stacks/edge.yaml")["Resources"]["PageDistribution"]["Properties"]["DistributionConfig"]
    [[header]] = [origin["OriginCustomHeaders"]["Fn::If"][1] for origin in page["Origins"] if "OriginCustomHeaders" in origin]
    value = {"Fn::Sub": [header["HeaderValue"]["Fn::Sub"], {"EdgeKeyArn": {"Ref": "EdgeKey"}}]}
    [origin] = resources["Distribution"]["Properties"]["DistributionConfig"]["Origins"]
    origin["OriginCustomHeaders"] = [header | {"HeaderValue": value}]
    resources["EdgeKey"]["Properties"] = {"GenerateSecretString": main["EdgeKey"]["Properties"]["GenerateSecretString"]}
    return made


def fetch(url):
    """The status of an unsigned request."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


@tries("access log", "AccessLogs", "Api", "Stage")
def access_log(spike):
    status = fetch(spike.client("apigatewayv2").get_api(ApiId=spike.ids["Api"])["ApiEndpoint"] + "/spike")
    begun, logs = time.monotonic(), spike.client("logs")
    found = until(lambda: logs.filter_log_events(logGroupName=spike.ids["AccessLogs"])["events"] or None, LOG_S)
    if not found:
        raise Wrong(f"a request was answered {status}, and no line arrived within {LOG_S} s")
    try:
        line = json.loads(found[0]["message"])
    except ValueError:
        raise Wrong(f"a line is no JSON: {found[0]['message']}") from None
    if line.get("status") != str(status):
        raise Wrong(f"a request was answered {status}, and its line says {found[0]['message']}")
    return f"a line with {len(line)} fields arrived after {time.monotonic() - begun:.0f} s"


@tries("route settings", "Api", "Stage")
def route_settings(spike):
    found = spike.client("apigatewayv2").get_stage(ApiId=spike.ids["Api"], StageName="$default").get("RouteSettings", {})
    limits = found.get("GET /spike", {})
    rate, burst = limits.get("ThrottlingRateLimit"), limits.get("ThrottlingBurstLimit")
    if (rate, burst) != (7.0, 7):
        raise Wrong(f"the parameter Rate=7 became {limits or 'nothing'}")
    return f"the parameter Rate=7 became a rate of {rate:.0f} and a burst of {burst}"


def written(client, *items):
    """Whether a write was allowed: of one item alone, or of several in a transaction."""
    try:
        client.transact_write_items(TransactItems=list(items))
        return True
    except botocore.exceptions.ClientError as error:
        if error.response["Error"]["Code"] in DENIED:
            return False
        raise


@tries("leading keys", "Table", "Writer")
def leading_keys(spike):
    table = spike.ids["Table"]
    given = {"RoleArn": spike.client("iam").get_role(RoleName=spike.ids["Writer"])["Role"]["Arn"], "RoleSessionName": "spike"}

    def assumed():
        try:
            return spike.client("sts").assume_role(**given)["Credentials"]
        except botocore.exceptions.ClientError as error:
            if error.response["Error"]["Code"] in DENIED:
                return None
            raise

    keys = until(assumed, ROLE_S)
    if keys is None:
        raise Wrong(f"the role can't be assumed after {ROLE_S} s: your credentials need sts:AssumeRole")
    client = spike.session.client(
        "dynamodb",
        aws_access_key_id=keys["AccessKeyId"],
        aws_secret_access_key=keys["SecretAccessKey"],
        aws_session_token=keys["SessionToken"],
    )
    key = lambda kind: {"PK": {"S": f"{kind}#1"}, "SK": {"S": "1"}}
    put = lambda kind: {"Put": {"TableName": table, "Item": key(kind)}}
    update = lambda kind: {
        "Update": {
            "TableName": table,
            "Key": key(kind),
            "UpdateExpression": "SET seen = :one",
            "ExpressionAttributeValues": {":one": {"N": "1"}},
        }
    }
    # A claim's transaction: two kinds of keys, two actions.
    if not until(lambda: written(client, put("SLIPS"), update("USER")) or None, ROLE_S):
        raise Wrong("a transaction with the role's own keys is refused")
    if written(client, put("OTHER")):
        raise Wrong("a transaction with another's key is allowed")
    if written(client, update("USER"), put("OTHER")):
        raise Wrong("a transaction with another's key beside the role's own is allowed")
    try:
        client.put_item(TableName=table, Item=key("USER"))
    except botocore.exceptions.ClientError as error:
        if error.response["Error"]["Code"] in DENIED:
            return "own keys pass in a transaction; another's and a write without one are refused"
        raise
    raise Wrong("a write without a transaction is allowed")


@tries("redis' users", "RedisUser", "RedisReader", "RedisUsers")
def redis_users(spike):
    for name in ("RedisUser", "RedisReader"):
        [user] = spike.client("elasticache").describe_users(UserId=spike.ids[name])["Users"]
        if user["Status"] != "active":
            raise Wrong(f"{name} is {user['Status']}")
    return f"ElastiCache took both users' access; the reader's is: {user['AccessString']}"


@tries("serverless redis", "RedisUsers", "RedisServerless")
def redis_serverless(spike):
    name = spike.ids["RedisServerless"]
    [cache] = spike.client("elasticache").describe_serverless_caches(ServerlessCacheName=name)["ServerlessCaches"]
    if cache["Status"] != "available":
        raise Wrong(f"the cache is {cache['Status']}")
    return f"a cache of {cache['Engine']} {cache.get('FullEngineVersion', '')} with the group of both users is available"


@tries("edge header", "EdgeKey", "Distribution")
def edge_header(spike):
    key = spike.client("secretsmanager").get_secret_value(SecretId=spike.ids["EdgeKey"])["SecretString"]
    config = spike.client("cloudfront").get_distribution_config(Id=spike.ids["Distribution"])["DistributionConfig"]
    [header] = config["Origins"]["Items"][0]["CustomHeaders"]["Items"]
    if header["HeaderValue"] != key:
        raise Wrong(f"CloudFront sends {len(header['HeaderValue'])} characters that are not the secret's {len(key)}")
    return f"CloudFront has the secret's {len(key)} characters for the header {header['HeaderName']}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("environment", help="a section of samconfig.toml, such as dev")
    environment = Environment(parser.parse_args().environment)
    # Users' ids in ElastiCache have at most 40 characters, and contain the name.
    account, stack = session(region_of(environment.name)), f"{environment.stack[:23]}-spike"
    # ElastiCache and CloudFront take minutes, during which the rollouts are tried.
    trials = [rollouts.Rollouts(account, f"{stack}-rollouts"), Trial(account, stack, template(), TRIES)]
    try:
        sys.exit(0 if prove(trials) else 1)
    except Wrong as wrong:
        print(f"spike: {wrong}", file=sys.stderr)
        sys.exit(1)
    except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
        print(f"spike: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
