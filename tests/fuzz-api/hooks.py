"""Adds to Schemathesis what openapi.yaml can't express: the caller, and the values of a body that depend on each other.

Also counts the answers by operation and status, in target/fuzz-api/answers.json.
"""

import atexit
import collections
import datetime
import functools
import json
import pathlib
import re
import unicodedata
import zlib

import schemathesis
from schemathesis.core.parameters import ParameterLocation

USERS = ["alice", "bob", "carol", "dave"]
SLIP_AMOUNT_MAX = 20_000
PASSPHRASE_CHARS_MAX = 64
HIDDEN = re.compile("[\u180b-\u180f\ufe00-\ufe0f\U000e0000-\U0010ffff]")
WORK = pathlib.Path("target/fuzz-api")
ANSWERS = WORK / "answers.json"
# The user whom a suspension meets.
SUSPENDED = "dave"
# Where a body that is null counts as none, so another wrong one takes its place.
NOTHING_REQUIRED = ("/grab", "/post", "/void")

answers = collections.defaultdict(collections.Counter)


# What texts are accepted. The document's own patterns say less, because every tool must be able to read them.
PLAIN = (
    "^[^\\x00-\\x1f\\x7f-\\x9f\\xad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u200b\\u200e\\u200f\\u2028-\\u202e"
    "\\u2060-\\u206f\\u3164\\ue000-\\uf8ff\\ufe03-\\ufe0d\\ufeff\\uffa0\\ufff0-\\ufffb]*$"
)
PATTERNS = {
    r"^[^\x00-\x1f\x7f]*$": PLAIN,
    r"^[^\x00-\x1f\x7f]*[^\x00-\x20\x7f][^\x00-\x1f\x7f]*$": "^[^\\x00-\\x1f\\x7f-\\x9f]*[!-~\u4e00-\u9fff][^\\x00-\\x1f\\x7f-\\x9f]*$",
}


@schemathesis.hook
def before_load_schema(context, raw_schema):
    """Closes the answers: those of this version have only the fields and values that the document knows."""
    for schema in raw_schema["components"]["schemas"].values():
        if schema.get("type") == "object":
            schema.setdefault("additionalProperties", False)
        if "x-extensible-enum" in schema:
            schema["enum"] = schema.pop("x-extensible-enum")
    say_all(raw_schema["components"]["schemas"])


def say_all(node):
    """Puts the whole pattern of a text where the document has a part of it."""
    if isinstance(node, dict) and node.get("pattern") in PATTERNS:
        node["pattern"] = PATTERNS[node["pattern"]]
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else []:
        say_all(inner)


@schemathesis.hook
def before_call(context, case, kwargs):
    """Names one of a few users in place of a token: the same user whenever a case is repeated.

    A case without a token stays without a caller.
    """
    make_acceptable(case)
    spare_most(case)
    if case.body is None and case.operation.label.endswith(NOTHING_REQUIRED):
        case.body = []
    if "Authorization" in case.headers:
        # A comma joins two tokens.
        case.headers["Authorization"] = case.headers["Authorization"].replace(",", "")
        asked = repr((case.path_parameters, case.query, case.body))
        case.headers["X-User-Id"] = USERS[zlib.crc32(asked.encode("utf-8", "surrogatepass")) % len(USERS)]


@schemathesis.hook
def after_call(context, case, response):
    answers[case.operation.label][response.status_code] += 1


def make_acceptable(case):
    """Makes a valid body acceptable: chooses a total that the slips can hold, a usable limit and a start to come.

    The maximum of a passphrase holds for its normalised form, so a longer one is cut. The pattern of a greeting allows hidden
    characters, which mean something beside certain others only, so they are left out. It runs before each call, because the hook
    `map_case` does not meet each case that comes from the document's examples.
    """
    if isinstance(case.body, dict) and has_valid_body(case.meta):
        if case.operation.label in ("POST /packets", "POST /users/{user_id}/packets"):
            count, total = case.body["count"], case.body["total_amount"]
            if not count <= total <= count * SLIP_AMOUNT_MAX:
                case.body["total_amount"] = count + total % (count * (SLIP_AMOUNT_MAX - 1) + 1)
            # A field that is null counts as left out.
            normal = unicodedata.normalize("NFKC", case.body.get("passphrase") or "").strip()
            if len(normal) > PASSPHRASE_CHARS_MAX:
                case.body["passphrase"] = normal[:PASSPHRASE_CHARS_MAX]
            if case.body.get("limit"):
                case.body["limit"] = usable(case.body["limit"], case.body)
            if case.body.get("starts_at") is not None:
                case.body["starts_at"] = soon(case.body["starts_at"])
        if case.body.get("greeting"):
            case.body["greeting"] = visible(case.body["greeting"])
        if case.body.get("metadata"):
            pairs = case.body["metadata"].items()
            case.body["metadata"] = {visible(key) or "fuzz": value and visible(value) for key, value in pairs}
        for name in ("reason", "note"):
            if case.body.get(name) is not None:
                case.body[name] = visible(case.body[name]) or "fuzz"


def has_valid_body(meta):
    """Whether the body is valid by the document. A case whose headers alone are invalid may become valid when its caller is named."""
    body = meta and meta.components.get(ParameterLocation.BODY)
    return meta and (meta.generation.mode.is_positive or body and body.mode.is_positive)


def spare_most(case):
    """Keeps most packets open, most users free and sending possible: a close meets only packets that are there for it, a suspension only
    one user, and nobody pauses sending."""
    given = case.path_parameters or {}
    if case.operation.label.endswith("/close") and given.get("packet_id") in ids("packets"):
        closable = ids("closable")
        case.path_parameters["packet_id"] = closable[zlib.crc32(given["packet_id"].encode()) % len(closable)]
    if case.operation.label.endswith("/references/{reference}/close") and (case.query or {}).get("sender_id") in USERS:
        case.query["sender_id"] = SUSPENDED
    if case.operation.label.endswith("/suspension") and given.get("user_id") in USERS:
        case.path_parameters["user_id"] = SUSPENDED
    if case.operation.label == "PUT /operator/sending" and isinstance(case.body, dict) and case.body.get("paused") is True:
        case.body = case.body | {"paused": False}


def usable(limit, packet):
    """The limit with a number that is not null, and an amount that a slip fits into."""
    limit = dict(limit)
    if limit.get("amount") is None:
        limit["wins"] = limit.get("wins") or 1
    else:
        limit["amount"] = max(limit["amount"], -(-packet["total_amount"] // packet["count"]))
    return limit


@functools.cache
def ids(name):
    """The ids in a file of the script's."""
    return [json.loads(line) for line in (WORK / name).read_text().splitlines()]


def soon(text):
    """A time within the next six days, the same for the same text within a minute, with its offset from UTC if there is one."""
    now = datetime.datetime.now(datetime.UTC).replace(second=0, microsecond=0)
    ahead = datetime.timedelta(minutes=2 + zlib.crc32(text.encode()) % (6 * 24 * 60))
    zone = datetime.timezone(datetime.timedelta(hours=8)) if "+" in text else datetime.UTC
    return (now + ahead).astimezone(zone).isoformat(timespec="milliseconds")


def visible(text):
    """The text without characters that can be hidden: formats, private use, selectors, and all of plane 14."""
    return "".join(one for one in text if not HIDDEN.match(one) and unicodedata.category(one) not in ("Cf", "Co"))


@atexit.register
def write_answers():
    ANSWERS.write_text(json.dumps(answers, indent=2, sort_keys=True))
