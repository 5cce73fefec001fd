"""Walks through the API with the client that openapi-python-client makes: deposit, send, grab, look, expiry and refund.

usage: openapi_python_client.py URL
"""
import sys
import time
import uuid
from typing import TypeVar

import httpx
from hongbao_client import AuthenticatedClient
from hongbao_client.api.me import get_my_wallet, list_my_claims, list_my_packets
from hongbao_client.api.operator import (
    close_packet,
    close_reference,
    find_packets,
    get_any_packet,
    get_reference,
    lift_suspension,
    report_claims,
    suspend_user,
)
from hongbao_client.api.packets import get_packet, grab_packet, list_packet_claims, send_packet
from hongbao_client.api.users import grab_packet_for_user, send_packet_for_user
from hongbao_client.api.wallets import deposit, get_wallet, list_movements, withdraw
from hongbao_client.models import (
    BestClaim,
    Closed,
    Expired,
    Grabbed,
    LimitReached,
    MovementRequest,
    Problem,
    ReasonRequest,
    SendRequest,
    SoldOut,
    Split,
    Suspension,
    SuspensionRequest,
    WinLimit,
    WinLimitRequest,
    WithdrawalRequest,
)
from hongbao_client.types import Unset

T = TypeVar("T")
url = sys.argv[1]


def as_user(name: str) -> AuthenticatedClient:
    return AuthenticatedClient(base_url=url, token="none", headers={"X-User-Id": name}, raise_on_unexpected_status=True)


def ok(answer: T | Problem | None) -> T:
    assert answer is not None and not isinstance(answer, Problem), answer
    return answer


def code(answer: object) -> str:
    assert isinstance(answer, Problem), answer
    return answer.code


def balance(name: str) -> int:
    return ok(get_my_wallet.sync(client=as_user(name))).balance


operator = as_user("")
alice = as_user("alice")
assert ok(deposit.sync("alice", "walk-1", client=operator, body=MovementRequest(amount=100_000))).balance == 100_000

terms = SendRequest(split=Split.RANDOM, total_amount=10_000, count=10, greeting="恭喜发财", reference="walk:1")
sent = send_packet.sync_detailed(client=alice, body=terms, idempotency_key="walk-1")
again = send_packet.sync_detailed(client=alice, body=terms, idempotency_key="walk-1")
assert (sent.status_code, again.status_code, again.headers["idempotent-replayed"]) == (201, 200, "true")
packet = ok(sent.parsed)
assert again.parsed == packet and packet.status == "open" and packet.greeting == "恭喜发财"

users = [f"user{n}" for n in range(1, 11)]
grabs = [grab for user in users if isinstance(grab := grab_packet.sync(packet.packet_id, client=as_user(user)), Grabbed)]
assert len(grabs) == 10 and sum(grab.amount for grab in grabs) == 10_000
late = grab_packet.sync(packet.packet_id, client=as_user("user11"))
assert isinstance(late, SoldOut), late
repeated = grab_packet_for_user.sync("user1", packet.packet_id, client=operator)
assert isinstance(repeated, Grabbed) and (repeated.slip, repeated.replayed) == (grabs[0].slip, True), repeated

claims = ok(list_packet_claims.sync(packet.packet_id, client=alice, limit=4))
assert [claim.slip for claim in claims.claims] == [0, 1, 2, 3] and claims.next_cursor
rest = ok(list_packet_claims.sync(packet.packet_id, client=alice, cursor=claims.next_cursor))
assert [claim.slip for claim in rest.claims] == [4, 5, 6, 7, 8, 9] and rest.next_cursor is None
seen = ok(get_packet.sync(packet.packet_id, client=as_user("user11")))
assert (seen.status, seen.claimed_amount, seen.mine) == ("sold_out", 10_000, None)
assert isinstance(seen.best, BestClaim) and seen.best.amount == max(grab.amount for grab in grabs)
assert seen.seed and isinstance(seen.reference, Unset)
assert ok(get_any_packet.sync(packet.packet_id, client=operator)).reference == "walk:1"
found = ok(find_packets.sync(client=operator, reference="walk:1")).packets
assert [one.packet_id for one in found] == [packet.packet_id]
assert balance("alice") == 90_000 and sum(map(balance, users)) == 10_000
assert ok(list_my_claims.sync(client=as_user("user1"))).totals.amount == grabs[0].amount

terms = SendRequest(split=Split.EQUAL, total_amount=2_000, count=4, expires_in_s=1)
unwanted = ok(send_packet_for_user.sync("alice", client=operator, body=terms, idempotency_key="walk-2"))
deadline = time.monotonic() + 30
while ok(get_packet.sync(unwanted.packet_id, client=alice)).status != "settled":
    assert time.monotonic() < deadline, "the packet was not settled in time"
    httpx.post(f"{url}/_local/settle")
    time.sleep(0.2)
assert isinstance(grab_packet.sync(unwanted.packet_id, client=as_user("user1")), Expired)
assert ok(list_my_packets.sync(client=alice)).totals.count == 2

movements = ok(list_movements.sync("alice", client=operator)).movements
assert sorted(movement.kind for movement in movements) == ["deposit", "refund", "sent", "sent"]
assert sum(movement.amount for movement in movements) == balance("alice") == 90_000
refused = withdraw.sync_detailed("alice", uuid.uuid4().hex, client=operator, body=WithdrawalRequest(amount=90_001))
assert (refused.status_code, code(refused.parsed)) == (402, "insufficient-balance"), refused
assert ok(withdraw.sync("alice", "walk-3", client=operator, body=WithdrawalRequest(amount=90_000))).balance == 0
assert ok(get_wallet.sync("alice", client=operator)).balance == 0

assert ok(deposit.sync("carol", "walk-4", client=operator, body=MovementRequest(amount=1_000))).balance == 1_000
terms = SendRequest(split=Split.EQUAL, total_amount=400, count=4)
early = ok(send_packet.sync(client=as_user("carol"), body=terms, idempotency_key="walk-5"))
assert ok(close_packet.sync(early.packet_id, client=operator, body=ReasonRequest(reason="a mistake"))).closed_at
assert isinstance(grab_packet.sync(early.packet_id, client=as_user("user1")), Closed)
assert ok(suspend_user.sync("carol", client=operator, body=SuspensionRequest(reason="reported"))).reason == "reported"
suspension = ok(get_wallet.sync("carol", client=operator)).suspension
assert isinstance(suspension, Suspension) and suspension.reason == "reported", suspension
assert code(send_packet.sync(client=as_user("carol"), body=terms, idempotency_key="walk-6")) == "account-suspended"
assert lift_suspension.sync_detailed("carol", client=operator).status_code == 204
assert ok(send_packet.sync(client=as_user("carol"), body=terms, idempotency_key="walk-6")).status == "open"

assert ok(deposit.sync("dave", "walk-7", client=operator, body=MovementRequest(amount=1_000))).balance == 1_000
limit = WinLimitRequest(key="walk", wins=1)
terms = SendRequest(split=Split.EQUAL, total_amount=200, count=2, reference="walk:2", limit=limit)
first, second = (
    ok(send_packet.sync(client=as_user("dave"), body=terms, idempotency_key=key)).packet_id for key in ("walk-8", "walk-9")
)
assert isinstance(grab_packet.sync(first, client=as_user("user1")), Grabbed)
assert isinstance(grab_packet.sync(second, client=as_user("user1")), LimitReached)
left = ok(get_packet.sync(second, client=as_user("user1"))).limit
assert isinstance(left, WinLimit) and (left.wins, left.wins_left, left.amount_left) == (1, 0, None), left
reported = ok(report_claims.sync(client=operator, sender_id="dave", limit_key="walk")).claims
assert [(claim.packet_id, claim.user_id, claim.amount) for claim in reported] == [(first, "user1", 100)]
totals = ok(get_reference.sync("walk:2", client=operator, sender_id="dave"))
assert (totals.won_amount, totals.undecided_amount, totals.users) == (100, 300, 1), totals
over = ok(close_reference.sync("walk:2", client=operator, sender_id="dave", body=ReasonRequest(reason="it is over")))
assert all(packet.status in ("closed", "settled") for packet in over.packets), over
print("the walk-through works")
