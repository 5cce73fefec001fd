"""Red packets in Telegram groups: /hongbao 10.00 5 恭喜发财

1. Get a token from @BotFather. Make the bot an administrator of your group, or it can't see who is a member.
2. make run ARGS="--webhook-url http://127.0.0.1:8080/ --webhook-secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
3. export TELEGRAM_TOKEN=123:abc WEBHOOK_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw
4. python3 examples/telegram_bot.py --topup
5. In the group: /topup 100, /hongbao 10.00 5 恭喜发财, /balance

Where money comes from: a Telegram user is the engine's user tg:<id>, with a wallet. Your app deposits there once it has received
their money: PUT /wallets/tg:<id>/deposits/<transfer>. It pays out after a withdrawal. --topup lets anyone deposit play money.

More settings: HONGBAO_URL, TELEGRAM_API; HOST and PORT to take webhooks at. The bot stores nothing. A command's group and message
are the key of its send, and with a signature the packet's reference.
"""
import base64
import collections
import hmac
import http.client
import json
import logging
import os
import re
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HONGBAO_URL = os.environ.get("HONGBAO_URL", "http://127.0.0.1:3000").rstrip("/")
TELEGRAM_API = os.environ.get("TELEGRAM_API", "https://api.telegram.org").rstrip("/")
TOKEN, SECRET = os.environ.get("TELEGRAM_TOKEN"), os.environ.get("WEBHOOK_SECRET")
ADDRESS = os.environ.get("HOST", "127.0.0.1"), int(os.environ.get("PORT", "8080"))
# Telegram lets a bot send 20 messages a minute to a group, of up to 4096 characters: a line for each of so many winners fits.
REST_S, MAX_COUNT, TRIES, BODY_MAX = 3, 100, 10, 1 << 16
log = logging.getLogger("bot")


class Unavailable(Exception):
    """No answer, or one that says to try again. The outcome is unknown, and a repeat is safe."""


class Refused(Exception):
    """Telegram's answer would be the same each time."""


def call(method, url, body, headers, timeout):
    """Returns the status and the JSON of an answer; 0 and {} if there is none."""
    data = None if body is None else json.dumps(body).encode()
    # On AWS, for the engine: | signing.headers(method, url, data), of examples/signing.py.
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"} | headers, method=method)
    try:
        try:
            answer = urllib.request.urlopen(request, timeout=timeout)
        except urllib.error.HTTPError as error:
            answer = error
        return answer.status, json.loads(answer.read())
    except (OSError, http.client.HTTPException, ValueError):
        return 0, {}


def engine(method, path, body=None, key=None):
    """Asks the engine as the operator. It repeats what got no answer: it is the same request, so it counts once."""
    headers = {"Idempotency-Key": key} if key else {}
    for tries in range(3):
        status, answer = call(method, HONGBAO_URL + path, body, headers, 4)
        if (status not in (0, 429) and status < 500) or answer.get("code") == "sending-paused":  # Nothing was sent.
            return status, answer
        time.sleep(0.2 * 2**tries)
    raise Unavailable(f"{method} {path}: {status}")


def telegram(method, wait=5, **fields):
    """Asks the Bot API. After a 429 it waits for as long as Telegram says, in all at most `wait` seconds."""
    while True:
        status, answer = call("POST", f"{TELEGRAM_API}/bot{TOKEN}/{method}", fields, {}, 10 + fields.get("timeout", 0))
        if answer.get("ok"):
            return answer["result"]
        parameters = answer.get("parameters", {})
        pause = max(1, parameters.get("retry_after", 1))
        wait -= pause
        if status == 429 and wait >= 0:
            time.sleep(pause)
        elif "migrate_to_chat_id" in parameters and wait >= 0:
            # The group has become a supergroup, where the numbers of messages begin anew: an old one is another message's there.
            old, fields["chat_id"] = fields["chat_id"], parameters["migrate_to_chat_id"]
            moved[old] = fields["chat_id"]
            fields.pop("reply_parameters", None)
            if "message_id" in fields:
                raise Unavailable(f"{method}: the group has moved")
        elif status in (0, 429) or status >= 500:
            raise Unavailable(f"{method}: {status}")
        else:
            raise Refused(f"{method}: {answer.get('description', status)}")


def yuan(fen):
    return f"{fen // 100}.{fen % 100:02} 元"


def fen(text):
    match = re.fullmatch(r"([0-9]{1,9})(?:\.([0-9]{1,2}))?", text)
    return match and int(match[1]) * 100 + int((match[2] or "").ljust(2, "0"))


def clean(text):
    """Leaves out line breaks, and characters that can't be seen or that turn the direction of others."""
    return "".join(filter(str.isprintable, text)).strip()


# Only looks depend on these. After a restart the next press names the packet's message; without one, a new message shows the end.
names, messages, shown = {}, {}, {}  # By group and user; by packet, its message's group and id, and its text.
moved = {}  # By a group that has become a supergroup, that one.
lock, planned, turns = threading.Lock(), {}, collections.defaultdict(threading.Lock)  # What is shown soon, by packet; by group.


def id_of(user):
    """Returns the engine's id of a Telegram user."""
    return f"tg:{user['id']}"


def remember(group, user, is_anonymous=False):
    """Keeps the name that the group may see."""
    names[group, id_of(user)] = "匿名管理员" if is_anonymous else clean(user["first_name"])[:20] or "群友"


def name_of(user_id, group):
    try:
        if (group, user_id) not in names:
            member = telegram("getChatMember", chat_id=group, user_id=user_id[3:])
            remember(group, member["user"], member.get("is_anonymous"))
        return names[group, user_id]
    except Refused:
        return "群友"


def reference_of(group, command, sender_id):
    """Returns the reference of a packet. Only the bot can make it, so no other sender's packet appears in a group."""
    signature = hmac.digest(TOKEN.encode(), f"{group}.{command}.{sender_id}".encode(), "sha256").hex()[:24]
    return f"tg:{group}.{command}.{signature}"


def plan(packet_id, place, tries=0):
    """Shows a packet as soon as its group may get an edit. Calls until then join it. Returns an event for the end."""
    place = (moved[place[0]], None) if place[0] in moved else place
    with lock:
        if packet_id not in planned:
            planned[packet_id] = threading.Event()
            threading.Thread(target=paint, args=(packet_id, place, tries, planned[packet_id]), daemon=True).start()
        return planned[packet_id]


def paint(packet_id, place, tries, done):
    with turns[place[0]]:
        with lock:
            del planned[packet_id]  # Before it looks: what happens from here on needs another look.
        try:
            show(packet_id, *place)
            done.set()
        except Unavailable as error:
            log.warning("%s", error)
            if tries < TRIES:
                plan(packet_id, place, tries + 1)
        except Refused as error:  # It shows this already, or it was deleted, or the bot may not write there.
            log.warning("%s", error)
            done.set()
        time.sleep(REST_S)


def show(packet_id, group, command):
    packet = engine("GET", f"/operator/packets/{packet_id}")[1]
    claims = engine("GET", f"/operator/packets/{packet_id}/claims?order=newest&limit={MAX_COUNT}")[1]["claims"][::-1]
    sender, left = name_of(packet["sender_id"], group), packet["count"] - len(claims)
    lines = [f"🧧 {sender} 的红包：{packet['greeting']}", f"共 {yuan(packet['total_amount'])}，{packet['count']} 个，剩 {left} 个"]
    for claim in claims:
        lines.append(f"{name_of(claim['user_id'], group)} {yuan(claim['amount'])}{' 👑 手气最佳' if claim['best'] else ''}")
    if packet["refunded_amount"]:
        lines.append(f"未领取的 {yuan(packet['refunded_amount'])} 已退回 {sender}")
    buttons = [[{"text": "抢红包", "callback_data": packet_id}]] if packet["status"] == "open" else []
    content = {"chat_id": group, "text": "\n".join(lines), "reply_markup": {"inline_keyboard": buttons}}
    at, message_id = messages.get(packet_id, (None, None))
    if at != group:
        if command:
            content["reply_parameters"] = {"message_id": command, "allow_sending_without_reply": True}
        message_id = telegram("sendMessage", wait=600, **content)["message_id"]
        messages[packet_id] = moved.get(group, group), message_id
    elif shown.get(packet_id) != (lines, buttons):
        telegram("editMessageText", wait=600, message_id=message_id, **content)
    shown[packet_id] = (lines, buttons)


def hongbao(message, arguments):
    match = re.fullmatch(r"(\S+)\s+([0-9]{1,3})(?:\s+(.*))?", arguments, re.DOTALL)
    amount, count = (fen(match[1]), int(match[2])) if match else (0, 0)
    if not amount or not 1 <= count <= MAX_COUNT or message["chat"]["type"] not in ("group", "supergroup"):
        return f"在群里这样发：/hongbao 10.00 5 恭喜发财（金额为元，1 到 {MAX_COUNT} 个）"
    # All of the body comes from the update. So an update that comes twice is one send.
    place, user_id = (message["chat"]["id"], message["message_id"]), id_of(message["from"])
    remember(place[0], message["from"])
    key, greeting = f"tg:{place[0]}.{place[1]}", clean(match[3] or "恭喜发财")[:64]
    body = {"split": "random", "total_amount": amount, "count": count, "greeting": greeting, "reference": reference_of(*place, user_id)}
    status, answer = engine("POST", f"/users/{user_id}/packets", body, key)
    if status in (200, 201):
        plan(answer["packet_id"], place)
        return None
    code = answer.get("code")
    if code == "insufficient-balance":
        return f"余额不足，还差 {yuan(max(1, amount - balance_of(user_id)))}"  # Money may have come in since.
    if code == "daily-limit-exceeded":
        return f"每天最多发 {yuan(answer['limit']['value'])}，未扣款"
    texts = {"account-suspended": "你的账号已停用", "sending-paused": "暂停发红包，未扣款"}
    reasons = {"greeting": "祝福语里有不能用的字符", "total_amount": f"每个至少 {yuan(1)}" if amount < count else "金额太大"}
    wrong = [reasons[error["field"]] for error in answer.get("errors", []) if error["field"] in reasons]
    return texts.get(code) or "：".join(["发不了", *wrong])


def balance_of(user_id):
    return engine("GET", f"/wallets/{user_id}")[1]["balance"]


def balance(message, _):
    return f"余额 {yuan(balance_of(id_of(message['from'])))}"


def topup(message, arguments):
    deposit = f"tg{message['chat']['id']}-{message['message_id']}"
    amount = fen(arguments)
    if not amount:
        return "用法：/topup 100.00（金额为元）"
    status, _ = engine("PUT", f"/wallets/{id_of(message['from'])}/deposits/{deposit}", {"amount": amount})
    return balance(message, "") if status in (200, 201) else "金额太大"


def grab(user, packet_id, message):
    # A changed app can send any data. The button of the message, which only the bot can make, says which packet it shows, and where.
    buttons = [button.get("callback_data") for row in message.get("reply_markup", {}).get("inline_keyboard", []) for button in row]
    if packet_id not in buttons:
        return "红包已结束"
    group = message["chat"]["id"]
    messages.setdefault(packet_id, (group, message["message_id"]))
    if packet_id not in shown:
        plan(packet_id, (group, None))
    try:
        member = telegram("getChatMember", chat_id=group, user_id=user["id"])
    except Refused as error:
        log.warning("%s", error)
        return "无法确认你是群成员"
    if member["status"] not in ("creator", "administrator", "member") and not member.get("is_member"):
        return "只有群成员才能抢"
    remember(moved.get(group, group), user, member.get("is_anonymous"))
    _, answer = engine("POST", f"/users/{id_of(user)}/packets/{packet_id}/grab", {})
    if answer.get("outcome") == "grabbed":
        return f"{'你已经抢到' if answer['replayed'] else '恭喜，抢到'} {yuan(answer['amount'])}"
    texts = {"sold_out": "来晚了，红包已抢完", "limit_reached": "你已领满", "expired": "红包已过期", "closed": "红包已关闭", "account-suspended": "你的账号已停用"}
    # Any other outcome, also one of a later version, means no slip.
    return texts.get(answer.get("outcome", answer.get("code")), "没有抢到")


def ask(doubt, action, *arguments):
    """Returns what the user reads: the action's text, or the doubt if the outcome is unknown."""
    try:
        return action(*arguments)
    except Unavailable as error:
        log.warning("%s", error)
        return doubt


def handle(me, commands, update):
    try:
        if query := update.get("callback_query"):
            text = ask("暂时没有回应，请稍后再按一次。重复按只算一次", grab, query["from"], query.get("data"), query.get("message", {}))
            telegram("answerCallbackQuery", callback_query_id=query["id"], text=text, show_alert=True)
            return
        message = update["message"]
        match = re.fullmatch(r"/(\w+)(@\w+)?(?:\s+(.*))?", message.get("text", ""), re.DOTALL)
        # A command may be another bot's. A forwarded one was meant for another place. An anonymous administrator has no wallet.
        if match and match[1] in commands and match[2] in (None, me) and not {"forward_origin", "sender_chat"} & message.keys():
            # If the packet was sent after all, PacketSent makes it appear.
            text = ask("暂时没有回应。钱若已扣，红包稍后会出现，请先等一分钟", commands[match[1]], message, (match[3] or "").strip())
            if text:
                telegram("sendMessage", chat_id=message["chat"]["id"], text=text, reply_parameters={"message_id": message["message_id"]})
    except (Unavailable, Refused) as error:  # Such as a press that is too old to be answered.
        log.warning("%s", error)
    except Exception:  # One update must not end the bot.
        log.exception("update %s", update["update_id"])


class Webhooks(BaseHTTPRequestHandler):
    timeout = 10

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if re.fullmatch("[0-9]{1,9}", length) and int(length) <= BODY_MAX:
            body = self.rfile.read(int(length))
            status = take(json.loads(body)) if is_genuine(self.headers, body) else 401
        else:
            status = 413
        self.send_response(status)
        self.end_headers()


def is_genuine(headers, body):
    """Checks a delivery as the Standard Webhooks specification says."""
    sent_at = headers.get("webhook-timestamp", "")
    if not re.fullmatch("[0-9]{1,12}", sent_at) or abs(time.time() - int(sent_at)) > 300:
        return False
    key, content = base64.b64decode(SECRET.removeprefix("whsec_")), f"{headers['webhook-id']}.{sent_at}.".encode() + body
    expected = b"v1," + base64.b64encode(hmac.digest(key, content, "sha256"))
    return any(hmac.compare_digest(expected, given.encode()) for given in headers.get("webhook-signature", "").split())


def take(event):
    """Returns the status. Each look reads the engine, so events may come twice and in any order."""
    kind, data = event["type"], event["data"]
    packet_id, sent_by = data.get("packet_id"), re.fullmatch(r"(tg:(-[0-9]+)\.([0-9]+)\.[0-9a-f]+)", data.get("reference") or "")
    if not sent_by or not hmac.compare_digest(sent_by[1], reference_of(sent_by[2], sent_by[3], data["sender_id"])):
        return 204  # Not a packet of the bot.
    # A press shows what it missed. But a packet needs a message, and the message its end: until then these events come again.
    if kind == "PacketSettled" or (packet_id in messages) != (kind == "PacketSent"):
        done = plan(packet_id, (int(sent_by[2]), int(sent_by[3])))
        return 204 if kind in ("SlipClaimed", "PacketClosed") or done.wait(8) else 503
    return 204


def main():
    if not TOKEN or not SECRET or "--help" in sys.argv:
        sys.exit(__doc__)
    commands = {"hongbao": hongbao, "balance": balance} | ({"topup": topup} if "--topup" in sys.argv else {})
    logging.basicConfig(format="%(asctime)s %(message)s")
    me = "@" + telegram("getMe")["username"]
    server = ThreadingHTTPServer(ADDRESS, Webhooks)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"{me} takes webhooks at http://{ADDRESS[0]}:{server.server_port}/", flush=True)
    offset, pool = 0, ThreadPoolExecutor(32)
    while True:
        try:
            updates = telegram("getUpdates", wait=600, offset=offset, timeout=50, allowed_updates=["message", "callback_query"])
        except (Unavailable, Refused) as error:
            log.warning("%s", error)
            time.sleep(REST_S)
            continue
        # The next request confirms these updates. If the bot dies before it, they come again.
        list(pool.map(lambda update: handle(me, commands, update), updates))
        offset = max([offset, *(update["update_id"] + 1 for update in updates)])


if __name__ == "__main__":
    main()
