"""Pays withdrawals out through a payment provider, and ends each exactly once.

export DEPLOYMENT=shop-prod WEBHOOK_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw
PROVIDER_URL=https://pay.example PROVIDER_SECRET=whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD python3 examples/payout.py

It takes WithdrawalRequested at / and the provider's notices at /provider. Run as many as you like. It stores nothing, may be killed at
any line, and finds what it lost among the pending withdrawals. DEPLOYMENT is a name that no other deployment has. Never change it: each
payment's number is made from it. Put your provider's API into `definitely_paid` and `is_unknown`, its signature into `is_genuine`, and the
way to your users into `tell_user`.
The provider must keep each number, pay it at most once, and never change a final status.
More settings: HONGBAO_URL; HOST and PORT; SWEEP_S; PROVIDER_TIMEOUT_S.
"""
import base64
import hashlib
import hmac
import json
import logging
import os
import random
import re
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, urlencode

HONGBAO_URL = os.environ.get("HONGBAO_URL", "http://127.0.0.1:3000").rstrip("/")
PROVIDER_URL, DEPLOYMENT = os.environ.get("PROVIDER_URL", "").rstrip("/"), os.environ.get("DEPLOYMENT")
SECRET, PROVIDER_SECRET = os.environ.get("WEBHOOK_SECRET"), os.environ.get("PROVIDER_SECRET")
ADDRESS = os.environ.get("HOST", "127.0.0.1"), int(os.environ.get("PORT", "8080"))
SWEEP_S, TIMEOUT_S = float(os.environ.get("SWEEP_S", "60")), float(os.environ.get("PROVIDER_TIMEOUT_S", "10"))
# The provider's statuses; why it did not pay, as the user reads it.
PAID, UNDECIDED = {"paid", "partial"}, {"processing", "waiting"}
UNPAID = {"failed": None, "cancelled": None, "rejected": None, "closed": "You did not confirm it in time."}
waiting, WAITING_MAX, BODY_MAX, pool = set(), 1000, 1 << 16, ThreadPoolExecutor(9)  # One thread takes webhooks.


def call(method, url, body=None, timeout=4):
    """Returns the JSON of a 2xx answer. Anything else is an exception, and so a doubt: the outcome is unknown."""
    data, headers = body and json.dumps(body).encode(), {"Content-Type": "application/json"}
    # On AWS, for the engine: | signing.headers(method, url, data), of examples/signing.py.
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return json.load(answer)


def transfer_of(name):
    """Returns the address of a withdrawal's payment. Its number is never a new one, or the provider pays again."""
    return f"{PROVIDER_URL}/transfers/{hashlib.sha256(f'{DEPLOYMENT}/{name}'.encode()).hexdigest()[:32]}"


def is_unknown(name):
    """Returns whether the provider says that it knows no such payment. In doubt it is an exception."""
    try:
        call("GET", transfer_of(name), timeout=TIMEOUT_S)
        return False
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return True


def tell_user(name, package_info):
    """Passes on what the user must open, or the provider closes the transfer: WeChat Pay after 24 hours. Each look passes it on again."""
    print(json.dumps({"withdrawal": name, "package_info": package_info}) + "\n", end="", flush=True)


def definitely_paid(name, amount, currency):
    """Returns how many fen the provider paid, or 0 and why it will never pay, and None in doubt. A repeat asks about the same transfer."""
    url, note = transfer_of(name), f"{DEPLOYMENT}/{name}"
    transfer = call("PUT", url, {"payee": name.split("/")[0], "amount": amount, "currency": currency, "attach": note}, TIMEOUT_S)
    status, paid = transfer["status"], transfer["paid_amount"]
    is_ours = (transfer["number"], transfer["amount"], transfer["attach"]) == (url.split("/")[-1], amount, note)
    is_final = type(paid) is int and (status in PAID and 0 < paid <= amount or status in UNPAID and paid == 0)
    if not is_ours or not is_final and (paid or status not in UNDECIDED):
        logging.error("%s: a person must look, the provider answers %s", name, transfer)
    elif status == "waiting":
        tell_user(name, transfer["package_info"])
    return (paid, UNPAID.get(status)) if is_ours and is_final else (None, None)


def carry_out(name):
    """Asks for one payment, and ends the withdrawal if the answer is final. Any number of processes may do so at once."""
    waiting.discard(name)  # Before it looks: what happens from here on needs another look. One that has ended years ago asks nobody.
    path = "{}/wallets/{}/withdrawals/{}".format(HONGBAO_URL, *map(quote, name.split("/", 1)))
    withdrawal = call("GET", path)
    name = "{user_id}/{withdrawal_id}".format(**withdrawal)  # A notice may spell it otherwise, which would be another number.
    if withdrawal["status"] != "pending":
        return
    if call("GET", f"{HONGBAO_URL}/wallets/{quote(withdrawal['user_id'])}").get("suspension") and is_unknown(name):
        return logging.warning("%s: held back, the user is suspended", name)  # A sweep looks again.
    paid, reason = definitely_paid(name, withdrawal["amount"], withdrawal["currency"])
    if paid is not None:  # A 409 says that it was ended otherwise: by hand, or the provider changed a final status. A person must look.
        call("POST", f"{path}/post", {"amount": paid}) if paid else call("POST", f"{path}/void", {"reason": reason})


def guarded(action, *arguments):
    try:
        action(*arguments)
    except Exception as error:  # Whatever it was: a later sweep finds the withdrawal, and asks again with the same number.
        say = logging.error if getattr(error, "code", 0) == 409 else logging.warning
        say("%s %s: %r %s", action.__name__, arguments, error, getattr(error, "url", ""))


def look_at(name):
    """Returns whether there is room for another withdrawal to look at."""
    if name in waiting or len(waiting) >= WAITING_MAX:
        return name in waiting
    waiting.add(name)
    pool.submit(guarded, carry_out, name)
    return True


def sweep():
    """Looks at what is pending for longer than SWEEP_S: an event, a notice or an answer was lost. The older, the less often."""
    now, cursor = datetime.now(timezone.utc), {}
    query = {"state": "pending", "limit": 100, "before": (now - timedelta(seconds=SWEEP_S)).isoformat(timespec="milliseconds")}
    while cursor.get("cursor", "first"):
        for withdrawal in (page := call("GET", f"{HONGBAO_URL}/operator/withdrawals?{urlencode(query | cursor)}"))["withdrawals"]:
            age_s = (now - datetime.fromisoformat(withdrawal["at"])).total_seconds()
            while random.random() * age_s < 10 * SWEEP_S and not look_at(f"{withdrawal['user_id']}/{withdrawal['withdrawal_id']}"):
                time.sleep(0.1)
        cursor = {"cursor": page["next_cursor"]}


class Receiver(BaseHTTPRequestHandler):
    timeout, log_request = 10, lambda *_: None

    def do_POST(self):
        self.send_response(self.take())
        self.end_headers()

    def take(self):
        """Returns the status. What is not signed takes no room from what is."""
        is_notice, length = self.path == "/provider", self.headers.get("Content-Length", "")
        if not re.fullmatch("[0-9]{1,9}", length) or int(length) > BODY_MAX:
            return 413
        body = self.rfile.read(int(length))
        if not self.is_genuine(body, PROVIDER_SECRET if is_notice else SECRET):
            return 401
        sent = json.loads(body)
        if is_notice:  # It only makes the program ask, so it may come twice, or be out of date.
            note = sent["attach"]  # Another deployment's, perhaps.
            return 204 if not note.startswith(f"{DEPLOYMENT}/") or look_at(note.removeprefix(f"{DEPLOYMENT}/")) else 503
        if sent["type"] == "WithdrawalRequested":
            return 204 if look_at("{user_id}/{withdrawal_id}".format(**sent["data"])) else 503
        return 204

    def is_genuine(self, body, secret):
        """Checks a signature as the Standard Webhooks specification says."""
        sent_at, signatures = self.headers.get("webhook-timestamp", ""), self.headers.get("webhook-signature", "").split()
        key, content = base64.b64decode(secret.removeprefix("whsec_")), f"{self.headers['webhook-id']}.{sent_at}.".encode() + body
        expected = b"v1," + base64.b64encode(hmac.digest(key, content, "sha256"))
        return re.fullmatch("[0-9]{1,12}", sent_at) and abs(time.time() - int(sent_at)) <= 300 and any(hmac.compare_digest(expected, given.encode()) for given in signatures)


if __name__ == "__main__":
    if not all([DEPLOYMENT, PROVIDER_URL, SECRET, PROVIDER_SECRET]):
        raise SystemExit(__doc__)
    server = ThreadingHTTPServer(ADDRESS, Receiver)
    pool.submit(server.serve_forever)
    print(f"payout listens at http://{ADDRESS[0]}:{server.server_port}/", flush=True)
    while True:
        guarded(sweep)
        time.sleep(SWEEP_S)
