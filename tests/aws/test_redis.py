"""How the functions reach Redis: the tokens by which they sign in, and what their users in stacks/state.yaml may do, on a real server.

    python tests/aws/test_redis.py     records the tokens again
"""

import contextlib
import datetime
import json
import os
import re
import shutil
import subprocess
import time
import unittest.mock
from urllib.parse import urlencode

import botocore.auth
import pytest
import redis
from botocore.credentials import Credentials
from botocore.hooks import HierarchicalEmitter
from botocore.model import ServiceId
from botocore.signers import RequestSigner
from transformed import ROOT, source

# A test of the Rust code signs the same, and compares.
FILE = ROOT / "shared/src/redis/connection/iam/botocore.json"
KEYS = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}
INPUTS = [
    {"user": "functions", "cache": "hongbao-prod", "serverless": False, "region": "ap-east-1", "at": "2026-11-21T12:34:56Z"},
    {"user": "functions", "cache": "hongbao-prod", "serverless": True, "region": "ap-east-1", "at": "2026-11-21T12:34:56Z"},
    {
        "user": "hongbao-dev-a1",
        "cache": "hongbao-dev-0",
        "serverless": False,
        "region": "cn-north-1",
        "at": "2027-01-01T00:00:00Z",
        # A role's credentials have such a token. This one has every character that must be encoded.
        "session_token": "IQoJb3JpZ2luX2VjEHo//////////wEaCXVz+/==",
    },
]


def token(given):
    credentials = Credentials(given["access_key_id"], given["secret_access_key"], given.get("session_token"))
    emitter = HierarchicalEmitter()  # The signer keeps only a weak reference to it.
    signer = RequestSigner(ServiceId("elasticache"), given["region"], "elasticache", "v4", credentials, emitter)
    query = {"Action": "connect", "User": given["user"]}
    if given["serverless"]:
        query["ResourceType"] = "ServerlessCache"
    url = f"https://{given['cache']}/?{urlencode(query)}"
    request = {"method": "GET", "url": url, "body": {}, "headers": {}, "context": {}}
    at = datetime.datetime.fromisoformat(given["at"])
    with unittest.mock.patch.object(botocore.auth, "get_current_datetime", lambda: at):
        signed = signer.generate_presigned_url(request, "connect", expires_in=900, region_name=given["region"])
    return signed.removeprefix("https://")


def vectors():
    return [{**KEYS, **given, "token": token({**KEYS, **given})} for given in INPUTS]


def test_the_recorded_tokens_are_botocores():
    assert json.loads(FILE.read_text()) == vectors(), "to record them again: python tests/aws/test_redis.py"


# Commands of the connection besides scripts: for signing in, and for a cluster.
CONNECTION = [
    ["PING"],
    ["HELLO", "3"],
    ["CLIENT", "SETNAME", "x"],
    ["READONLY"],
    ["ASKING"],
    ["CLUSTER", "SLOTS"],
    ["CLUSTER", "MYID"],
    ["CLUSTER", "SHARDS"],
    ["CLUSTER", "NODES"],
]
FORBIDDEN = [
    ["KEYS", "*"],
    ["SCAN", "0"],
    ["FLUSHALL"],
    ["FLUSHDB"],
    ["CONFIG", "GET", "*"],
    ["ACL", "LIST"],
    ["SHUTDOWN"],
    ["DEBUG", "SLEEP", "1"],
    ["MONITOR"],
    ["SCRIPT", "FLUSH"],
    ["SCRIPT", "KILL"],
    ["CLIENT", "KILL", "ID", "1"],
    ["CLUSTER", "FAILOVER"],
    ["CLUSTER", "RESET"],
    ["REPLICAOF", "NO", "ONE"],
    ["SUBSCRIBE", "x"],
    ["HGETALL", "other:key"],
]


@contextlib.contextmanager
def running(folder, *options):
    """A server on a socket of this folder."""
    program = os.environ.get("HONGBAO_REDIS_SERVER") or shutil.which("redis-server") or shutil.which("valkey-server")
    program = program or next(map(str, (ROOT / ".tools").glob("valkey-server")), None)
    assert program, "scripts/install-tools.sh installs a Redis or Valkey server"
    process = subprocess.Popen(
        [program, "--port", "0", "--unixsocket", f"{folder}/socket", "--save", "", *options], cwd=folder, stdout=subprocess.DEVNULL
    )
    client = redis.Redis(unix_socket_path=f"{folder}/socket")
    for _ in range(100):
        try:
            client.ping()
            break
        except redis.ConnectionError:
            time.sleep(0.1)
    yield client
    process.terminate()
    process.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running(tmp_path_factory.mktemp("redis"), "--cluster-enabled", "yes") as client:
        for name, user in (("functions", "RedisUser"), ("reader", "RedisReader")):
            access = source("stacks/state.yaml")["Resources"][user]["Properties"]["AccessString"]
            client.execute_command("ACL", "SETUSER", name, "nopass", *access.split())
        yield client


def may(server, command, user="functions"):
    answer = server.execute_command("ACL", "DRYRUN", user, *command)
    return answer in (b"OK", "OK", True)


def commands_of(script):
    return {name.upper() for name in re.findall(r"call\(['\"]([A-Za-z]+)['\"]", script.read_text())}


def commands_of_the_code():
    """Each command that a script or the store uses."""
    named = set()
    scripts = [*(ROOT / "shared/src/redis/lua").glob("*.lua"), *(ROOT / "admin/src").glob("*.lua")]
    for script in scripts:
        named |= commands_of(script)
    for code in (ROOT / "shared/src/redis/store.rs", ROOT / "shared/src/redis/connection/call.rs"):
        named |= set(re.findall(r"cmd\(\"([A-Z]+)\"\)", code.read_text()))
    assert {"HGET", "EVALSHA", "PEXPIREAT", "ZRANGE"} <= {name.upper() for name in named}
    return sorted(name.upper() for name in named)


KEY = "hb:{1}:part:x"
ARGUMENTS = {
    "EVAL": ["return 1", "1", KEY],
    "EVALSHA": [40 * "0", "1", KEY],
    "EXISTS": [KEY],
    "GET": [KEY],
    "HSET": [KEY, "a", "b"],
    "HINCRBY": [KEY, "a", "1"],
    "ZADD": [KEY, "1", "a"],
    "LRANGE": [KEY, "0", "1"],
    "LREM": [KEY, "1", "a"],
    "LLEN": [KEY],
    "ZRANGE": [KEY, "0", "1"],
    "SETBIT": [KEY, "1", "1"],
    "DEL": [KEY],
    "HGETALL": [KEY],
    "HLEN": [KEY],
    "PERSIST": [KEY],
    "PTTL": [KEY],
    "BITCOUNT": [KEY],
    "ZCARD": [KEY],
}


@pytest.mark.parametrize("command", commands_of_the_code())
def test_the_engines_commands_are_allowed(server, command):
    assert may(server, [command, *ARGUMENTS.get(command, [KEY, "1"])])


@pytest.mark.parametrize("command", CONNECTION, ids=" ".join)
def test_a_connections_commands_are_allowed(server, command):
    assert may(server, command)


@pytest.mark.parametrize("command", FORBIDDEN, ids=" ".join)
def test_all_other_commands_are_forbidden(server, command):
    assert not may(server, command)


# What the commands of hongbao-admin that read ask of Redis, besides signing in: packet, parked, and backlog.
READING = {"EVAL", "EVALSHA", "ZRANGE"} | commands_of(ROOT / "admin/src/inspect.lua") | commands_of(
    ROOT / "shared/src/redis/lua/outbox.lua"
)


@pytest.mark.parametrize("command", sorted(set(commands_of_the_code()) - {"PING"} | READING))
def test_the_reader_reads_and_nothing_else(server, command):
    may_read = may(server, [command, *ARGUMENTS.get(command, [KEY, "1"])], "reader")
    assert may_read == (command in READING)
    assert not any(may(server, forbidden, "reader") for forbidden in FORBIDDEN)


@pytest.mark.parametrize("command", [["PING"], ["ASKING"], ["CLUSTER", "SLOTS"], ["CLUSTER", "MYID"]], ids=" ".join)
def test_the_readers_connection_works(server, command):
    assert may(server, command, "reader")


if __name__ == "__main__":
    FILE.write_text(json.dumps(vectors(), indent=2) + "\n")
