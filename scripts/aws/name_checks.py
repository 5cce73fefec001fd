"""Checks that the names which the stack gives itself are free, and that what its parameters name is there."""

import json
import re
import urllib.error
import urllib.request
import zoneinfo

from findings import absent, check

# Where CloudFront is managed, and reads certificates and web ACLs.
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
            # Without its service-linked role, ElastiCache was never used in this account.
            found = caught(lambda: cache.describe_users(UserId=name), "UserNotFound", "ServiceLinkedRoleNotFoundFault")
            yield "Redis user", name, name if found else None
        name = f"{stack}-users"
        found = caught(
            lambda: cache.describe_user_groups(UserGroupId=name), "UserGroupNotFound", "ServiceLinkedRoleNotFoundFault"
        )
        yield "Redis user group", name, name if found else None
    if account.value("Redis") == "serverless":
        name = f"{stack}-serverless"
        found = caught(
            lambda: cache.describe_serverless_caches(ServerlessCacheName=name), "ServerlessCacheNotFoundFault"
        )
        yield "serverless cache", name, name if found else None
    for right in ("read", "repair"):
        name = f"{stack}-operate-{right}"
        client = account.client("lambda")
        found = caught(lambda: client.get_function_configuration(FunctionName=name), "ResourceNotFoundException")
        yield "function", name, name if found else None
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


def certificate_for(account, domain, arn):
    region = arn.split(":")[3]
    if region != GLOBAL_REGION:
        yield "fails", f"the certificate is in {region}; CloudFront reads only those in us-east-1", "request the certificate in us-east-1"
        return
    acm = account.client("acm", GLOBAL_REGION)
    found = absent(
        lambda: acm.describe_certificate(CertificateArn=arn), "ResourceNotFoundException", "ValidationException"
    )
    if not found:
        yield "fails", "there is no certificate PageCertificateArn in this account", "request one in us-east-1"
        return
    certificate = found["Certificate"]
    names = {certificate.get("DomainName"), *certificate.get("SubjectAlternativeNames", [])}
    if certificate["Status"] != "ISSUED":
        yield "fails", f"the certificate of {domain} is {certificate['Status']}", "finish its validation (the console shows the DNS record)"
    elif domain not in names and "*." + domain.partition(".")[2] not in names:
        yield "fails", f"the certificate is for {', '.join(sorted(filter(None, names)))}, not for {domain}", "request one for PageDomain"
    else:
        yield "fine", f"the certificate of {domain} is issued, in us-east-1"


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


@check("instances")
def instances(account):
    arn = account.value("GrabCapacityProviderArn")
    if not arn:
        yield "fine", "grabs run on Lambda's own machines"
        return
    client = account.client("lambda")
    found = absent(
        lambda: client.get_capacity_provider(CapacityProviderName=arn.rpartition(":")[2]), "ResourceNotFoundException"
    )
    state = found["CapacityProvider"]["State"] if found else None
    if state == "Active":
        yield "fine", "the capacity provider is active"
    else:
        yield "fails", f"the capacity provider {'is ' + state if state else 'does not exist in ' + account.region}", "docs/OPERATE.md, Lambda Managed Instances"


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
    if not account.value("JwtAudience"):
        yield "fails", "JwtIssuer needs JwtAudience", "set JwtAudience to the client ids whose tokens count"
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
