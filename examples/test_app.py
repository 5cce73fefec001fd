"""Tests of an app against the sandbox.

pip install pytest httpx standardwebhooks
HONGBAO_PROGRAM=target/local/hongbao pytest examples/test_app.py
"""
import os
import re
import subprocess
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import httpx
import pytest
from standardwebhooks import Webhook

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
DAY = 86_400


class App(ThreadingHTTPServer):
    """The app: it pays coins to winners and to senders of what came back. Yours would stand here."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Deliveries)
        self.coins, self.events, self.refusals = {}, set(), 0

    def handle(self, event):
        data = event["data"]
        if event["type"] == "SlipClaimed":
            self.coins[data["user_id"]] = self.coins.get(data["user_id"], 0) + data["amount"]
        if event["type"] == "PacketRefunded":
            self.coins[data["sender_id"]] = self.coins.get(data["sender_id"], 0) + data["refunded_amount"]


class Deliveries(BaseHTTPRequestHandler):
    def do_POST(self):
        app, body = self.server, self.rfile.read(int(self.headers["Content-Length"]))
        event, name = Webhook(SECRET).verify(body, dict(self.headers)), self.headers["webhook-id"]
        status = 500 if app.refusals > 0 else 204
        app.refusals -= 1
        if status == 204 and name not in app.events:
            app.events.add(name)
            app.handle(event)
        self.send_response(status)
        self.end_headers()


class Sandbox:
    def __init__(self, *flags):
        command = [os.environ.get("HONGBAO_PROGRAM", "target/local/hongbao"), "sandbox", "--exit-with-parent", "--seed", "42", "--port", "0", *flags]
        self.program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        url = next(found[1] for line in self.program.stdout if (found := re.search(r"ready at (\S+)", line)))
        self.http = httpx.Client(base_url=url)

    def ask(self, user, method, path, body=None, key="1"):
        headers = {"X-User-Id": user, "Idempotency-Key": key}
        return self.http.request(method, path, headers=headers, json=body).raise_for_status().json()

    def send(self, **terms):
        self.ask("", "PUT", "/wallets/alice/deposits/1", {"amount": 1_000})
        return self.ask("alice", "POST", "/packets", {"split": "equal", "total_amount": 900, "count": 3} | terms)["packet_id"]

    def grab(self, user, packet):
        return self.ask(user, "POST", f"/packets/{packet}/grab")

    def look(self, packet):
        return self.ask("alice", "GET", f"/packets/{packet}")

    def now(self):
        return datetime.fromisoformat(self.ask("", "GET", "/_local/clock")["now"])

    def advance(self, seconds):
        """Moves the clock. It returns once all that became due is settled and delivered."""
        self.ask("", "POST", "/_local/clock", {"advance_s": seconds})

    def fail(self, *faults):
        """From now on these faults happen, and no others."""
        self.http.put("/_local/faults", json=faults).raise_for_status()

    def stop(self):
        self.program.terminate()
        self.program.wait()


@pytest.fixture(scope="session")
def both():
    app = App()
    Thread(target=app.serve_forever, daemon=True).start()
    webhooks = f"http://127.0.0.1:{app.server_port}/webhooks"
    sandbox = Sandbox("--webhook-url", webhooks, "--webhook-secret", SECRET)
    yield app, sandbox
    sandbox.stop()


@pytest.fixture
def app(both):
    app, sandbox = both
    sandbox.ask("", "POST", "/_local/reset")
    app.coins, app.events, app.refusals = {}, set(), 0
    return app


@pytest.fixture
def sandbox(both, app):
    return both[1]


def test_a_packet_that_starts_tomorrow(sandbox):
    packet = sandbox.send(starts_at=(sandbox.now() + timedelta(days=1)).isoformat())
    assert sandbox.grab("bob", packet)["outcome"] == "not_started"
    sandbox.advance(DAY)
    assert sandbox.grab("bob", packet)["outcome"] == "grabbed"


def test_a_packet_that_expires(sandbox):
    packet = sandbox.send(expires_in_s=DAY)
    sandbox.advance(DAY)
    assert sandbox.grab("bob", packet)["outcome"] == "expired"


def test_a_refund(app, sandbox):
    packet = sandbox.send(expires_in_s=DAY)
    sandbox.grab("bob", packet)
    sandbox.advance(DAY)
    assert sandbox.look(packet)["refunded_amount"] == 600
    assert app.coins == {"bob": 300, "alice": 600}


def test_a_webhook_that_is_refused_twice(app, sandbox):
    app.refusals = 2
    packet = sandbox.send(expires_in_s=DAY)
    sandbox.grab("bob", packet)
    sandbox.advance(0)
    assert app.coins == {}, "the app refused what came"
    for _ in range(3):
        sandbox.advance(3_600)
    assert app.coins == {"bob": 300}, "it came again, and counts once"


def test_one_lost_answer(sandbox):
    packet = sandbox.send()
    sandbox.fail({"faults": "lose-answers=1", "user_id": "bob", "times": 1})
    with pytest.raises(httpx.TransportError):
        sandbox.grab("bob", packet)
    assert sandbox.grab("bob", packet)["replayed"], "the first one counts"


def test_many_lost_answers():
    sandbox = Sandbox("--faults", "lose-answers=0.5,503=0.2")

    def until_answered(ask, *arguments):
        while True:
            try:
                return ask(*arguments)
            except (httpx.TransportError, httpx.HTTPStatusError):
                continue

    try:
        packet = until_answered(sandbox.send)
        for user in ["bob", "carol", "dave", "erin"]:
            until_answered(sandbox.grab, user, packet)
        balances = [until_answered(sandbox.ask, user, "GET", "/me/wallet")["balance"] for user in ["alice", "bob", "carol", "dave", "erin"]]
        assert balances == [100, 300, 300, 300, 0], "whatever was repeated counts once"
    finally:
        sandbox.stop()
