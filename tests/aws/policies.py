"""IAM's decision about an action, by the rules that this template uses. Any other rule is an error."""

import fnmatch
import json

from emulated import client


def statements_of(role_name):
    """All statements of a role, inline and from its managed policies."""
    iam = client("iam")
    documents = []
    for name in iam.list_role_policies(RoleName=role_name)["PolicyNames"]:
        documents.append(iam.get_role_policy(RoleName=role_name, PolicyName=name)["PolicyDocument"])
    for policy in iam.list_attached_role_policies(RoleName=role_name)["AttachedPolicies"]:
        version = iam.get_policy(PolicyArn=policy["PolicyArn"])["Policy"]["DefaultVersionId"]
        found = iam.get_policy_version(PolicyArn=policy["PolicyArn"], VersionId=version)
        documents.append(found["PolicyVersion"]["Document"])
    return [statement for document in documents for statement in listed(parsed(document)["Statement"])]


def parsed(document):
    return json.loads(document) if isinstance(document, str) else document


def listed(value):
    return value if isinstance(value, list) else [value]


def matches(patterns, text):
    return any(fnmatch.fnmatchcase(text, pattern) for pattern in listed(patterns))


def holds(operator, expected, values):
    quantifier, _, plain = operator.rpartition(":")
    same = {
        "Bool": lambda value: value == str(expected).lower(),
        "StringEquals": lambda value: value in listed(expected),
        "StringLike": lambda value: matches(expected, value),
        "ArnLike": lambda value: matches(expected, value),
    }[plain]
    # As in IAM, ForAllValues is true for no values.
    return all(map(same, values)) if quantifier == "ForAllValues" else any(map(same, values))


def applies(statement, action, resource, context):
    unknown = set(statement) - {"Sid", "Effect", "Action", "Resource", "Condition", "Principal"}
    assert not unknown, f"this file does not know {unknown}"
    return (
        matches(statement["Action"], action)
        and matches(statement["Resource"], resource)
        and all(
            holds(operator, expected, context.get(key, []))
            for operator, keys in statement.get("Condition", {}).items()
            for key, expected in keys.items()
        )
    )


def allows(statements, action, resource, context=None):
    """Whether these statements allow the action. `context` has a list of values for each condition key."""
    effects = [
        statement["Effect"] for statement in statements if applies(statement, action, resource, context or {})
    ]
    return "Allow" in effects and "Deny" not in effects
