"""What the checks of preflight.py share: a finding, the list of checks, and how to ask for what may be absent."""

import dataclasses

import botocore.exceptions

CHECKS = []


@dataclasses.dataclass
class Finding:
    """Kinds: `fails`, the deployment will fail; `look`, it works, but not as somebody may expect; `unknown`, not checked;
    `fine`."""

    subject: str
    kind: str
    text: str
    mend: str = ""


def check(subject):
    """Registers a check, which yields `(kind, text)` or `(kind, text, mend)`."""

    def registered(function):
        def run(account):
            for found in function(account):
                yield Finding(subject, *found)

        run.subject = subject
        CHECKS.append(run)
        return function

    return registered


def absent(call, *codes):
    """The answer of `call`, or `None` if the service knows no such thing."""
    try:
        return call()
    except botocore.exceptions.ClientError as error:
        if error.response["Error"].get("Code") in codes:
            return None
        raise
