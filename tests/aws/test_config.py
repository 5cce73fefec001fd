"""Other files agree with the template's parameters and with the routes of openapi.yaml."""

import re
import tomllib

import pytest
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
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \|", (ROOT / "docs/DEPLOY.md").read_text(), re.M)
    documented = {name: default.strip().strip("`") for name, default in rows}
    parameters = source()["Parameters"]
    defaults = {name: str(parameter["Default"]) for name, parameter in parameters.items()}
    assert documented == defaults


def test_make_watch_knows_the_routes(operations):
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text())
    routes = {key.partition(" ")[2]: operation["x-hongbao-function"] for key, operation in operations.items()}
    assert manifest["workspace"]["metadata"]["lambda"]["watch"]["router"] == routes
