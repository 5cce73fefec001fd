"""Other files agree with the template's parameters and with the routes of openapi.yaml."""

import re
import tomllib

import pytest
from conftest import WAYS
from transformed import ROOT, source


@pytest.mark.parametrize("environment", ["dev", "prod"])
def test_each_override_is_a_value_that_its_parameter_accepts(environment):
    config = tomllib.loads((ROOT / "samconfig.toml").read_text())[environment]
    parameters = source()["Parameters"]
    for override in config["deploy"]["parameters"]["parameter_overrides"]:
        name, _, value = override.partition("=")
        allowed = [str(one) for one in parameters[name].get("AllowedValues", [value])]
        assert value in allowed, override
        assert re.fullmatch(parameters[name].get("AllowedPattern", ".*"), value), override
    # Names in ElastiCache contain it; they must be in lower case, with at most 40 characters.
    assert re.fullmatch(r"[a-z][a-z0-9-]{0,28}", config["global"]["parameters"]["stack_name"])


def test_each_parameter_is_shown_in_a_group():
    template = source()
    groups = template["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
    shown = [name for group in groups for name in group["Parameters"]]
    assert sorted(shown) == sorted(template["Parameters"])


def test_each_parameter_is_documented():
    section = (ROOT / "docs/OPERATE.md").read_text().split("\n### Parameters\n")[1].split("\n### ")[0]
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \|", section, re.M)
    documented = {name: default.strip().strip("`") for name, default in rows}
    parameters = source()["Parameters"]
    defaults = {name: str(parameter["Default"]) for name, parameter in parameters.items()}
    assert documented == defaults


def broken(**given):
    """The rules' messages for these parameters, as CloudFormation gives them before it makes anything."""
    template = source()
    values = {name: str(parameter["Default"]) for name, parameter in template["Parameters"].items()} | given

    def holds(condition):
        [(function, arguments)] = condition.items()
        if function == "Fn::Equals":
            left, right = (values[one["Ref"]] if isinstance(one, dict) else str(one) for one in arguments)
            return left == right
        return {"Fn::Not": lambda: not holds(arguments[0]), "Fn::And": lambda: all(map(holds, arguments)),
                "Fn::Or": lambda: any(map(holds, arguments))}[function]()

    return [
        assertion["AssertDescription"]
        for rule in template["Rules"].values()
        if holds(rule["RuleCondition"])
        for assertion in rule["Assertions"]
        if not holds(assertion["Assert"])
    ]


@pytest.mark.parametrize("way", WAYS)
def test_the_rules_accept_what_the_other_tests_deploy(way):
    assert broken(**WAYS[way]) == []


@pytest.mark.parametrize(
    "given",
    [
        {"JwtIssuer": "https://issuer.example/"},
        {"SecurityGroupIds": "sg-1"},
        {"Redis": "existing", "RedisUrl": "redis://r"},
        {"VpcId": "vpc-0"},
        {"PageCertificateArn": "arn:aws:acm:us-east-1:123456789012:certificate/0"},
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
