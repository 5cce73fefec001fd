"""The functions of template.yaml in SAM's containers on this machine: the same builds, routes, sizes and time-outs, but the stores that
the environment names, and this machine's processor. There are no roles, no network and nothing else of AWS. SAM's own Python runs it:

    python tests/aws/sam_local.py template target/sam-local/template.yaml
    python tests/aws/sam_local.py routes http://127.0.0.1:3001
    python tests/aws/sam_local.py sam local invoke Send --event events/send.json
    python tests/aws/sam_local.py sam --signed-in local start-api

The containers share this machine's network, so that they reach stores that listen only on the loopback. SAM's option
`--docker-network host` leaves them on the bridge. All containers are removed at the end; SAM can lose some if it starts several
at once.

With `--signed-in` requests have callers. The only authorizers that SAM supports for HTTP APIs are functions, and our functions
do not accept a caller from those. So this file puts the caller where API Gateway's authorizers would. As in the local stack, the
header X-User-Id names the user, and each request to an operator's route is the operator's. The functions themselves ignore that
header. `POST /_local/settle` runs settle, as in the local stack.
"""

import functools
import json
import os
import pathlib
import platform
import re
import signal
import sys
import urllib.error
import urllib.request

import yaml
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


USER_HEADER = "X-User-Id"
# Each container runs its function's runtime API at this address, on its own port. 127.0.0.1 serves the answers.
RUNTIME_HOST = "127.0.0.2"


def on_this_machines_network(create, made):
    """Listens on the port that would be published. Adds each container to `made`."""

    @functools.wraps(create)
    def created(collection, image, *, ports, entrypoint, **options):
        [(host, port)] = ports.values()
        listen = ["--runtime-interface-emulator-address", f"{host}:{port}", "--runtime-api-address", f"{RUNTIME_HOST}:{port}"]
        container = create(collection, image, network_mode="host", entrypoint=entrypoint + listen, **options)
        made.append(container)
        return container

    return created


def sample(name):
    return json.loads((ROOT / "events" / f"{name}.json").read_text())["requestContext"]["authorizer"]


def authorizer(path, users):
    """The caller as API Gateway would state it; `None` if there is none."""
    if path.startswith(("/wallets/", "/users/", "/operator/")):
        return sample("wallet")
    if len(users) != 1:
        return None
    caller = sample("send")
    caller["jwt"]["claims"]["sub"] = users[0]
    return caller


def signed_in(construct):
    @functools.wraps(construct)
    def constructed(flask_request, *arguments, **options):
        event = construct(flask_request, *arguments, **options)
        event["headers"].pop(USER_HEADER, None)
        caller = authorizer(flask_request.path, flask_request.headers.getlist(USER_HEADER))
        if caller:
            event["requestContext"]["authorizer"] = caller
        return event

    return constructed


def with_settle(create):
    @functools.wraps(create)
    def created(service):
        def settle():
            report = json.loads(service._invoke_lambda_function("Settle", {}))
            body = json.dumps(report, separators=(",", ":"))
            return service.service_response(body, {"Content-Type": "application/json"}, 200)

        create(service)
        service._app.add_url_rule("/_local/settle", view_func=settle, methods=["POST"])

    return created


def remove(made):
    from docker.errors import NotFound

    for container in made:
        try:
            container.remove(force=True)
        except NotFound:
            pass


def sam(arguments):
    from docker.models.containers import ContainerCollection
    from samcli.cli.main import cli
    from samcli.local.apigw import local_apigw_service

    made = []
    ContainerCollection.create = on_this_machines_network(ContainerCollection.create, made)
    if arguments[:1] == ["--signed-in"]:
        del arguments[0]
        local_apigw_service.construct_v2_event_http = signed_in(local_apigw_service.construct_v2_event_http)
        service = local_apigw_service.LocalApigwService
        service.create = with_settle(service.create)
    # Without a handler, a signal before SAM serves would end the process and leave containers behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        cli(arguments, prog_name="sam")
    finally:
        remove(made)


if __name__ == "__main__":
    if sys.argv[1] == "template":
        target = pathlib.Path(sys.argv[2])
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(reduced(), indent=2) + "\n")
    elif sys.argv[1] == "routes":
        check_routes(sys.argv[2])
    else:
        sam(sys.argv[2:])
