"""S3 and CloudFront serve the page as the local stack does (local/src/gateway/page.rs)."""

import json
import re
import subprocess

import pytest
from emulated import client


@pytest.fixture(scope="module")
def distribution(stack):
    if stack.parameters.get("Page") != "true":
        assert not stack.noted("AWS::CloudFront::Distribution")
        assert not [name for name in stack.outputs if name.startswith("Page")]
        pytest.skip("a stack without the page")
    [distribution] = stack.noted("AWS::CloudFront::Distribution").values()
    return distribution["DistributionConfig"]


@pytest.fixture(scope="module")
def page(repository):
    return (repository / "local/src/gateway/page.rs").read_text()


def test_the_apis_paths_go_to_the_api_and_all_others_are_files(stack, distribution, operations):
    origins = {origin["Id"]: origin for origin in distribution["Origins"]}
    assert origins["api"]["DomainName"].startswith(stack.ids["Api"] + ".execute-api.")
    assert origins["api"]["CustomOriginConfig"]["OriginProtocolPolicy"] == "https-only"
    assert distribution["DefaultCacheBehavior"]["TargetOriginId"] == "page"
    assert distribution["DefaultRootObject"] == "index.html"
    behaviours = {behaviour["PathPattern"]: behaviour for behaviour in distribution["CacheBehaviors"]}
    links = behaviours.pop("/p/*")
    assert links["TargetOriginId"] == "page" and links["ResponseHeadersPolicyId"]
    [association] = links["FunctionAssociations"]
    assert association["EventType"] == "viewer-request"
    [function] = stack.noted("AWS::CloudFront::Function").values()
    assert "request.uri = '/packet.html'" in function["FunctionCode"]
    for behaviour in behaviours.values():
        assert behaviour["TargetOriginId"] == "api"
        # Managed-CachingDisabled: one user's answer must not reach another.
        assert behaviour["CachePolicyId"] == "4135ea2d-6df8-44a3-9df3-4b5a84be39ad"
        assert {"GET", "POST"} <= set(behaviour["AllowedMethods"])
        assert behaviour["ViewerProtocolPolicy"] == "https-only"
    # All of the users' routes, and none of the operator's.
    for key, operation in operations.items():
        path = key.split(" ")[1].replace("{packet_id}", "x").replace("{user_id}", "x")
        reached = any(re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), path) for pattern in behaviours)
        assert reached == (operation["security"] == [{"userToken": []}]), key


def test_the_headers_are_those_of_the_local_stack(stack, distribution, page):
    [headers] = stack.noted("AWS::CloudFront::ResponseHeadersPolicy").values()
    headers = headers["ResponseHeadersPolicyConfig"]
    policy = re.search(r'POLICY: &str = "(.*?)";', page, re.S)[1]
    expected = directives(re.sub(r"\\\n\s*", "", policy))
    given = directives(headers["SecurityHeadersConfig"]["ContentSecurityPolicy"]["ContentSecurityPolicy"])
    # In addition: the sign-in page, and the origins that may embed the page.
    if stack.way == "existing":
        expected["frame-ancestors"] = ["https://app.example", "https://other.example"]
    else:
        domain = json.loads(stack.outputs["PageConfig"])["auth"]["domain"]
        assert domain.startswith("https://") and domain.endswith(".amazoncognito.com")
        expected["connect-src"] = ["'self'", domain]
    assert given == expected
    custom = {item["Header"].lower(): item["Value"] for item in headers["CustomHeadersConfig"]["Items"]}
    for name, value in re.findall(r'HeaderName::from_static\("([a-z-]+)"\), "([^"]+)"', page):
        assert custom.pop(name) == value
    assert not custom
    assert headers["SecurityHeadersConfig"]["ReferrerPolicy"]["ReferrerPolicy"] == "no-referrer"
    assert "ContentTypeOptions" in headers["SecurityHeadersConfig"]


def directives(policy):
    return {name: values for name, *values in (directive.split() for directive in policy.split(";"))}


def test_only_the_distribution_reads_the_bucket(stack, distribution):
    bucket = stack.outputs["PageBucketName"]
    blocked = client("s3").get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"]
    assert len(blocked) == 4 and all(value in (True, "true") for value in blocked.values())
    statements = json.loads(client("s3").get_bucket_policy(Bucket=bucket)["Policy"])["Statement"]
    [allowed] = [statement for statement in statements if statement["Effect"] == "Allow"]
    assert (allowed["Principal"], allowed["Action"]) == ({"Service": "cloudfront.amazonaws.com"}, "s3:GetObject")
    source = allowed["Condition"]["StringEquals"]["AWS:SourceArn"]
    assert source.endswith(":distribution/" + stack.outputs["PageDistributionId"])
    [origin] = [origin for origin in distribution["Origins"] if origin["Id"] == "page"]
    assert origin["OriginAccessControlId"] and origin["S3OriginConfig"] == {"OriginAccessIdentity": ""}


def test_the_pages_configuration(stack, distribution, repository):
    config = json.loads(stack.outputs["PageConfig"])
    assert set(config) == set(json.loads((repository / "web/config.json").read_text()))
    assert config["limits"] == {"slip_amount_max": 20000, "count_max": 100000}
    assert (config["api"], config["local"], config["links"]) == ("", False, "path")
    if stack.way == "existing":
        assert config["auth"] == {"kind": "token", "origins": ["https://app.example", "https://other.example"]}
        return
    auth = config["auth"]
    assert (auth["kind"], auth["client_id"], auth["scope"]) == ("cognito", stack.outputs["UserPoolClientId"], "openid")
    [pool_client] = stack.noted("AWS::Cognito::UserPoolClient").values()
    assert pool_client["AllowedOAuthFlows"] == ["code"] and pool_client["GenerateSecret"] is False
    # The address that the page asks Cognito to return to: its origin and path.
    assert pool_client["CallbackURLs"] == [stack.outputs["PageUrl"]] == ["https://red.example/"]


# Replaces the AWS CLI: records the calls, and answers with the stack's outputs.
AWS = """#!/bin/sh
echo "$*" >>"$CALLS"
case "$1 $2" in
    "cloudformation describe-stacks")
        for word; do case $word in *OutputKey==*) key=${word#*"'"} key=${key%%"'"*} ;; esac; done
        cat "$OUTPUTS/$key" ;;
    "s3 cp") for word; do last=$word; done; case $last in *.json | *.html) cat "$8" >"$OUTPUTS/uploaded-${last##*/}" ;; esac ;;
esac"""


@pytest.fixture
def uploads(stack, distribution, repository, tmp_path, monkeypatch):
    for name, value in stack.outputs.items():
        (tmp_path / name).write_text(value)
    program = tmp_path / "bin" / "aws"
    program.parent.mkdir()
    program.write_text(AWS)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setenv("OUTPUTS", str(tmp_path))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))

    def run(*arguments):
        subprocess.run([repository / "scripts/deploy-web.sh", "a-stack", *arguments], check=True, capture_output=True)
        return (tmp_path / "calls").read_text().splitlines()

    return run


def test_the_upload_has_the_files_that_the_page_needs(stack, uploads, repository, tmp_path):
    calls = uploads()
    bucket = stack.outputs["PageBucketName"]
    put = [call for call in calls if call.startswith("s3 cp")]
    names = [call.rpartition(f"s3://{bucket}/")[2] for call in put]
    assert names[-3:] == ["packet.html", "index.html", "config.json"]
    folders = {name.partition("/")[0] for name in names[:-3]}
    [version] = folders
    assert re.fullmatch("v-[0-9a-f]{16}", version)
    for page, up in (("index", ""), ("packet", "../")):
        html = (tmp_path / f"uploaded-{page}.html").read_text()
        named = set(re.findall(rf'"{re.escape(up + version)}/((?:assets|client)/[^"]+)"', html))
        assert len(named) > 5 and {f"{version}/{name}" for name in named} <= set(names)
        assert f'"{up}assets/' not in html and f'"{up}client/' not in html
    assert f'content="{stack.outputs["PageUrl"]}{version}/assets/preview.png"' in html
    assert all(name.endswith((".js", ".css", ".svg", ".png", ".html", ".json")) for name in names)
    assert all("immutable" in call for call in put[:-3])
    assert all("no-cache" in call for call in put[-3:-1]) and "no-store" in put[-1]
    config = json.loads((tmp_path / "uploaded-config.json").read_text())
    assert config.pop("covers") == ["birthday", "plain", "spring", "wedding"]
    assert config == json.loads(stack.outputs["PageConfig"])
    assert any(call.startswith("cloudfront create-invalidation") for call in calls)


def test_the_bucket_is_emptied_before_it_is_deleted(stack, uploads):
    [removal] = [call for call in uploads("--remove") if call.startswith("s3 rm")]
    assert removal.endswith("--recursive s3://" + stack.outputs["PageBucketName"])
