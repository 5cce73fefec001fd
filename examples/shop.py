"""Red packets in a shop whose users have tokens. The shop has a wallet of its own, in fen."""
import os
import time
import uuid

import httpx
from hongbao_client import Client
from hongbao_client.api.packets import grab_packet, send_packet
from hongbao_client.api.wallets import deposit, withdraw
from hongbao_client.models import Grabbed, MovementRequest, SendRequest, Split

URL = os.environ.get("HONGBAO_URL", "http://127.0.0.1:3000").rstrip("/")


def doubt(response):
    """Makes a 429 and a 5xx the same as no answer, before the client reads them: a load balancer's are HTML."""
    if response.status_code == 429 or response.status_code >= 500:
        raise httpx.TransportError(f"{response.status_code}")


HOOKS = {"event_hooks": {"response": [doubt]}}
# On AWS: httpx_args=HOOKS | {"auth": signing.signed}, of examples/signing.py.
operator = Client(base_url=URL, httpx_args=HOOKS)


def token_of(user):
    # On AWS: AuthenticatedClient(base_url=URL, httpx_args=HOOKS, token=...) with the user's token.
    return Client(base_url=URL, httpx_args=HOOKS, headers={"X-User-Id": user})


def ask(operation, *ids, client, **parts):
    """Repeats a request that got no answer, 429 or a 5xx: it is the same request, so it counts once."""
    for tries in range(5):
        try:
            return operation.sync_detailed(*ids, client=client, **parts)
        except httpx.TransportError:
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


def grab(user, packet_id):
    """Returns the slip. Any other answer means none, also an outcome of a later version, which the client can't read."""
    try:
        result = ask(grab_packet, packet_id, client=token_of(user)).parsed
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return result if isinstance(result, Grabbed) else None


def evening():
    """A packet from the shop's button to the shop's wallet."""
    carry_out(begin_deposit("shop-ann", 10000))
    # Keep key and body until the answer: a retry must be the same send.
    key, body = uuid.uuid4().hex, SendRequest(split=Split.RANDOM, total_amount=8800, count=2, greeting="Thank you")
    packet = ask(send_packet, client=token_of("shop-ann"), body=body, idempotency_key=key).parsed
    for user in ("shop-ben", "shop-cho", "shop-dan"):
        if slip := grab(user, packet.packet_id):
            carry_out(begin_withdrawal(user, slip.amount))
    # Ann takes back what she did not send. A withdrawal above the balance is refused.
    carry_out(begin_withdrawal("shop-ann", 1200))
    carry_out(begin_withdrawal("shop-ann", 1))


if __name__ == "__main__":
    evening()
    print(balances, [f"{transfer['kind']} {transfer['state']}" for transfer in transfers.values()])
