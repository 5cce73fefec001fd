"""Each deployed function gets the variables that it reads."""

import re

import pytest

# Set only where the password of Redis may change.
OF_PASSWORDS = {"REDIS_SECRET"}
# Set only where the functions sign in with tokens.
OF_TOKENS = {"REDIS_AUTH", "REDIS_IAM_USER", "REDIS_IAM_CACHE", "REDIS_IAM_SERVERLESS"}
# On AWS the functions' defaults hold.
BY_DEFAULT = {"REDIS_CONNECT_TIMEOUT_MS", "REDIS_RESPONSE_TIMEOUT_MS", "START_SPREAD_MS", "SETTLE_GRACE_MS", "WEBHOOK_ADDRESSES"}
FUNCTIONS = {"send", "grab", "view", "wallet", "settle", "audit", "publish", "notify", "operate"}


@pytest.fixture(scope="module")
def readers(repository):
    """Which function reads which variable, as docs/OPERATE.md says."""
    readers = {}
    page = (repository / "docs/OPERATE.md").read_text().split("\n### Variables\n")[1].split("\n### ")[0]
    for row in re.findall(r"^\| `([A-Z_]+)` \|[^|]*\|([^|]*)\|", page, re.M):
        readers[row[0]] = FUNCTIONS if row[1].strip() == "all" else set(re.split(r",\s*", row[1].strip()))
    assert readers
    return readers


def read_by_the_code(repository):
    config = (repository / "shared/src/config.rs").read_text().split("#[cfg(test)]")[0]
    names = set(re.findall(r"\.(?:required|wanted|parsed|number|get)\(\s*\"([A-Z_]+)\"", config))
    for main in sorted(repository.glob("functions/*/src/*.rs")):
        # A function may also read a variable without the configuration.
        names |= set(re.findall(r"env::var(?:_os)?\(\s*\"([A-Z_]+)\"", main.read_text()))
    # Lambda itself sets these.
    return {name for name in names if not name.startswith("AWS_LAMBDA_")}


def test_the_document_knows_what_the_code_reads(readers, repository):
    assert read_by_the_code(repository) == set(readers)


def test_each_function_gets_what_it_reads_and_nothing_else(stack, readers):
    for name, _, configuration in stack.functions():
        program = name.partition("-")[0]
        given = configuration["Environment"]["Variables"]
        # With tokens there is no password, and an existing Redis may do without a secret.
        left_out = BY_DEFAULT | OF_PASSWORDS | (OF_TOKENS if stack.way == "existing" else set())
        assert set(given) == {name for name in readers if program in readers[name]} - left_out, program
        assert given["TABLE_NAME"] == stack.outputs["TableName"]


def test_how_redis_is_reached(stack):
    for program, logical_id, configuration in stack.functions():
        given = configuration["Environment"]["Variables"]
        if logical_id == "GrabOnInstances":
            # Its network is the capacity provider's. All else equals the other grab function.
            assert not configuration.get("VpcConfig")
            [grab] = [other["Environment"] for _, name, other in stack.functions() if name == "Grab"]
            assert configuration["Environment"] == grab
            continue
        if program.partition("-")[0] in ("wallet", "audit", "publish", "notify"):
            assert not configuration.get("VpcConfig")
            continue
        iam = {name: value for name, value in given.items() if name.startswith(("REDIS_AUTH", "REDIS_IAM"))}
        if stack.way == "existing":
            assert (given["REDIS_URL"], given["REDIS_CLUSTER"]) == (stack.parameters["RedisUrl"], "false")
            assert configuration["VpcConfig"]["SubnetIds"] == ["subnet-1", "subnet-2"]
            assert configuration["VpcConfig"]["SecurityGroupIds"] == ["sg-1"]
            assert not iam
            continue
        assert given["REDIS_CLUSTER"] == "true"
        assert len(configuration["VpcConfig"]["SubnetIds"]) == 3
        assert configuration["VpcConfig"]["SecurityGroupIds"] == [stack.outputs["FunctionsSecurityGroup"]]
        url, endpoint, user = given["REDIS_URL"], stack.outputs["RedisEndpoint"], stack.ids["RedisUser"]
        user = stack.ids["RedisReader"] if program == "operate-read" else user
        assert url == f"rediss://{endpoint}:6379"
        assert iam == {
            "REDIS_AUTH": "iam",
            "REDIS_IAM_USER": user,
            "REDIS_IAM_CACHE": stack.ids["RedisNodes" if stack.way == "nodes" else "RedisServerless"],
            "REDIS_IAM_SERVERLESS": "false" if stack.way == "nodes" else "true",
        }
