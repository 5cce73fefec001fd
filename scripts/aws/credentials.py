#!/usr/bin/env python3
"""Says before a deployment whether its credentials can last until it ends.

    .tools/sam/bin/python scripts/aws/credentials.py

Credentials that a profile or a role gives are renewed while SAM runs. Those that are exported end when they end, often after an hour.
"""

import datetime
import os
import sys

import boto3
import botocore.exceptions

# The first build takes up to an hour, and versions move one after the other.
DEPLOYMENT = datetime.timedelta(hours=2)
RENEWED = "unset them (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN) and name a profile that renews its own: AWS_PROFILE"


def judged(session, now):
    """Whether a deployment may begin, and what to say first."""
    try:
        credentials = session.get_credentials()
        if credentials is None:
            return False, "there are no credentials: sign in (aws sso login, aws configure), or set AWS_PROFILE"
        session.client("sts").get_caller_identity()
    except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
        return False, f"these credentials cannot be used: {error}"
    exported = credentials.method == "env"
    end = os.environ.get("AWS_CREDENTIAL_EXPIRATION") if exported else None
    if end and datetime.datetime.fromisoformat(end) < now + DEPLOYMENT:
        return False, f"the exported credentials end at {end}, and a deployment can take two hours: {RENEWED}"
    if not end and credentials.token and (exported or credentials.method == "shared-credentials-file"):
        return True, "nobody knows when these temporary credentials end. A deployment can take two hours"
    return True, ""


if __name__ == "__main__":
    may_begin, said = judged(boto3.session.Session(), datetime.datetime.now(datetime.UTC))
    if said:
        print(f"credentials: {said}", file=sys.stderr)
    sys.exit(not may_begin)
