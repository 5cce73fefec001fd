"""The checks of preflight.py: of the parameters, the region, the stack's state, the account's quotas, the network, Redis, webhooks, and of names. In
this order they run. What a check believes about AWS has its source beside it."""

import base64
import binascii
import dataclasses
import difflib
import json
import re
import urllib.error
import urllib.request
import zoneinfo

import botocore.exceptions

CHECKS = []


@dataclasses.dataclass
class Finding:
    """Kinds: `fails`, the deployment will fail; `look`, it works, but not as somebody may expect; `unknown`, not checked;
    `fine`."""

    subject: str
    kind: str
    text: str
    mend: str = ""


def check(subject):
    """Registers a check, which yields `(kind, text)` or `(kind, text, mend)`."""

    def registered(function):
        def run(account):
            for found in function(account):
                yield Finding(subject, *found)

        run.subject = subject
        CHECKS.append(run)
        return function

    return registered


def absent(call, *codes):
    """The answer of `call`, or `None` if the service knows no such thing."""
    try:
        return call()
    except botocore.exceptions.ClientError as error:
        if error.response["Error"].get("Code") in codes:
            return None
        raise


# --- The parameters, as the template declares them


def fault_of_value(of, value):
    """What of a parameter's declaration the value does not obey, or `None`."""
    allowed = [str(one) for one in of.get("AllowedValues", [])]
    if allowed and value not in allowed:
        return f"is none of: {', '.join(allowed)}"
    if of["Type"] == "Number":
        least, most = of.get("MinValue"), of.get("MaxValue")
        if not re.fullmatch("-?(0|[1-9][0-9]*)", value):
            return "is no whole number"
        if (least is not None and int(value) < least) or (most is not None and int(value) > most):
            return f"is not from {least} to {most}" if most is not None else f"is less than {least}"
    if "AllowedPattern" in of and not re.fullmatch(of["AllowedPattern"], value):
        return f"does not have the form {of['AllowedPattern']}"
    return None


def evaluated(term, values):
    """A condition of the template's rules. Any other function is an error."""
    if not isinstance(term, dict):
        return term
    [(function, given)] = term.items()
    if function == "Ref":
        return values[given]
    found = [evaluated(one, values) for one in given]
    return {"Fn::Equals": lambda: found[0] == found[1], "Fn::Not": lambda: not found[0], "Fn::And": lambda: all(found)}[function]()


# It comes before all others, which use the values.
@check("parameters")
def parameters(account):
    declared, values = account.environment.declared, account.environment.parameters
    wrong = 0
    for name, value in values.items():
        if name not in declared:
            wrong += 1
            near = difflib.get_close_matches(name, declared, 1)
            yield "fails", f"the template has no parameter {name}", f"perhaps {near[0]}" if near else "remove it from samconfig.toml"
        elif fault := fault_of_value(declared[name], value):
            wrong += 1
            # A text with a password is not shown.
            shown = name if declared[name].get("NoEcho") else f"{name}={value}"
            yield "fails", f"{shown} {fault}", f"set another {name} in samconfig.toml"
    for rule in account.environment.rules.values():
        if evaluated(rule["RuleCondition"], values):
            for one in rule["Assertions"]:
                if not evaluated(one["Assert"], values):
                    wrong += 1
                    yield "fails", one["AssertDescription"], "set it in samconfig.toml (docs/OPERATE.md, Parameters)"
    if not wrong:
        yield "fine", "the template takes them"


# --- The region

# It cannot be disabled, so it knows which others are enabled.
HOME_REGION = "us-east-1"


# It comes early: in a region that is not enabled, no credentials are valid.
# https://docs.aws.amazon.com/accounts/latest/reference/manage-acct-regions.html
@check("region")
def region(account):
    name = account.region
    listed = account.client("ec2", HOME_REGION).describe_regions(AllRegions=True)["Regions"]
    status = {one["RegionName"]: one.get("OptInStatus") for one in listed}.get(name)
    if status is None:
        yield "fails", f"AWS has no region {name}", "set AWS_REGION to another"
    elif status == "not-opted-in":
        yield (
            "fails",
            f"{name} is an opt-in region that this account has not enabled: nothing works there, not even signing in",
            f"aws account enable-region --region-name {name} --region {HOME_REGION}, wait until get-region-opt-status says ENABLED, and sign in again",
        )
    else:
        yield "fine", f"{name} is enabled"


# --- The stack and the account's quotas

# Lambda refuses to leave less than this to functions without a reservation. A new account may have fewer altogether, often 10.
# https://docs.aws.amazon.com/lambda/latest/dg/configuration-concurrency.html
# https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
UNRESERVED_MIN = 100
# Below this, a rush meets the account's limit before any other. It is the quota of an account that is in use.
CONCURRENCY_WANTED = 1000
# Write units of a claim: a transaction of three items.
CLAIM_UNITS = 6
# CloudFormation can't continue from these; a first creation that failed must be deleted.
FIRST = dict.fromkeys(
    ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED"),
    "a first creation failed. Delete the stack: make destroy ENV={env}",
)
STUCK = FIRST | {
    "DELETE_FAILED": "a deletion failed. Its events say why; delete the stack again",
    "UPDATE_ROLLBACK_FAILED": "an update failed, and so did its rollback: aws cloudformation continue-update-rollback --stack-name {stack}",
}


def resources_of(account, stack):
    """The physical names of a stack's resources and of its nested stacks'."""
    for of in account.all("cloudformation", "list_stack_resources", "StackResourceSummaries", StackName=stack):
        name = of.get("PhysicalResourceId")
        if not name or of["ResourceStatus"] == "DELETE_COMPLETE":
            continue
        yield name
        if of["ResourceType"] == "AWS::CloudFormation::Stack":
            yield from resources_of(account, name)


def described(account, name):
    found = absent(lambda: account.client("cloudformation").describe_stacks(StackName=name), "ValidationError")
    return found["Stacks"][0] if found else {}


def stack_status(account, name):
    return described(account, name).get("StackStatus")


@check("aws cli")
def aws_cli(account):
    if fault := account.fault_of_cli():
        yield "fails", fault, "https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html"
    else:
        yield "fine", "version 2"


# The checks after it ask what the stack already has.
@check("stack")
def stack(account):
    name = account.stack
    if not re.fullmatch(r"(?=.{1,29}$)[a-z](-?[a-z0-9])*", name):
        yield "fails", f"{name} is no name for a stack: names in ElastiCache contain it", "use at most 29 of a-z, 0-9 and single hyphens, a letter first and no hyphen last"
    status = account.status = stack_status(account, name)
    if status in (None, "REVIEW_IN_PROGRESS", "DELETE_COMPLETE"):
        account.status = None
        yield "fine", f"{name} does not exist yet: this is a first creation"
        return
    if status in STUCK:
        yield "fails", f"{name} is {status}", STUCK[status].format(env=account.environment.name, stack=name)
        if status in FIRST:
            # The others then judge the creation that follows.
            account.status = None
            return
    elif status.endswith("_IN_PROGRESS"):
        yield "fails", f"{name} is {status}: somebody deploys it now", "wait until it is done"
    else:
        yield "fine", f"{name} exists ({status}): this is an update"
    account.owned = frozenset(resources_of(account, name))


# https://docs.aws.amazon.com/serverless-application-model/latest/developerguide/sam-cli-command-reference-sam-deploy.html
@check("kept values")
def kept_values(account):
    """SAM gives a parameter that is not named the value of the last deployment, whatever its default."""
    kept = [
        (one["ParameterKey"], one["ParameterValue"])
        for one in (described(account, account.stack).get("Parameters", []) if account.status else [])
        if one["ParameterKey"] in account.environment.unnamed and one["ParameterValue"] != account.value(one["ParameterKey"])
    ]
    for name, value in kept:
        yield "look", f"samconfig.toml does not name {name}, which keeps {value} of the last deployment", f"name it: {name}={account.value(name)}"
    if not kept:
        yield "fine", "what samconfig.toml does not name is the template's default"


@check("uploads")
def uploads(account):
    """The bucket of `resolve_s3`, in a stack that SAM makes."""
    name = "aws-sam-cli-managed-default"
    status = stack_status(account, name)
    if status in STUCK:
        yield "fails", f"SAM's stack {name} is {status}, so nothing can be uploaded", f"delete it: aws cloudformation delete-stack --stack-name {name}"
    elif status:
        yield "fine", f"SAM's bucket is there ({name})"
    else:
        yield "fine", "SAM makes its bucket with the first deployment"


@check("left behind")
def left_behind(account):
    """Tables and user pools of this name outlive a stack. They block nothing, but somebody may miss their money."""
    # The stack's own name comes first, a nested stack's may follow; CloudFormation adds the rest.
    form = re.compile(re.escape(account.stack) + r"-([A-Z]\w*-\w+-)?Table-\w+")
    tables = [
        name
        for name in account.all("dynamodb", "list_tables", "TableNames")
        if form.fullmatch(name) and name not in account.owned
    ]
    pools = [
        pool["Id"]
        for pool in account.all("cognito-idp", "list_user_pools", "UserPools", MaxResults=60)
        if pool["Name"] == account.stack and pool["Id"] not in account.owned
    ]
    for name in tables:
        items = account.client("dynamodb").describe_table(TableName=name)["Table"].get("ItemCount", 0)
        yield (
            "look",
            f"an earlier {account.stack} left the table {name} (about {items} items); this deployment won't use it",
            "if its money counts, import it (docs/OPERATE.md, Restoring the table); else delete it (Deleting everything)",
        )
    for name in pools:
        yield (
            "look",
            f"an earlier {account.stack} left the user pool {name}; its users can't sign in to the new one",
            "if its users count, deploy with JwtIssuer and JwtAudience of that pool; else delete it",
        )
    if not tables and not pools:
        yield "fine", "no table and no user pool of an earlier stack"


@check("lambda concurrency")
def concurrency(account):
    limits = account.client("lambda").get_account_settings()["AccountLimit"]
    limit, unreserved = limits["ConcurrentExecutions"], limits["UnreservedConcurrentExecutions"]
    if limit < UNRESERVED_MIN:
        console = f"https://{account.region}.console.aws.amazon.com/servicequotas/home/services/lambda/quotas/L-B99A9384"
        yield (
            "fails",
            f"the account runs {limit} executions at a time, so smoke's fifty grabs are refused, and nothing can be reserved for settle",
            f"raise the quota to {CONCURRENCY_WANTED} at {console}; it can take a day",
        )
        return
    wanted = {name: account.number(name) for name in ["SettleConcurrency"] if account.number(name)}
    listed = ", ".join(f"{name}={value}" for name, value in wanted.items())
    has = 0
    if account.status:
        for of in account.all("lambda", "list_functions", "Functions"):
            if of["FunctionName"] in account.owned:
                found = account.client("lambda").get_function_concurrency(FunctionName=of["FunctionName"])
                has += found.get("ReservedConcurrentExecutions", 0)
    provisioned = account.number("GrabProvisioned")
    if provisioned and not account.status:
        # Without a reservation, they come out of what others share.
        wanted["GrabProvisioned"] = provisioned
        listed = ", ".join(f"{name}={value}" for name, value in wanted.items())
    more = sum(wanted.values()) - has
    if more > 0 and unreserved - more < UNRESERVED_MIN:
        yield (
            "fails",
            f"{listed} can't be reserved: {unreserved} of the account's {limit} are free, and {UNRESERVED_MIN} must stay so",
            f"raise the quota L-B99A9384 (Service Quotas, Lambda) to {limit + UNRESERVED_MIN + more - unreserved} or more; or set "
            f"{', '.join(f'{name}=0' for name in wanted)} for now",
        )
    elif wanted:
        yield "fine", f"{listed} can be reserved: {unreserved} of {limit} are free"
    if limit < CONCURRENCY_WANTED:
        yield (
            "look",
            f"the account runs {limit} executions at a time: in a rush, more requests than that are refused",
            f"raise the quota L-B99A9384 (Service Quotas, Lambda) to {CONCURRENCY_WANTED} or more; a new account has few",
        )
    elif not wanted:
        yield "fine", f"the account runs {limit} executions at a time, and nothing is reserved"


@check("api gateway")
def throttles(account):
    limits = account.client("apigateway").get_account()["throttleSettings"]
    rate, burst = limits["rateLimit"], limits["burstLimit"]
    above = [
        f"{name}={account.number(name)}"
        for name in ("GrabRate", "SendRate")
        if account.number(name) > min(rate, burst)
    ]
    if above:
        yield (
            "look",
            f"{', '.join(above)}: all APIs of the account together get {rate:.0f} requests a second and bursts of {burst}",
            "raise the quota L-8A5B8E43 (Service Quotas, API Gateway), or lower the parameter",
        )
    else:
        yield "fine", f"{rate:.0f} requests a second and bursts of {burst} for the account"


@check("dynamodb")
def table_limits(account):
    limits = account.client("dynamodb").describe_limits()
    restored = account.value("RestoredTable")
    if restored and not absent(
        lambda: account.client("dynamodb").describe_table(TableName=restored.split("/")[1]), "ResourceNotFoundException"
    ):
        yield "fails", f"RestoredTable={restored} does not exist in {account.region}", "docs/OPERATE.md, Restoring the table"
    if restored and "/stream/" not in restored and (account.has("Events") or account.value("WebhookUrl")):
        yield "fails", "Events and WebhookUrl need the ARN of the stream in RestoredTable", "docs/OPERATE.md, Restoring the table"
    claims = limits["TableMaxWriteCapacityUnits"] // CLAIM_UNITS
    if claims < account.number("GrabRate") / 10:
        yield (
            "look",
            f"a table gets {limits['TableMaxWriteCapacityUnits']} write units a second: {claims} claims, far below GrabRate",
            "raise the table-level write quota (Service Quotas, DynamoDB)",
        )
    else:
        yield "fine", f"a table gets {limits['TableMaxWriteCapacityUnits']} write units a second, enough for {claims} claims"


@check("roles and policies")
def roles(account):
    summary = account.client("iam").get_account_summary()["SummaryMap"]
    # What a first creation makes at most.
    for kind, most in (("Roles", 14), ("Policies", 14)):
        free = summary[f"{kind}Quota"] - summary[kind]
        if not account.status and free < most:
            yield "fails", f"{free} more {kind.lower()} fit into the account; the stack makes up to {most}", f"raise the quota of IAM {kind.lower()}, or delete some"
        else:
            yield "fine", f"{free} more {kind.lower()} fit into the account"


# --- The network: the stack's own, or an existing one

# Lambda attaches no function to a subnet in these zones, and says so only when the function is created.
WITHOUT_LAMBDA = {"use1-az3"}
# The stack needs the network in so many zones.
ZONES = 3


@check("network")
def network(account):
    if account.value("VpcId"):
        yield from existing_network(account)
        return
    yield "fine", "the stack's own network"
    if account.status:
        return
    vpcs = sum(1 for _ in account.all("ec2", "describe_vpcs", "Vpcs"))
    most = account.quota("vpc", "L-F678F1CE")
    if vpcs >= most:
        yield "fails", f"the region has {vpcs} VPCs of {most:.0f}", "raise the quota L-F678F1CE (Service Quotas, Amazon VPC), or set VpcId and SubnetIds of an existing one"
    else:
        yield "fine", f"{vpcs} VPCs of {most:.0f}"
    gateways = endpoints(account, {"Name": "vpc-endpoint-type", "Values": ["Gateway"]})
    most = account.quota("vpc", "L-1B52E74A")
    if len(gateways) >= most:
        yield "fails", f"the region has {len(gateways)} gateway endpoints of {most:.0f}", "raise the quota L-1B52E74A (Service Quotas, Amazon VPC)"


def endpoints(account, *filters):
    found = account.all("ec2", "describe_vpc_endpoints", "VpcEndpoints", Filters=list(filters))
    return [one for one in found if one["State"].lower() not in ("deleting", "deleted")]


def existing_network(account):
    ec2, vpc = account.client("ec2"), account.value("VpcId")
    if not absent(lambda: ec2.describe_vpcs(VpcIds=[vpc]), "InvalidVpcID.NotFound"):
        yield "fails", f"VpcId={vpc} does not exist in {account.region}", "set an existing VpcId, or leave it empty"
        return
    ids = [one.strip() for one in account.value("SubnetIds").split(",") if one.strip()]
    found = absent(lambda: ec2.describe_subnets(SubnetIds=ids), "InvalidSubnetID.NotFound") if ids else None
    subnets = [one for one in found["Subnets"] if one["VpcId"] == vpc] if found else []
    zones = sorted({one["AvailabilityZone"] for one in subnets})
    if len(subnets) < max(len(ids), 1):
        yield "fails", f"SubnetIds={','.join(ids)}: {len(subnets)} of them are in {vpc}", f"set subnets of {vpc}"
    elif len(zones) < 2:
        yield "fails", f"SubnetIds lie in one zone ({', '.join(zones)}); replicas need another", "set subnets in two or three zones"
    else:
        yield "fine", f"{vpc} with {len(subnets)} subnets in {', '.join(zones)}"
    to_the_table = {"Name": "service-name", "Values": [f"com.amazonaws.{account.region}.dynamodb"]}
    if not endpoints(account, {"Name": "vpc-id", "Values": [vpc]}, to_the_table):
        yield "look", f"{vpc} has no endpoint for DynamoDB: without a NAT, no function reaches the table", "add a gateway endpoint for DynamoDB to its route tables"


def zones_of_the_stack(account):
    """The zones of the three subnets, as `(name, id)`: those of the parameters, or the first of `Fn::GetAZs`, which lists
    zones with a default subnet, or all if there is none.
    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/intrinsic-function-reference-getavailabilityzones.html"""
    found = account.client("ec2").describe_availability_zones(
        Filters=[{"Name": "zone-type", "Values": ["availability-zone"]}]
    )
    ids = {one["ZoneName"]: one.get("ZoneId", "") for one in found["AvailabilityZones"] if one["State"] == "available"}
    named = [one.strip() for one in account.value("Zones").split(",") if one.strip()]
    if named:
        return [(name, ids.get(name)) for name in named], ids
    subnets = account.all(
        "ec2", "describe_subnets", "Subnets", Filters=[{"Name": "default-for-az", "Values": ["true"]}]
    )
    with_default = {one["AvailabilityZone"] for one in subnets}
    return [(name, ids[name]) for name in sorted(ids) if not with_default or name in with_default][:ZONES], ids


@check("zones")
def zones(account):
    if account.value("VpcId") or account.status:
        yield "fine", "the network exists already"
        return
    chosen, available = zones_of_the_stack(account)
    names = ", ".join(name for name, _ in chosen)
    usable = usable_zones(account, available)
    mend = f"set Zones to three of: {', '.join(usable)}"
    if len(usable) < ZONES:
        mend = f"only {', '.join(usable) or 'none'} would do: use another region, or another RedisNodeType"
    if len(chosen) < ZONES:
        kind = "zones with a default subnet" if len(available) >= ZONES else "zones"
        source = (
            f"Zones names {len(chosen)} zones"
            if account.value("Zones")
            else f"{account.region} has {len(chosen)} {kind}"
        )
        yield "fails", f"{source} ({names}); the stack's network needs {ZONES}", mend
    unknown = [name for name, id_ in chosen if id_ is None]
    without = [f"{name} ({id_})" for name, id_ in chosen if id_ in WITHOUT_LAMBDA]
    nodes = zones_with_nodes(account)
    lacking = [name for name, _ in chosen if nodes is not None and name not in nodes and name not in unknown]
    if unknown:
        yield "fails", f"Zones has {', '.join(unknown)}, which this account does not have in {account.region}", mend
    if without:
        yield "fails", f"Lambda has no functions in {', '.join(without)}", mend
    if lacking:
        yield "fails", f"{', '.join(lacking)} has no {node_type(account)}, so Redis can't have a node there", mend
    if len(chosen) >= ZONES and not (unknown or without or lacking):
        yield "fine", f"the stack's subnets lie in {names}"


def node_type(account):
    return account.value("RedisNodeType").removeprefix("cache.")


def zones_with_nodes(account):
    """The zones that have the node type as an EC2 instance; ElastiCache has no such list. `None`: without nodes."""
    if account.value("Redis") != "nodes":
        return None
    return {
        one["Location"]
        for one in account.all(
            "ec2",
            "describe_instance_type_offerings",
            "InstanceTypeOfferings",
            LocationType="availability-zone",
            Filters=[{"Name": "instance-type", "Values": [node_type(account)]}],
        )
    }


def usable_zones(account, available):
    nodes = zones_with_nodes(account)
    return [
        name
        for name, id_ in sorted(available.items())
        if id_ not in WITHOUT_LAMBDA and (nodes is None or name in nodes)
    ]


# --- Redis: versions, node types, quotas

# Some of ElastiCache's operations make it, but not those for users and their groups, which a deployment calls first.
# https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/using-service-linked-roles.html
LINKED_ROLE = "AWSServiceRoleForElastiCache"


@check("redis' role")
def linked_role(account):
    if account.value("Redis") == "existing":
        return
    if absent(lambda: account.client("iam").get_role(RoleName=LINKED_ROLE), "NoSuchEntity"):
        yield "fine", "ElastiCache has its service-linked role"
    else:
        yield (
            "fails",
            "the account never had ElastiCache: its service-linked role is missing, and Redis' users can't be made",
            "aws iam create-service-linked-role --aws-service-name elasticache.amazonaws.com",
        )


# Only these families have durability, from Valkey 9.0 on. Since 2026-10-27 it can be changed on an existing cluster.
# https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/Durability.Limitations.html
# https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/Durability.ChangingDurability.html
DURABLE = ("m8g", "r8g", "m7g", "r7g", "m6g", "r6g", "c8gn", "c7gn")
# The version in stacks/state.yaml, and a shard's primary and replicas there.
VERSION, NODES_OF_SHARD = "9.0", 3


@check("redis")
def redis(account):
    kind = account.value("Redis")
    if kind == "existing":
        yield "fine", "the Redis at RedisUrl; preflight does not sign in to it"
        return
    wanted = VERSION
    versions = sorted(
        {
            one["EngineVersion"]
            for one in account.all(
                "elasticache", "describe_cache_engine_versions", "CacheEngineVersions", Engine="valkey"
            )
        }
    )
    known = {re.match(r"\d+\.\d+", one)[0] for one in versions} if versions else set()
    if kind == "serverless":
        known = {one.partition(".")[0] for one in known}
        wanted = wanted.partition(".")[0]
    if wanted not in known:
        yield "fails", f"ElastiCache has no Valkey {wanted} in {account.region}", f"use another region, or in stacks/state.yaml one of: {', '.join(versions) or 'none here'}"
    else:
        yield "fine", f"ElastiCache has Valkey {wanted}"
    # https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/Scaling.html, "Setting scaling limits to manage costs"
    if kind == "serverless" and account.value("GrabAck") == "redis":
        yield "look", "GrabAck=redis promises slips on Redis' word, and ElastiCache Serverless drops keys at its limit", "set Redis=nodes, or GrabAck=ledger"
    if kind == "nodes":
        yield from nodes(account)


def nodes(account):
    type_, family = account.value("RedisNodeType"), node_type(account).partition(".")[0]
    if family not in DURABLE:
        yield "fails", f"{type_} has no durability", f"use a node of {', '.join(DURABLE)}"
    offered = account.all(
        "elasticache", "describe_reserved_cache_nodes_offerings", "ReservedCacheNodesOfferings", CacheNodeType=type_
    )
    if not zones_with_nodes(account):
        yield "fails", f"{account.region} has no {type_}", "set RedisNodeType to a type that the region has"
    elif next(offered, None) is None:
        # Only a sign: ElastiCache lists the types that it sells reserved nodes of, but not its types.
        yield "look", f"ElastiCache may have no {type_} in {account.region}: it reserves none", "look for it in ElastiCache's console"
    if account.status:
        return
    has = sum(
        of.get("NumCacheNodes", 0) for of in account.all("elasticache", "describe_cache_clusters", "CacheClusters")
    )
    more = int(account.value("RedisShards")) * NODES_OF_SHARD
    most = account.quota("elasticache", "L-DFE45DF3")
    if has + more > most:
        yield "fails", f"{more} more nodes don't fit: the region has {has} of {most:.0f}", "raise the quota L-DFE45DF3 (Service Quotas, ElastiCache)"
    else:
        yield "fine", f"{more} nodes of {type_}; the region has {has} of {most:.0f}"


# --- Webhooks: the secret that signs them, which no finding shows

# The fewest bytes of a secret, by the specification, and the base64 of so many.
BYTES_MIN = 24
CHARACTERS_MIN = 32
MADE_BY = 'echo "whsec_$(openssl rand -base64 32)"'


def secret_fault(text):
    """What is wrong with a text of secrets, or `None`: the rule of functions/notify/src/secret.rs."""
    secrets = []
    for entry in re.split(r"[ ,\t]", text):
        for index, line in enumerate(filter(None, re.split(r"[\n\r]", entry))):
            if line.startswith("whsec_"):
                secrets.append(line.removeprefix("whsec_"))
            elif secrets and index and len(line) < CHARACTERS_MIN:
                secrets[-1] += line
            else:
                return "a secret does not begin with whsec_"
    faults = [fault for fault in map(fault_of, secrets) if fault]
    return next(iter(faults), None) if secrets else "there is no secret"


def fault_of(encoded):
    if re.search("[+/]", encoded) and re.search("[-_]", encoded):
        return "a secret mixes the two alphabets of base64"
    standard = encoded.replace("-", "+").replace("_", "/")
    unpadded = standard.rstrip("=")
    try:
        found = base64.b64decode(unpadded + "=" * (-len(unpadded) % 4), validate=True)
    except (binascii.Error, ValueError):
        return "a secret is not base64"
    # Python drops bits that are too many.
    again = base64.b64encode(found).decode()
    if standard not in (again, again.rstrip("=")):
        return "a secret is not base64"
    return None if len(found) >= BYTES_MIN else f"a secret has less than {BYTES_MIN} bytes"


@check("webhooks")
def webhooks(account):
    if not account.value("WebhookUrl"):
        return
    arn = account.value("WebhookSecretArn")
    found = absent(
        lambda: account.client("secretsmanager").get_secret_value(SecretId=arn), "ResourceNotFoundException"
    )
    fault = secret_fault(found.get("SecretString", "")) if found else None
    if not found:
        yield "fails", f"there is no secret {arn}, so no webhook could be signed", f"make one of the output of {MADE_BY}, and set WebhookSecretArn"
    elif fault:
        yield "fails", f"WebhookSecretArn: {fault}, so no webhook could be signed", f"store the output of {MADE_BY}"
    else:
        yield "fine", "webhooks can be signed"


# --- Tickets


@check("tickets")
def tickets(account):
    arn = account.value("TicketSecretArn")
    if not arn:
        return
    found = absent(lambda: account.client("secretsmanager").get_secret_value(SecretId=arn), "ResourceNotFoundException")
    if not found:
        yield "fails", f"there is no secret {arn}, so no ticket could be checked", "store a JWK Set (docs/OPERATE.md), and set TicketSecretArn"
        return
    fault = ticket_fault(found.get("SecretString", ""))
    if fault:
        yield "fails", f"TicketSecretArn {fault}, so no ticket could be checked", "store a JWK Set (docs/OPERATE.md)"
    else:
        yield "fine", "tickets can be checked"


# Points of small order on Ed25519's curve, without the sign of x. A key that is one of them has signatures that need no private key.
SMALL_ORDER = {
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
}


def ticket_fault(text):
    """What the functions would say of these keys (TicketKeys::parse); None if they take them."""
    try:
        keys = json.loads(text)["keys"]
        if not all(isinstance(key, dict) for key in keys):
            raise TypeError
    except (ValueError, KeyError, TypeError):
        return 'must be a JWK Set (RFC 7517), {"keys": [...]}'
    if any("d" in key for key in keys):
        return "a key for EdDSA must be the public one, without `d`"
    if not 1 <= len(keys) <= 2:
        return "must have one key or two"
    ids = [key.get("kid") for key in keys]
    if not all(ids) or len(set(ids)) < len(ids):
        return "each key must have a `kid` of its own"
    for key in keys:
        if (key.get("kty"), key.get("alg", "HS256")) == ("oct", "HS256"):
            if len(bytes_of(key.get("k"))) < 32:
                return "a key for HS256 must have at least 32 bytes, in base64url without padding"
        elif (key.get("kty"), key.get("crv"), key.get("alg", "EdDSA")) == ("OKP", "Ed25519", "EdDSA"):
            point = bytes_of(key.get("x"))
            if len(point) != 32:
                return "a key for EdDSA must have an `x` of 32 bytes, in base64url without padding"
            if (point[:-1] + bytes([point[-1] & 0x7F])).hex() in SMALL_ORDER:
                return "a key for EdDSA must not be one of the few for which anybody can sign"
        else:
            return "each key must be for HS256 (`kty` oct) or EdDSA (`kty` OKP, `crv` Ed25519)"
    return None


def bytes_of(text):
    """The bytes of a base64url text without padding; none if it is no such text."""
    if not isinstance(text, str) or not re.fullmatch("[A-Za-z0-9_-]*", text) or len(text) % 4 == 1:
        return b""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


# --- Backups elsewhere


@check("backups")
def backups(account):
    arn = account.value("BackupVaultArn")
    if not arn:
        return
    region, owner = arn.split(":")[3:5]
    # Only a backup that AWS Backup manages itself can be copied to another region or account.
    settings = account.client("backup").describe_region_settings()
    off = [
        option
        for option, key in (("opt-in", "ResourceTypeOptInPreference"), ("management", "ResourceTypeManagementPreference"))
        if not settings.get(key, {}).get("DynamoDB")
    ]
    if off:
        options = " ".join(f"--resource-type-{option}-preference DynamoDB=true" for option in off)
        yield "fails", "AWS Backup does not manage backups of DynamoDB here, so none could be copied", f"aws backup update-region-settings {options}"
    elif owner != account.id:
        yield "look", f"BackupVaultArn is of the account {owner}, which preflight can't ask", "its access policy must let this account copy (docs/OPERATE.md)"
    elif not absent(
        lambda: account.client("backup", region).describe_backup_vault(BackupVaultName=arn.split(":")[6]),
        "ResourceNotFoundException",
        "AccessDeniedException",
    ):
        yield "fails", f"there is no vault {arn}, so no backup could be copied", "make it (docs/OPERATE.md, Restoring in another region or account)"
    else:
        yield "fine", f"a copy of the table goes to {region} each day"


# --- Names that the stack gives itself must be free; what its parameters name must be there

# Where CloudFront is managed, and reads certificates and web ACLs.
# https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/cnames-and-https-requirements.html
GLOBAL_REGION = "us-east-1"


def caught(call, *codes):
    """Whether something of a fixed name exists."""
    return absent(call, *codes) is not None


def fixed_names(account):
    """Each name that the stack gives itself, with what has it: `(kind, name, owner)`. `owner` is the physical id under
    which a stack owns it, or `None` if the name is free. A test compares this list with the templates."""
    stack = account.stack
    cache = account.client("elasticache")
    if account.value("Redis") != "existing":
        for user in ["functions", "reader"]:
            name = f"{stack}-{user}"
            found = caught(lambda: cache.describe_users(UserId=name), "UserNotFound")
            yield "Redis user", name, name if found else None
        name = f"{stack}-users"
        found = caught(lambda: cache.describe_user_groups(UserGroupId=name), "UserGroupNotFound")
        yield "Redis user group", name, name if found else None
    if account.value("Redis") == "serverless":
        name = f"{stack}-cache-{account.value('RedisGeneration')}"
        found = caught(
            lambda: cache.describe_serverless_caches(ServerlessCacheName=name), "ServerlessCacheNotFoundFault"
        )
        yield "serverless cache", name, name if found else None
    if account.value("Redis") == "nodes":
        name = f"{stack}-nodes-{account.value('RedisGeneration')}"
        found = caught(lambda: cache.describe_replication_groups(ReplicationGroupId=name), "ReplicationGroupNotFoundFault")
        yield "Redis cluster", name, name if found else None
    if account.value("EntranceDomain"):
        for group in "sgv":
            name = f"{stack}-{group}"
            balancing = account.client("elbv2")
            found = absent(lambda: balancing.describe_target_groups(Names=[name]), "TargetGroupNotFound")
            yield "target group", name, found and found["TargetGroups"][0]["TargetGroupArn"]
    for name in (f"{stack}-operate-read", f"{stack}-operate-repair"):
        client = account.client("lambda")
        found = caught(lambda: client.get_function_configuration(FunctionName=name), "ResourceNotFoundException")
        yield "function", name, name if found else None
    name = f"/aws/vendedlogs/{stack}/access"
    groups = account.all("logs", "describe_log_groups", "logGroups", logGroupNamePrefix=name)
    yield "log group", name, name if any(one["logGroupName"] == name for one in groups) else None
    schedules = {one["Name"] for one in account.all("scheduler", "list_schedules", "Schedules", NamePrefix=f"{stack}-")}
    for run in ["settle-1", "settle-2", "audit"]:
        name = f"{stack}-{run}"
        yield "schedule", name, name if name in schedules else None
    alarms = account.all("cloudwatch", "describe_alarms", "MetricAlarms", AlarmNamePrefix=f"{stack}-")
    for name in sorted(one["AlarmName"] for one in alarms):
        # An alarm of the stack hongbao-dev-2 also begins with hongbao-dev-.
        if re.fullmatch(r"[A-Z]\w*", name.removeprefix(f"{stack}-")):
            yield "alarm", name, name
    boards = account.all("cloudwatch", "list_dashboards", "DashboardEntries", DashboardNamePrefix=stack)
    yield "dashboard", stack, stack if any(one["DashboardName"] == stack for one in boards) else None
    if account.has("Events"):
        found = caught(lambda: account.client("events").describe_event_bus(Name=stack), "ResourceNotFoundException")
        yield "event bus", stack, stack if found else None
    if account.has("Page"):
        yield from names_of_the_page(account)


def names_of_the_page(account):
    name = f"{account.stack}-page-{account.region}"
    controls = account.all("cloudfront", "list_origin_access_controls", "OriginAccessControlList.Items", GLOBAL_REGION)
    yield "origin access control", name, next((one["Id"] for one in controls if one["Name"] == name), None)
    yield "response headers policy", name, headers_policy(account, name)
    functions = account.client("cloudfront", GLOBAL_REGION)
    found = absent(lambda: functions.describe_function(Name=name), "NoSuchFunctionExists")
    yield "CloudFront function", name, found and found["FunctionSummary"]["FunctionMetadata"]["FunctionARN"]
    if not account.value("JwtIssuer"):
        domain = f"{account.stack}-{account.id}"
        found = account.client("cognito-idp").describe_user_pool_domain(Domain=domain)["DomainDescription"]
        yield "sign-in domain", domain, domain if found.get("UserPoolId") else None


def headers_policy(account, name):
    given = {"Type": "custom"}
    while True:
        page = account.client("cloudfront", GLOBAL_REGION).list_response_headers_policies(**given)[
            "ResponseHeadersPolicyList"
        ]
        for one in page.get("Items", []):
            policy = one["ResponseHeadersPolicy"]
            if policy["ResponseHeadersPolicyConfig"]["Name"] == name:
                return policy["Id"]
        if not page.get("NextMarker"):
            return None
        given["Marker"] = page["NextMarker"]


def article(kind):
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


@check("names")
def names(account):
    taken = 0
    for kind, name, owner in fixed_names(account):
        if owner is not None and owner not in account.owned:
            taken += 1
            yield "fails", f"there is {article(kind)} {name} already, which is not this stack's", "delete it, or give the stack another name"
    if not taken:
        yield "fine", "each name that the stack gives itself is free"


@check("web acl")
def web_acl(account):
    arn = account.value("PageWebAclArn")
    if not arn:
        return
    waf = account.client("wafv2", GLOBAL_REGION)
    if absent(lambda: waf.get_web_acl(ARN=arn), "WAFNonexistentItemException"):
        yield "fine", "a web ACL stands before the page and users' requests"
    else:
        yield "fails", f"there is no web ACL {arn}", f"set one of: aws wafv2 list-web-acls --scope CLOUDFRONT --region {GLOBAL_REGION}"


@check("page")
def page(account):
    if not account.has("Page"):
        yield "fine", "no page (Page=false)"
        return
    domain, certificate = account.value("PageDomain"), account.value("PageCertificateArn")
    if certificate:
        yield from certificate_for(account, domain, certificate)
    if not domain:
        return
    for one in account.all("cloudfront", "list_distributions", "DistributionList.Items", GLOBAL_REGION):
        if certificate and domain in one.get("Aliases", {}).get("Items", []) and one["Id"] not in account.owned:
            yield "fails", f"the distribution {one['Id']} has the name {domain} already", "remove the name from it, or use another PageDomain"


@check("entrance")
def entrance(account):
    domain, certificate = account.value("EntranceDomain"), account.value("EntranceCertificateArn")
    if not domain:
        yield "fine", "no load balancer (EntranceDomain is empty)"
        return
    yield from certificate_for(account, domain, certificate, account.region, "EntranceCertificateArn")


def certificate_for(account, domain, arn, place=GLOBAL_REGION, parameter="PageCertificateArn"):
    region = arn.split(":")[3]
    if region != place:
        reader = "CloudFront" if parameter == "PageCertificateArn" else "the load balancer"
        yield "fails", f"the certificate is in {region}; {reader} reads only those in {place}", f"request the certificate in {place}"
        return
    acm = account.client("acm", place)
    found = absent(
        lambda: acm.describe_certificate(CertificateArn=arn), "ResourceNotFoundException", "ValidationException"
    )
    if not found:
        yield "fails", f"there is no certificate {parameter} in this account", f"request one in {place}"
        return
    certificate = found["Certificate"]
    names = {certificate.get("DomainName"), *certificate.get("SubjectAlternativeNames", [])}
    if certificate["Status"] != "ISSUED":
        yield "fails", f"the certificate of {domain} is {certificate['Status']}", "finish its validation (the console shows the DNS record)"
    elif domain not in names and "*." + domain.partition(".")[2] not in names:
        yield "fails", f"the certificate is for {', '.join(sorted(filter(None, names)))}, not for {domain}", f"request one for {domain}"
    else:
        yield "fine", f"the certificate of {domain} is issued, in {place}"


@check("key")
def key(account):
    arn = account.value("CustomerKeyArn")
    if not arn:
        yield "fine", "keys of AWS (CustomerKeyArn is empty)"
        return
    found = absent(lambda: account.client("kms").describe_key(KeyId=arn), "NotFoundException", "InvalidArnException")
    state = found["KeyMetadata"]["KeyState"] if found else None
    if state == "Enabled":
        yield "fine", "the key CustomerKeyArn is enabled; whether its policy suffices shows only when it is used"
    else:
        yield "fails", f"the key CustomerKeyArn {'is ' + state if state else 'does not exist in ' + account.region}", "set an enabled key of this region"


def discovered(issuer):
    """The issuer that its own discovery document names. API Gateway reads the same document."""
    with urllib.request.urlopen(issuer.rstrip("/") + "/.well-known/openid-configuration", timeout=10) as answer:
        return json.load(answer).get("issuer")


@check("issuer")
def issuer(account):
    wanted = account.value("JwtIssuer")
    if not wanted:
        yield "fine", "the stack makes a user pool"
        return
    try:
        names = account.discover(wanted)
    except (urllib.error.URLError, OSError, ValueError) as error:
        yield "fails", f"{wanted} has no discovery document that can be read: {error}", "API Gateway reads JwtIssuer/.well-known/openid-configuration: publish it"
        return
    if names != wanted:
        yield "fails", f"its discovery document names the issuer {names}, not {wanted}", "set JwtIssuer to exactly that text"
    else:
        yield "fine", f"{wanted} has a discovery document"


@check("days")
def days(account):
    zone = account.value("DayZone", "Asia/Shanghai")
    if zone in zoneinfo.available_timezones():
        yield "fine", f"days begin at midnight in {zone}"
    else:
        yield "fails", f"DayZone is {zone}, and no time zone of the IANA has this name", "the function Send would not start: name a zone such as Asia/Shanghai"


@check("alarms")
def alarms(account):
    mail = account.value("AlarmEmail")
    if mail:
        yield "fine", f"alarms reach {mail}, once the mail is confirmed"
    else:
        yield "look", "AlarmEmail is empty: no alarm reaches anybody", "set AlarmEmail in samconfig.toml"
