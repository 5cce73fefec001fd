"""Values of the parameters of template.yaml that are not their defaults."""

ARN = "arn:aws:{}:ap-east-1:123456789012:{}".format

# For each parameter that takes any text that fits: one text of each kind.
EXAMPLES = {
    "JwtIssuer": ["https://issuer.example/"],
    "JwtAudience": ["app", "app,other"],
    "CorsOrigins": ["https://app.example", "https://app.example,http://localhost:5173"],
    "BasePath": ["/hongbao"],
    "TicketSecretArn": [ARN("secretsmanager", "secret:tickets")],
    "EntranceDomain": ["api.example"],
    "EntranceCertificateArn": [ARN("acm", "certificate/1")],
    "EntranceSubnetIds": ["subnet-3", "subnet-3,subnet-4"],
    "JwksEndpoint": ["https://issuer.example/keys"],
    "Currency": ["EUR"],
    "DayZone": ["Europe/Berlin"],
    "RedisNodeType": ["cache.r7g.large"],
    "RedisUrl": ["rediss://user:secret@redis.example:6380", "redis://a:6379,redis://b:6379"],
    "RedisSecretArn": [ARN("secretsmanager", "secret:redis")],
    "Zones": ["ap-east-1c,ap-east-1b,ap-east-1a"],
    "VpcId": ["vpc-0123"],
    "SubnetIds": ["subnet-1", "subnet-1,subnet-2"],
    "PageDomain": ["red.example"],
    "PageCertificateArn": ["arn:aws:acm:us-east-1:123456789012:certificate/0"],
    "PageEmbedders": ["https://app.example", "https://app.example,https://other.example"],
    "PageWebAclArn": ["arn:aws:wafv2:us-east-1:123456789012:global/webacl/page/0"],
    "AlarmEmail": ["operator@example.com"],
    "WebhookUrl": ["https://app.example/webhooks"],
    "WebhookSecretArn": [ARN("secretsmanager", "secret:webhooks")],
    "SettleConcurrency": ["2", "10"],
    "RestoredTable": [ARN("dynamodb", "table/restored"), ARN("dynamodb", "table/restored/stream/2026-11-28T00:00:00.000")],
    "BackupVaultArn": ["arn:aws:backup:eu-west-1:123456789012:backup-vault:elsewhere"],
    "CustomerKeyArn": [ARN("kms", "key/0")],
    "Release": ["1795893392-0123456"],
}

# Every part of the deployment at once.
ALL = {"Page": "true", "Events": "true"} | {
    name: EXAMPLES[name][0]
    for name in (
        "WebhookUrl",
        "WebhookSecretArn",
        "PageWebAclArn",
        "BackupVaultArn",
        "EntranceDomain",
        "EntranceCertificateArn",
    )
}


def others(given):
    """The values of a parameter that are not its default: of a number one, of a choice all, of other texts the examples."""
    number = given["Type"] == "Number"
    allowed = given.get("AllowedValues") or ([given["MinValue"], given["MinValue"] + 1] if number else EXAMPLES[given["Name"]])
    values = [str(value) for value in allowed if value != given["Default"]]
    return values[:1] if number else values


def each(parameters, conditions):
    """Sets of parameters: one for each value of those that the conditions name, and the values of all others together."""
    together = {}
    for name, given in parameters.items():
        values = others(given | {"Name": name})
        if f"'Ref': '{name}'" in str(conditions):
            yield from ({name: value} for value in values)
        else:
            for at, value in enumerate(values):
                together.setdefault(at, {})[name] = value
    yield from together.values()
