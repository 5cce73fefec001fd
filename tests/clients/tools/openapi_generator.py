"""The walk-through's calls with the client that openapi-generator makes for Python.

usage: openapi_generator.py URL
"""
import sys

from openapi_client import ApiClient, Configuration, MovementRequest, PacketsApi, SendRequest, Split, WalletsApi
from openapi_client.exceptions import ApiException
from openapi_client.models.grabbed import Grabbed
from openapi_client.models.sold_out import SoldOut

api = ApiClient(Configuration(host=sys.argv[1]))
wallets = WalletsApi(api)
packets = PacketsApi(api)


def by(user: str) -> dict[str, str]:
    return {"X-User-Id": user}


assert wallets.deposit("alice", "walk-1", MovementRequest(amount=1_000)).balance == 1_000
terms = SendRequest(split=Split.EQUAL, total_amount=600, count=3, greeting="恭喜发财")
packet = packets.send_packet("walk-1", terms, _headers=by("alice"))
assert packets.send_packet("walk-1", terms, _headers=by("alice")).packet_id == packet.packet_id
for user in ["bob", "carol", "dave", "bob"]:
    won = packets.grab_packet(packet.packet_id, _headers=by(user)).actual_instance
    assert isinstance(won, Grabbed) and won.amount == 200, won
lost = packets.grab_packet(packet.packet_id, _headers=by("eve")).actual_instance
assert isinstance(lost, SoldOut), lost
seen = packets.get_packet(packet.packet_id, _headers=by("eve"))
assert seen.status == "sold_out" and seen.mine is None and seen.best is not None and seen.best.amount == 200
claims = packets.list_packet_claims(packet.packet_id, limit=2, _headers=by("alice"))
rest = packets.list_packet_claims(packet.packet_id, cursor=claims.next_cursor, _headers=by("alice"))
assert [claim.user_id for claim in claims.claims + rest.claims] == ["bob", "carol", "dave"] and rest.next_cursor is None
movements = [movement.actual_instance for movement in wallets.list_movements("alice").movements]
assert sorted(type(movement).__name__ for movement in movements) == ["DepositMovement", "SentMovement"]
try:
    packets.send_packet("walk-2", SendRequest(split=Split.EQUAL, total_amount=500, count=1), _headers=by("alice"))
    raise AssertionError("alice has 400")
except ApiException as refused:
    assert refused.status == 402 and refused.data and refused.data.code == "insufficient-balance", refused
print("the walk-through works")
