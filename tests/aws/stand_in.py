"""A stand-in for a deployment's API, so that a test can plant faults which the engine does not have. It keeps packets and
wallets in memory, and lets in whom API Gateway would: users with a token of the pool, and requests signed for the operator.
"""

import base64
import hashlib
import http.server
import json
import re
import struct
import threading
import time
import urllib.parse

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest

SEED, CAP = bytes(range(32)), 20_000


class Engine:
    """The engine's answers; `fault` names the only thing that it does wrong."""

    def __init__(self, fault=None):
        self.fault, self.lock = fault, threading.Lock()
        self.balances, self.movements, self.done, self.packets = {}, {}, {}, {}
        self.requests, self.suspended = 0, set()

    def move(self, user, amount):
        self.balances[user] = self.balances.get(user, 0) + amount
        self.movements.setdefault(user, []).append({"kind": "any", "amount": amount})

    def wallet(self, user):
        return {"user_id": user, "balance": self.balances.get(user, 0), "pending": 0, "currency": "CNY"}

    def operate(self, method, path, body):
        user, kind, id_ = re.fullmatch(r"/wallets/([^/]+)(?:/(\w+)(?:/(.+))?)?", path).groups()
        if method == "GET":
            moved = self.movements.get(user, [])[self.fault == "a movement is not listed" :]
            seen = self.wallet(user) | {
                "balance": self.balances.get(user, 0) + (self.fault == "the operator sees more")
            }
            if user in self.suspended:
                seen["suspension"] = {"reason": "smoke", "suspended_at": "t"}
            return 200, {"movements": moved, "next_cursor": None} if kind else seen
        key, amount = (user, kind, id_), body["amount"] * (1 if kind == "deposits" else -1)
        if key in self.done and self.fault != f"{kind} count twice":
            same = self.done[key] == amount or self.fault == "an id takes any amount"
            return (200, self.wallet(user)) if same else (422, {"code": "idempotency-key-reused"})
        if kind == "withdrawals" and user in self.suspended and self.fault != "a suspended user withdraws":
            return 403, {"code": "account-suspended"}
        if self.balances.get(user, 0) + amount < 0 and self.fault != "a wallet goes below zero":
            return 402, {"code": "insufficient-balance"}
        self.done[key] = amount
        self.move(user, amount)
        return 201, self.wallet(user)

    def send(self, user, key, body):
        if (user, key) in self.done and self.fault != "a send counts twice":
            first, answer = self.done[user, key]
            return (
                (200, answer, {"Idempotent-Replayed": "true"})
                if first == body or self.fault == "a key takes any packet"
                else (422, {"code": "idempotency-key-reused"})
            )
        if user in self.suspended and self.fault != "a suspended user sends":
            return 403, {"code": "account-suspended"}
        count, total = body["count"], body["total_amount"]
        amounts = [total // count + (index < total % count) for index in range(count)]
        if body["split"] == "random":
            amounts[0], amounts[1] = amounts[0] + 30, amounts[1] - 30
        id_ = f"P{len(self.packets)}"
        numbers = struct.pack("<QQQ", total, count, CAP)
        promised = hashlib.sha256(b"\1" + SEED + numbers + body["split"].encode()).hexdigest()
        packet = {
            "packet_id": id_,
            "split": body["split"],
            "total_amount": total,
            "count": count,
            "status": "open",
            "closed_at": None,
            "commitment": promised,
        }
        expires = time.monotonic() + body.get("expires_in_s", 3600)
        self.packets[id_] = {
            "packet": packet,
            "amounts": amounts,
            "claims": {},
            "sender": user,
            "expires": expires,
            "word": body.get("passphrase"),
            "refunded": 0,
            "reference": body.get("reference"),
        }
        self.done[user, key] = body, dict(packet)
        self.move(user, -total)
        return 201, dict(packet)

    def grab(self, user, id_, body):
        of = self.packets[id_]
        if user in of["claims"] and of["packet"]["status"] == "settled" and self.fault == "a settled packet forgets":
            return 200, {"outcome": "expired", "packet_id": id_}
        if user in of["claims"] and not (of["word"] and not body and self.fault == "a winner is asked again"):
            first = of["claims"][user] | {"replayed": self.fault != "a replay looks new"}
            return 200, first | ({"amount": first["amount"] + 1} if self.fault == "a replay has another amount" else {})
        if of["word"] and body.get("passphrase") != of["word"] and self.fault != "a passphrase is not needed":
            return 403, {"code": "wrong-passphrase"}
        if of["packet"]["closed_at"] and self.fault != "a closed packet is open":
            return 200, {"outcome": "closed", "packet_id": id_}
        if time.monotonic() > of["expires"] and self.fault != "an expired packet is open":
            return 200, {"outcome": "expired", "packet_id": id_}
        slip = len(of["claims"])
        if slip >= of["packet"]["count"]:
            if self.fault == "one slip too many" and slip == of["packet"]["count"]:
                slip = 0
            else:
                return 200, {
                    "outcome": "expired" if self.fault == "losers hear expired" else "sold_out",
                    "packet_id": id_,
                }
        amount = of["amounts"][slip] - (self.fault == "amounts are short" and slip == 0)
        claim = {
            "outcome": "grabbed",
            "packet_id": id_,
            "slip": slip,
            "amount": amount,
            "currency": "CNY",
            "grabbed_at": f"t{slip}",
        }
        of["claims"][user] = claim
        if not (self.fault == "a winner is not paid" and slip == 2):
            self.move(user, amount)
        return 200, claim | {"replayed": False}

    def settle(self):
        for of in self.packets.values():
            closed = of["packet"]["closed_at"] and self.fault != "a closed packet keeps the rest"
            if (
                of["packet"]["status"] != "settled"
                and (closed or time.monotonic() > of["expires"])
                and self.fault != "settle does nothing"
            ):
                left = of["amounts"][len(of["claims"]) :]
                of["refunded"] = sum(left) - (self.fault == "a refund is short")
                of["packet"]["status"] = "settled"
                self.move(of["sender"], of["refunded"])
        return {"refunded_packets": 0, "parked": int(self.fault == "settle parks a hold")}

    def look(self, id_):
        of = self.packets[id_]
        claims = list(of["claims"].values())
        gone = len(claims) == of["packet"]["count"]
        status = "sold_out" if gone and of["packet"]["status"] == "open" else of["packet"]["status"]
        best = max(claims, key=lambda one: one["amount"], default=None)
        return 200, of["packet"] | {
            "status": status,
            "split_version": 2 if self.fault == "the commitment is another" else 1,
            "slip_cap": CAP,
            "claimed_count": len(claims),
            "claimed_amount": sum(one["amount"] for one in claims),
            "refunded_amount": of["refunded"],
            "best": best and {"amount": best["amount"] - (self.fault == "the best is not the largest")},
            "seed": SEED.hex() if gone or status == "settled" else None,
        }

    def claims(self, id_):
        listed = [
            {"user_id": user, **{name: one[name] for name in ("slip", "amount", "grabbed_at")}}
            for user, one in self.packets[id_]["claims"].items()
        ]
        return 200, {"claims": listed[1:] if self.fault == "a claim is not listed" else listed, "next_cursor": None}

    def operate_packets(self, method, path, query, body):
        """For a user, any packet, or a suspension."""
        if path.startswith("/operator/users/"):
            user = path.split("/")[3]
            if method == "DELETE":
                self.suspended -= set() if self.fault == "a suspension stays" else {user}
                return 204, None
            self.suspended.add(user)
            return 200, {"user_id": user, "reason": body["reason"], "suspended_at": "t"}
        if path == "/operator/packets":
            [reference] = urllib.parse.parse_qs(query)["reference"]
            fits = [
                of["packet"]
                for of in self.packets.values()
                if of["reference"] == reference
            ]
            return 200, {"packets": fits[self.fault == "a reference finds nothing" :], "next_cursor": None}
        owner, (id_, *rest) = None, path.removeprefix("/operator/packets/").split("/")
        if path.startswith("/users/"):
            _, _, owner, _, id_, *rest = path.split("/")
        if rest == ["grab"]:
            return self.grab("another" if self.fault == "a grab for a user is another's" else owner, id_, body)
        if rest == ["close"]:
            packet, closes = self.packets[id_]["packet"], self.requests if self.fault == "a close counts twice" else 1
            packet |= {"closed_at": f"c{closes}", "status": "settled" if packet["status"] == "settled" else "closed"}
        status, packet = self.look(id_)
        return status, packet | ({"claimed_count": 0} if owner and self.fault == "a view for a user is another" else {})

    def answer(self, method, path, query, headers, body, user, operator):
        with self.lock:
            self.requests += 1
            if self.fault == "every ninth request fails" and self.requests % 9 == 0:
                return 503, {"message": "Service Unavailable"}
            if path.startswith("/wallets/"):
                open_ = self.fault == "the operator's door is open"
                return self.operate(method, path, body) if operator or open_ else (403, {"message": "Forbidden"})
            if path.startswith(("/users/", "/operator/")):
                if not operator:
                    return 403, {"message": "Forbidden"}
                return self.operate_packets(method, path, query, body)
            if user is None:
                return 401, {"message": "Unauthorized"}
            if path == "/me/wallet":
                return 200, self.wallet(user)
            if path == "/me/movements":
                signed = {"by": "arn"} if self.fault == "a user sees the signer" else {}
                moved = [one | signed for one in self.movements.get(user, []) if one["amount"] > 0]
                return 200, {"movements": moved, "next_cursor": None}
            if path == "/packets":
                return self.send(user, headers["Idempotency-Key"], body)
            id_, _, rest = path.removeprefix("/packets/").partition("/")
            return {"": self.look, "claims": self.claims}[rest](id_) if rest != "grab" else self.grab(user, id_, body)


class Api:
    """The engine behind a server on this machine."""

    def __init__(self, engine, region, keys, client_id=None):
        self.engine, self.region, self.keys, self.client_id = engine, region, keys, client_id
        # Whether a web ACL stands before users' requests elsewhere.
        self.refuses_users = False
        # What the mapping of a custom domain puts before each path.
        self.base_path = ""
        self.asked = set()
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def handle_one(self):
                data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                assert self.path.startswith(f"{api.base_path}/"), self.path
                path = urllib.parse.urlsplit(self.path.removeprefix(api.base_path))
                api.asked.add(path.path.split("/")[1])
                body = json.loads(data) if data else {}
                user = api.user(self.headers)
                status, answer, *more = (403, {"code": "forbidden"}) if user and api.refuses_users else api.engine.answer(
                    self.command,
                    path.path,
                    path.query,
                    self.headers,
                    body,
                    user,
                    api.is_signed(self, data),
                )
                text = b"" if answer is None else json.dumps(answer).encode()
                self.send_response(status)
                for name, value in (more[0] if more else {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_PUT = do_POST = do_DELETE = handle_one

        class Server(http.server.ThreadingHTTPServer):
            request_queue_size = 128

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def user(self, headers):
        """The `sub` of a token of this client. moto's key is public, so a signature would prove nothing here."""
        token = headers.get("Authorization", "").removeprefix("Bearer ")
        try:
            payload = token.split(".")[1]
            claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        except (IndexError, ValueError):
            return None
        return claims.get("sub") if self.client_id in (None, claims.get("client_id")) else None

    def is_signed(self, request, data):
        """Whether the operator's keys signed what arrived, for `execute-api`."""
        given = request.headers.get("Authorization", "")
        found = re.search(r"SignedHeaders=([^,]+), Signature=(\w+)", given)
        if not found:
            return False
        headers = {name: request.headers[name] for name in found[1].split(";")}
        arrived = AWSRequest(request.command, f"{self.url}{request.path}", headers, data or None)
        arrived.context["timestamp"] = request.headers["X-Amz-Date"]
        auth = SigV4Auth(self.keys, "execute-api", self.region)
        return auth.signature(auth.string_to_sign(arrived, auth.canonical_request(arrived)), arrived) == found[2]
