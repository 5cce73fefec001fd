"""Red packets in Telegram groups: /hongbao 10.00 5 恭喜发财

1. Get a token from @BotFather. Make the bot an administrator of your group, or it can't see who is a member.
2. make run ARGS="--webhook-url http://127.0.0.1:8080/ --webhook-secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
3. export TELEGRAM_TOKEN=123:abc WEBHOOK_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw
4. python3 examples/telegram_bot.py --topup
5. In the group: /topup 100, /hongbao 10.00 5 恭喜发财, /balance

Where money comes from: each Telegram user has a wallet of the engine, as user tg:<id>. Your app fills it by
PUT /wallets/tg:<id>/deposits/<transfer>, after it has received the money, and pays out by a withdrawal. --topup gives play money
to any user who asks.

It needs Python 3.11 only. Other settings: HONGBAO_URL (http://127.0.0.1:3000), HOST (127.0.0.1) and PORT (8080) for webhooks,
TELEGRAM_API (https://api.telegram.org).

The bot stores nothing. The command's group and message are the key of the send, and the packet's reference. Run one bot per token.
"""
import argparse
import base64
import functools
import hmac
import http.client
import json
import logging
import os
import re
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HONGBAO_URL = os.environ.get("HONGBAO_URL", "http://127.0.0.1:3000")
TELEGRAM_API = os.environ.get("TELEGRAM_API", "https://api.telegram.org")
TOKEN = os.environ.get("TELEGRAM_TOKEN", "")
SECRET = os.environ.get("WEBHOOK_SECRET", "")
ADDRESS = os.environ.get("HOST", "127.0.0.1"), int(os.environ.get("PORT", "8080"))
# Telegram lets a bot send 20 messages a minute to a group, of up to 4096 characters: a line for each of so many winners fits.
REST_S, MAX_COUNT, TRIES = 3, 100, 10
USAGE = f"用法：/hongbao 10.00 5 恭喜发财（金额为元，份数 1 到 {MAX_COUNT}）"


class Unavailable(Exception):
    """No answer, or one that says to try again. The outcome is unknown, and a repeat is safe."""


class Refused(Exception):
    """Telegram will not do it, however often it is asked."""


# --- Requests


class AnyStatus(urllib.request.HTTPErrorProcessor):
    """An answer of any status is an answer, and no redirect is followed."""

    def http_response(self, request, response):
        return response

    https_response = http_response


def call(method, url, body=None, headers=None, timeout=4):
    """Returns the status and the JSON, or 0 and {} without an answer."""
    headers = {"Content-Type": "application/json"} | (headers or {})
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), headers, method=method)
    try:
        with urllib.request.build_opener(AnyStatus).open(request, timeout=timeout) as response:
            status, text = response.status, response.read()
    except (OSError, http.client.HTTPException):
        return 0, {}
    try:
        answer = json.loads(text)
    except ValueError:
        answer = {}
    return status, answer if isinstance(answer, dict) else {}


def engine(method, path, body=None, key=None):
    """Asks the engine as the operator. It repeats what got no answer: it is the same request, so it counts once."""
    # On AWS: sign each request with Signature Version 4 here, for example with botocore's SigV4Auth.
    for tries in range(3):
        status, answer = call(method, HONGBAO_URL + path, body, {"Idempotency-Key": key} if key else {})
        if status not in (0, 429) and status < 500:
            return status, answer
        time.sleep(0.2 * 2**tries)
    raise Unavailable(f"{method} {path}: {status} {answer.get('code', '')}")


def telegram(method, wait=5, **fields):
    """Asks the Bot API. After a 429 it waits as long as Telegram says, but at most `wait` seconds in all."""
    while True:
        status, answer = call("POST", f"{TELEGRAM_API}/bot{TOKEN}/{method}", fields, timeout=10 + fields.get("timeout", 0))
        if answer.get("ok"):
            return answer["result"]
        parameters = answer.get("parameters", {})
        pause = max(1, parameters.get("retry_after", 1))
        wait -= pause
        if status == 429 and wait >= 0:
            time.sleep(pause)
        elif "migrate_to_chat_id" in parameters and wait >= 0:
            fields["chat_id"] = parameters["migrate_to_chat_id"]  # The group has become a supergroup.
        elif status in (0, 429) or status >= 500:
            raise Unavailable(f"{method}: {status}")
        else:
            raise Refused(f"{method}: {answer.get('description', status)}")


# --- Texts


def yuan(fen):
    return f"{fen // 100}.{fen % 100:02} 元"


def fen(text):
    """Returns 1234 for "12.34", exactly, and None for anything else than yuan."""
    match = re.fullmatch(r"([0-9]{1,9})(?:\.([0-9]{1,2}))?", text)
    return match and int(match[1]) * 100 + int((match[2] or "").ljust(2, "0"))


def clean(text):
    """Leaves out line breaks, and characters that are invisible or turn the direction of what follows."""
    return "".join(filter(str.isprintable, text)).strip()


names = {}


def remember(user):
    """Returns the engine's id of a Telegram user, and keeps the name."""
    user_id = f"tg:{user['id']}"
    names[user_id] = clean(user["first_name"])[:20] or user_id
    return user_id


def name_of(user_id, group):
    if user_id not in names and user_id.startswith("tg:"):
        try:  # The bot has started since they pressed.
            remember(telegram("getChatMember", wait=60, chat_id=group, user_id=int(user_id[3:]))["user"])
        except Refused:
            pass
    return names.get(user_id, user_id)


def describe(packet, claims, group):
    name = functools.partial(name_of, group=group)
    left = packet["count"] - len(claims)
    lines = [f"🧧 {name(packet['sender_id'])} 的红包：{packet['greeting']}", f"共 {yuan(packet['total_amount'])}，{packet['count']} 个，剩 {left} 个"]
    lines += [f"{name(claim['user_id'])} {yuan(claim['amount'])}{' 👑 手气最佳' if claim['best'] else ''}" for claim in claims]
    if packet["refunded_amount"]:
        lines.append(f"未领取的 {yuan(packet['refunded_amount'])} 已退回 {name(packet['sender_id'])}")
    elif ending := {"expired": "红包已过期", "closed": "红包已关闭"}.get(packet["status"]):
        lines.append(ending)
    return "\n".join(lines)


# --- The message that shows a packet. A restart forgets all of this: the next press tells the bot its message again, and if there
# --- is none, a new message shows the end.

lock = threading.Lock()
messages, shown = {}, {}  # By packet: the message's id, and its text.
planned, free_at, turns = {}, {}, {}  # By packet, what is about to be shown; by group, when, and by which thread.


def place_in(reference):
    """Returns the group and the command that a packet of this bot was sent by."""
    match = re.fullmatch(r"tg:(-[0-9]+)\.([0-9]+)", reference or "")
    return match and (int(match[1]), int(match[2]))


@functools.lru_cache(10_000)
def place_of(packet_id):
    status, packet = engine("GET", f"/operator/packets/{packet_id}")
    if status not in (200, 404):
        raise Unavailable(f"packet {packet_id}: {status} {packet.get('code', '')}")
    return place_in(packet.get("reference"))


def plan(packet_id, group, command, tries=0):
    """Shows the packet as soon as its group may get an edit again. Until then later calls join it. Returns an event for the end."""
    with lock:
        if packet_id not in planned:
            now = time.monotonic()
            at = max(now, free_at.get(group, now))
            free_at[group], planned[packet_id] = at + REST_S, threading.Event()
            timer = threading.Timer(at - now, paint, (packet_id, group, command, tries, planned[packet_id]))
            timer.daemon = True
            timer.start()
        return planned[packet_id]


def paint(packet_id, group, command, tries, done):
    with lock:
        turn = turns.setdefault(group, threading.Lock())
    with turn:
        with lock:
            del planned[packet_id]  # What happens from here on needs another look.
        try:
            show(packet_id, group, command)
        except Unavailable as error:
            logging.warning("%s", error)
            if tries < TRIES:
                plan(packet_id, group, command, tries + 1)
            return
        except Refused as error:  # The message was deleted, or the bot may not write there.
            logging.warning("%s", error)
        done.set()


def show(packet_id, group, command):
    status, packet = engine("GET", f"/operator/packets/{packet_id}")
    claimed, page = engine("GET", f"/operator/packets/{packet_id}/claims?order=newest&limit={MAX_COUNT}")
    if (status, claimed) != (200, 200):
        raise Unavailable(f"packet {packet_id}: {status} {claimed}")
    text = describe(packet, page["claims"][::-1], group)
    button = [{"text": "抢红包", "callback_data": packet_id}] if packet["status"] == "open" else []
    content = {"chat_id": group, "text": text, "reply_markup": {"inline_keyboard": [button] if button else []}}
    if packet_id not in messages:
        reply = {"message_id": command, "allow_sending_without_reply": True}
        messages[packet_id] = telegram("sendMessage", wait=600, reply_parameters=reply, **content)["message_id"]
    elif shown.get(packet_id) != text:
        try:
            telegram("editMessageText", wait=600, message_id=messages[packet_id], **content)
        except Refused as error:
            if "not modified" not in str(error):
                raise
    shown[packet_id] = text


# --- Updates


def hongbao(message, arguments):
    if message["chat"]["type"] not in ("group", "supergroup"):
        return "请在群里发红包"
    match = re.fullmatch(r"(\S+)\s+([0-9]{1,3})(?:\s+(.*))?", arguments, re.DOTALL)
    amount, count = (fen(match[1]), int(match[2])) if match else (0, 0)
    if not amount or not 1 <= count <= MAX_COUNT:
        return USAGE
    user, group, command = remember(message["from"]), message["chat"]["id"], message["message_id"]
    place = f"tg:{group}.{command}"
    # All of the body is from the update. If it comes twice, both are the same send.
    body = {"split": "random", "total_amount": amount, "count": count, "greeting": clean(match[3] or "恭喜发财")[:64], "reference": place}
    try:
        status, answer = engine("POST", f"/users/{user}/packets", body, place)
    except Unavailable as error:
        logging.warning("%s", error)
        return "服务暂时没有回应。如果钱已扣，红包稍后会出现；没有出现就没有扣钱"
    if status in (200, 201):
        plan(answer["packet_id"], group, command)
        return None
    texts = {"insufficient-balance": "余额不足", "account-suspended": "你的账户已停用", "daily-limit-exceeded": "超过了每日限额"}
    return texts.get(answer.get("code")) or "发不了：" + "；".join(error["reason"] for error in answer.get("errors", [{"reason": str(status)}]))


def balance(message, _):
    _, wallet = engine("GET", f"/wallets/{remember(message['from'])}")
    return f"余额 {yuan(wallet['balance'])}"


def topup(message, arguments):
    """Play money. The deposit's id is from the update, so an update that comes twice is one deposit."""
    deposit = f"tg{message['chat']['id']}-{message['message_id']}"
    status, wallet = engine("PUT", f"/wallets/{remember(message['from'])}/deposits/{deposit}", {"amount": fen(arguments)})
    return f"余额 {yuan(wallet['balance'])}" if status in (200, 201) else "用法：/topup 100.00"


def obey(message, commands, me):
    match = re.fullmatch(r"/([a-z]+)(?:@(\w+))?(?:\s+(.*))?", message.get("text", ""), re.DOTALL)
    if not match or match[1] not in commands or (match[2] or me).lower() != me.lower():
        return
    # An anonymous administrator has no wallet, and a forwarded command was meant for another place.
    text = "请以个人身份重发这条命令" if "sender_chat" in message or "forward_origin" in message else commands[match[1]](message, match[3] or "")
    if text:
        reply = {"message_id": message["message_id"], "allow_sending_without_reply": True}
        telegram("sendMessage", chat_id=message["chat"]["id"], text=text, reply_parameters=reply)


def grab(user, packet_id, message):
    place = place_of(packet_id) if re.fullmatch("[0-9A-Z]{26}", packet_id) else None
    if not place:
        return "找不到这个红包"
    # A changed client can send any packet's id, so the packet names the group, and the message must have the button.
    buttons = message.get("reply_markup", {}).get("inline_keyboard", [])
    if packet_id not in messages and any(button.get("callback_data") == packet_id for row in buttons for button in row):
        messages[packet_id] = message["message_id"]
        plan(packet_id, *place)
    try:
        member = telegram("getChatMember", chat_id=place[0], user_id=user["id"])
    except Refused as error:
        logging.warning("%s", error)
        member = {"status": "left"}
    if member["status"] not in ("creator", "administrator", "member") and not member.get("is_member"):
        return "只有群成员才能抢"
    _, answer = engine("POST", f"/users/{remember(user)}/packets/{packet_id}/grab", {})
    if answer.get("outcome") == "grabbed":
        return f"你已经抢到 {yuan(answer['amount'])}" if answer["replayed"] else f"恭喜，抢到 {yuan(answer['amount'])}"
    texts = {"sold_out": "来晚了，红包已抢完", "expired": "红包已过期", "closed": "红包已关闭", "not_started": "还没到开抢时间"}
    # Any other outcome, also one of a later version, means no slip.
    return texts.get(answer.get("outcome")) or ("你的账户已停用" if answer.get("code") == "account-suspended" else "没有抢到")


def press(query):
    try:
        text = grab(query["from"], query.get("data", ""), query.get("message", {}))
    except Unavailable as error:
        logging.warning("%s", error)
        text = "暂时没有回应，请稍后再按一次。重复按只算一次"
    telegram("answerCallbackQuery", callback_query_id=query["id"], text=text, show_alert=True)


def handle(update, commands, me):
    try:
        if "callback_query" in update:
            press(update["callback_query"])
        elif "message" in update:
            obey(update["message"], commands, me)
    except (Unavailable, Refused) as error:  # Such as a press that is too old to be answered.
        logging.warning("%s", error)
    except Exception:
        logging.exception("update %s", update["update_id"])


# --- Webhooks


class Webhooks(BaseHTTPRequestHandler):
    timeout = 10

    def do_POST(self):
        body = self.rfile.read(min(int(self.headers.get("Content-Length", 0)), 1 << 20))
        self.send_response(take(json.loads(body)) if is_genuine(self.headers, body) else 401)
        self.end_headers()

    def log_message(self, *_):
        pass


def is_genuine(headers, body):
    """Checks a delivery as the Standard Webhooks specification says."""
    sent_at = headers.get("webhook-timestamp", "")
    if not re.fullmatch("[0-9]{1,12}", sent_at) or abs(time.time() - int(sent_at)) > 300:
        return False
    digest = hmac.digest(base64.b64decode(SECRET.removeprefix("whsec_")), f"{headers['webhook-id']}.{sent_at}.".encode() + body, "sha256")
    expected = b"v1," + base64.b64encode(digest)
    return any(hmac.compare_digest(expected, given.encode()) for given in headers.get("webhook-signature", "").split())


def take(event):
    """Returns the status. The engine is read anew for each look, so it does not matter how often or in which order events come."""
    kind, data = event["type"], event["data"]
    packet_id, place = data.get("packet_id"), place_in(data.get("reference"))
    if place and kind in ("SlipClaimed", "PacketClosed") and packet_id in messages:
        plan(packet_id, *place)
    # A packet needs a message, and the message its end: until they are there, the engine delivers these again.
    if place and (kind == "PacketSettled" or (kind == "PacketSent" and packet_id not in messages)):
        return 204 if plan(packet_id, *place).wait(8) else 503
    return 204


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topup", action="store_true", help="let any user deposit play money for themselves")
    commands = {"hongbao": hongbao, "balance": balance} | ({"topup": topup} if parser.parse_args().topup else {})
    if not TOKEN or not SECRET:
        parser.error("set TELEGRAM_TOKEN and WEBHOOK_SECRET")
    logging.basicConfig(format="%(asctime)s %(message)s")
    server = ThreadingHTTPServer(ADDRESS, Webhooks)
    me = telegram("getMe", wait=60)["username"]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"@{me} takes webhooks at http://{server.server_address[0]}:{server.server_address[1]}/", flush=True)
    offset, pool = 0, ThreadPoolExecutor(32)
    while True:
        try:
            updates = telegram("getUpdates", wait=600, offset=offset, timeout=50, allowed_updates=["message", "callback_query"])
        except (Unavailable, Refused) as error:
            logging.warning("%s", error)
            time.sleep(REST_S)
            continue
        # The next request confirms these updates. After a crash before it, they come again.
        list(pool.map(lambda update: handle(update, commands, me), updates))
        offset = max([offset, *(update["update_id"] + 1 for update in updates)])


if __name__ == "__main__":
    main()
