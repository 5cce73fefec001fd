"""Red packets in a shop whose users have tokens. The shop has a wallet of its own, in fen."""
import os
import time
import uuid

import httpx
from hongbao_client import Client
from hongbao_client.api.packets import grab_packet, send_packet
from hongbao_client.api.wallets import deposit, withdraw
from hongbao_client.models import Grabbed, MovementRequest, SendRequest, Split

URL = os.environ.get("HONGBAO_URL", "http://127.0.0.1:3000")
# On AWS: httpx_args={"auth": ...}, with an httpx.Auth that signs with Signature Version 4.
operator = Client(base_url=URL)


def token_of(user):
    # On AWS: AuthenticatedClient(base_url=URL, token=...) with the user's token.
    return Client(base_url=URL, headers={"X-User-Id": user})


def ask(operation, *ids, client, **parts):
    """Repeats a request that got no answer, 429 or 503: it is the same request, so it counts once."""
    for tries in range(5):
        try:
            answer = operation.sync_detailed(*ids, client=client, **parts)
            if answer.status_code not in (429, 503):
                return answer
        except httpx.TransportError:
            pass
        time.sleep(0.2 * 2**tries)
    raise TimeoutError("the outcome is unknown: send the same request again later")


# Your tables.
balances = {"shop-ann": 20000}
transfers = {}


def begin_deposit(user, amount):
    """Transaction: the money leaves and the transfer is written, or neither happens."""
    if balances[user] < amount:
        raise ValueError("not enough in the shop")
    balances[user] -= amount
    return begin({"kind": "in", "user": user, "amount": amount})


def begin_withdrawal(user, amount):
    return begin({"kind": "out", "user": user, "amount": amount})


def begin(transfer):
    key = uuid.uuid4().hex
    transfers[key] = {**transfer, "state": "pending"}
    return key


def finish(transfer, state):
    """Transaction: the state and the money change together, once."""
    if transfer["state"] == "pending":
        if state == ("refused" if transfer["kind"] == "in" else "done"):
            balances[transfer["user"]] = balances.get(transfer["user"], 0) + transfer["amount"]
        transfer["state"] = state


def carry_out(key):
    """Call it right after the transfer began; a worker calls it again while the transfer is pending."""
    transfer = transfers[key]
    operation = deposit if transfer["kind"] == "in" else withdraw
    answer = ask(operation, transfer["user"], key, client=operator, body=MovementRequest(amount=transfer["amount"]))
    if answer.status_code in (200, 201):
        finish(transfer, "done")
    elif answer.status_code in (400, 402):  # These refusals are final.
        finish(transfer, "refused")


def evening():
    """A packet from the shop's button to the shop's wallet."""
    carry_out(begin_deposit("shop-ann", 10000))
    # Keep key and body until the answer: a retry must be the same send.
    key, body = uuid.uuid4().hex, SendRequest(split=Split.RANDOM, total_amount=8800, count=2, greeting="Thank you")
    packet = ask(send_packet, client=token_of("shop-ann"), body=body, idempotency_key=key).parsed
    for user in ("shop-ben", "shop-cho", "shop-dan"):
        result = ask(grab_packet, packet.packet_id, client=token_of(user)).parsed
        # Any other outcome, also one of a later version, means no slip.
        if isinstance(result, Grabbed):
            carry_out(begin_withdrawal(user, result.amount))
    # Ann takes back what she did not send. A withdrawal above the balance is refused.
    carry_out(begin_withdrawal("shop-ann", 1200))
    carry_out(begin_withdrawal("shop-ann", 1))


if __name__ == "__main__":
    evening()
    print(balances, [f"{transfer['kind']} {transfer['state']}" for transfer in transfers.values()])
