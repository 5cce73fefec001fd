"""`make smoke ENV=…` passes on a deployment that is right, and names each planted fault at its step.

The API is a stand-in, which checks tokens and signatures as API Gateway would; the stack, the user pool, the alarms and the
table are moto's. moto runs no function, so the test answers the calls of settle and audit. CI runs the same steps on a real
local stack: `make smoke`.
"""

import functools
import http.server
import io
import json
import re
import threading
import time

import boto3
import moto
import pytest
import stand_in
from planted import make_alarm, make_table, planting
from transformed import REGION

import places
import smoke

STACK = "hongbao-test"
REPORT = {
    "packets": 9,
    "wallets": 9,
    "imbalance_count": 0,
    "imbalances": [],
    "unjudged_count": 0,
    "unjudged": [],
    "in_wallets": 0,
    "in_pending": 0,
    "in_slips": 0,
    "next": None,
}


class Clock:
    """Only sleeping moves it, so that no test waits for what expires."""

    def __init__(self):
        self.now_s = 0.0

    def monotonic(self):
        return self.now_s

    def sleep(self, seconds):
        self.now_s += seconds

    def __getattr__(self, name):
        return getattr(time, name)


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    clock = Clock()
    for module in (places, smoke, stand_in):
        monkeypatch.setattr(module, "time", clock)


@functools.cache
def session():
    """One for all tests, since making a client takes a second."""
    session = boto3.session.Session(region_name=REGION)
    session.events.register("before-call.lambda.Invoke", lambda **given: Deployed.current.invoke(**given))
    made = functools.cache(session.client)
    session.client = lambda service, config: made(service)
    return session


class Deployed:
    """A stack in the emulator, with a stand-in as its API."""

    current = None

    def __init__(self, fault=None, protected=False, users_elsewhere=False, balancer=False):
        Deployed.current = self
        self.engine, self.events, self.reports = stand_in.Engine(fault), [], [dict(REPORT)]
        self.cognito = planting("cognito-idp")
        pool = self.cognito.create_user_pool(PoolName=STACK)["UserPool"]["Id"]
        client = self.cognito.create_user_pool_client(
            UserPoolId=pool, ClientName="c", ExplicitAuthFlows=["ALLOW_ADMIN_USER_PASSWORD_AUTH"]
        )
        client = client["UserPoolClient"]["ClientId"]
        keys = boto3.session.Session().get_credentials().get_frozen_credentials()
        self.api = stand_in.Api(self.engine, REGION, keys, client)
        self.edge = stand_in.Api(self.engine, REGION, keys, client) if users_elsewhere else None
        make_table("table", DeletionProtectionEnabled=protected)
        outputs = {"ApiUrl": self.api.url, "UserPoolId": pool, "UserPoolClientId": client, "TableName": "table"}
        outputs |= {"SettleFunction": "settle-function", "AuditFunction": "audit-function"}
        outputs |= {"UsersUrl": self.edge.url} if self.edge else {}
        self.balancer = stand_in.Api(self.engine, REGION, keys, client) if balancer else None
        if self.balancer:
            outputs["EntranceUrl"] = self.balancer.url
        body = {
            "Resources": {"Queue": {"Type": "AWS::SQS::Queue"}},
            "Outputs": {name: {"Value": value} for name, value in outputs.items()},
        }
        planting("cloudformation").create_stack(StackName=STACK, TemplateBody=json.dumps(body))
        self.pool = pool
        for name in ("FunctionErrors", "ApiFaults"):
            self.alarm(f"{STACK}-{name}", "OK")

    def alarm(self, name, state):
        make_alarm(name)
        planting("cloudwatch").set_alarm_state(AlarmName=name, StateValue=state, StateReason="planted")

    def place(self, tokens=None, base_path=None):
        return places.Deployment(STACK, session(), tokens, url=base_path and self.api.url + base_path)

    def invoke(self, params, **_):
        """moto has no such functions; the request is as botocore would send it."""
        name = params["url_path"].split("/")[-2]
        event = json.loads(params["body"])
        self.events.append((name, event))
        answer = (
            self.engine.settle()
            if name == "settle-function"
            else self.reports.pop(0) if len(self.reports) > 1 else self.reports[0]
        )
        response = {"StatusCode": 200, "Payload": io.BytesIO(json.dumps(answer).encode())}
        if "errorType" in answer:
            response["FunctionError"] = "Unhandled"
        return type("Response", (), {"status_code": 200}), response

    def users(self):
        return self.cognito.list_users(UserPoolId=self.pool)["Users"]


@pytest.fixture
def deploy():
    made = []

    def deployed(**given):
        made.append(Deployed(**given))
        return made[-1]

    with moto.mock_aws():
        yield deployed
        for api in (api for one in made for api in (one.api, one.edge, one.balancer) if api):
            api.close()


def prove(place, users=10, **given):
    out = io.StringIO()
    right = smoke.prove(place, users, out=out, **given)
    return right, out.getvalue()


def test_a_deployment_that_is_right_passes(deploy):
    deployed = deploy()
    right, text = prove(deployed.place(), users=50)
    assert right, text
    assert "50 users at once: 20 won, 30 heard sold_out" in text and "2 alarms: 2 OK" in text
    assert [name for name in re.findall(r"^  (\w[\w ]*?) +\d+\.\d s", text, re.M)] == list(smoke.Smoke.STEPS)
    # It leaves neither money nor users.
    assert not any(deployed.engine.balances.values()) and not deployed.users()
    audits = [event for name, event in deployed.events if name == "audit-function"]
    assert [list(event) for event in audits] == [["since_ms"]]


def test_where_a_web_acl_stands_before_users_the_operator_goes_to_the_api(deploy):
    deployed = deploy(users_elsewhere=True)
    deployed.api.refuses_users = True
    right, text = prove(deployed.place())
    assert right and "round the web ACL 403" in text, text
    deployed.api.refuses_users = False
    right, text = prove(deployed.place())
    assert not right and "round the web ACL: expected 403" in text, text


@pytest.mark.parametrize("base_path", ["/hongbao", "/api/hongbao/"])
def test_a_deployment_passes_at_a_custom_domain_with_a_base_path(deploy, base_path):
    deployed = deploy()
    deployed.api.base_path = base_path.rstrip("/")
    right, text = prove(deployed.place(base_path=base_path))
    assert right, text
    assert base_path.rstrip("/") in text


def test_the_users_come_through_the_load_balancer_if_there_is_one(deploy):
    deployed = deploy(balancer=True)
    right, text = prove(deployed.place())
    assert right and deployed.balancer.url in text, text
    assert deployed.balancer.asked == {"packets", "me"}
    assert deployed.api.asked == {"wallets", "users", "operator"}


# The step that must name it.
FAULTS = {
    "the operator's door is open": "refuse",
    "deposits count twice": "deposit",
    "an id takes any amount": "deposit",
    "a key takes any packet": "send",
    "a send counts twice": "send",
    "one slip too many": "grab",
    "amounts are short": "grab",
    "losers hear expired": "grab",
    "a replay has another amount": "replay",
    "a replay looks new": "replay",
    "the commitment is another": "look",
    "a claim is not listed": "look",
    "the best is not the largest": "look",
    "a view for a user is another": "for users",
    "a grab for a user is another's": "for users",
    "a reference finds nothing": "for users",
    "a passphrase is not needed": "passphrase",
    "a winner is asked again": "passphrase",
    "a settled packet forgets": "refund",
    "an expired packet is open": "refund",
    "settle does nothing": "refund",
    "a refund is short": "refund",
    "settle parks a hold": "refund",
    "a suspended user sends": "suspend",
    "a suspended user withdraws": "suspend",
    "a suspension stays": "suspend",
    "a closed packet is open": "close",
    "a close counts twice": "close",
    "a closed packet keeps the rest": "close",
    "a winner is not paid": "wallets",
    "the operator sees more": "wallets",
    "a movement is not listed": "wallets",
    "a user sees the signer": "wallets",
    "a wallet goes below zero": "withdraw",
    "withdrawals count twice": "withdraw",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_engine_is_named_at_its_step(deploy, fault):
    deployed = deploy(fault=fault)
    right, text = prove(deployed.place())
    assert not right
    [step] = re.findall(r"^  (\w[\w ]*?) +\d+\.\d s  FAIL", text, re.M)
    assert step == FAULTS[fault], text
    assert not deployed.users(), "the users that it made are gone"


def test_requests_that_fail_for_a_moment_are_repeated(deploy):
    right, text = prove(deploy(fault="every ninth request fails").place())
    assert right, text
    assert "requests were repeated" in text


def test_an_imbalance_is_named(deploy):
    deployed = deploy()
    deployed.reports = [REPORT | {"imbalance_count": 1, "imbalances": ["planted"]}]
    right, text = prove(deployed.place())
    assert not right and re.search(r"audit .*FAIL .*planted", text)


def test_an_audit_that_its_deadline_ended_is_continued(deploy):
    deployed = deploy()
    deployed.reports = [REPORT | {"next": {"resume": {"report": {}}}}, REPORT]
    right, text = prove(deployed.place())
    assert right, text
    assert ("audit-function", {"resume": {"report": {}}}) in deployed.events


def test_a_function_that_fails_is_named(deploy):
    deployed = deploy()
    deployed.reports = [{"errorType": "Crash", "errorMessage": "planted"}]
    right, text = prove(deployed.place())
    assert not right and re.search(r"audit .*FAIL .*planted", text)


def test_an_alarm_that_fires_is_named(deploy):
    deployed = deploy()
    deployed.alarm(f"{STACK}-2-ApiFaults", "ALARM")
    right, text = prove(deployed.place())
    assert right, "an alarm of another stack is none of ours"
    deployed.alarm(f"{STACK}-ApiFaults", "ALARM")
    right, text = prove(deployed.place())
    assert not right and re.search(r"alarms .*FAIL +ApiFaults \(planted\)", text)


def test_users_tokens_can_be_given(deploy, tmp_path):
    deployed = deploy()
    place = deployed.place()
    tokens = [user.headers["Authorization"].removeprefix("Bearer ") for user in place.people("given", 11)]
    place.made = []
    file = tmp_path / "tokens"
    file.write_text("\n".join(tokens))
    first = places.subject(tokens[0])
    # The sender of the tokens has money already, which must stay.
    deployed.engine.move(first, 7)
    right, text = prove(deployed.place(file))
    assert right, text
    assert deployed.engine.balances[first] == 7 and len(deployed.users()) == 11
    with pytest.raises(places.Wrong, match="tokens of 12 users"):
        deployed.place(file).people("few", 12)


def test_a_protected_deployment_is_not_torn_down(deploy):
    with pytest.raises(SystemExit, match="refused"):
        deploy(protected=True).place().check_teardown()


def test_teardown_deletes_all_that_outlives_the_stack(deploy):
    deployed = deploy()
    place = deployed.place()
    place.check_teardown()
    right, text = prove(place, teardown=True)
    assert right, text
    assert planting("dynamodb").list_tables()["TableNames"] == []
    assert deployed.cognito.list_user_pools(MaxResults=9)["UserPools"] == []
    assert (
        planting("cloudformation").list_stacks(StackStatusFilter=["CREATE_COMPLETE"])["StackSummaries"]
        == []
    )
    assert deployed.events[-1] == ("audit-function", {"full": True})


def test_teardown_keeps_a_ledger_with_money(deploy):
    deployed = deploy()
    deployed.reports = [REPORT, REPORT | {"in_wallets": 5}]
    right, text = prove(deployed.place(), teardown=True)
    assert not right and "nothing is deleted" in text
    assert planting("dynamodb").list_tables()["TableNames"] == ["table"]


def test_a_stack_without_the_outputs_is_refused(deploy):
    deploy()
    body = {"Resources": {"Queue": {"Type": "AWS::SQS::Queue"}}, "Outputs": {"ApiUrl": {"Value": "http://127.0.0.1"}}}
    planting("cloudformation").create_stack(StackName="older", TemplateBody=json.dumps(body))
    with pytest.raises(places.Wrong, match="no output AuditFunction, SettleFunction, TableName"):
        places.Deployment("older", session())


def test_a_stack_that_is_not_complete_is_refused(deploy):
    deployed = deploy()
    from moto.cloudformation.models import cloudformation_backends

    cloudformation_backends["123456789012"][REGION].get_stack(STACK).status = "UPDATE_IN_PROGRESS"
    with pytest.raises(places.Wrong, match="UPDATE_IN_PROGRESS"):
        deployed.place()


@pytest.fixture
def server():
    """A server that answers each GET with `status` and `body`."""

    class Handler(http.server.BaseHTTPRequestHandler):
        status, body = 401, b'{"code": "unauthenticated"}'

        def do_GET(self):
            self.send_response(self.status)
            self.end_headers()
            self.wfile.write(self.body)

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", Handler
        server.shutdown()


def test_a_wrong_address_and_missing_stores_are_refused_at_the_start(server, tmp_path):
    url, handler = server
    stores = tmp_path / "stores.env"
    with pytest.raises(places.Wrong, match="there is no .*stores.env: STORES="):
        places.Local(tmp_path, url, stores)
    stores.write_text("")
    assert places.Local(tmp_path, url, stores).name.endswith(url)
    handler.status, handler.body = 200, b"<html>"
    with pytest.raises(places.Wrong, match="is not this API: /me/wallet answered 200"):
        places.Local(tmp_path, url, stores)
    with pytest.raises(places.Wrong, match="http://127.0.0.1:1 does not answer: .* `make run` starts a stack"):
        places.Local(tmp_path, "http://127.0.0.1:1", stores)
