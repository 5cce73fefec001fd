"""The walk-through's calls with the client that openapi-python-client makes. examples/shop.py uses more of it.

usage: openapi_python_client.py URL
"""
import sys
from typing import TypeVar

from hongbao_client import AuthenticatedClient
from hongbao_client.api.packets import get_packet, grab_packet, list_packet_claims, send_packet
from hongbao_client.api.wallets import deposit, list_movements
from hongbao_client.models import BestClaim, Grabbed, MovementRequest, Problem, SendRequest, SoldOut, Split

T = TypeVar("T")


def by(user: str) -> AuthenticatedClient:
    return AuthenticatedClient(base_url=sys.argv[1], token="none", headers={"X-User-Id": user}, raise_on_unexpected_status=True)


def ok(answer: T | Problem | None) -> T:
    assert answer is not None and not isinstance(answer, Problem), answer
    return answer


alice = by("alice")
assert ok(deposit.sync("alice", "walk-1", client=alice, body=MovementRequest(amount=1_000))).balance == 1_000
terms = SendRequest(split=Split.EQUAL, total_amount=600, count=3, greeting="恭喜发财")
sent, again = (send_packet.sync_detailed(client=alice, body=terms, idempotency_key="walk-1") for _ in range(2))
assert (sent.status_code, again.status_code, again.headers["idempotent-replayed"]) == (201, 200, "true")
packet = ok(sent.parsed)
assert again.parsed == packet and packet.greeting == "恭喜发财"
for user in ["bob", "carol", "dave", "bob"]:
    won = grab_packet.sync(packet.packet_id, client=by(user))
    assert isinstance(won, Grabbed) and won.amount == 200, won
assert isinstance(grab_packet.sync(packet.packet_id, client=by("eve")), SoldOut)
seen = ok(get_packet.sync(packet.packet_id, client=by("eve")))
assert seen.status == "sold_out" and seen.mine is None and isinstance(seen.best, BestClaim) and seen.best.amount == 200
claims = ok(list_packet_claims.sync(packet.packet_id, client=alice, limit=2))
assert claims.next_cursor
rest = ok(list_packet_claims.sync(packet.packet_id, client=alice, cursor=claims.next_cursor))
assert [claim.user_id for claim in claims.claims + rest.claims] == ["bob", "carol", "dave"] and rest.next_cursor is None
assert sorted(movement.kind for movement in ok(list_movements.sync("alice", client=alice)).movements) == ["deposit", "sent"]
refused = send_packet.sync(client=alice, body=SendRequest(split=Split.EQUAL, total_amount=500, count=1), idempotency_key="walk-2")
assert isinstance(refused, Problem) and refused.code == "insufficient-balance", refused
print("the walk-through works")
