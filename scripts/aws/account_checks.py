"""Checks of the stack's state and of the account's quotas."""

import re

from findings import absent, check

# Lambda refuses to leave less than this to functions without a reservation.
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


def stack_status(account, name):
    found = absent(lambda: account.client("cloudformation").describe_stacks(StackName=name), "ValidationError")
    return found["Stacks"][0]["StackStatus"] if found else None


# It comes first: the others ask what the stack already has.
@check("stack")
def stack(account):
    name = account.stack
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,28}", name):
        yield "fails", f"{name} is no name for a stack: names in ElastiCache contain it", "use at most 29 of a-z, 0-9 and -, a letter first"
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
    known = account.number("AccountConcurrency")
    if known and known != limit:
        yield "look", f"AccountConcurrency={known}, but the quota is {limit}: the alarm on it would judge wrongly", f"set AccountConcurrency={limit}"
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
        for name, most in (("GrabRate", min(rate, burst)), ("ViewRate", min(rate, burst)), ("SendRate", min(rate, burst)))
        if account.number(name) > most
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
    for kind, most in (("Roles", 15), ("Policies", 10)):
        free = summary[f"{kind}Quota"] - summary[kind]
        if not account.status and free < most:
            yield "fails", f"{free} more {kind.lower()} fit into the account; the stack makes up to {most}", f"raise the quota of IAM {kind.lower()}, or delete some"
        else:
            yield "fine", f"{free} more {kind.lower()} fit into the account"
