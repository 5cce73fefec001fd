"""`sam local` with additions for this machine. Run it with SAM's own Python:

    .tools/sam/bin/python tests/aws/sam_here.py local invoke Send --event events/send.json
    .tools/sam/bin/python tests/aws/sam_here.py --signed-in local start-api

The containers share this machine's network, so that they reach stores that listen only on the loopback. SAM's option
`--docker-network host` leaves them on the bridge. All containers are removed at the end; SAM can lose some if it starts several
at once.

With `--signed-in` requests have callers. The only authorizers that SAM supports for HTTP APIs are functions, and our functions
do not accept a caller from those. So this file puts the caller where API Gateway's authorizers would. As in the local stack, the
header X-User-Id names the user, and each request to an operator's route is the operator's. The functions themselves ignore that
header. `POST /_local/settle` runs settle, as in the local stack.
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
    return json.loads((EVENTS / f"{name}.json").read_text())["requestContext"]["authorizer"]


OPERATOR, USER = sample("wallet"), sample("send")


def authorizer(path, users):
    """The caller as API Gateway would state it; `None` if there is none."""
    if path.startswith(("/wallets/", "/users/", "/operator/")):
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
    # Without a handler, a signal before SAM serves would end the process and leave containers behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        cli(prog_name="sam")
    finally:
        remove(made)


if __name__ == "__main__":
    main()
