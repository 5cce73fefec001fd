"""The walk-through's answers, read with the models that datamodel-code-generator makes.

usage: models.py URL
"""
import sys
from typing import Any

import httpx
from generated import ClaimMovement, DepositMovement, Grabbed, GrabResult, Packet, Problem, SendRequest, SentMovement, SoldOut, Split, WalletMovements

client = httpx.Client(base_url=sys.argv[1])


def call(user: str, method: str, path: str, body: Any = None, key: str = "walk-1") -> httpx.Response:
    return client.request(method, path, headers={"X-User-Id": user, "Idempotency-Key": key}, json=body)


def grab(user: str) -> Any:
    return GrabResult.model_validate_json(call(user, "POST", f"/packets/{packet.packet_id}/grab").content).root


call("", "PUT", "/wallets/alice/deposits/walk-1", {"amount": 1_000}).raise_for_status()
terms = SendRequest.model_validate({"split": Split.equal, "total_amount": 600, "count": 3}).model_dump(mode="json")
packet = Packet.model_validate_json(call("alice", "POST", "/packets", terms).content)
for user in ["bob", "carol", "dave", "bob"]:
    won = grab(user)
    assert isinstance(won, Grabbed) and won.amount == 200, won
assert isinstance(grab("eve"), SoldOut)
page = call("alice", "GET", "/me/movements")
movements = WalletMovements.model_validate_json(page.content).movements
assert {type(movement) for movement in movements} == {DepositMovement, SentMovement}, movements
own = WalletMovements.model_validate_json(call("bob", "GET", "/me/movements").content).movements[0]
assert isinstance(own, ClaimMovement) and own.packet_id == packet.packet_id, own
refused = Problem.model_validate_json(call("alice", "POST", "/packets", terms, "walk-2").content)
assert refused.code == "insufficient-balance", refused
print("the walk-through works")
