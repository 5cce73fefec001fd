"""`make spike` says of each thing that it tries whether it held, and deletes its stack whatever happens.

The stack is moto's. What moto lacks, the test answers: the rights of the role (by the rules of policies.py), the access log,
ElastiCache, and what CloudFormation reads from a secret."""

import datetime
import io
import json
import socket
import ssl
import time

import account
import emulated
import moto
import pytest
from account import Clock, make_stack, session
from emulated import client
from moto.cloudformation import parsing
from policies import allows, statements_of
from test_redis import running, vectors
from transformed import REGION, source

import caller
import spike

STACK = "hongbao-dev-spike"
KEY = 64 * "k"


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr(spike, "time", Clock())
    monkeypatch.setattr(spike, "read", source)
    with moto.mock_aws():
        parsing.get_model_map().update(emulated.OURS)
        yield


@pytest.fixture(scope="module", autouse=True)
def redis(tmp_path_factory):
    with running(tmp_path_factory.mktemp("redis")) as Spiked.redis:
        yield


def writes(given):
    """Each write of a request: its action, its key and the operation that encloses it."""
    if "TransactItems" not in given:
        return [("dynamodb:PutItem", given["Item"]["PK"]["S"], {})]
    enclosed = {"dynamodb:EnclosingOperation": ["TransactWriteItems"]}
    items = [next(iter(item.items())) for item in given["TransactItems"]]
    return [(f"dynamodb:{kind}Item", write.get("Item", write.get("Key"))["PK"]["S"], enclosed) for kind, write in items]


def users(status):
    return {"Users": [{"UserId": "u", "Status": status, "AccessString": "on ~hb:*"}]}


def cache(status):
    return {"ServerlessCaches": [{"Status": status, "Engine": "valkey", "FullEngineVersion": "9.0"}]}


def edge_header(value):
    headers = {"Items": [{"HeaderName": "X-Edge-Key", "HeaderValue": value}]}
    return {"DistributionConfig": {"Origins": {"Items": [{"Id": "api", "CustomHeaders": headers}]}}}


def failed(_):
    """The stack's resources, of which a user is not made."""
    made = {"AccessLogs", "Api", "Stage", "Table", "Writer", "RedisReader", "EdgeKey", "Distribution"}
    reasons = {"RedisUser": "AccessString is invalid", "RedisUsers": "Resource creation cancelled"}
    ids = {one["LogicalResourceId"]: one["PhysicalResourceId"] for one in client("cloudformation").describe_stack_resources(StackName=STACK)["StackResources"]}
    found = [(name, "CREATE_COMPLETE", "") for name in made] + [(name, "CREATE_FAILED", why) for name, why in reasons.items()]
    return {
        "StackResourceSummaries": [
            {"LogicalResourceId": name, "PhysicalResourceId": ids.get(name, ""), "ResourceStatus": status, "ResourceStatusReason": why}
            for name, status, why in found
        ]
    }


TIMED_OUT = {"FunctionError": "Unhandled", "Payload": io.BytesIO(b'{"errorMessage": "Task timed out"}')}
ANSWERS = {
    "DescribeUsers": users("active"),
    "DescribeServerlessCaches": cache("available"),
    "GetSecretValue": {"SecretString": KEY},
    "GetDistributionConfig": edge_header(KEY),
}
# Faults that are another answer.
PLANTED = {
    "a user is not active": {"DescribeUsers": users("modifying")},
    "no cache": {"DescribeServerlessCaches": cache("create-failed")},
    "the reference itself": {"GetDistributionConfig": edge_header("{{resolve:secretsmanager:x}}")},
    "no settings": {"GetStage": {"StageName": "$default", "RouteSettings": {}}},
    "another error": {"GetStage": "InternalError"},
    "the role is not assumed": {"AssumeRole": "AccessDeniedException"},
    "the function times out": {"Invoke": TIMED_OUT},
    "a resource fails": {"ListStackResources": failed},
}


class Spiked(account.Account):
    """An account in which all of it holds, except for `fault`."""

    # The cache: a real server, which takes any password.
    redis = None

    def __init__(self, monkeypatch, fault=None):
        own = {"TransactWriteItems": self.write, "PutItem": self.write, "Invoke": self.invoked}
        super().__init__(ANSWERS | own | PLANTED.get(fault, {}))
        self.fault, self.monkeypatch = fault, monkeypatch
        monkeypatch.setattr(spike, "fetch", self.fetch)

    def fetch(self, url):
        if self.fault == "interrupted":
            raise KeyboardInterrupt
        group, logs = f"/aws/vendedlogs/{STACK}/access", client("logs")
        logs.create_log_stream(logGroupName=group, logStreamName="s")
        status = "200" if self.fault == "a line of another request" else "403"
        line = "{broken" if self.fault == "a line without a form" else json.dumps({"status": status, "route": "GET /spike"})
        if self.fault != "no line":
            logs.put_log_events(logGroupName=group, logStreamName="s", logEvents=[{"timestamp": int(time.time() * 1000), "message": line}])
        return 403

    def write(self, given):
        """By the rights of the role; what is allowed, moto does."""
        [role] = [one for one in client("iam").list_roles()["Roles"] if "Writer" in one["RoleName"]]
        statements = statements_of(role["RoleName"])
        [table] = client("dynamodb").list_tables()["TableNames"]
        arn = client("dynamodb").describe_table(TableName=table)["Table"]["TableArn"]
        for action, key, context in writes(given) if self.fault != "no conditions" else []:
            keys = {} if self.fault == "no keys in transactions" and context else {"dynamodb:LeadingKeys": [key]}
            if self.fault == "writes alone":
                context = {"dynamodb:EnclosingOperation": ["TransactWriteItems"]}
            if self.fault == "own keys are refused" or not allows(statements, action, arn, context | keys):
                return "AccessDeniedException"
        return None

    def invoked(self, given):
        return {"Payload": io.BytesIO(json.dumps(self.invoke(json.loads(given["Payload"]))).encode())}

    def invoke(self, commands):
        """What the function of the stack answers. Its user may do in the server what the stack's user may."""
        user, access = f"{STACK}-functions", spike.template()["Resources"]["RedisUser"]["Properties"]["AccessString"].split()
        if self.fault == "a script may not add to a queue":
            access.append("-zadd")
        self.redis.flushall()
        self.redis.execute_command("ACL", "SETUSER", user, "reset", "nopass", *access)
        if self.fault == "no user":
            self.redis.execute_command("ACL", "DELUSER", user)
        connected = socket.socket(socket.AF_UNIX)
        connected.connect(self.redis.connection_pool.connection_kwargs["path"])
        with self.monkeypatch.context() as patch:
            patch.setattr(caller, "REDIS_USER", user)
            patch.setattr(caller, "CACHE", "cache")
            patch.setattr(caller, "PORT", "6379")
            patch.setattr(socket, "create_connection", lambda *_: connected)
            patch.setattr(ssl.SSLContext, "wrap_socket", lambda _, plain, **__: plain)
            return caller.handler(commands, None)


def run(monkeypatch, fault=None):
    """Whether all held, and the kind and the text of each subject."""
    Spiked(monkeypatch, fault)
    out = io.StringIO()
    held = spike.Spike(session(REGION, may_write=True), STACK).prove(spike.template(), out)
    lines = [line for line in out.getvalue().splitlines() if line.startswith("  ")]
    return held, {line[8:26].strip(): (line[:8].strip(), line[27:]) for line in lines}


def is_gone():
    stacks = client("cloudformation").describe_stacks()["Stacks"]
    return not stacks and not client("dynamodb").list_tables()["TableNames"]


def test_where_all_of_it_holds_it_says_so_and_deletes_the_stack(monkeypatch):
    held, found = run(monkeypatch)
    assert held and {kind for kind, _ in found.values()} == {"held"}, found
    assert set(found) == {subject for subject, _, _ in spike.TRIES} and len(found) == 7
    assert is_gone()


@pytest.mark.parametrize(
    "fault, subject, kind, text",
    [
        ("no line", "access log", "no", "no line arrived within 300 s"),
        ("a line of another request", "access log", "no", "was answered 403"),
        ("a line without a form", "access log", "no", "a line is no JSON"),
        ("no settings", "route settings", "no", "Rate=7 became nothing"),
        ("another error", "route settings", "?", "InternalError"),
        ("no conditions", "leading keys", "no", "another's key is allowed"),
        ("no keys in transactions", "leading keys", "no", "another's key is allowed"),
        ("own keys are refused", "leading keys", "no", "own keys is refused"),
        ("writes alone", "leading keys", "no", "a write without a transaction is allowed"),
        ("the role is not assumed", "leading keys", "no", "your credentials need sts:AssumeRole"),
        ("a user is not active", "redis' users", "no", "RedisUser is modifying"),
        ("no cache", "serverless redis", "no", "the cache is create-failed"),
        ("no user", "scripts", "no", "the function cannot sign in: {'error': 'WRONGPASS"),
        ("the function times out", "scripts", "no", "the function in the network fails: Task timed out"),
        ("the reference itself", "edge header", "no", "28 characters that are not the secret's 64"),
    ],
)
def test_what_does_not_hold_is_named(monkeypatch, fault, subject, kind, text):
    held, found = run(monkeypatch, fault)
    seen = found.pop(subject)
    assert not held and seen[0] == kind and text in seen[1]
    # The fault was the only one.
    assert {other for other, _ in found.values()} == {"held"}
    assert is_gone()


@pytest.mark.parametrize("vector", [one for one in vectors() if one["serverless"]], ids=lambda one: one["user"])
def test_the_function_signs_in_as_the_engine_does(monkeypatch, vector):
    monkeypatch.setattr(caller, "CACHE", vector["cache"])
    monkeypatch.setattr(caller, "REDIS_USER", vector["user"])
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: datetime.datetime.fromisoformat(vector["at"]))
    given = {"AWS_ACCESS_KEY_ID": vector["access_key_id"], "AWS_SECRET_ACCESS_KEY": vector["secret_access_key"]}
    for name, value in (given | {"AWS_DEFAULT_REGION": vector["region"], "AWS_SESSION_TOKEN": vector.get("session_token", "")}).items():
        monkeypatch.setenv(name, value)
    assert caller.token() == vector["token"]


def test_each_script_that_ships_runs_and_does_its_work(monkeypatch):
    made = spike.calls()
    assert {call[0] for call in made} == {*(emulated.ROOT / "shared/src/redis/lua").glob("*.lua"), *(emulated.ROOT / "admin/src").glob("*.lua")}
    signed_in, *answers = Spiked(monkeypatch).invoke([spike.evaluation(*call) for call in made])
    found = dict(zip((call[0].stem for call in made), answers))
    assert signed_in == "OK" and found["load"] == found["reconcile"] == found["close"] == 1 and found["mend"] == 0
    bob, no = found["grab"].split(",")
    assert bob.startswith("1:") and no == "p" and found["part_state"][1:3] == [0, 2]
    expiry, *held = found["outbox"]
    holds = dict(zip(held[::2], held[1::2]))
    assert expiry == "4102444800000" and holds["alice"].startswith("h0:") and holds["bob"].startswith("h1:")
    assert "g0:1:1" in found["inspect"][0], "the ledger's decision"


def test_each_script_that_the_cache_refuses_is_named(monkeypatch):
    held, found = run(monkeypatch, "a script may not add to a queue")
    kind, text = found["scripts"]
    assert not held and kind == "no" and [one.split(":")[0] for one in text.split("; ")] == ["grab.lua", "grab.lua", "mend.lua"], text


def test_a_resource_that_fails_gives_its_reason_and_stops_no_other_try(monkeypatch):
    held, found = run(monkeypatch, "a resource fails")
    assert not held and found["redis' users"][0] == "no" and "AccessString is invalid" in found["redis' users"][1]
    assert found["access log"][0] == found["leading keys"][0] == "held"
    assert is_gone()


def test_it_deletes_its_stack_after_an_interruption(monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        run(monkeypatch, "interrupted")
    assert is_gone()


def test_a_stack_that_stays_is_named(monkeypatch):
    Spiked(monkeypatch)
    make_stack(STACK)
    monkeypatch.setattr(spike.Spike, "rests", lambda _: "DELETE_FAILED")
    with pytest.raises(spike.Wrong, match=f"{STACK} could not be deleted"):
        spike.Spike(session(REGION, may_write=True), STACK).delete()


def test_it_deletes_a_stack_that_an_earlier_run_left(monkeypatch):
    make_stack(STACK)
    assert run(monkeypatch)[0] and is_gone()


def test_it_tries_what_the_templates_say():
    made = json.dumps(spike.template())
    assert "of the templates" not in made
    for text in ("~hb:*", "SLIPS#*", "$context.routeKey", "/aws/vendedlogs/", "{{resolve:secretsmanager:${EdgeKeyArn}}}", "PasswordLength"):
        assert text in made
