"""Tries in the account what the deployment relies on and no document of AWS states. It makes a stack of its own from stacks/spike.yaml, says
what held, and always deletes it. It takes up to an hour, since Lambda leaves a network slowly, and costs a few cents.

    make spike ENV=dev

Exit codes: 0, all of it held; 1, something did not; 2, the account can't be used.
"""

import argparse
import json
import re
import sys
import time
import urllib.error
import urllib.request

import botocore.exceptions

from preflight import DENIED, ROOT, Environment, session
from region import region_of

# Lambda takes up to half an hour to leave a network.
CREATION_S, DELETION_S, PAUSE_S = 1200, 2700, 5
# A new role is known everywhere after some seconds. An access log's lines arrive within some minutes.
ROLE_S, LOG_S = 60, 300
CALLER = ROOT / "scripts/aws/caller.py"
TRIES = []


class Wrong(Exception):
    """Something did not hold."""


def tries(subject, *needed):
    """Registers a try, which returns what it saw, or raises Wrong. It runs if the stack has each resource that it needs."""

    def registered(function):
        TRIES.append((subject, needed, function))
        return function

    return registered


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


class Spike:
    """The stack that is made to try something."""

    def __init__(self, session, stack):
        self.session, self.stack = session, stack
        self.clients, self.ids, self.outcomes = {}, {}, {}

    def client(self, service):
        if service not in self.clients:
            self.clients[service] = self.session.client(service)
        return self.clients[service]

    def rests(self):
        """The stack's status, once nothing is in progress; `DELETE_COMPLETE` if there is no stack."""
        try:
            status = self.client("cloudformation").describe_stacks(StackName=self.stack)["Stacks"][0]["StackStatus"]
        except botocore.exceptions.ClientError as error:
            if error.response["Error"]["Code"] != "ValidationError":
                raise
            return "DELETE_COMPLETE"
        return None if status.endswith("_IN_PROGRESS") else status

    def create(self, template):
        """Makes the stack. A resource that fails takes no other with it. Then each has an outcome: `None`, or why it was not made."""
        cloudformation, given = self.client("cloudformation"), {"TemplateBody": json.dumps(template), "Capabilities": ["CAPABILITY_IAM"]}
        cloudformation.create_stack(StackName=self.stack, DisableRollback=True, **given)
        if until(self.rests, CREATION_S) is None:
            raise Wrong(f"{self.stack} is not made after {CREATION_S} s")
        pages = cloudformation.get_paginator("list_stack_resources").paginate(StackName=self.stack)
        for one in (one for page in pages for one in page["StackResourceSummaries"]):
            name, status = one["LogicalResourceId"], one["ResourceStatus"]
            self.ids[name] = one.get("PhysicalResourceId")
            self.outcomes[name] = None if status == "CREATE_COMPLETE" else f"{status} {one.get('ResourceStatusReason', '')}".strip()

    def delete(self):
        self.client("cloudformation").delete_stack(StackName=self.stack)
        status = until(self.rests, DELETION_S)
        if status != "DELETE_COMPLETE":
            raise Wrong(f"{self.stack} could not be deleted ({status}): aws cloudformation delete-stack --stack-name {self.stack}")

    def run(self):
        """For each try its subject, `held`, `no` or `?`, and what was seen."""
        for subject, needed, function in TRIES:
            lacking = [f"{name}: {self.outcomes.get(name, 'was not made')}" for name in needed if self.outcomes.get(name, "") is not None]
            if lacking:
                cancelled = all("cancelled" in one for one in lacking)
                yield subject, "?" if cancelled else "no", "; ".join(lacking)
                continue
            try:
                yield subject, "held", function(self)
            except Wrong as wrong:
                yield subject, "no", str(wrong)
            except (botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError, OSError) as error:
                yield subject, "?", str(error)

    def prove(self, template, out):
        """Whether all of it held. The stack is gone afterwards, whatever happens."""
        print(f"It makes the stack {self.stack}, and deletes it.", file=out, flush=True)
        found = []
        try:
            # That of an earlier run.
            self.delete()
            self.create(template)
            for subject, kind, text in self.run():
                found.append(kind)
                print(f"  {kind:<5} {subject:<18} {text}", file=out, flush=True)
        finally:
            self.delete()
        print(f"{found.count('held')} held, {found.count('no')} did not, {found.count('?')} could not be tried.", file=out)
        return set(found) == {"held"}


def template(zones=""):
    """stacks/spike.yaml, with what the deployment's templates say, and in the first of these zones if there are some."""
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
    network, _ = resources["CallerRole"]["Properties"]["Policies"]
    network["PolicyDocument"] = main["NetworkPolicy"]["Properties"]["PolicyDocument"]
    resources["Caller"]["Properties"]["Code"] = {"ZipFile": CALLER.read_text()}
    for name, zone in zip(("Subnet1", "Subnet2"), filter(None, zones.split(","))):
        resources[name]["Properties"]["AvailabilityZone"] = zone
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


def calls():
    """A call of each script that ships, in an order in which each does its work: its name, its keys and its arguments."""
    kinds = ("part:spike", "free", "known", "pending", "tries", "loading")
    part, free, known, pending, tries, loading = (f"hb:{{spike}}:{kind}" for kind in kinds)
    reconciled = [part, free, known, pending]
    in_2100 = "4102444800000"
    store, admin = ROOT / "shared/src/redis/lua", ROOT / "admin/src"
    return [
        (store / "load.lua", [part, free, known], ["0", "3", in_2100, in_2100, "", "1", "#passphrase", "word", ""]),
        (store / "grab.lua", [part, free, pending], ["open", "1", "alice"]),
        (store / "grab.lua", [part, free, pending, tries], ["guarded", "2", "bob", "cy", "word", "no"]),
        (store / "part_state.lua", [part, known], []),
        (store / "outbox.lua", [part], []),
        (store / "park.lua", [part], ["0", "alice", "spike"]),
        (store / "reconcile.lua", reconciled, ["spike", "0", "3", "1", "0 1 1 alice"]),
        (store / "release.lua", reconciled, ["spike", "0", "1", "bob"]),
        (store / "tidy.lua", [part, pending], ["spike"]),
        (store / "close.lua", [part, free], []),
        (admin / "inspect.lua", [part, known, free], []),
        (admin / "mend.lua", [part, known, free, tries, loading, pending], ["spike", "1"]),
    ]


def evaluation(script, keys, arguments):
    # The engine's names of fields are shorter.
    return ["EVAL", re.sub(r"\$([a-z_]+)", r"#\1", script.read_text()), str(len(keys)), *keys, *arguments]


@tries("scripts", "RedisUsers", "RedisServerless", "Caller")
def scripts(spike):
    made = calls()
    commands = json.dumps([evaluation(*call) for call in made])
    answer = spike.client("lambda").invoke(FunctionName=spike.ids["Caller"], Payload=commands)
    given = json.loads(answer["Payload"].read())
    if answer.get("FunctionError"):
        raise Wrong(f"the function in the network fails: {given.get('errorMessage', given)}")
    signed_in, *answers = given
    if signed_in != "OK":
        raise Wrong(f"the function cannot sign in: {signed_in}")
    refused = [f"{call[0].name}: {answer['error']}" for call, answer in zip(made, answers) if isinstance(answer, dict)]
    if refused:
        raise Wrong("; ".join(refused))
    return f"a function in the network signed in and ran {', '.join(call[0].stem for call in made)}"


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
    stack = f"{environment.stack[:23]}-spike"
    try:
        spike = Spike(session(region_of(environment.name)), stack)
        sys.exit(0 if spike.prove(template(environment.parameters["Zones"]), sys.stdout) else 1)
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
