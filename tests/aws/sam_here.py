"""`sam local` with what it lacks for trying the functions on this machine. Run it with SAM's own Python:

    .tools/sam/bin/python tests/aws/sam_here.py local invoke Send --event events/send.json
    .tools/sam/bin/python tests/aws/sam_here.py --signed-in local start-api

Its containers share this machine's network, so that they reach stores that listen on the loopback alone. SAM's option
`--docker-network host` leaves them on the bridge. And none is left behind: where SAM starts several at once it may lose some.

With `--signed-in` its API has callers. SAM knows no authorizer of HTTP APIs but functions, and what such a one says the
functions here don't take for a caller. So the caller is put where API Gateway's authorizers put him, by the rule of the
local stack: the header X-User-Id names the user, and whoever asks for an operator's route is the operator. The functions
are those that are deployed, and know nothing of that header. `POST /_local/settle` runs settle, as in the local stack.
"""

import copy
import functools
import json
import pathlib
import signal
import sys

from docker.errors import NotFound
from docker.models.containers import ContainerCollection
from samcli.cli.main import cli
from samcli.local.apigw import local_apigw_service

EVENTS = pathlib.Path(__file__).resolve().parents[2] / "events"
USER_HEADER = "X-User-Id"
# Each container listens for its function there, on a port of its own. The other address is for the answers.
RUNTIME_HOST = "127.0.0.2"


def on_this_machines_network(create, made):
    """The port that would be published is the one to listen on. What is created is noted in `made`."""

    @functools.wraps(create)
    def created(collection, image, *, ports, entrypoint, **options):
        [(host, port)] = ports.values()
        listen = ["--runtime-interface-emulator-address", f"{host}:{port}", "--runtime-api-address", f"{RUNTIME_HOST}:{port}"]
        container = create(collection, image, network_mode="host", entrypoint=entrypoint + listen, **options)
        made.append(container)
        return container

    return created


def sample(name):
    return json.loads((EVENTS / f"{name}.json").read_text())["requestContext"]["authorizer"]


OPERATOR, USER = sample("wallet"), sample("send")


def authorizer(path, users):
    """What API Gateway would say of the caller; `None` if it would know none."""
    if path.startswith("/wallets/"):
        return OPERATOR
    if len(users) != 1:
        return None
    caller = copy.deepcopy(USER)
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
    for container in made:
        try:
            container.remove(force=True)
        except NotFound:
            pass


def main():
    made = []
    ContainerCollection.create = on_this_machines_network(ContainerCollection.create, made)
    if sys.argv[1:2] == ["--signed-in"]:
        del sys.argv[1]
        local_apigw_service.construct_v2_event_http = signed_in(local_apigw_service.construct_v2_event_http)
        service = local_apigw_service.LocalApigwService
        service.create = with_settle(service.create)
    # Until SAM serves it would end at once.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        cli(prog_name="sam")
    finally:
        remove(made)


if __name__ == "__main__":
    main()
