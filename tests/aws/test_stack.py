"""The deployed schedules, table, network and Redis are what the code expects. New versions of the functions: when they are published,
how requests move to them, and how they move back."""

import json
import re
import subprocess

import pytest
from emulated import ACCOUNT, REGION, STACK, client
from policies import allows, listed, matches, statements_of
from transformed import ROOT, source, transformed


def schedules():
    names = [found["Name"] for found in client("scheduler").list_schedules()["Schedules"]]
    return {name.removeprefix(f"{STACK}-"): client("scheduler").get_schedule(Name=name) for name in names}


def test_settle_runs_every_minute_over_each_partition_once(stack, repository):
    part = (repository / "shared/src/domain/part.rs").read_text()
    partitions = int(re.search(r"pub const PARTITIONS: u32 = (\d+)", part)[1])
    runs = [schedule for name, schedule in schedules().items() if name.startswith("settle")]
    assert len(runs) == 2
    covered = []
    for run in runs:
        assert run["ScheduleExpression"] == "rate(1 minute)" and run["State"] == "ENABLED"
        assert run["Target"]["Arn"] == stack.live("Settle")
        assert run["Target"]["RetryPolicy"]["MaximumEventAgeInSeconds"] == 60
        first, last = json.loads(run["Target"]["Input"])["partitions"]
        covered += range(first, last + 1)
    assert sorted(covered) == list(range(partitions))


def test_the_audit_runs_each_day_and_continues(stack):
    audit = next(configuration for program, _, configuration in stack.functions() if program == "audit")
    run = schedules()["audit"]
    assert run["ScheduleExpression"] == "rate(1 day)"
    assert run["Target"]["Arn"] == stack.live("Audit")
    # Two hours of overlap with the audit before.
    assert json.loads(run["Target"]["Input"]) == {"hours": 26}
    [rule] = [found for found in client("events").list_rules()["Rules"] if "AuditContinues" in found["Name"]]
    [target] = client("events").list_targets_by_rule(Rule=rule["Name"])["Targets"]
    assert (target["Arn"], target["InputPath"]) == (stack.live("Audit"), "$.detail.responsePayload.next")
    answer = {
        "source": "lambda",
        "detail-type": "Lambda Function Invocation Result - Success",
        "detail": {
            "requestContext": {"functionArn": stack.live("Audit")},
            "responsePayload": {"packets": 5, "next": {"resume": {"report": {"packets": 5}}}},
        },
    }
    assert passes(rule, answer)
    done = json.loads(json.dumps(answer))
    done["detail"]["responsePayload"]["next"] = None
    assert not passes(rule, done)


def passes(rule, event):
    from moto.events.models import EventPattern

    return EventPattern.load(rule["EventPattern"]).matches_event(event)


def test_only_the_accounts_schedules_run_settle_and_audit(stack):
    for schedule in schedules().values():
        role = client("iam").get_role(RoleName=schedule["Target"]["RoleArn"].rpartition("/")[2])["Role"]
        [trust] = role["AssumeRolePolicyDocument"]["Statement"]
        assert trust["Principal"] == {"Service": "scheduler.amazonaws.com"}
        assert trust["Condition"] == {"StringEquals": {"aws:SourceAccount": ACCOUNT}}
        assert allows(statements_of(role["RoleName"]), "lambda:InvokeFunction", schedule["Target"]["Arn"])


def test_the_table_is_what_the_ledger_needs_and_outlives_the_stack(stack, repository):
    keys = (repository / "shared/src/ledger/keys.rs").read_text()
    name = lambda constant: re.search(rf'pub const {constant}: &str = "([^"]+)"', keys)[1]
    table = client("dynamodb").describe_table(TableName=stack.outputs["TableName"])["Table"]
    pair = lambda first, second: [
        {"AttributeName": name(first), "KeyType": "HASH"},
        {"AttributeName": name(second), "KeyType": "RANGE"},
    ]
    assert table["KeySchema"] == pair("PK", "SK")
    [index] = table["GlobalSecondaryIndexes"]
    assert (index["IndexName"], index["KeySchema"]) == (name("DUE_INDEX"), pair("DUE_SHARD", "DUE_AT"))
    assert index["Projection"]["ProjectionType"] == "KEYS_ONLY"
    assert table["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    assert table["StreamSpecification"] == {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}
    # moto returns the parameter's text.
    assert table["DeletionProtectionEnabled"] == stack.parameters.get("DeletionProtection", "true")
    resource = stack.template["Resources"]["Table"]
    assert (resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")
    properties = resource["Properties"]
    assert properties["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert properties["SSESpecification"]["SSEEnabled"] is True
    assert "TimeToLiveSpecification" not in properties, "slip decisions and movements never expire"


def test_the_network_has_no_way_out_except_to_the_table(stack):
    state = {resource["Type"] for resource in source("stacks/state.yaml")["Resources"].values()}
    for way_out in ("InternetGateway", "NatGateway", "EIP", "Route", "VPCGatewayAttachment"):
        assert f"AWS::EC2::{way_out}" not in state
    if stack.way == "existing":
        assert "Vpc" not in stack.ids and "RedisNodes" not in stack.ids and "Gateway" not in stack.ids
        return
    ec2, vpc = client("ec2"), stack.ids["Vpc"]
    ours = [{"Name": "vpc-id", "Values": [vpc]}]
    subnets = {subnet["SubnetId"]: subnet for subnet in ec2.describe_subnets(Filters=ours)["Subnets"]}
    # A load balancer has subnets of its own, and only they have a way to the internet.
    public = {stack.ids[name] for name in stack.ids if name.startswith("PublicSubnet")}
    assert len(public) == (3 if "EntranceDomain" in stack.parameters else 0)
    tables = ec2.describe_route_tables(Filters=ours)["RouteTables"]
    way_out = lambda table: any(route.get("GatewayId", "").startswith("igw-") for route in table["Routes"])
    assert [table["RouteTableId"] for table in tables if way_out(table)] == [stack.ids["PublicRoutes"] for _ in public][:1]
    # moto shows no subnets of a table.
    associated = [
        resource["Properties"]["SubnetId"]["Ref"]
        for resource in stack.template["Resources"].values()
        if resource["Type"] == "AWS::EC2::SubnetRouteTableAssociation" and resource["Properties"]["RouteTableId"] == {"Ref": "PublicRoutes"}
    ]
    assert associated == [f"PublicSubnet{n}" for n in (1, 2, 3)]
    for part in (public, set(subnets) - public):
        zones = {subnets[name]["AvailabilityZone"] for name in part}
        assert len(part) == len(zones) and len(part) in (0, 3)
        if part and "Zones" in stack.parameters:
            assert zones == set(stack.parameters["Zones"].split(","))
    endpoints = ec2.describe_vpc_endpoints(Filters=ours)["VpcEndpoints"]
    found = {(endpoint["VpcEndpointType"], endpoint["ServiceName"].rpartition(".")[2]) for endpoint in endpoints}
    expected = {("Gateway", "dynamodb")} | ({("Interface", "secretsmanager")} if "TicketSecretArn" in stack.parameters else set())
    assert len(endpoints) == len(found) and found == expected


def test_only_the_functions_reach_redis(stack):
    ec2, functions = client("ec2"), stack.outputs["FunctionsSecurityGroup"]
    if stack.way == "existing":
        [way] = stack.noted("AWS::EC2::SecurityGroupEgress").values()
        assert way["GroupId"] == functions and "RedisGroup" not in stack.ids
        return
    [redis] = ec2.describe_security_groups(GroupIds=[stack.ids["RedisGroup"]])["SecurityGroups"]
    [rule] = redis["IpPermissions"]
    assert (rule["IpProtocol"], rule["FromPort"], rule["ToPort"], rule["IpRanges"]) == ("tcp", 6379, 6380, [])
    assert [pair["GroupId"] for pair in rule["UserIdGroupPairs"]] == [functions]
    [way] = stack.noted("AWS::EC2::SecurityGroupEgress").values()
    assert (way["GroupId"], way["DestinationSecurityGroupId"]) == (functions, redis["GroupId"])
    [of_functions] = ec2.describe_security_groups(GroupIds=[functions])["SecurityGroups"]
    assert of_functions["IpPermissions"] == []


def test_redis_is_encrypted_replicated_and_never_evicts(stack):
    nodes, serverless = (
        list(stack.noted(f"AWS::ElastiCache::{kind}").values()) for kind in ("ReplicationGroup", "ServerlessCache")
    )
    assert (len(nodes), len(serverless)) == {"nodes": (1, 0), "serverless": (0, 1), "existing": (0, 0)}[stack.way]
    if stack.way == "existing":
        return
    users = stack.noted("AWS::ElastiCache::User")
    assert set(users) == {"RedisUser", "RedisReader"}
    for user in users.values():
        assert user["UserId"] == user["UserName"], "IAM requires this"
        assert re.fullmatch(r"[a-z][a-z0-9-]{0,39}", user["UserId"])
    [members] = stack.noted("AWS::ElastiCache::UserGroup").values()
    assert all(stack.ids[name] in members["UserIds"] for name in users)
    assert all(user["AuthenticationMode"] == {"Type": "iam"} for user in users.values())
    if stack.way == "serverless":
        assert serverless[0]["UserGroupId"] == stack.ids["RedisUsers"]
        return
    [group] = nodes
    for expected in ("MultiAZEnabled", "AutomaticFailoverEnabled", "TransitEncryptionEnabled", "AtRestEncryptionEnabled"):
        assert group[expected] is True, expected
    assert (group["Engine"], group["ClusterMode"], group["Durability"]) == ("valkey", "enabled", "sync")
    assert group["UserGroupIds"] == [stack.ids["RedisUsers"]]
    [parameters] = stack.noted("AWS::ElastiCache::ParameterGroup").values()
    assert parameters["Properties"] == {"cluster-enabled": "yes", "maxmemory-policy": "noeviction"}
    assert parameters["CacheParameterGroupFamily"] == "valkey9"


def test_the_users_that_wallets_belong_to_outlive_the_stack(stack):
    pool = stack.template["Resources"]["UserPool"]
    assert (pool["DeletionPolicy"], pool["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")


def test_a_copy_of_the_table_goes_elsewhere_each_day(stack):
    of = {kind: stack.noted(f"AWS::Backup::{kind}") for kind in ("BackupVault", "BackupPlan", "BackupSelection")}
    if stack.way != "nodes":
        assert not any(of.values()), "only with BackupVaultArn"
        return
    [vault], [plan], [selection] = (found.values() for found in of.values())
    # A name that a later stack does not use.
    assert re.fullmatch(r"hongbao-test-[0-9a-z]{8}", vault["BackupVaultName"])
    resource = stack.template["Resources"]["BackupVault"]
    assert (resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")
    [rule] = plan["BackupPlan"]["BackupPlanRule"]
    assert rule["TargetBackupVault"] == stack.ids["BackupVault"]
    [copy] = rule["CopyActions"]
    assert copy["DestinationBackupVaultArn"] == stack.parameters["BackupVaultArn"]
    # A vault takes no backup that would be deleted before its lock allows.
    locked = vault["LockConfiguration"]
    assert locked["MinRetentionDays"] <= rule["Lifecycle"]["DeleteAfterDays"] <= copy["Lifecycle"]["DeleteAfterDays"]
    assert "ChangeableForDays" not in locked, "nobody could ever remove it"
    chosen = selection["BackupSelection"]
    assert chosen["Resources"] == [f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{stack.outputs['TableName']}"]
    role = client("iam").get_role(RoleName=chosen["IamRoleArn"].rpartition("/")[2])["Role"]
    [trust] = role["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "backup.amazonaws.com"}


# Resources that hold data or that others can't live without, whichever way the stack takes.
STATEFUL = {"Table", "BackupVault", "UserPool", "UserPoolClient", "RedisNodes", "RedisServerless", "Vpc", "PrivateSubnet1"}


@pytest.fixture
def protect(repository, tmp_path, monkeypatch):
    """Runs scripts/protect.sh with a program in place of the AWS CLI, and returns the policy of each stack."""
    program = tmp_path / "aws"
    program.write_text("""#!/bin/sh
case "$2" in
    describe-stack-resource) [ "$4 $6" = "a-stack State" ] && echo nested ;;
    set-stack-policy) printf '%s' "$6" >"$POLICIES/$4" ;;
esac""")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("POLICIES", str(tmp_path))

    def run(*arguments):
        subprocess.run([repository / "scripts/protect.sh", "a-stack", *arguments], check=True, capture_output=True)
        return [json.loads((tmp_path / name).read_text())["Statement"] for name in ("a-stack", "nested")]

    return run


def denied(statements, logical_id, action):
    """As CloudFormation decides: what is not allowed is denied, and a denial counts more."""
    effects = {
        s["Effect"]
        for s in statements
        if matches(s["Action"], action) and matches(s["Resource"], f"LogicalResourceId/{logical_id}")
    }
    return effects != {"Allow"}


def test_no_update_replaces_or_deletes_what_has_state(protect):
    root, state = protect()
    for statements, resources, kept in (
        (root, source()["Resources"], {"State"}),
        (state, source("stacks/state.yaml")["Resources"], STATEFUL),
    ):
        assert kept <= set(resources)
        for logical_id, resource in resources.items():
            assert not denied(statements, logical_id, "Update:Modify"), logical_id
            for action in ("Update:Replace", "Update:Delete"):
                expected = logical_id in kept or logical_id.startswith("PrivateSubnet")
                assert denied(statements, logical_id, action) == expected, (logical_id, action)
            # What is retained is also protected.
            assert "DeletionPolicy" not in resource or logical_id in kept, logical_id


def test_a_planned_replacement_opens_both_policies(protect):
    for statements in protect("--open"):
        assert not any(denied(statements, one, "Update:Replace") for one in STATEFUL | {"State"})


def test_a_restored_table_takes_the_place_of_the_stacks_own():
    """The functions, roles and alarms know the table only by these outputs."""
    outputs = source("stacks/state.yaml")["Outputs"]
    name = {"Fn::Select": [1, {"Fn::Split": ["/", {"Fn::Sub": "${RestoredTable}/"}]}]}
    for output, restored in (("Table", name), ("TableStream", {"Ref": "RestoredTable"})):
        condition, then, own = outputs[output]["Value"]["Fn::If"]
        assert (condition, then) == ("IsRestored", restored) and "Table" in str(own), output
    condition, then, own = outputs["TableArn"]["Value"]["Fn::If"]
    assert condition == "IsRestored" and then["Fn::Sub"][0].endswith(":table/${Name}") and then["Fn::Sub"][1] == {"Name": name}
    assert own == {"Fn::GetAtt": ["Table", "Arn"]}


# --- New versions


def versions(**parameters):
    """The logical id of each function's version. A new one is a new version."""
    resources = transformed(parameters=parameters)["Resources"]
    return {
        resource["Properties"]["FunctionName"]["Ref"]: logical_id
        for logical_id, resource in resources.items()
        if resource["Type"] == "AWS::Lambda::Version"
    }


def test_a_new_release_publishes_new_versions():
    """Otherwise a change of only a parameter would never reach a published version."""
    before, after = versions(Release="1795893392-a"), versions(Release="1795893393-a")
    functions = {name for name, resource in source()["Resources"].items() if "BuildMethod" in resource.get("Metadata", {})}
    assert set(before) == set(after) == functions
    assert not any(after[function] == version for function, version in before.items())
    # Lambda publishes no version of an unchanged function, so the release is part of its description.
    resources = transformed(parameters={"Release": "1795893392-a"})["Resources"]
    assert all("1795893392-a" in resources[function]["Properties"]["Description"] for function in before)


def test_alarms_end_a_gradual_deployment(stack):
    groups = {
        logical_id.removesuffix("DeploymentGroup"): properties
        for logical_id, properties in stack.noted("AWS::CodeDeploy::DeploymentGroup").items()
    }
    functions = {logical_id for _, logical_id, _ in stack.functions()}
    assert set(groups) == functions
    for function, group in groups.items():
        kind = stack.parameters.get("Rollout", "Canary10Percent10Minutes")
        # Lambda accepts no provisioned concurrency while requests move.
        kind = "AllAtOnce" if "GrabProvisioned" in stack.parameters and function == "Grab" else kind
        assert group["DeploymentConfigName"] == f"CodeDeployDefault.Lambda{kind}"
        assert "DEPLOYMENT_STOP_ON_ALARM" in group["AutoRollbackConfiguration"]["Events"]
        policy = stack.template["Resources"][f"{function}Aliaslive"]["UpdatePolicy"]["CodeDeployLambdaAliasUpdate"]
        assert policy["DeploymentGroupName"] == {"Ref": f"{function}DeploymentGroup"}
        if stack.parameters.get("Rollout") == "AllAtOnce":
            # A correction must be possible while an alarm is raised.
            assert not group["AlarmConfiguration"]
            continue
        # They are given by name, so nothing else proves that they exist.
        names = {alarm["Name"] for alarm in group["AlarmConfiguration"]["Alarms"]}
        assert names == {f"{STACK}-{name}" for name in ("ApiFaults", "FunctionErrors", "GrabLatency")}
        assert names <= {alarm["AlarmName"] for alarm in stack.noted("AWS::CloudWatch::Alarm").values()}


def test_whatever_calls_a_function_calls_its_alias(stack):
    """Else a deployment would not move it gradually."""
    targets = [mapping["FunctionName"] for mapping in stack.noted("AWS::Lambda::EventSourceMapping").values()]
    targets += [schedule["Target"]["Arn"] for schedule in schedules().values()]
    targets += [stack.outputs["SettleFunction"], stack.outputs["AuditFunction"]]
    [api] = stack.noted("AWS::ApiGatewayV2::Api").values()
    targets += re.findall(r"functions/(arn:[^/\"]+)/invocations", json.dumps(api["Body"]))
    targets += [one["Id"] for group in stack.noted("AWS::ElasticLoadBalancingV2::TargetGroup").values() for one in group["Targets"]]
    aliases = {stack.live(logical_id) for _, logical_id, _ in stack.functions()}
    assert len(targets) > 20 and set(targets) <= aliases, set(targets) - aliases
    # The load balancer's permissions are for its targets, as test_entrance.py shows.
    permissions = [one["Properties"] for one in transformed()["Resources"].values() if one["Type"] == "AWS::Lambda::Permission"]
    assert permissions and all(one["FunctionName"]["Ref"].endswith("Aliaslive") for one in permissions)


def test_provisioned_environments_belong_to_the_alias(stack):
    alias = stack.noted("AWS::Lambda::Alias")["GrabAliaslive"]
    expected = {"ProvisionedConcurrentExecutions": 5} if "GrabProvisioned" in stack.parameters else None
    assert alias.get("ProvisionedConcurrencyConfig") == expected


def test_an_unknown_environment_is_named():
    for target in (["deploy", "ONLY=page"], ["destroy"]):
        done = subprocess.run(["make", "-C", ROOT, *target, "ENV=stage"], capture_output=True, text=True)
        assert done.returncode != 0 and "samconfig.toml has no environment stage: it has dev, prod" in done.stderr
