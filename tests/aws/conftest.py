import pathlib
import sys

import pytest
import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "scripts/aws")]

import emulated  # noqa: E402

# Parameters of three deployments that differ in their resources.
WAYS = {
    "nodes": {
        "Redis": "nodes",
        "RedisShards": "2",
        "Events": "true",
        "WebhookUrl": "https://app.example/webhooks",
        "WebhookSecretArn": "arn:aws:secretsmanager:ap-east-1:123456789012:secret:webhooks",
        "AlarmEmail": "operator@example.com",
        "TicketSecretArn": "arn:aws:secretsmanager:ap-east-1:123456789012:secret:tickets",
        "BackupVaultArn": "arn:aws:backup:eu-west-1:123456789012:backup-vault:elsewhere",
        "Page": "true",
        "PageDomain": "red.example",
        "PageCertificateArn": "arn:aws:acm:us-east-1:123456789012:certificate/0",
    },
    "serverless": {
        "Rollout": "AllAtOnce",
        "GrabProvisioned": "5",
        "WithdrawalMin": "100",
        "Zones": "ap-east-1c,ap-east-1b,ap-east-1a",
        "WebhookUrl": "https://app.example/webhooks",
        "WebhookSecretArn": "arn:aws:secretsmanager:ap-east-1:123456789012:secret:webhooks",
        "CustomerKeyArn": "arn:aws:kms:ap-east-1:123456789012:key/0",
        "CorsOrigins": "https://a.example,https://b.example",
        "EntranceDomain": "api.example",
        "EntranceCertificateArn": "arn:aws:acm:ap-east-1:123456789012:certificate/1",
    },
    "existing": {
        "Redis": "existing",
        "RedisUrl": "rediss://user:secret@redis.example:6380",
        "VpcId": "vpc-0123",
        "SubnetIds": "subnet-1,subnet-2",
        "GrabProvisioned": "5",
        "JwtIssuer": "https://issuer.example/",
        "JwtAudience": "app",
        "DeletionProtection": "false",
        "Page": "true",
        "PageEmbedders": "https://app.example,https://other.example",
        "PageWebAclArn": "arn:aws:wafv2:us-east-1:123456789012:global/webacl/page/0",
        "EntranceDomain": "api.example",
        "EntranceCertificateArn": "arn:aws:acm:ap-east-1:123456789012:certificate/1",
        "EntranceSubnetIds": "subnet-3,subnet-4",
        "JwksEndpoint": "https://issuer.example/keys",
    },
}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Tests with an emulator of their own come first: moto forgets nothing while the emulator of `stack` runs."""
    items.sort(key=lambda item: "stack" in item.fixturenames)


@pytest.fixture(scope="session", autouse=True)
def nobody():
    """No test may reach AWS, not even by mistake."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            patch.setenv(name, "made-up")
        yield


@pytest.fixture(scope="session", params=WAYS)
def stack(request, nobody):
    with emulated.emulator():
        stack = emulated.Stack(**WAYS[request.param])
        stack.way, stack.parameters = request.param, WAYS[request.param]
        yield stack


@pytest.fixture(scope="session")
def repository():
    return emulated.ROOT


@pytest.fixture(scope="session")
def operations(repository):
    """The operations of openapi.yaml, by method and path. Each GET is one for HEAD too."""
    document = yaml.safe_load((repository / "openapi.yaml").read_text())
    return {
        f"{method.upper()} {path}": operation
        for path, item in document["paths"].items()
        for documented, operation in item.items()
        if documented in ("get", "put", "post", "delete", "patch")
        for method in (("get", "head") if documented == "get" else (documented,))
    }
