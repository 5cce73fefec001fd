"""Checks of webhooks: the secret that signs them, which no finding shows."""

import base64
import binascii
import re

from findings import absent, check

# The fewest bytes of a secret, by the specification, and the base64 of so many.
BYTES_MIN = 24
CHARACTERS_MIN = 32
MADE_BY = 'echo "whsec_$(openssl rand -base64 32)"'


def secret_fault(text):
    """What is wrong with a text of secrets, or `None`: the rule of functions/notify/src/secret.rs."""
    secrets = []
    for entry in re.split(r"[ ,\t]", text):
        for index, line in enumerate(filter(None, re.split(r"[\n\r]", entry))):
            if line.startswith("whsec_"):
                secrets.append(line.removeprefix("whsec_"))
            elif secrets and index and len(line) < CHARACTERS_MIN:
                secrets[-1] += line
            else:
                return "a secret does not begin with whsec_"
    faults = [fault for fault in map(fault_of, secrets) if fault]
    return next(iter(faults), None) if secrets else "there is no secret"


def fault_of(encoded):
    if re.search("[+/]", encoded) and re.search("[-_]", encoded):
        return "a secret mixes the two alphabets of base64"
    standard = encoded.replace("-", "+").replace("_", "/")
    unpadded = standard.rstrip("=")
    try:
        found = base64.b64decode(unpadded + "=" * (-len(unpadded) % 4), validate=True)
    except (binascii.Error, ValueError):
        return "a secret is not base64"
    # Python drops bits that are too many.
    again = base64.b64encode(found).decode()
    if standard not in (again, again.rstrip("=")):
        return "a secret is not base64"
    return None if len(found) >= BYTES_MIN else f"a secret has less than {BYTES_MIN} bytes"


@check("webhooks")
def webhooks(account):
    if not account.value("WebhookUrl"):
        return
    arn = account.value("WebhookSecretArn")
    found = absent(
        lambda: account.client("secretsmanager").get_secret_value(SecretId=arn), "ResourceNotFoundException"
    )
    fault = secret_fault(found.get("SecretString", "")) if found else None
    if not found:
        yield "fails", f"there is no secret {arn}, so no webhook could be signed", f"make one of the output of {MADE_BY}, and set WebhookSecretArn"
    elif fault:
        yield "fails", f"WebhookSecretArn: {fault}, so no webhook could be signed", f"store the output of {MADE_BY}"
    else:
        yield "fine", "webhooks can be signed"
