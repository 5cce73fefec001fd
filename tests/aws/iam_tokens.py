"""Tokens for ElastiCache as botocore signs them, written to a file. A test of the Rust code signs the same and compares."""

import datetime
import json
import unittest.mock
from urllib.parse import urlencode

import botocore.auth
from botocore.credentials import Credentials
from botocore.hooks import HierarchicalEmitter
from botocore.model import ServiceId
from botocore.signers import RequestSigner
from transformed import ROOT

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


if __name__ == "__main__":
    FILE.write_text(json.dumps(vectors(), indent=2) + "\n")
