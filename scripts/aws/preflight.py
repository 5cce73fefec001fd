"""Says what would fail in `make deploy`, and how to mend it. It reads the account and changes nothing.

    make preflight ENV=prod

Exit codes: 0, nothing found will fail; 1, something will; 2, the account cannot be read.
"""

import argparse
import dataclasses
import pathlib
import re
import sys
import tomllib

import botocore.config
import botocore.exceptions
import botocore.parsers

from checks import CHECKS, Finding, absent, discovered
from credentials import fault_of_cli
from region import region_of, stack_of

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Operations that change nothing. The client refuses all others.
READS = re.compile(r"^(Describe|List|Get)[A-Z]")
DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError", "NotAuthorized")


class Environment:
    """A section of samconfig.toml, over the defaults of template.yaml."""

    def __init__(self, name, root=ROOT):
        # SAM's own reader knows the short forms of CloudFormation, such as `!Ref`.
        from samtranslator.yaml_helper import yaml_parse

        self.name, self.stack = name, stack_of(name, root)
        config = tomllib.loads((root / "samconfig.toml").read_text())
        deploy = config[name].get("deploy", {}).get("parameters", {})
        template = yaml_parse((root / "template.yaml").read_text())
        self.declared, self.rules = template["Parameters"], template["Rules"]
        self.parameters = {key: str(of.get("Default", "")) for key, of in self.declared.items()}
        # Beside them is the file with the release, which every deployment writes anew.
        overrides = [one for one in deploy.get("parameter_overrides", []) if not one.startswith("file://")]
        # As SAM takes quotes away: an empty value needs them.
        self.parameters |= {key: value.strip("\"'") for key, _, value in (one.partition("=") for one in overrides)}
        # Nobody sees the last value of one that is hidden.
        hidden = {key for key, of in self.declared.items() if of.get("NoEcho")}
        self.unnamed = set(self.declared) - {one.partition("=")[0] for one in overrides} - hidden - {"Release"}


def session(region):
    """The credentials of the environment, as the AWS CLI finds them, and the region that all tools use."""
    import boto3

    return boto3.session.Session(region_name=region)


class NotARead(Exception):
    """A check asked for an operation that could change something."""


def only_reads(model, **_):
    if not READS.match(model.name):
        raise NotARead(model.name)


@dataclasses.dataclass
class Account:
    """What a check may ask: the account, through clients that only read, and what would be deployed into it."""

    environment: Environment
    session: object
    id: str = ""
    # The status of the stack, or `None` if there is none.
    status: str | None = None
    # The names of what the stack already has.
    owned: frozenset = frozenset()

    def __post_init__(self):
        self.session.events.register("before-call", only_reads, unique_id="only-reads")
        self.clients = {}

    @property
    def stack(self):
        return self.environment.stack

    @property
    def region(self):
        return self.session.region_name

    def value(self, parameter, default=""):
        return self.environment.parameters.get(parameter, default)

    def has(self, parameter):
        return self.value(parameter) == "true"

    def number(self, parameter):
        return int(self.value(parameter, "0") or 0)

    def client(self, service, region=None):
        key = (service, region or self.region)
        if key not in self.clients:
            config = botocore.config.Config(
                retries={"mode": "standard", "max_attempts": 5}, connect_timeout=10, read_timeout=20
            )
            self.clients[key] = self.session.client(service, region_name=key[1], config=config)
        return self.clients[key]

    def all(self, service, operation, result, region=None, **given):
        """The items of all pages."""
        for page in self.client(service, region).get_paginator(operation).paginate(**given):
            for part in result.split("."):
                page = page.get(part, {})
            yield from page or []

    discover, fault_of_cli = staticmethod(discovered), staticmethod(fault_of_cli)

    def quota(self, service, code):
        client, given = self.client("service-quotas"), {"ServiceCode": service, "QuotaCode": code}
        # Some quotas that nobody changed have only their default.
        applied = absent(lambda: client.get_service_quota(**given), "NoSuchResourceException")
        return (applied or client.get_aws_default_service_quota(**given))["Quota"]["Value"]


def run(account, checks=CHECKS):
    """The findings of the checks, as they come. A check that may not look says so."""
    for check in checks:
        try:
            yield from check(account)
        except botocore.exceptions.ClientError as error:
            code, operation = error.response["Error"].get("Code", ""), error.operation_name
            wanted = "your credentials may not call it" if code in DENIED else code
            yield Finding(
                check.subject, "unknown", f"not checked: {operation} answered {code}", wanted if wanted != code else ""
            )
        except (botocore.exceptions.BotoCoreError, botocore.parsers.ResponseParserError) as error:
            # For example, a service that the region does not have.
            yield Finding(check.subject, "unknown", f"not checked: {str(error).splitlines()[0]}")


MARKS = {"fine": "ok", "look": "look", "unknown": "?", "fails": "FAIL"}


def in_words(finding):
    first = f"  {MARKS[finding.kind]:<5} {finding.subject:<20} {finding.text}"
    return first + (f"\n{'':<28} mend: {finding.mend}" if finding.mend else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("environment", help="a section of samconfig.toml, such as dev")
    environment = Environment(parser.parse_args().environment)
    try:
        account = Account(environment, session(region_of(environment.name)))
        # The others rely on what these find.
        for subject in ("parameters", "region"):
            wrong = [one for one in run(account, [one for one in CHECKS if one.subject == subject]) if one.kind == "fails"]
            if wrong:
                print(*map(in_words, wrong), sep="\n")
                sys.exit(1)
        caller = account.client("sts").get_caller_identity()
    except botocore.exceptions.BotoCoreError as error:
        print(f"preflight: {error}", file=sys.stderr)
        print("mend: sign in (aws sso login, aws configure, or AWS_PROFILE), and check the region", file=sys.stderr)
        sys.exit(2)
    except botocore.exceptions.ClientError as error:
        print(
            f"preflight: AWS does not know these credentials: {error.response['Error'].get('Message')}", file=sys.stderr
        )
        sys.exit(2)
    account.id = caller["Account"]
    print(f"Preflight of {account.stack} in {account.region}, account {account.id}, as {caller['Arn']}")
    print("It only reads.\n")
    found = []
    for finding in run(account):
        print(in_words(finding), flush=True)
        found.append(finding)
    count = {kind: sum(one.kind == kind for one in found) for kind in MARKS}
    print(
        f"\n{count['fails']} will fail, {count['look']} to look at, {count['unknown']} not checked, {count['fine']} fine.",
        end=" ",
    )
    print("Mend, and run it again." if count["fails"] else f"Next: make deploy ENV={environment.name}")
    sys.exit(1 if count["fails"] else 0)


if __name__ == "__main__":
    main()
