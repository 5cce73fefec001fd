"""`make preflight` names each planted fault, is quiet once it is mended, and only reads."""

import json
import re

import moto
import planted
import pytest
from account import ALARM, make_alarm, make_stack, planting, session
from botocore.exceptions import EndpointConnectionError
from planted import ACCOUNT, FAULTS, NETWORK, WITH_ALL, World, preflight
from transformed import MAIN, REGION, nested, source

import checks


@pytest.fixture(autouse=True)
def emulator():
    with moto.mock_aws():
        yield


def worries(world, subject=None):
    return [one for one in world.findings(subject) if one.kind != "fine"]


@pytest.mark.parametrize("environment", ["dev", "prod"])
def test_a_good_account_is_fine(environment):
    assert worries(World(environment, redis=None)) == []


def test_a_good_account_is_fine_with_all_options():
    world = World()
    world.give(**WITH_ALL)
    assert worries(world) == []


@pytest.mark.parametrize("kind, subject, text, planted, mended", FAULTS, ids=[f"{subject}: {text}" for _, subject, text, *_ in FAULTS])
def test_a_planted_fault_is_named_until_it_is_mended(kind, subject, text, planted, mended):
    world = World()

    def named():
        return [one for one in worries(world, subject) if one.kind == kind and text in one.text]

    world.give(**planted)
    [found] = named()
    assert found.mend, "it says how to mend it"
    world.give(**mended)
    assert not named()
    # The fault was the only one, and mending it broke nothing.
    assert not [one for one in worries(world, subject) if one.kind == "fails"]


def test_the_secret_of_webhooks_obeys_the_rule_of_the_function(repository):
    cases = json.loads((repository / "tests/clients/secrets.json").read_text())
    for case in cases:
        secret, is_good = case["secret"], "refused" not in case and "whsec_" in case["secret"]
        fault = checks.secret_fault(secret)
        assert (fault is None) == is_good, case["name"]
        assert not fault or secret[6:12] not in fault or len(secret) < 12, case["name"]


def test_it_only_reads():
    worlds = [World("dev"), World(), World(), World()]
    worlds[1].give(**WITH_ALL)
    worlds[2].give(**NETWORK)
    worlds[3].give(Redis="serverless", Page="true")
    make_stack(worlds[3].stack)
    for world in worlds:
        before = state()
        world.findings()
        assert world.calls and all(re.match("(Describe|List|Get)[A-Z]", name) for name in world.calls)
        assert state() == before


def state():
    """What moto holds, in part: names of what a careless check could make."""
    return (
        len(planting("ec2").describe_vpcs()["Vpcs"]),
        planting("dynamodb").list_tables()["TableNames"],
        len(planting("iam").list_roles()["Roles"]),
        [one["StackName"] for one in planting("cloudformation").describe_stacks()["Stacks"]],
    )


@pytest.mark.parametrize(
    "service, operation, given",
    [
        ("dynamodb", "delete_table", {"TableName": "t"}),
        ("cloudformation", "delete_stack", {"StackName": "s"}),
        ("lambda", "invoke", {"FunctionName": "f"}),
        (
            "service-quotas",
            "request_service_quota_increase",
            {"ServiceCode": "vpc", "QuotaCode": "L-F678F1CE", "DesiredValue": 9},
        ),
    ],
)
def test_its_clients_refuse_whatever_could_change_something(service, operation, given):
    with pytest.raises(preflight.NotARead):
        getattr(World().account().client(service), operation)(**given)


def test_what_an_existing_stack_has_is_no_collision():
    world = World()
    name = f"{world.stack}-ApiFaults"
    resource = {"Type": "AWS::CloudWatch::Alarm", "Properties": ALARM | {"AlarmName": name}}
    make_stack(world.stack, {"ApiFaults": resource})
    assert worries(world, "names") == []
    planting("cloudformation").delete_stack(StackName=world.stack)
    make_alarm(name)
    [found] = worries(world, "names")
    assert "ApiFaults" in found.text


# The properties that name a resource which must be the only one of that name. Pools may share a name.
NAMING = {"Name", "Domain", "UserId", "UserGroupId", "ReplicationGroupId"} | {
    f"{kind}Name" for kind in ("Alarm", "Dashboard", "ServerlessCache", "Bucket")
}
NAMING |= {
    f"{kind}Name"
    for kind in ("Table", "Function", "Role", "ManagedPolicy", "LogGroup", "Queue", "Topic", "StateMachine")
}


def named_in(value, world):
    """The names that begin with the stack's, in the properties of a resource."""
    known = {"Name": world.stack, "AWS::StackName": world.stack, "AWS::Region": REGION, "AWS::AccountId": ACCOUNT, "RedisGeneration": "1"}
    for key, inner in value.items() if isinstance(value, dict) else ():
        if key in NAMING and isinstance(inner, dict):
            text = inner.get("Fn::Sub") or f"${{{inner.get('Ref')}}}"
            for part, of in known.items():
                text = str(text).replace(f"${{{part}}}", of)
            # Services prescribe how some names begin.
            if text.removeprefix("/aws/vendedlogs/").startswith(world.stack):
                yield text
        elif key != "Parameters":
            yield from named_in(inner, world)


def test_it_knows_each_name_that_a_template_gives():
    world, given = World(), set()
    for file in [MAIN, *nested().values()]:
        for resource in source(file)["Resources"].values():
            # A loop makes alarms only. An alarm's name is found by how it begins.
            if isinstance(resource, dict) and resource["Type"] != "AWS::CloudWatch::Alarm":
                given |= set(named_in(resource.get("Properties", {}), world))
    known = set()
    for redis in ("nodes", "serverless"):
        world.give(Redis=redis, Page="true", Events="true", EntranceDomain="api.example")
        known |= {name for _, name, _ in checks.fixed_names(world.account())}
    assert given == known


def test_what_it_may_not_read_is_not_called_fine():
    world = World()
    world.answers["GetAccountSettings"] = "AccessDeniedException"
    [found] = worries(world)
    assert (found.subject, found.kind) == ("lambda concurrency", "unknown")
    assert "GetAccountSettings" in found.text


def test_a_service_that_the_region_lacks_is_not_called_fine():
    def absent(given):
        raise EndpointConnectionError(endpoint_url="https://dynamodb.example")

    world = World()
    world.answers["DescribeLimits"] = absent
    [found] = worries(world, "dynamodb")
    assert found.kind == "unknown" and "https://dynamodb.example" in found.text


def printed(monkeypatch, capsys, world, *arguments):
    monkeypatch.setattr(preflight, "session", session)
    monkeypatch.setattr(preflight.Account, "fault_of_cli", staticmethod(world.fault_of_cli))
    monkeypatch.setattr(preflight, "Environment", lambda name: world.environment)
    monkeypatch.setattr("sys.argv", ["preflight.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        preflight.main()
    return ended.value.code, capsys.readouterr().out


def test_its_exit_code_and_its_last_line(monkeypatch, capsys):
    world = World()
    code, text = printed(monkeypatch, capsys, world, "prod")
    assert code == 0 and f"account {ACCOUNT}" in text
    assert text.rstrip().endswith("Next: make deploy ENV=prod")
    world.answers["GetAccountSettings"] = planted.executions(100, 100)
    code, text = printed(monkeypatch, capsys, world, "prod")
    assert code == 1 and "1 will fail" in text
    assert re.search(r"FAIL +lambda concurrency +SettleConcurrency=10 .*\n +mend: raise the quota", text)


def test_wrong_parameters_are_named_before_a_check_uses_them(monkeypatch, capsys):
    world = World()
    world.environment.parameters["GrabRates"] = "5000"
    world.give(RestoredTable="restored", BackupVaultArn="vault", GrabRate="many", RedisUrl="of-the-password")
    code, text = printed(monkeypatch, capsys, world, "prod")
    assert code == 1 and text.count("FAIL") == 5 and not world.calls and "of-the-password" not in text
    assert "no parameter GrabRates" in text and "perhaps GrabRate" in text


def test_a_region_that_is_not_enabled_is_named_before_anybody_signs_in(monkeypatch, capsys):
    world = World()
    world.answers |= {"DescribeRegions": planted.regions("not-opted-in"), "GetCallerIdentity": "InvalidClientTokenId"}
    code, text = printed(monkeypatch, capsys, world, "prod")
    assert code == 1 and "mend: aws account enable-region --region-name ap-east-1" in text


def test_an_account_without_elasticaches_role_is_not_called_fine():
    world = World()
    world.answers |= {"DescribeUsers": "ServiceLinkedRoleNotFoundFault", "GetRole": "NoSuchEntity"}
    found = {one.subject: one for one in worries(world)}
    assert found["redis' role"].mend == "aws iam create-service-linked-role --aws-service-name elasticache.amazonaws.com"
    assert "ServiceLinkedRoleNotFoundFault" in found["names"].text
