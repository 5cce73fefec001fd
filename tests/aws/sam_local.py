"""The functions of template.yaml for SAM's containers on this machine: the same builds, routes, sizes and time-outs, but the
stores that the environment names, and this machine's processor. There are no roles, no network and nothing else of AWS.

    python tests/aws/sam_local.py template target/sam-local/template.yaml
    python tests/aws/sam_local.py routes http://127.0.0.1:3001
"""

import json
import os
import pathlib
import platform
import re
import sys
import urllib.error
import urllib.request

from transformed import ROOT, source

KEPT = ("Description", "MemorySize", "Timeout")
STORES = ("TABLE_NAME", "AWS_ENDPOINT_URL_DYNAMODB", "REDIS_URL", "REDIS_CLUSTER", "GRAB_ACK")


def architecture():
    return "arm64" if platform.machine() in ("aarch64", "arm64") else "x86_64"


def reduced():
    """A template that needs neither parameters nor an account."""
    written = source()
    variables = {name: os.environ[name] for name in STORES if name in os.environ}
    # DynamoDB on this machine requires credentials, but ignores their values.
    variables |= {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_REGION": "local"}
    # The local stack's: the walkthrough waits for a refund.
    variables["SETTLE_GRACE_MS"] = "250"
    resources = {"Api": {"Type": "AWS::Serverless::HttpApi", "Properties": {"StageName": "$default"}}}
    for name, resource in written["Resources"].items():
        # A function with a condition runs only on machines of AWS.
        if resource["Type"] != "AWS::Serverless::Function" or "Condition" in resource:
            continue
        properties = resource["Properties"]
        events = {
            event: {"Type": "HttpApi", "Properties": {**of, "ApiId": {"Ref": "Api"}}}
            for event, of in (
                (event, {key: value for key, value in found["Properties"].items() if key in ("Path", "Method")})
                for event, found in properties.get("Events", {}).items()
                if found["Type"] == "HttpApi"
            )
        }
        resources[name] = {
            "Type": resource["Type"],
            "Metadata": resource["Metadata"],
            "Properties": {key: properties[key] for key in KEPT if key in properties}
            | {
                "Runtime": "provided.al2023",
                "Handler": "bootstrap",
                "CodeUri": str(ROOT),
                "Architectures": [architecture()],
                "Environment": {"Variables": variables},
            }
            | ({"Events": events} if events else {}),
        }
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Transform": "AWS::Serverless-2016-10-31",
        "Resources": resources,
    }


def operations():
    """Each route of openapi.yaml, with its parameters filled in."""
    import yaml

    document = yaml.safe_load((ROOT / "openapi.yaml").read_text())
    for path, methods in document["paths"].items():
        for method in methods:
            if method in ("get", "put", "post", "delete") and not path.startswith("/_local"):
                yield method.upper(), re.sub(r"\{\w+\}", "x", path)


def check_routes(url):
    """SAM signs nobody in, so a 401 of the engine's own form proves that the route leads to a function."""
    wrong = []
    for method, path in operations():
        request = urllib.request.Request(url + path, method=method, data=b"{}" if method != "GET" else None)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                status, body = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, body = error.code, error.read()
        try:
            code = json.loads(body).get("code")
        except ValueError:
            code = body[:80]
        print(method, path, status, code)
        if (status, code) != (401, "unauthenticated"):
            wrong.append((method, path))
    sys.exit(f"these routes did not answer 401: {wrong}" if wrong else 0)


if __name__ == "__main__":
    if sys.argv[1] == "template":
        target = pathlib.Path(sys.argv[2])
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(reduced(), indent=2) + "\n")
    else:
        check_routes(sys.argv[2])
