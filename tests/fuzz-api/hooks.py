"""What openapi.yaml can't say to Schemathesis: who calls, and which of a body's values must fit one another.

Counts the answers besides, by operation and status, in target/fuzz-api/answers.json.
"""

import atexit
import collections
import json
import pathlib
import zlib

import schemathesis

USERS = ["alice", "bob", "carol", "dave"]
SLIP_AMOUNT_MAX = 20_000
ANSWERS = pathlib.Path("target/fuzz-api/answers.json")

answers = collections.defaultdict(collections.Counter)


@schemathesis.hook
def before_call(context, case, kwargs):
    """Gives the local stack its stand-in for a user's token: one of a few users, the same whenever a case is repeated.

    A case that leaves the token out stays without a caller.
    """
    if "Authorization" in case.headers:
        asked = repr((case.path_parameters, case.query, case.body))
        case.headers["X-User-Id"] = USERS[zlib.crc32(asked.encode("utf-8", "surrogatepass")) % len(USERS)]


@schemathesis.hook
def after_call(context, case, response):
    answers[case.operation.label][response.status_code] += 1


@schemathesis.hook
def map_case(context, case):
    """Makes a good body one that this API takes: its integers are written as such, and the slips can hold the total."""
    if case.meta.generation.mode.is_positive and isinstance(case.body, dict):
        case.body = {name: whole(value) for name, value in case.body.items()}
        if case.operation.label == "POST /packets":
            count = case.body["count"]
            case.body["total_amount"] = count + case.body["total_amount"] % (count * (SLIP_AMOUNT_MAX - 1) + 1)
    return case


def whole(value):
    """JSON Schema takes 1.0 for an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


@atexit.register
def write_answers():
    ANSWERS.write_text(json.dumps(answers, indent=2, sort_keys=True))
