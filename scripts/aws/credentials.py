#!/usr/bin/env python3
"""Says before a deployment whether the AWS CLI is there, and whether the credentials can last until it ends.

    .tools/sam/bin/python scripts/aws/credentials.py

Credentials that a profile or a role gives are renewed while SAM runs. Those that are exported end when they end, often after an hour.
"""

import datetime
import os
import subprocess
import sys

import boto3
import botocore.exceptions
import dateutil.parser

# The first build takes up to an hour, and a gradual deployment a part of one.
DEPLOYMENT = datetime.timedelta(hours=2)
RENEWED = "unset them (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN) and name a profile that renews its own: AWS_PROFILE"


def fault_of_cli():
    """Why the AWS CLI of this machine cannot be used, or `None`."""
    try:
        version = subprocess.run(["aws", "--version"], capture_output=True, text=True).stdout.partition(" ")[0]
    except OSError:
        return "this machine has no AWS CLI: install version 2"
    return None if version.startswith("aws-cli/2.") else f"the AWS CLI is {version or 'of no version'}: install version 2"


def end_of_exported():
    """When the exported credentials end, or `None`. SAM reads it in the same way, and fails at a time without an offset."""
    text = os.environ.get("AWS_CREDENTIAL_EXPIRATION")
    if not text or not os.environ.get("AWS_ACCESS_KEY_ID"):
        return None
    end = dateutil.parser.parse(text)
    if end.tzinfo is None:
        raise ValueError("it has no offset, such as Z")
    return end


def judged(now):
    """Whether a deployment may begin with the credentials, and what to say first."""
    try:
        end = end_of_exported()
    except ValueError as error:
        return False, f"SAM cannot read AWS_CREDENTIAL_EXPIRATION: {error}. Unset it, or mend it"
    try:
        session = boto3.session.Session()
        credentials = session.get_credentials()
        if credentials is None:
            return False, "there are no credentials: sign in (aws sso login, aws configure), or set AWS_PROFILE"
        session.client("sts").get_caller_identity()
    except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
        return False, f"these credentials cannot be used: {error}"
    exported = credentials.method == "env"
    if exported and end and end < now + DEPLOYMENT:
        return False, f"the exported credentials end at {end.isoformat()}, and a deployment can take two hours: {RENEWED}"
    if credentials.token and (exported and not end or credentials.method == "shared-credentials-file"):
        return True, "nobody knows when these temporary credentials end. A deployment can take two hours"
    return True, ""


if __name__ == "__main__":
    if fault := fault_of_cli():
        sys.exit(f"credentials: {fault}")
    may_begin, said = judged(datetime.datetime.now(datetime.UTC))
    if said:
        print(f"credentials: {said}", file=sys.stderr)
    sys.exit(not may_begin)
