"""Red packets in Matrix rooms, beside `hongbao serve`: !hongbao 10.00 5 恭喜发财

1. Start the engine (docs/SELF-HOST.md), and make a key: hongbao-admin key add matrix --rights users,money,read
2. Make a user for the bot on your homeserver, and sign in as it for an access token.
3. export HONGBAO_URL=http://127.0.0.1:8080 HONGBAO_KEY=hb_… MATRIX_URL=https://matrix.example MATRIX_TOKEN=…
4. python3 examples/matrix_bot.py --topup
5. Invite the bot to a room without encryption: !topup 100, !hongbao 10.00 5 恭喜发财. Members react with 🧧.

Where money comes from: a Matrix user is the engine's user of the same id, with a wallet. Your app deposits there once it has received
their money: PUT /wallets/<id>/deposits/<transfer>. It pays out after a withdrawal. --topup lets anyone deposit play money.

The bot stores nothing on its machine. How far it has read stands in its account data. A command's event is the key of its send, and the id of
the message that answers it. So after a crash it reads some events again, and nothing happens twice.
"""
import http.client
import json
import logging
import os
import re
import sys
import time
import urllib.error
import urllib.request
from urllib.parse import quote, urlencode

ENGINE, KEY = os.environ.get("HONGBAO_URL", "http://127.0.0.1:8080").rstrip("/"), os.environ.get("HONGBAO_KEY")
MATRIX, TOKEN = os.environ.get("MATRIX_URL", "").rstrip("/") + "/_matrix/client/v3", os.environ.get("MATRIX_TOKEN")
# The field of the bot's message that names the packet, and the account data that says how far it has read.
PACKET, READ = "io.hongbao.packet", "io.hongbao.read"
FILTER = json.dumps({"presence": {"types": []}, "room": {"timeline": {"limit": 1000}, "state": {"lazy_load_members": True}}})
log = logging.getLogger("bot")


class Unavailable(Exception):
    """No answer, or one that says to try again. A repeat is safe."""


def call(method, url, token, body=None, headers=None, timeout=10):
    """Returns the status and the JSON of an answer. It repeats what got none: each request here counts once."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"} | (headers or {})
    for tries in range(5):
        try:
            try:
                answer = urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=timeout)
            except urllib.error.HTTPError as error:
                answer = error
            status, said = answer.status, json.loads(answer.read())
            if status != 429 and status < 500 or said.get("code") == "sending-paused":  # Nothing was sent.
                return status, said
            pause = max(said.get("retry_after_ms", 0) / 1000, float(answer.headers.get("Retry-After", 0)))
        except (OSError, http.client.HTTPException, ValueError) as error:
            status, pause = error, 0
        time.sleep(max(pause, 0.2 * 2**tries))
    raise Unavailable(f"{method} {url.split('?')[0]}: {status}")


def engine(method, path, body=None, key=None):
    return call(method, ENGINE + path, KEY, body, {"Idempotency-Key": key} if key else {})


def matrix(method, path, body=None, timeout=10):
    """Returns the answer, or nothing if the homeserver refuses."""
    status, said = call(method, MATRIX + path, TOKEN, body, timeout=timeout)
    return said if status == 200 else None


def say(room, cause, text, **more):
    """Says something in a room, once for each event that causes it: that is the transaction's id."""
    message = {"msgtype": "m.notice", "body": text} | more
    if matrix("PUT", f"/rooms/{quote(room)}/send/m.room.message/{quote(cause, safe='')}", message) is None:
        log.warning("the room %s takes no message", room)


def yuan(fen):
    return f"{fen // 100}.{fen % 100:02} 元"


def fen(text):
    match = re.fullmatch(r"([0-9]{1,9})(?:\.([0-9]{1,2}))?", text)
    return match and int(match[1]) * 100 + int((match[2] or "").ljust(2, "0"))


def command(room, event, sender, words):
    """Carries out a command, and answers it."""
    user = quote(sender, safe="")
    match words:
        case ["!hongbao", amount, count, *greeting] if fen(amount) and re.fullmatch("[0-9]{1,6}", count):
            body = {"split": "random", "total_amount": fen(amount), "count": int(count), "greeting": " ".join(greeting) or "恭喜发财"}
            status, said = engine("POST", f"/users/{user}/packets", body, event)
            if status == 201:
                text = f"🧧 {sender}：{said['greeting']}\n{said['count']} 份，共 {yuan(said['total_amount'])}。用 🧧 回应这条消息来抢。"
                return say(room, event, text, **{PACKET: said["packet_id"]})
        case ["!topup", amount] if fen(amount) and "--topup" in sys.argv:
            # A command's event is the name of the deposit, which takes fewer letters.
            name = re.sub("[^A-Za-z0-9_-]", "", event)[:64]
            status, said = engine("PUT", f"/wallets/{user}/deposits/{name}", {"amount": fen(amount)})
            if status in (200, 201):
                return say(room, event, f"{sender} 有 {yuan(said['balance'])}")
        case _:
            said = {"title": "!hongbao 10.00 5 恭喜发财"}
    say(room, event, f"{sender}：{said.get('detail') or said['title']}")


def grab(room, event, sender, message):
    """Grabs a slip of the packet that a message of the bot shows."""
    shown = matrix("GET", f"/rooms/{quote(room)}/event/{quote(message, safe='')}") or {}
    packet = shown.get("content", {}).get(PACKET)
    if shown.get("sender") != me or not isinstance(packet, str):
        return
    _, said = engine("POST", f"/users/{quote(sender, safe='')}/packets/{quote(packet, safe='')}/grab")
    outcome = said.get("outcome") or said["title"]
    lost = {"sold_out": "手慢了，红包抢完了", "expired": "红包过期了", "closed": "红包关闭了"}
    text = f"抢到 {yuan(said['amount'])}" if outcome == "grabbed" else lost.get(outcome, outcome)
    say(room, event, f"{sender} {text}")


def handle(room, event):
    content, sender = event.get("content", {}), event["sender"]
    related, words = content.get("m.relates_to", {}), str(content.get("body", "")).split()
    if event["type"] == "m.room.message" and words and words[0] in ("!hongbao", "!topup"):
        command(room, event["event_id"], sender, words)
    elif event["type"] == "m.reaction" and str(related.get("key", "")).startswith("🧧"):
        grab(room, event["event_id"], sender, str(related.get("event_id")))


def follow(since):
    """Handles what happened since then, and returns where it ended."""
    asked = {"timeout": 30_000, "since": since} if since else {"timeout": 0}
    news = matrix("GET", "/sync?" + urlencode(asked | {"filter": FILTER}), timeout=60)
    for room in news.get("rooms", {}).get("invite", {}):
        matrix("POST", f"/rooms/{quote(room)}/join", {})
    for room, joined in news.get("rooms", {}).get("join", {}).items() if since else ():
        for event in joined["timeline"]["events"]:
            handle(room, event)
    matrix("PUT", f"/user/{quote(me)}/account_data/{READ}", {"since": news["next_batch"]})
    return news["next_batch"]


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    me = matrix("GET", "/account/whoami")["user_id"]
    since = (matrix("GET", f"/user/{quote(me)}/account_data/{READ}") or {}).get("since")
    log.info("%s follows its rooms", me)
    while True:
        try:
            since = follow(since)
        except Unavailable as error:
            log.warning("it reads the same again: %s", error)
