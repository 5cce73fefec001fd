"""`make smoke ENV=…` passes on a deployment that is right, and names each planted fault at its step.

The functions are those of a local stack, behind a stand-in for API Gateway; the stack, the user pool, the alarms and the table are moto's.
The audit's report is the test's. CI runs the same steps on a real local stack: `make smoke`.
"""

import http.server
import io
import itertools
import json
import math
import re
import threading

import account
import boto3
import moto
import pytest
import rehearsal
from account import Clock, make_alarm, make_stack, make_table, planting
from gateway import Gateway
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


@pytest.fixture(scope="module")
def engine():
    engine = rehearsal.Engine(subcommand="sandbox")
    yield engine
    engine.close()


@pytest.fixture(autouse=True)
def clock(monkeypatch, engine):
    def slept(seconds):
        # The stack's clock moves too.
        if seconds >= 1:
            rehearsal.ask(f"{engine.url}/_local/clock", "POST", {"advance_s": math.ceil(seconds)})

    for module in (places, smoke):
        monkeypatch.setattr(module, "time", Clock(slept))


class Deployed(account.Account):
    """A stack in the emulator, with a gateway before the functions of the engine."""

    def __init__(self, engine, fault=None, protected=False, users_at=None):
        super().__init__({"Invoke": self.invoke})
        self.engine, self.settled, self.events, self.reports = engine, {}, [], [dict(REPORT)]
        self.cognito = planting("cognito-idp")
        self.pool = self.cognito.create_user_pool(PoolName=STACK)["UserPool"]["Id"]
        client = self.cognito.create_user_pool_client(
            UserPoolId=self.pool, ClientName="c", ExplicitAuthFlows=["ALLOW_ADMIN_USER_PASSWORD_AUTH"]
        )
        client = client["UserPoolClient"]["ClientId"]
        keys = boto3.session.Session().get_credentials().get_frozen_credentials()
        self.api, self.users_api = (Gateway(engine.url, keys, client, fault) for _ in range(2))
        make_table("table", DeletionProtectionEnabled=protected)
        outputs = {"ApiUrl": self.api.url, "UserPoolId": self.pool, "UserPoolClientId": client, "TableName": "table"}
        outputs |= {"SettleFunction": "settle-function", "AuditFunction": "audit-function"}
        make_stack(STACK, outputs=outputs | ({users_at: self.users_api.url} if users_at else {}))
        for name in ("FunctionErrors", "ApiFaults"):
            self.alarm(f"{STACK}-{name}", "OK")

    def alarm(self, name, state):
        make_alarm(name)
        planting("cloudwatch").set_alarm_state(AlarmName=name, StateValue=state, StateReason="planted")

    def place(self, tokens=None, base_path=None):
        return places.Deployment(STACK, account.session(REGION, may_write=True), tokens, url=base_path and self.api.url + base_path)

    def invoke(self, given):
        """moto has no such functions."""
        name, event = given["FunctionName"], json.loads(given["Payload"])
        self.events.append((name, event))
        if name == "settle-function":
            answer = json.loads(self.engine.settle()) | self.settled
        else:
            answer = self.reports.pop(0) if len(self.reports) > 1 else self.reports[0]
        failed = {"FunctionError": "Unhandled"} if "errorType" in answer else {}
        return {"StatusCode": 200, "Payload": io.BytesIO(json.dumps(answer).encode())} | failed

    def users(self):
        return self.cognito.list_users(UserPoolId=self.pool)["Users"]


@pytest.fixture
def deploy(engine):
    made = []

    def deployed(**given):
        made.append(Deployed(engine, **given))
        return made[-1]

    with moto.mock_aws():
        yield deployed
        for one in made:
            one.api.close()
            one.users_api.close()


def prove(place, users=10, **given):
    out = io.StringIO()
    right = smoke.prove(place, users, out=out, **given)
    return right, out.getvalue()


def failed_step(text):
    return re.findall(r"^  (\w[\w ]*?) +\d+\.\d s  FAIL", text, re.M)


def test_a_deployment_that_is_right_passes(deploy):
    deployed = deploy()
    right, text = prove(deployed.place(), users=50)
    assert right, text
    assert "50 users at once: 20 won, 30 heard sold_out" in text and "2 alarms: 2 OK" in text
    assert [name for name in re.findall(r"^  (\w[\w ]*?) +\d+\.\d s", text, re.M)] == list(smoke.Smoke.STEPS)
    assert not deployed.users(), "it leaves none"
    audits = [event for name, event in deployed.events if name == "audit-function"]
    assert [list(event) for event in audits] == [["since_ms"]]


def test_where_a_web_acl_stands_before_users_the_operator_goes_to_the_api(deploy):
    deployed = deploy(users_at="UsersUrl")
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
    deployed = deploy(users_at="EntranceUrl")
    right, text = prove(deployed.place())
    assert right and deployed.users_api.url in text, text
    assert set(deployed.users_api.asked) == {"packets", "me"}
    assert set(deployed.api.asked) == {"wallets", "users", "operator"}


GRAB, LOOK, SEND = "POST /packets/[^/]+/grab", "GET /packets/[^/]+", "POST /packets"
DEPOSIT, WITHDRAWAL = "PUT /wallets/[^/]+/deposits/.+", "PUT /wallets/[^/]+/withdrawals/.+"
OPERATORS_LOOK, MOVEMENTS, CLOSE = "GET /wallets/[^/]+", "GET /wallets/[^/]+/movements", "POST /operator/packets/[^/]+/close"
WON = {"outcome": "grabbed", "slip": 0, "amount": 1, "replayed": False}
numbers = itertools.count()


def plus(field, by=1):
    return lambda answer: {field: answer[field] + by}


def all_but_one(field):
    return lambda answer: {field: answer[field][1:]}


def not_the_best(answer):
    return {"best": answer["best"] | {"amount": answer["best"]["amount"] - 1}} if answer.get("best") else {}


# The step that must name it, and the fault, as class Gateway takes it.
FAULTS = {
    "deposits count twice": ("deposit", DEPOSIT, {"http": 200}, plus("balance")),
    "an id takes any amount": ("deposit", DEPOSIT, {"http": 422}, {"http": 200}),
    "a key takes any packet": ("send", SEND, {"http": 422}, {"http": 200}),
    "a send counts twice": ("send", SEND, {"http": 200}, {"packet_id": "another"}),
    "one slip too many": ("grab", GRAB, {"outcome": "sold_out"}, WON),
    "amounts are short": ("grab", GRAB, {"slip": 0}, plus("amount", -1)),
    "losers hear expired": ("grab", GRAB, {"outcome": "sold_out"}, {"outcome": "expired"}),
    "a replay has another amount": ("replay", GRAB, {"replayed": True}, plus("amount")),
    "a replay looks new": ("replay", GRAB, {"replayed": True}, {"replayed": False}),
    "the commitment is another": ("look", LOOK, {}, {"split_version": 2}),
    "a claim is not listed": ("look", "GET /packets/[^/]+/claims", {}, all_but_one("claims")),
    "the best is not the largest": ("look", LOOK, {}, not_the_best),
    "a view for a user is another": ("for users", "GET /users/[^/]+/packets/[^/]+", {}, {"claimed_count": 0}),
    "a grab for a user is another's": ("for users", "POST /users/[^/]+/packets/[^/]+/grab", {}, plus("slip")),
    "a reference finds nothing": ("for users", "GET /operator/packets", {}, {"packets": []}),
    "a passphrase is not needed": ("passphrase", GRAB, {"code": "wrong-passphrase"}, WON | {"http": 200}),
    "an expired packet is open": ("refund", GRAB, {"outcome": "expired"}, WON),
    "settle does nothing": ("refund", LOOK, {"status": "settled"}, {"status": "expired"}),
    "a refund is short": ("refund", LOOK, {"status": "settled"}, plus("refunded_amount", -1)),
    "a suspended user sends": ("suspend", SEND, {"http": 403}, {"http": 201}),
    "a suspended user withdraws": ("suspend", WITHDRAWAL, {"http": 403}, {"http": 201}),
    "a suspension stays": ("suspend", OPERATORS_LOOK, {}, lambda answer: {"suspension": answer.get("suspension", {})}),
    "a closed packet is open": ("close", GRAB, {"outcome": "closed"}, WON),
    "a close counts twice": ("close", CLOSE, {}, lambda answer: {"closed_at": str(next(numbers))}),
    "a winner is not paid": ("wallets", "GET /me/wallet", {}, lambda answer: {"balance": max(0, answer["balance"] - 1)}),
    "the operator sees more": ("wallets", OPERATORS_LOOK, {}, plus("balance")),
    "a movement is not listed": ("wallets", MOVEMENTS, {}, all_but_one("movements")),
    "a user sees the signer": ("wallets", "GET /me/movements", {}, lambda answer: {"movements": [one | {"by": "arn"} for one in answer["movements"]]}),
    "a wallet goes below zero": ("withdraw", WITHDRAWAL, {"http": 402}, {"http": 201}),
    "withdrawals count twice": ("withdraw", WITHDRAWAL, {"http": 200}, plus("balance", -1)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_engine_is_named_at_its_step(deploy, fault):
    step, *planted = FAULTS[fault]
    deployed = deploy(fault=planted)
    right, text = prove(deployed.place())
    assert not right and failed_step(text) == [step], text
    assert not deployed.users(), "the users that it made are gone"


def test_an_open_door_and_a_hold_that_is_parked_are_named(deploy):
    deployed = deploy()
    deployed.api.is_open = True
    assert failed_step(prove(deployed.place())[1]) == ["refuse"]
    deployed.api.is_open = False
    deployed.settled = {"parked": 1}
    assert failed_step(prove(deployed.place())[1]) == ["refund"]


def test_requests_that_fail_for_a_moment_are_repeated(deploy):
    deployed = deploy()
    deployed.api.is_flaky = True
    right, text = prove(deployed.place())
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
    rehearsal.ask(f"{deployed.engine.url}/wallets/{first}/deposits/own", "PUT", {"amount": 7})
    right, text = prove(deployed.place(file))
    assert right, text
    assert json.loads(rehearsal.ask(f"{deployed.engine.url}/wallets/{first}")[1])["balance"] == 7 and len(deployed.users()) == 11
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
    make_stack("older", outputs={"ApiUrl": "http://127.0.0.1"})
    with pytest.raises(places.Wrong, match="no output AuditFunction, SettleFunction, TableName"):
        places.Deployment("older", account.session(REGION))


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
