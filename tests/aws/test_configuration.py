"""Other files agree with the template's parameters and with the code: samconfig.toml, the documents, the deployed functions' variables,
Dockerfile and compose.yaml."""

import json
import re
import shutil
import subprocess
import tomllib

import pytest
import yaml
from conftest import WAYS
from options import EXAMPLES
from transformed import ROOT, source

from checks import evaluated

@pytest.mark.parametrize("environment", ["dev", "prod"])
def test_each_override_is_a_value_that_its_parameter_accepts(environment):
    config = tomllib.loads((ROOT / "samconfig.toml").read_text())[environment]
    parameters = source()["Parameters"]
    release, *overrides = config["deploy"]["parameters"]["parameter_overrides"]
    assert release == "file://.aws-sam/release.yaml"
    for override in overrides:
        name, _, value = override.partition("=")
        allowed = [str(one) for one in parameters[name].get("AllowedValues", [value])]
        assert value in allowed, override
        assert re.fullmatch(parameters[name].get("AllowedPattern", ".*"), value), override
    # Names in ElastiCache contain it; they must be in lower case, with at most 40 characters.
    assert re.fullmatch(r"(?=.{1,29}$)[a-z](-?[a-z0-9])*", config["global"]["parameters"]["stack_name"])


def test_each_parameter_is_documented():
    section = (ROOT / "docs/OPERATE.md").read_text().split("\n## Parameters\n")[1].split("\n## ")[0]
    documented = dict(re.findall(r"^- `(\w+)`(?: \(`([^`]+)`\))?:", section, re.M))
    parameters = source()["Parameters"]
    defaults = {name: str(parameter["Default"]) for name, parameter in parameters.items()}
    assert documented == defaults


def broken(**given):
    """The rules' messages for these parameters, as CloudFormation gives them before it makes anything."""
    template = source()
    values = {name: str(parameter["Default"]) for name, parameter in template["Parameters"].items()} | given
    asserted = [one for rule in template["Rules"].values() if evaluated(rule["RuleCondition"], values) for one in rule["Assertions"]]
    return [one["AssertDescription"] for one in asserted if not evaluated(one["Assert"], values)]


@pytest.mark.parametrize("way", WAYS)
def test_the_rules_accept_what_the_other_tests_deploy(way):
    assert broken(**WAYS[way]) == []


@pytest.mark.parametrize(
    "given",
    [
        {"JwtIssuer": "https://issuer.example/"},
        {"Redis": "existing", "RedisUrl": "redis://r"},
        {"VpcId": "vpc-0"},
        {"PageCertificateArn": "arn:aws:acm:us-east-1:123456789012:certificate/0"},
        {"PageWebAclArn": "arn:aws:wafv2:us-east-1:123456789012:global/webacl/page/0"},
        {"EntranceDomain": "api.example"},
        {"EntranceDomain": "a.example", "EntranceCertificateArn": "arn:1", "VpcId": "vpc-0", "SubnetIds": "subnet-1"},
        {"EntranceDomain": "a.example", "EntranceCertificateArn": "arn:1", "JwtIssuer": "https://i/", "JwtAudience": "a"},
    ],
    ids=str,
)
def test_the_rules_refuse_half_a_configuration(given):
    assert broken() == []
    assert len(broken(**given)) == 1


def test_a_base_path_begins_like_no_route():
    parameter = source()["Parameters"]["BasePath"]
    accepts = lambda text: bool(re.fullmatch(parameter["AllowedPattern"], text))
    for good in ["", "/hongbao", "/api/v1", "/packets-of-us", "/shop/packets", "/me.v1"]:
        assert accepts(good), good
    for bad in ["/", "hongbao", "/hongbao/", "/a//b", "/.", "/packets", "/packets/v1", "/me", "/users/a", "/wallets/x", "/operator", "/紅"]:
        assert not accepts(bad), bad


@pytest.mark.parametrize("name", sorted(set(EXAMPLES) & set(source()["Parameters"])))
def test_each_example_has_the_form_of_its_parameter(name):
    parameter = source()["Parameters"][name]
    for value in [parameter["Default"], *EXAMPLES[name]]:
        assert re.fullmatch(parameter.get("AllowedPattern", "(?s).*"), value), value


@pytest.mark.parametrize(
    "name, values",
    {
        "Zones": ["a,b", "a,a,b", "a,b,a", "b,a,a", "a,b,c,d", "a, b, c"],
        "SettleConcurrency": ["1", "00", "02", "-2", "2.5", ""],
        "PageEmbedders": ["*", "https://*", "https://a\\x", "https://app.example/", "http://app.example", "https://a,"],
        "CorsOrigins": [",", "*", "https://app.example/", "https://a.example, https://b.example", "https://*", "app.example"],
        "JwtAudience": ["a, b", ",", "a,", "a,,b"],
        "SubnetIds": ["subnet-1, subnet-2", "subnet-1,"],
        "EntranceSubnetIds": ["subnet-1, subnet-2", "subnet-1,"],
    }.items(),
)
def test_what_would_break_a_deployment_has_not_the_form(name, values):
    parameter = source()["Parameters"][name]
    for value in values:
        assert not re.fullmatch(parameter.get("AllowedPattern", "(?s).*"), value), value


# --- Each deployed function gets the variables that it reads.

# Set only where a load balancer calls the functions; the last one only if other origins' pages may call.
OF_BALANCER = {"JWT_ISSUER", "JWT_AUDIENCE", "CORS_ORIGINS"}
# Set only where the password of Redis may change.
OF_PASSWORDS = {"REDIS_SECRET"}
# Set only where packets can want tickets. The keys themselves are for local stacks.
OF_TICKETS = {"TICKET_SECRET"}
# Set only where a web ACL stands before users' requests.
OF_EDGE = {"EDGE_KEY"}
# Set only where the functions sign in with tokens.
OF_TOKENS = {"REDIS_AUTH", "REDIS_IAM_USER", "REDIS_IAM_CACHE", "REDIS_IAM_SERVERLESS"}
# On AWS the functions' defaults hold.
BY_DEFAULT = {
    "DEPOSIT_MAX", "MAX_COUNT", "REDIS_CA", "REDIS_CONNECT_TIMEOUT_MS", "REDIS_RESPONSE_TIMEOUT_MS", "START_SPREAD_MS", "SETTLE_GRACE_MS",
    "TICKET_KEYS", "WEBHOOK_ADDRESSES",
}
# Set only where users can ask for withdrawals.
OF_WITHDRAWALS = {"WITHDRAWAL_MIN"}
FUNCTIONS = {"send", "grab", "view", "wallet", "settle", "audit", "publish", "notify", "operate"}


@pytest.fixture(scope="module")
def readers(repository):
    """Which function reads which variable, as docs/OPERATE.md says."""
    readers = {}
    page = (repository / "docs/OPERATE.md").read_text().split("\n## Variables\n")[1].split("\n## ")[0]
    for who, variables in re.findall(r"^- \*\*(.*)\*\*: (.*(?:\n  .*)*)", page, re.M):
        readers |= {name: FUNCTIONS if who == "all" else set(who.split(", ")) for name in re.findall(r"(?<!\()`([A-Z_]+)`", variables)}
    assert readers
    return readers


def read_by_the_code(repository):
    config = (repository / "shared/src/config.rs").read_text().split("#[cfg(test)]")[0]
    names = set(re.findall(r"\.(?:required|wanted|parsed|number|one_of|get)\(\s*\"([A-Z_]+)\"", config))
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
        left_out = BY_DEFAULT | OF_PASSWORDS | (OF_TOKENS if stack.way == "existing" else OF_EDGE)
        left_out |= set() if "TicketSecretArn" in stack.parameters else OF_TICKETS
        left_out |= set() if "WithdrawalMin" in stack.parameters else OF_WITHDRAWALS
        left_out |= {"nodes": OF_BALANCER, "serverless": set(), "existing": {"CORS_ORIGINS"}}[stack.way]
        assert set(given) == {name for name in readers if program in readers[name]} - left_out, program
        assert given["TABLE_NAME"] == stack.outputs["TableName"]


def test_how_redis_is_reached(stack):
    for program, _, configuration in stack.functions():
        given = configuration["Environment"]["Variables"]
        if program.partition("-")[0] in ("wallet", "audit", "publish", "notify"):
            assert not configuration.get("VpcConfig")
            continue
        iam = {name: value for name, value in given.items() if name.startswith(("REDIS_AUTH", "REDIS_IAM"))}
        if stack.way == "existing":
            assert (given["REDIS_URL"], given["REDIS_CLUSTER"]) == (stack.parameters["RedisUrl"], "false")
            assert configuration["VpcConfig"]["SubnetIds"] == ["subnet-1", "subnet-2"]
            assert configuration["VpcConfig"]["SecurityGroupIds"] == [stack.outputs["FunctionsSecurityGroup"]]
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


# --- make run on a machine that gets no server.


def test_where_no_server_can_be_installed_make_run_starts_a_sandbox(tmp_path):
    script, programs = tmp_path / "scripts/install-tools.sh", tmp_path / "bin"
    for folder in (script.parent, programs):
        folder.mkdir()
    shutil.copy(ROOT / "scripts/install-tools.sh", script)
    for program in ("sh", "cc", "dirname", "id", "uname"):
        (programs / program).symlink_to(shutil.which(program))

    def run(*flags):
        environment = {"PATH": str(programs)}
        return subprocess.run([script, "run", *flags], env=environment, capture_output=True, text=True, timeout=60)

    without = run("dev", "--port", "4000")
    assert (without.returncode, without.stdout) == (0, "sandbox\n"), without.stderr
    assert "none can be installed" in without.stderr and "keeps nothing" in without.stderr
    for subcommand, *flags in (
        ["sandbox"],
        ["sandbox", "--seed", "1"],
        ["dev", "--redis-url", "redis://127.0.0.1"],
        ["dev", "--redis-url=redis://127.0.0.1"],
    ):
        given = run(subcommand, *flags)
        assert (given.returncode, given.stdout, given.stderr) == (0, f"{subcommand}\n", "")
    (programs / "valkey-server").symlink_to("/bin/true")
    assert run("dev").stdout == "dev\n"


# --- Dockerfile and compose.yaml show the local stack to this machine only.

DOCKERFILE = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
# Each instruction with what follows it.
INSTRUCTIONS = re.findall(r"^([A-Z]+) (.+)$", DOCKERFILE, re.M)
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
# A name with a version of two or more numbers, or with that and a variant, such as rust:1.95.0-slim-trixie.
# Renovate adds the digest.
PINNED = re.compile(r"[a-z/]+:\d+(\.\d+)+(-[a-z-]+)?(@sha256:[0-9a-f]{64})?")


def of(name):
    return [rest for instruction, rest in INSTRUCTIONS if instruction == name]


def arguments():
    return dict(argument.split("=", 1) for argument in of("ARG"))


def images():
    """The images of all stages and services."""
    for stage in of("FROM"):
        image = stage.split()[0]
        named = re.fullmatch(r"\$\{(\w+)\}", image)
        yield arguments()[named[1]] if named else image
    yield from (service["image"] for service in SERVICES.values() if "image" in service)


def test_each_image_is_pinned_and_builds_with_the_toolchain_of_the_repository():
    for image in images():
        assert PINNED.fullmatch(image), image
    assert len(list(images())) == 3
    channel = tomllib.loads((ROOT / "rust-toolchain.toml").read_text())["toolchain"]["channel"]
    assert arguments()["RUST_IMAGE"].startswith(f"rust:{channel}-")


def test_the_build_gets_every_member_of_the_workspace_and_nothing_else_that_is_large():
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert rules[0] == "*"
    kept = {rule[1:] for rule in rules if rule.startswith("!")}
    for path in kept:
        assert (ROOT / path).exists(), path
    members = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["members"]
    assert {member.split("/")[0] for member in members} | {"Cargo.toml", "Cargo.lock"} <= kept
    # The local stack embeds the page and the client.
    embedded = re.findall(r'#\[folder = "\.\./(.+?)"\]', (ROOT / "pages/src/files.rs").read_text())
    assert embedded and {folder.split("/")[0] for folder in embedded} <= kept
    assert {"**/node_modules", "**/target"} <= set(rules)


def test_it_is_no_root_and_listens_on_all_interfaces_only_inside_the_container():
    [user] = of("USER")
    assert user not in ("root", "0")
    assert json.loads(of("ENTRYPOINT")[0]) == ["hongbao"]
    for command in (json.loads(of("CMD")[0]), SERVICES["hongbao"]["command"].split()):
        assert command[:3] == ["dev", "--listen", "0.0.0.0"]
    help_of = [ROOT / "target/debug/hongbao", "dev", "--help"]
    flags = subprocess.run(help_of, capture_output=True, text=True, check=True).stdout
    assert re.search(r"--listen <\w+>[^[]*\[default: 127\.0\.0\.1\]", flags)


def test_ports_are_published_to_this_machine_only():
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published, "nobody reaches it"
    for port in published:
        # One number on both sides, or the stack refuses the request for another host.
        assert re.fullmatch(r"127\.0\.0\.1:(.+):\1", port), port
    assert not any(service.get("network_mode") or service.get("privileged") for service in SERVICES.values())
    documents = [DOCKERFILE] + [(ROOT / name).read_text() for name in ("README.md", "README.zh-CN.md")]
    for publish in re.findall(r"--publish (\S+)|-p (\d\S+)", "\n".join(documents)):
        assert "".join(publish).startswith("127.0.0.1:"), publish
