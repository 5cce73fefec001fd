"""Proves a deployment from outside: money goes in, is sent, grabbed by many at once, refunded, withdrawn and audited; a user is
suspended, and a packet closed. Each answer is checked.

    make smoke                                    a local stack of its own
    make smoke URL=http://127.0.0.1:3000          the stack of a running `make run`
    make smoke ENV=dev                            a deployment on AWS
    make smoke ENV=dev URL=https://api.example/hongbao   the same, at its custom domain
    make smoke ENV=dev TEARDOWN=1                 and deletes it afterwards

Exit codes: 0, everything was right; 1, something was not; 2, the deployment can't be used.
"""

import argparse
import concurrent.futures
import hashlib
import math
import secrets
import struct
import sys
import threading
import time

from places import Deployment, Local, Wrong

USERS = 50
# Amounts in minor units, small enough for any limit of a slip.
DEPOSIT, PER_SLIP = 3_000, 100
GUARDED_SLIPS, LATE_SLIPS, CLOSED_SLIPS = 5, 4, 3


def expect(holds, text):
    if not holds:
        raise Wrong(text)


def answered(answer, status, code=None):
    """Checks the status and, of a problem, its code."""
    wanted = status if isinstance(status, tuple) else (status,)
    expect(answer.status in wanted, f"expected {' or '.join(map(str, wanted))}, got {answer}")
    expect(code is None or answer.body.get("code") == code, f"expected {code}, got {answer}")
    return answer.body


def commitment(packet):
    """The hash of the split, as docs/FAIRNESS.md defines it."""
    numbers = struct.pack("<QQQ", packet["total_amount"], packet["count"], packet["slip_cap"])
    split = packet["split"].encode()
    return hashlib.sha256(
        bytes([packet["split_version"]]) + bytes.fromhex(packet["seed"]) + numbers + split
    ).hexdigest()


def money(amount):
    return f"{amount / 100:.2f}"


class Smoke:
    def __init__(self, place, users=USERS):
        self.place, self.http, self.count = place, place.http, users
        self.slips = max(1, users * 2 // 5)
        self.run = time.strftime("%Y%m%d-%H%M%S-", time.gmtime()) + secrets.token_hex(2)
        # Clocks differ; the audit may look at more than this run.
        self.since_ms = int(time.time() * 1000) - 600_000
        # What each user must have.
        self.due = {}
        self.packets = []

    STEPS = (
        "sign in",
        "refuse",
        "deposit",
        "send",
        "grab",
        "replay",
        "look",
        "for users",
        "passphrase",
        "refund",
        "suspend",
        "close",
        "wallets",
        "withdraw",
        "audit",
        "alarms",
    )

    def steps(self):
        for name in self.STEPS:
            yield name, getattr(self, name.replace(" ", "_"))

    def post(self, user, path, body=None, **headers):
        return self.http.send(
            "POST", path, body, user.headers | {name.replace("_", "-"): value for name, value in headers.items()}
        )

    def get(self, user, path):
        return self.http.send("GET", path, headers=user.headers)

    def sign_in(self):
        self.sender, *self.users = self.place.people(self.run, self.count + 1)
        # Users whose tokens were given may have money already.
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            self.had = dict(pool.map(lambda user: (user.id, self.balance(user)), [self.sender, *self.users]))
        self.due = {user.id: self.had[user.id] for user in self.users}
        return f"a sender and {len(self.users)} users, who see their wallets"

    def balance(self, user):
        return answered(self.get(user, "/me/wallet"), 200)["balance"]

    def refuse(self):
        seen = []
        for what, method, path, headers in self.place.strangers():
            http = self.http if path.startswith("/me/") else self.place.operators
            answer = http.send(method, path, headers=headers)
            expect(answer.status in (401, 403), f"{what}: expected 401 or 403, got {answer}")
            seen.append(f"{what} {answer.status}")
        if self.place.has_wall:
            answer = self.place.operators.send("GET", "/me/wallet", headers=self.sender.headers)
            expect(answer.status == 403, f"round the web ACL: expected 403, got {answer}")
            seen.append("round the web ACL 403")
        return "; ".join(seen)

    def deposit(self):
        path = f"/wallets/{self.sender.id}/deposits/smoke-{self.run}"
        first = self.place.operate("PUT", path, {"amount": DEPOSIT})
        body, self.sender_due = (
            answered(first, 201 if first.tries == 1 else (200, 201)),
            self.had[self.sender.id] + DEPOSIT,
        )
        expect(body["balance"] == self.sender_due, f"the sender must have {self.sender_due}, but has {body}")
        again = answered(self.place.operate("PUT", path, {"amount": DEPOSIT}), 200)
        expect(again == body, f"a repeated deposit moved money: {again} after {body}")
        answered(self.place.operate("PUT", path, {"amount": DEPOSIT + 1}), 422, "idempotency-key-reused")
        self.currency = body["currency"]
        return f"{money(DEPOSIT)} {self.currency}; repeated, it moved nothing; another amount was refused"

    def sent(self, name, **packet):
        """A packet of the sender."""
        key = f"smoke-{self.run}-{name}"
        answer = self.post(self.sender, "/packets", packet, Idempotency_Key=key)
        body = answered(answer, 201 if answer.tries == 1 else (200, 201))
        expect(
            body["status"] == "open" and body["total_amount"] == packet["total_amount"], f"not what was sent: {body}"
        )
        self.sender_due -= packet["total_amount"]
        self.packets.append(body["packet_id"])
        return key, body

    def send(self):
        packet = {"split": "random", "total_amount": self.slips * PER_SLIP, "count": self.slips, "greeting": "smoke"}
        packet["reference"] = self.reference = f"smoke-{self.run}"
        key, self.packet = self.sent("rush", **packet)
        again = self.post(self.sender, "/packets", packet, Idempotency_Key=key)
        expect(answered(again, 200) == self.packet, f"a repeated send got another answer: {again}")
        expect(again.headers.get("Idempotent-Replayed") == "true", "a repeated send says that it was one")
        answered(
            self.post(self.sender, "/packets", packet | {"greeting": "other"}, Idempotency_Key=key),
            422,
            "idempotency-key-reused",
        )
        self.path = f"/packets/{self.packet['packet_id']}"
        return f"{money(packet['total_amount'])} in {self.slips} random slips; repeated, it was the same packet"

    def all_grab(self, path):
        """All users at the same moment."""
        gate = threading.Barrier(len(self.users))

        def grab(user):
            gate.wait()
            return self.post(user, f"{path}/grab")

        with concurrent.futures.ThreadPoolExecutor(len(self.users)) as pool:
            return dict(zip((user.id for user in self.users), pool.map(grab, self.users)))

    def grab(self):
        repeats = self.http.repeats
        answers = self.all_grab(self.path)
        outcomes = {user: answered(answer, 200) for user, answer in answers.items()}
        self.won = {user: body for user, body in outcomes.items() if body["outcome"] == "grabbed"}
        lost = [body["outcome"] for body in outcomes.values() if body["outcome"] != "grabbed"]
        slips = sorted(body["slip"] for body in self.won.values())
        expect(slips == list(range(self.slips)), f"each slip has one winner, but the winners' slips are {slips}")
        expect(set(lost) <= {"sold_out"}, f"the others must hear sold_out, but heard {sorted(set(lost))}")
        total = sum(body["amount"] for body in self.won.values())
        expect(
            total == self.packet["total_amount"],
            f"the slips' amounts sum to {total}, not to {self.packet['total_amount']}",
        )
        fresh = [body for user, body in self.won.items() if answers[user].tries == 1]
        expect(not any(body["replayed"] for body in fresh), "a first grab is no replay")
        for user, body in self.won.items():
            self.due[user] += body["amount"]
        times = sorted(answer.seconds for answer in answers.values())
        repeated = self.http.repeats - repeats
        return (
            f"{len(answers)} users at once: {len(self.won)} won, {len(lost)} heard sold_out; "
            f"p50 {times[len(times) // 2] * 1000:.0f} ms, slowest {times[-1] * 1000:.0f} ms"
            + (f"; {repeated} requests were repeated" if repeated else "")
        )

    def replay(self):
        for user, answer in self.all_grab(self.path).items():
            body = answered(answer, 200)
            if user in self.won:
                expect(body == self.won[user] | {"replayed": True}, f"a winner heard {body} after {self.won[user]}")
            else:
                expect(body["outcome"] == "sold_out", f"a loser heard {body}")
        return f"{len(self.won)} winners heard the same slip, amount and time again; the others sold_out"

    def packet_when(self, packet_id, holds, within_s):
        """The packet, once it is as it must become; settle may have to run for that."""
        end, ran = time.monotonic() + within_s, 0
        while True:
            packet = answered(self.get(self.sender, f"/packets/{packet_id}"), 200)
            if holds(packet):
                return packet, ran
            expect(time.monotonic() < end, f"after {within_s} s the packet is still {packet['status']}: {packet}")
            self.place.settle()
            ran += 1
            time.sleep(self.place.pause_s)

    def look(self):
        packet, _ = self.packet_when(
            self.packet["packet_id"], lambda one: one["seed"] and one["status"] == "sold_out", 30
        )
        expect(
            (packet["claimed_count"], packet["claimed_amount"]) == (self.slips, self.packet["total_amount"]),
            f"not all claimed: {packet}",
        )
        expect(
            commitment(packet) == self.packet["commitment"], "the seed does not give the commitment that the sender got"
        )
        claims, cursor = [], ""
        while cursor is not None:
            page = answered(self.get(self.sender, f"{self.path}/claims?limit=100{cursor}"), 200)
            claims += page["claims"]
            cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
        listed = {one["user_id"]: (one["slip"], one["amount"], one["grabbed_at"]) for one in claims}
        heard = {user: (one["slip"], one["amount"], one["grabbed_at"]) for user, one in self.won.items()}
        expect(listed == heard and len(claims) == len(heard), "the list of claims is not what the winners heard")
        largest = max(one["amount"] for one in self.won.values())
        expect(
            packet["best"]["amount"] == largest,
            f"the best of the packet is {packet['best']}, but the largest slip {largest}",
        )
        return f"the claims are what the winners heard; the seed gives the commitment; best {money(largest)}"

    def for_users(self):
        """The operator, in place of a winner and for themselves."""
        operate = self.place.operate
        user = next(one for one in self.users if one.id in self.won)
        shown = answered(operate("GET", f"/users/{user.id}{self.path}"), 200)
        own = answered(self.get(user, self.path), 200)
        # Each answer has its own time.
        same = {name: value for name, value in own.items() if name != "now"}
        expect(same == {name: shown.get(name) for name in same}, f"for a winner the packet is {shown}, and for themselves {own}")
        again = answered(operate("POST", f"/users/{user.id}{self.path}/grab", {}), 200)
        expect(again == self.won[user.id] | {"replayed": True}, f"for a winner the grab is {again}")
        found = answered(operate("GET", f"/operator/packets?reference={self.reference}"), 200)["packets"]
        expect([one["packet_id"] for one in found] == self.packets[:1], f"not the one packet of the reference: {found}")
        answered(operate("GET", f"/operator{self.path}"), 200)
        return "the operator sees and hears what a winner does, and finds the packet by its reference"

    def expires_in_s(self):
        """Long enough for the few requests that come before the expiry, also where answers are slow."""
        return math.ceil(self.place.expires_in_s + 6 * self.http.slowest_s)

    def passphrase(self):
        word = f"word-{self.run}"
        given = {"split": "equal", "total_amount": GUARDED_SLIPS * PER_SLIP, "count": GUARDED_SLIPS, "passphrase": word}
        _, packet = self.sent("guarded", **given, expires_in_s=self.expires_in_s())
        grab, user = f"/packets/{packet['packet_id']}/grab", self.users[0]
        answered(self.post(user, grab), 403, "wrong-passphrase")
        answered(self.post(user, grab, {"passphrase": "no"}), 403, "wrong-passphrase")
        first = answered(self.post(user, grab, {"passphrase": word}), 200)
        expect((first["outcome"], first.get("amount")) == ("grabbed", PER_SLIP), f"the right passphrase got {first}")
        again = answered(self.post(user, grab), 200)
        expect(again == first | {"replayed": True}, f"without the passphrase, the winner heard {again} after {first}")
        self.due[user.id] += first["amount"]
        self.guarded = packet["packet_id"]
        return "without it and with another one: 403; with it: a slip; afterwards it is not needed"

    def refund(self):
        given = {"split": "equal", "total_amount": LATE_SLIPS * PER_SLIP, "count": LATE_SLIPS}
        open_s = self.expires_in_s()
        _, packet = self.sent("late", **given, expires_in_s=open_s)
        grab, winner, late = f"/packets/{packet['packet_id']}/grab", self.users[-1], self.users[1]
        first = answered(self.post(winner, grab), 200)
        expect(
            (first["outcome"], first.get("amount")) == ("grabbed", PER_SLIP), f"a grab before the expiry got {first}"
        )
        self.due[winner.id] += first["amount"]
        time.sleep(open_s + 0.1)
        expired = answered(self.post(late, grab), 200)
        expect(expired["outcome"] == "expired", f"a grab after the expiry heard {expired}")
        back, runs = 0, 0
        for packet_id, slips in ((packet["packet_id"], LATE_SLIPS), (self.guarded, GUARDED_SLIPS)):
            settled, ran = self.packet_when(packet_id, lambda one: one["status"] == "settled", self.place.refund_s)
            found, runs = (settled["claimed_amount"], settled["refunded_amount"]), runs + ran
            expect(found == (PER_SLIP, (slips - 1) * PER_SLIP), f"claimed and refunded are {found}: {settled}")
            back += settled["refunded_amount"]
        report = self.place.settle()
        expect(report["parked"] == 0, f"settle parked holds: {report}. docs/RUNBOOK.md, OutboxParked")
        self.sender_due += back
        again = answered(self.post(winner, grab), 200)
        expect(again == first | {"replayed": True}, f"a settled packet's winner heard {again} after {first}")
        return f"two packets expired and settled: {money(back)} went back to the sender ({runs + 1} runs of settle)"

    # A refused send leaves its key free.
    CLOSED = {"split": "equal", "total_amount": CLOSED_SLIPS * PER_SLIP, "count": CLOSED_SLIPS}

    def suspend(self):
        operate, wallet = self.place.operate, f"/wallets/{self.sender.id}"
        path = f"/operator/users/{self.sender.id}/suspension"
        given = answered(operate("PUT", path, {"reason": "smoke"}), 200)
        try:
            expect(given["reason"] == "smoke", f"the suspension is {given}")
            seen = answered(operate("GET", wallet), 200).get("suspension", {})
            expect(seen.get("suspended_at") == given["suspended_at"], f"the operator sees the suspension {seen}, not {given}")
            refused = self.post(self.sender, "/packets", self.CLOSED, Idempotency_Key=f"smoke-{self.run}-closed")
            answered(refused, 403, "account-suspended")
            withdrawal = operate("PUT", f"{wallet}/withdrawals/smoke-{self.run}-suspended", {"amount": 1})
            answered(withdrawal, 403, "account-suspended")
        finally:
            answered(operate("DELETE", path), 204)
        seen = answered(operate("GET", wallet), 200)
        expect("suspension" not in seen, f"the suspension was lifted, but the operator sees {seen}")
        return "a send and a withdrawal of the sender were refused: 403; the suspension is lifted"

    def close(self):
        _, packet = self.sent("closed", **self.CLOSED)
        grab, winner, late = f"/packets/{packet['packet_id']}/grab", self.users[2], self.users[3]
        first = answered(self.post(winner, grab), 200)
        expect((first["outcome"], first.get("amount")) == ("grabbed", PER_SLIP), f"a grab before the close got {first}")
        self.due[winner.id] += first["amount"]
        path = f"/operator/packets/{packet['packet_id']}/close"
        closed = answered(self.place.operate("POST", path, {"reason": "smoke"}), 200)
        expect(closed["status"] in ("closed", "settled") and closed["closed_at"], f"the closed packet is {closed}")
        again = answered(self.place.operate("POST", path, {"reason": "other"}), 200)
        expect(again["closed_at"] == closed["closed_at"], f"closed again, the packet is {again} after {closed}")
        lost = answered(self.post(late, grab), 200)
        expect(lost["outcome"] == "closed", f"a grab after the close heard {lost}")
        settled, ran = self.packet_when(packet["packet_id"], lambda one: one["status"] == "settled", self.place.refund_s)
        back = (CLOSED_SLIPS - 1) * PER_SLIP
        found = (settled["claimed_amount"], settled["refunded_amount"])
        expect(found == (PER_SLIP, back), f"claimed and refunded are {found}: {settled}")
        self.sender_due += back
        again = answered(self.post(winner, grab), 200)
        expect(again == first | {"replayed": True}, f"a closed packet's winner heard {again} after {first}")
        return f"nobody won after it; {money(back)} went back to the sender ({ran} runs of settle)"

    def wallets(self):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            found = dict(pool.map(lambda user: (user.id, self.balance(user)), self.users))
        wrong = {user: (balance, self.due[user]) for user, balance in found.items() if balance != self.due[user]}
        expect(not wrong, f"these wallets (has, must have) differ from what their owners won: {wrong}")
        mine = self.balance(self.sender)
        expect(mine == self.sender_due, f"the sender has {mine}, not {self.sender_due}")
        shown = answered(self.place.operate("GET", f"/wallets/{self.sender.id}"), 200)["balance"]
        expect(shown == mine, f"the operator sees {shown} in the sender's wallet, the sender {mine}")
        moved = self.movements()
        expect(sum(moved) == mine, f"the sender has {mine}, but the movements are {moved}")
        own = answered(self.get(self.sender, "/me/movements?limit=100&kind=deposit"), 200)["movements"]
        expect(own and not any("by" in one for one in own), f"the sender sees these deposits of theirs: {own}")
        total = mine + sum(found.values()) - sum(self.had.values())
        expect(total == DEPOSIT, f"{DEPOSIT} came in, but {total} is in the wallets")
        return f"{len(found) + 1} wallets have {money(total)} more together, exactly what came in"

    def movements(self):
        """The amounts of the sender's movements, as the operator sees them."""
        amounts, cursor = [], ""
        while cursor is not None:
            page = answered(self.place.operate("GET", f"/wallets/{self.sender.id}/movements?limit=100{cursor}"), 200)
            amounts += [one["amount"] for one in page["movements"]]
            cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
        return amounts

    def withdraw(self):
        over = {"amount": self.sender_due + 1}
        answered(
            self.place.operate("PUT", f"/wallets/{self.sender.id}/withdrawals/smoke-{self.run}-over", over),
            402,
            "insufficient-balance",
        )
        more = {user: has - self.had[user] for user, has in (self.due | {self.sender.id: self.sender_due}).items()}

        def take(user):
            path, amount = f"/wallets/{user}/withdrawals/smoke-{self.run}", {"amount": more[user]}
            first = self.place.operate("PUT", path, amount)
            left = answered(first, 201 if first.tries == 1 else (200, 201))["balance"]
            again = answered(self.place.operate("PUT", path, amount), 200)["balance"]
            expect(left == again == self.had[user], f"{user} has {left}, then {again} after withdrawing {more[user]}")

        gained = [user for user, amount in more.items() if amount]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(take, gained))
        return f"{len(gained)} wallets are as before; repeated, it moved nothing; one unit too many was refused"

    def audit(self):
        report = self.place.audit(self.since_ms)
        expect(
            report["imbalance_count"] == 0,
            f"the audit found {report['imbalance_count']} imbalances: {report['imbalances']}",
        )
        expect(report["unjudged_count"] == 0, f"the audit could not judge {report['unjudged']}: run it again")
        expect(
            report["packets"] >= len(self.packets),
            f"the audit saw {report['packets']} packets, not all {len(self.packets)} of this run",
        )
        return f"{report['packets']} packets and {report['wallets']} wallets checked; no imbalance"

    def alarms(self):
        return self.place.quiet()


def say(name, work, out):
    """Runs a step; its line begins before it, and ends with what it found."""
    print(f"  {name:<12}", end="", flush=True, file=out)
    begun = time.monotonic()
    try:
        text = work()
    except Exception as error:
        # An answer that lacks a field, or a service that refuses, is a finding too.
        wrong = error if isinstance(error, Wrong) else Wrong(f"{type(error).__name__}: {error}")
        print(f"{time.monotonic() - begun:>7.1f} s  FAIL  {wrong}", file=out)
        raise wrong from error
    print(f"{time.monotonic() - begun:>7.1f} s  {text}", file=out, flush=True)


def prove(place, users=USERS, teardown=False, out=None):
    """Whether everything was right."""
    out, begun = out or sys.stdout, time.monotonic()
    smoke = Smoke(place, users)
    print(f"Smoke of {place.name}, run {smoke.run}\n", file=out)
    try:
        for name, work in smoke.steps():
            say(name, work, out)
        if teardown:
            say("teardown", place.tear_down, out)
    except Wrong:
        print(f"\nFAILED. Packets of this run: {', '.join(smoke.packets) or 'none'}", file=out)
        return False
    finally:
        place.forget()
    print(f"\nAll of it was right, in {time.monotonic() - begun:.1f} s.", file=out)
    return True


def place_of(options):
    if not options.env:
        return Local(options.programs, options.url, options.stores)
    import botocore.exceptions
    from preflight import Environment, session
    from region import region_of

    environment = Environment(options.env)
    grace_s = 30  # SETTLE_GRACE_MS by default
    try:
        return Deployment(environment.stack, session(region_of(environment.name)), options.tokens, grace_s, options.url)
    except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
        raise Wrong(f"{environment.stack} can't be read: {error}") from error


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--env", help="a section of samconfig.toml: a deployment on AWS")
    parser.add_argument("--tokens", help="a file of users' tokens, one a line, instead of users of the stack's pool")
    parser.add_argument(
        "--teardown", action="store_true", help="delete the deployment afterwards, with its table and user pool"
    )
    parser.add_argument("--users", type=int, default=USERS)
    parser.add_argument(
        "--programs", default="target/local", help="the folder with the programs hongbao and hongbao-admin"
    )
    parser.add_argument("--url", help="a running local stack; with --env, the address of its API in place of API Gateway's own")
    parser.add_argument("--stores", default=".local/stores.env", help="the stores of that stack")
    options = parser.parse_args()
    if options.teardown and not options.env:
        parser.error("--teardown needs --env: a local stack of its own ends anyway")
    try:
        place = place_of(options)
        if options.teardown:
            place.check_teardown()
    except Wrong as wrong:
        print(f"smoke: {wrong}", file=sys.stderr)
        sys.exit(2)
    try:
        sys.exit(0 if prove(place, options.users, options.teardown) else 1)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
