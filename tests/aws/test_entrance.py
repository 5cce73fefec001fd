"""The load balancer of `EntranceDomain`: it has the users' routes of openapi.yaml, and verifies a token before each of them."""

import fnmatch
import re

import pytest
from emulated import ACCOUNT, REGION, STACK
from policies import matches

USER = [{"userToken": []}]
KIND = "AWS::ElasticLoadBalancingV2"


@pytest.fixture(scope="module")
def rules(stack):
    """The rules, by priority."""
    if "EntranceDomain" not in stack.parameters:
        assert not [kind for kind in ("Listener", "ListenerRule", "LoadBalancer", "TargetGroup") if stack.noted(f"{KIND}::{kind}")]
        assert not [name for name in stack.outputs if name.startswith("Entrance")]
        pytest.skip("a stack without a load balancer")
    rules = list(stack.noted(f"{KIND}::ListenerRule").values())
    assert len({rule["Priority"] for rule in rules}) == len(rules)
    return sorted(rules, key=lambda rule: int(rule["Priority"]))


def conditions(rule):
    """Its methods and paths."""
    found = {"http-request-method": ["*"], "path-pattern": []}
    for condition in rule["Conditions"]:
        [values] = [one["Values"] for key, one in condition.items() if key != "Field"]
        found[condition["Field"]] = values
    methods, paths = found.values()
    assert len(methods) + len(paths) <= 5, "a rule takes five values"
    return methods, paths


def rule_for(rules, method, path):
    for rule in rules:
        methods, paths = conditions(rule)
        if any(fnmatch.fnmatchcase(method, one) for one in methods) and any(fnmatch.fnmatchcase(path, one) for one in paths):
            return rule
    return None


def target(stack, rule):
    """The alias that a rule forwards to."""
    groups = {stack.ids[logical_id]: group for logical_id, group in stack.noted(f"{KIND}::TargetGroup").items()}
    [one] = groups[rule["Actions"][-1]["TargetGroupArn"]]["Targets"]
    return one["Id"]


def test_the_users_routes_lead_to_their_functions_and_no_others(stack, rules, operations):
    arns = {program: configuration["FunctionArn"] + ":live" for program, _, configuration in stack.called()}
    for key, operation in operations.items():
        method, path = key.split(" ")
        rule = rule_for(rules, method, re.sub(r"{\w+}", "x", path))
        if operation["security"] == USER:
            assert target(stack, rule) == arns[operation["x-hongbao-function"]], key
        else:
            assert rule is None, f"{key} is for the operator"
    assert rule_for(rules, "GET", "/") is None
    [listener] = stack.noted(f"{KIND}::Listener").values()
    [default] = listener["DefaultActions"]
    assert default["FixedResponseConfig"]["StatusCode"] == "404"
    assert (listener["Protocol"], listener["Port"]) == ("HTTPS", 443)
    assert listener["Certificates"] == [{"CertificateArn": stack.parameters["EntranceCertificateArn"]}]


def test_each_rule_verifies_the_token_first(stack, rules):
    """The functions believe the token that comes with a request."""
    if stack.way == "existing":
        expected = {"Issuer": "https://issuer.example/", "JwksEndpoint": "https://issuer.example/keys"}
    else:
        issuer = stack.outputs["Issuer"]
        expected = {"Issuer": issuer, "JwksEndpoint": f"{issuer}/.well-known/jwks.json"}
    open_to_all = []
    for rule in rules:
        *before, last = sorted(rule["Actions"], key=lambda action: int(action.get("Order", 1)))
        assert last["Type"] == "forward"
        if not before:
            open_to_all.append(conditions(rule)[0])
            continue
        [verify] = before
        assert (verify["Type"], verify["JwtValidationConfig"]) == ("jwt-validation", expected)
    # A browser asks without one. A function has no caller for this method (shared/src/http/entrance.rs).
    assert open_to_all == ([["OPTIONS"]] if "CorsOrigins" in stack.parameters else [])


def test_a_function_sees_each_header_that_a_client_sent(stack, rules):
    """Of two tokens one is verified. With single values a function would see the last one only, and believe that."""
    for group in stack.noted(f"{KIND}::TargetGroup").values():
        assert group["TargetType"] == "lambda"
        assert {"Key": "lambda.multi_value_headers.enabled", "Value": "true"} in group["TargetGroupAttributes"]


def test_only_the_target_groups_may_call(stack, rules):
    permissions = {
        logical_id: resource["Properties"]
        for logical_id, resource in stack.template["Resources"].items()
        if resource["Type"] == "AWS::Lambda::Permission"
        and resource["Properties"]["Principal"] == "elasticloadbalancing.amazonaws.com"
    }
    groups = stack.noted(f"{KIND}::TargetGroup")
    assert len(permissions) == len(groups) == 3
    for logical_id, group in groups.items():
        resource = stack.template["Resources"][logical_id]
        permission = permissions[resource["DependsOn"]]
        assert permission["FunctionName"] == resource["Properties"]["Targets"][0]["Id"]
        assert permission["SourceAccount"] == {"Ref": "AWS::AccountId"}
        source = permission["SourceArn"]["Fn::Sub"]
        for name, value in (("Partition", "aws"), ("Region", REGION), ("AccountId", ACCOUNT)):
            source = source.replace(f"${{AWS::{name}}}", value)
        source = source.replace("${Name}", STACK)
        arn = f"arn:aws:elasticloadbalancing:{REGION}:{ACCOUNT}:targetgroup/{group['Name']}/0123456789abcdef"
        assert matches(source, arn) and not matches(source, arn.replace("/0", "x/0"))
        assert len(group["Name"]) - len(STACK) + 29 <= 32, "names of 32 characters, and stacks' of 29"


def test_it_is_reached_from_everywhere_by_its_name(stack, rules):
    [balancer] = stack.noted(f"{KIND}::LoadBalancer").values()
    assert (balancer["Scheme"], balancer["Type"]) == ("internet-facing", "application")
    assert stack.outputs["EntranceUrl"] == "https://api.example"
    assert stack.outputs["EntranceTarget"] == f"{stack.ids['Balancer']}.DNSName"
    if stack.way == "existing":
        assert balancer["Subnets"] == ["subnet-3", "subnet-4"]
    else:
        assert balancer["Subnets"] == [stack.ids[f"PublicSubnet{n}"] for n in (1, 2, 3)]
