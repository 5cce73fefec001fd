"""Walks through the API with the client that openapi-python-client makes: deposit, send, grab, look, expiry and refund.

usage: walk_through.py URL
"""
import sys
import time
import uuid

import httpx
from hongbao_client import Client
from hongbao_client.api.me import get_my_wallet, list_my_claims, list_my_packets
from hongbao_client.api.operator import close_packet, find_packets, get_any_packet, lift_suspension, suspend_user
from hongbao_client.api.packets import get_packet, grab_packet, list_packet_claims, send_packet
from hongbao_client.api.users import grab_packet_for_user, send_packet_for_user
from hongbao_client.api.wallets import deposit, get_wallet, list_movements, withdraw
from hongbao_client.models import (
    Closed,
    Expired,
    Grabbed,
    MovementRequest,
    ReasonRequest,
    SendRequest,
    SoldOut,
    Split,
    Status,
)
from hongbao_client.types import Unset

url = sys.argv[1]
operator = Client(base_url=url, raise_on_unexpected_status=True)


def as_user(name):
    return Client(base_url=url, headers={"X-User-Id": name}, raise_on_unexpected_status=True)


def balance(name):
    return get_my_wallet.sync(client=as_user(name)).balance


alice = as_user("alice")
assert deposit.sync("alice", "walk-1", client=operator, body=MovementRequest(amount=100_000)).balance == 100_000

terms = SendRequest(split=Split.RANDOM, total_amount=10_000, count=10, greeting="恭喜发财", reference="walk:1")
sent = send_packet.sync_detailed(client=alice, body=terms, idempotency_key="walk-1")
again = send_packet.sync_detailed(client=alice, body=terms, idempotency_key="walk-1")
assert (sent.status_code, again.status_code, again.headers["idempotent-replayed"]) == (201, 200, "true")
packet = sent.parsed
assert again.parsed == packet and packet.status == Status.OPEN and packet.greeting == "恭喜发财"

users = [f"user{n}" for n in range(1, 11)]
grabs = [grab_packet.sync(packet.packet_id, client=as_user(user)) for user in users]
assert all(isinstance(grab, Grabbed) for grab in grabs) and sum(grab.amount for grab in grabs) == 10_000
late = grab_packet.sync(packet.packet_id, client=as_user("user11"))
assert isinstance(late, SoldOut), late
repeated = grab_packet_for_user.sync("user1", packet.packet_id, client=operator)
assert (repeated.slip, repeated.amount, repeated.replayed) == (grabs[0].slip, grabs[0].amount, True)

claims = list_packet_claims.sync(packet.packet_id, client=alice, limit=4)
assert [claim.slip for claim in claims.claims] == [0, 1, 2, 3]
rest = list_packet_claims.sync(packet.packet_id, client=alice, cursor=claims.next_cursor)
assert [claim.slip for claim in rest.claims] == [4, 5, 6, 7, 8, 9] and rest.next_cursor is None
seen = get_packet.sync(packet.packet_id, client=as_user("user11"))
assert (seen.status, seen.claimed_amount, seen.mine) == (Status.SOLD_OUT, 10_000, None)
assert seen.seed and seen.best.amount == max(grab.amount for grab in grabs) and isinstance(seen.reference, Unset)
assert get_any_packet.sync(packet.packet_id, client=operator).reference == "walk:1"
assert [found.packet_id for found in find_packets.sync(client=operator, reference="walk:1").packets] == [packet.packet_id]
assert balance("alice") == 90_000 and sum(map(balance, users)) == 10_000
assert list_my_claims.sync(client=as_user("user1")).totals.amount == grabs[0].amount

terms = SendRequest(split=Split.EQUAL, total_amount=2_000, count=4, expires_in_s=1)
unwanted = send_packet_for_user.sync("alice", client=operator, body=terms, idempotency_key="walk-2")
deadline = time.monotonic() + 30
while get_packet.sync(unwanted.packet_id, client=alice).status != Status.SETTLED:
    assert time.monotonic() < deadline, "the packet was not settled in time"
    httpx.post(f"{url}/_local/settle")
    time.sleep(0.2)
assert isinstance(grab_packet.sync(unwanted.packet_id, client=as_user("user1")), Expired)
assert list_my_packets.sync(client=alice).totals.count == 2

movements = list_movements.sync("alice", client=operator).movements
assert sorted(movement.kind for movement in movements) == ["deposit", "refund", "sent", "sent"]
assert sum(movement.amount for movement in movements) == balance("alice") == 90_000
refused = withdraw.sync_detailed("alice", uuid.uuid4().hex, client=operator, body=MovementRequest(amount=90_001))
assert (refused.status_code, refused.parsed.code) == (402, "insufficient-balance"), refused
assert withdraw.sync("alice", "walk-3", client=operator, body=MovementRequest(amount=90_000)).balance == 0
assert get_wallet.sync("alice", client=operator).balance == 0

assert deposit.sync("carol", "walk-4", client=operator, body=MovementRequest(amount=1_000)).balance == 1_000
terms = SendRequest(split=Split.EQUAL, total_amount=400, count=4)
early = send_packet.sync(client=as_user("carol"), body=terms, idempotency_key="walk-5")
assert close_packet.sync(early.packet_id, client=operator, body=ReasonRequest(reason="a mistake")).closed_at
assert isinstance(grab_packet.sync(early.packet_id, client=as_user("user1")), Closed)
assert suspend_user.sync("carol", client=operator, body=ReasonRequest(reason="reported")).reason == "reported"
assert get_wallet.sync("carol", client=operator).suspension.reason == "reported"
refused = send_packet.sync_detailed(client=as_user("carol"), body=terms, idempotency_key="walk-6")
assert (refused.status_code, refused.parsed.code) == (403, "account-suspended"), refused
assert lift_suspension.sync_detailed("carol", client=operator).status_code == 204
assert send_packet.sync(client=as_user("carol"), body=terms, idempotency_key="walk-6").status == Status.OPEN

# An answer of a later version.
later = httpx.MockTransport(lambda request: httpx.Response(200, json={"outcome": "resting", "packet_id": "p", "more": [1]}))
client = Client(base_url=url, httpx_args={"transport": later})
resting = grab_packet.sync("p", client=client)
assert resting.outcome == "resting" and not isinstance(resting, Grabbed), resting
print("the walk-through works")
