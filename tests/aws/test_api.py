"""The deployed API agrees with openapi.yaml. S3 and CloudFront serve the page as the local stack does (pages/src/files.rs)."""

import json
import re
import shutil
import subprocess

import pytest
from emulated import ACCOUNT, REGION, STACK, client
from policies import allows, listed, matches, parsed

PREFLIGHT = "OPTIONS /{proxy+}"
READS = ("GET ", "HEAD ")
USER, OPERATOR = [{"userToken": []}], [{"operatorSignature": []}]
# SAM's name of every method.
ANY = "x-amazon-apigateway-any-method"


@pytest.fixture(scope="module")
def body(stack):
    return next(iter(stack.noted("AWS::ApiGatewayV2::Api").values()))["Body"]


def routes(stack):
    """The deployed routes, and the ARN of the function behind each."""
    api = stack.ids["Api"]
    integrations = {
        integration["IntegrationId"]: integration["IntegrationUri"]
        for integration in client("apigatewayv2").get_integrations(ApiId=api)["Items"]
    }
    # moto names the routes as the document does.
    return {
        re.sub(f"^{ANY}", "ANY", route["RouteKey"], flags=re.I): integrations[route["Target"].removeprefix("integrations/")]
        .split("/functions/")[1]
        .rsplit("/", 1)[0]
        for route in client("apigatewayv2").get_routes(ApiId=api)["Items"]
    }


def fitting(keys, operation):
    """The routes that fit an operation, the one that API Gateway chooses last (tests/it/template.rs has the same rule)."""
    method, path = operation.split(" ")
    found = []
    for key in set(keys) - {PREFLIGHT}:
        of_method, _, pattern = key.partition(" ")
        is_greedy = pattern.endswith("{proxy+}")
        beginning = pattern.removesuffix("{proxy+}")
        if of_method in (method, "ANY") and (path.startswith(beginning) and path != beginning if is_greedy else path == pattern):
            found.append((not is_greedy, len(pattern), of_method != "ANY", key))
    return [key for *_, key in sorted(found)]


def test_each_operation_has_its_route_and_its_function(stack, operations):
    # Requests reach published versions only.
    arns = {program: configuration["FunctionArn"] + ":live" for program, _, configuration in stack.called()}
    deployed = routes(stack)
    open_to_all = {key: arn for key, arn in deployed.items() if key.endswith("$default") or key == PREFLIGHT}
    assert list(open_to_all.values()) == [arns["view"]] * 2
    chosen = {key: fitting(deployed, key)[-1] for key in operations}
    assert {key: deployed[route] for key, route in chosen.items()} == {
        key: arns[operation["x-hongbao-function"]] for key, operation in operations.items()
    }
    assert set(chosen.values()) | set(open_to_all) == set(deployed), "a route that no operation needs"


def test_each_operation_is_guarded(stack, operations, body):
    guards = {
        f"{method.replace(ANY, 'any').upper()} {path}": [name for who in operation["security"] for name in who]
        for path, item in body["paths"].items()
        for method, operation in item.items()
    }
    for key, operation in operations.items():
        expected = {str(USER): "UserToken", str(OPERATOR): "AWS_IAM"}[str(operation["security"])]
        # Whichever route API Gateway chooses.
        assert [guards[route] for route in fitting(guards, key)] == [[expected]] * len(fitting(guards, key)) != [], key
    schemes = body["components"]["securitySchemes"]
    assert schemes["AWS_IAM"]["x-amazon-apigateway-authtype"] == "awsSigv4"
    authorizer = schemes["UserToken"]["x-amazon-apigateway-authorizer"]
    assert (authorizer["type"], authorizer["identitySource"]) == ("jwt", "$request.header.Authorization")
    jwt = authorizer["jwtConfiguration"]
    if stack.way == "existing":
        assert jwt == {"issuer": "https://issuer.example/", "audience": ["app"]}
        assert "UserPoolId" not in stack.outputs
    else:
        pool = stack.outputs["UserPoolId"]
        assert jwt["issuer"] == f"https://cognito-idp.{REGION}.amazonaws.com/{pool}" == stack.outputs["Issuer"]
        assert jwt["audience"] == [stack.outputs["UserPoolClientId"]]


def test_the_gateway_may_call_each_function(stack, operations):
    permissions = [
        (logical_id, resource["Properties"])
        for logical_id, resource in stack.template["Resources"].items()
        if resource["Type"] == "AWS::Lambda::Permission"
        and resource["Properties"]["Principal"] == "apigateway.amazonaws.com"
    ]
    names = {program: f"{logical_id}Aliaslive" for program, logical_id, _ in stack.called()}
    for key, operation in operations.items():
        sources = []
        for _, permission in permissions:
            if permission["FunctionName"] == {"Ref": names[operation["x-hongbao-function"]]}:
                pattern, values = permission["SourceArn"]["Fn::Sub"]
                assert values["__ApiId__"] == {"Ref": "Api"}
                sources.append(pattern.split("${__Stage__}/")[1])
        method, path = key.split(" ")
        assert matches(sources, f"{method}{path}"), f"the API may not call {names[operation['x-hongbao-function']]}"


def test_each_route_is_throttled_and_the_stage_has_no_other(stack, operations):
    [stage] = stack.noted("AWS::ApiGatewayV2::Stage").values()
    assert stage["StageName"] == "$default" and stage["AutoDeploy"]
    default, special = stage["DefaultRouteSettings"], stage["RouteSettings"]
    # Anybody may call the default route, and it invokes a function.
    assert special.pop("$default") == {"ThrottlingRateLimit": 20, "ThrottlingBurstLimit": 40}
    assert set(special) <= set(routes(stack)), "API Gateway refuses settings of routes that don't exist"
    for settings in (default, *special.values()):
        assert int(settings["ThrottlingRateLimit"]) > 0 and int(settings["ThrottlingBurstLimit"]) > 0
    # What users begin costs most.
    assert set(special) == {"POST /packets", "POST /me/withdrawals", "POST /users/{user_id}/packets"}


def test_the_access_log_is_json_without_tokens_or_users(stack):
    [stage] = stack.noted("AWS::ApiGatewayV2::Stage").values()
    line = json.loads(stage["AccessLogSettings"]["Format"])
    assert {"request_id", "route", "status", "latency_ms"} <= set(line)
    for variable in line.values():
        for secret in ("authorizer.claims", "authorizer.principalId", "header", "path", "identity.user", "requestOverride"):
            assert secret not in variable, variable
    assert stage["AccessLogSettings"]["DestinationArn"].startswith(f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:")


def test_browsers_may_ask_without_signing_in(body):
    """Without a route of its own, API Gateway would send a preflight to the default route."""
    [operation] = body["paths"]["/{proxy+}"].values()
    assert list(body["paths"]["/{proxy+}"]) == ["options"]
    assert operation["security"] == [{"NONE": []}]


def test_pages_may_call_only_from_the_given_origins(stack, body):
    cors = body.get("x-amazon-apigateway-cors")
    if stack.way != "serverless":
        assert not cors
        return
    assert cors["allowOrigins"] == ["https://a.example", "https://b.example"]
    assert set(cors["allowHeaders"]) == {"Authorization", "Content-Type", "Grab-Ticket", "Idempotency-Key", "If-None-Match"}
    assert cors["allowMethods"] == ["GET", "HEAD", "POST"] and "allowCredentials" not in cors


RIGHTS = ("Read", "Money", "Payout", "Users", "Repair", "Books")


@pytest.fixture(scope="module")
def rights(stack):
    """The statements of the operator's policies."""
    found = {}
    for right in RIGHTS:
        arn = stack.outputs[f"Operator{right}PolicyArn"]
        document = client("iam").get_policy_version(PolicyArn=arn, VersionId="v1")["PolicyVersion"]["Document"]
        found[right] = parsed(document)["Statement"]
    return found


def test_the_operators_rights_are_six(stack, operations, rights):
    def of_route(key, operation):
        if operation["security"] != OPERATOR:
            return set()
        if key.split(" ")[1].startswith("/users/"):
            return {"Users", "Read"} if key.startswith(READS) else {"Users"}
        if key == "PUT /operator/webhooks":
            return set()  # OperatorWebhooksPolicyArn has it, where there are webhooks.
        return {"Read"} if key.startswith(READS) else {"Money"}

    # What examples/payout.py asks, and what the same pattern lets it view.
    payout = {
        "GET /operator/withdrawals",
        "GET /wallets/{user_id}",
        "GET /wallets/{user_id}/movements",
        "GET /wallets/{user_id}/withdrawals/{withdrawal_id}",
        "POST /wallets/{user_id}/withdrawals/{withdrawal_id}/post",
        "POST /wallets/{user_id}/withdrawals/{withdrawal_id}/void",
    }

    def having(action, resource, context=None):
        return {right for right in RIGHTS if allows(rights[right], action, resource, context or {})}

    deployed = routes(stack)
    for key, operation in operations.items():
        method, path = key.split(" ")
        may_pay_out = {"Payout"} if key in payout else set()
        # It is not documented which of the two IAM compares.
        for seen in (path, fitting(deployed, key)[-1].split(" ")[1]):
            called = f"arn:aws:execute-api:{REGION}:{ACCOUNT}:{stack.ids['Api']}/$default/{method}{seen}"
            assert having("execute-api:Invoke", called) == of_route(key, operation) | may_pay_out, (key, seen)
    for program, logical_id, configuration in stack.functions():
        expected = {"operate-read": {"Read"}, "settle": {"Repair"}, "audit": {"Repair"}}
        code, live = configuration["FunctionArn"], stack.live(logical_id)
        assert having("lambda:InvokeFunction", live) == expected.get(program, set()), program
        assert not having("lambda:InvokeFunction", code), f"{program}: code that a rollback left"
        # Lambda names the caller of a URL only.
        by_url = {"Repair"} if program == "operate-repair" else set()
        assert having("lambda:InvokeFunctionUrl", live) == having("lambda:GetFunctionUrlConfig", code) == by_url, program
        invoked = {"lambda:InvokedViaFunctionUrl": ["true"]}
        assert having("lambda:InvokeFunction", live, invoked) == expected.get(program, by_url), program
    [url] = stack.noted("AWS::Lambda::Url").values()
    assert (url["TargetFunctionArn"], url["AuthType"]) == (stack.live("OperateRepair"), "AWS_IAM")
    actions = {
        action for right in set(RIGHTS) - {"Books"} for s in rights[right] for action in listed(s["Action"])
    }
    assert actions == {
        "execute-api:Invoke",
        "lambda:InvokeFunction",
        "lambda:InvokeFunctionUrl",
        "lambda:GetFunctionUrlConfig",
    }


def test_the_books_need_only_reads_of_the_table(stack, repository, rights):
    """The journal and the audit on your own machine. The audit's actions are those of its function."""
    recorded = json.loads((repository / "tests/aws/actions.json").read_text())
    table = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{stack.outputs['TableName']}"
    expected = {entry["action"] for entry in recorded["audit"]}
    expected |= {"dynamodb:DescribeTable", "dynamodb:ExportTableToPointInTime"}
    actions = {action for s in rights["Books"] for action in listed(s["Action"])}
    assert actions == expected | {"dynamodb:DescribeExport"}
    assert {action for action in actions if allows(rights["Books"], action, table)} == expected
    assert allows(rights["Books"], "dynamodb:DescribeExport", f"{table}/export/01693685827463-2d8752fd")
    assert not any(allows(rights["Books"], action, f"{table}2") for action in expected)


def test_the_operators_functions_have_the_names_that_the_tool_calls(stack):
    names = {program: configuration["FunctionName"] for program, _, configuration in stack.functions()}
    for right in ("read", "repair"):
        assert names[f"operate-{right}"] == f"{STACK}-operate-{right}"


# --- The page


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
    return (repository / "pages/src/files.rs").read_text()


def test_the_apis_paths_go_to_the_api_and_all_others_are_files(stack, distribution, operations):
    origins = {origin["Id"]: origin for origin in distribution["Origins"]}
    of_api = stack.ids["Api"] + f".execute-api.{REGION}.amazonaws.com"
    assert origins["api"]["DomainName"] == stack.parameters.get("EntranceDomain", of_api)
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


def test_users_requests_cannot_go_round_the_web_acl(stack, distribution, repository):
    origins = {origin["Id"]: origin for origin in distribution["Origins"]}
    variables = {logical_id: each["Environment"]["Variables"] for _, logical_id, each in stack.functions()}
    knowing = {logical_id for logical_id, given in variables.items() if "EDGE_KEY" in given}
    if "PageWebAclArn" not in stack.parameters:
        assert "WebACLId" not in distribution and "OriginCustomHeaders" not in origins["api"]
        assert not knowing and "UsersUrl" not in stack.outputs
        return
    assert distribution["WebACLId"] == stack.parameters["PageWebAclArn"]
    # Each function with a route for users.
    assert knowing == {"Send", "Grab", "View"}
    [secret] = stack.noted("AWS::SecretsManager::Secret").values()
    assert secret["GenerateSecretString"] == {"PasswordLength": 64, "ExcludePunctuation": True}
    [header] = origins["api"]["OriginCustomHeaders"]
    name = re.search(r'from_static\("([a-z-]+)"\)', (repository / "shared/src/http/edge_key.rs").read_text())[1]
    assert header["HeaderName"].lower() == name
    reference = f"{{{{resolve:secretsmanager:{stack.ids['EdgeKey']}}}}}"
    assert {header["HeaderValue"]} | {variables[one]["EDGE_KEY"] for one in knowing} == {reference}
    # The page's bucket gets no key.
    assert "OriginCustomHeaders" not in origins["page"]
    assert stack.outputs["UsersUrl"] == stack.outputs["PageUrl"]


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
    assert config["limits"] == {"slip_amount_max": 20000, "count_max": 100000, "withdrawal_min": 1}
    assert (config["api"], config["local"], config["links"], config["withdrawals"]) == ("", False, "path", False)
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
    "s3 cp") for word; do last=$word; done; case $last in *.json | *.html | *.webmanifest) cat "$8" >"$OUTPUTS/uploaded-${last##*/}" ;; esac ;;
esac"""


@pytest.fixture
def checkout(repository, tmp_path):
    """A copy of what is uploaded, and of the script that does it."""
    copy = tmp_path / "copy"
    shutil.copytree(repository / "web", copy / "web")
    for name in ("scripts/deploy-web.sh", "clients/js/hongbao.js"):
        (copy / name).parent.mkdir(parents=True)
        shutil.copy(repository / name, copy / name)
    return copy


@pytest.fixture
def uploads(stack, distribution, checkout, tmp_path, monkeypatch):
    for name, value in stack.outputs.items():
        (tmp_path / name).write_text(value)
    program = tmp_path / "bin" / "aws"
    program.parent.mkdir()
    program.write_text(AWS)
    # macOS has none.
    (program.parent / "sha256sum").write_text("#!/bin/sh\nexit 127\n")
    for made in program.parent.iterdir():
        made.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setenv("OUTPUTS", str(tmp_path))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))

    def run(*arguments):
        subprocess.run([checkout / "scripts/deploy-web.sh", "a-stack", *arguments], check=True, capture_output=True)
        return (tmp_path / "calls").read_text().splitlines()

    return run


def test_the_upload_has_the_files_that_the_page_needs(stack, uploads, tmp_path):
    calls = uploads()
    bucket = stack.outputs["PageBucketName"]
    put = [call for call in calls if call.startswith("s3 cp")]
    names = [call.rpartition(f"s3://{bucket}/")[2] for call in put]
    assert names[-4:] == ["manifest.webmanifest", "packet.html", "index.html", "config.json"]
    folders = {name.partition("/")[0] for name in names[:-4]}
    [version] = folders
    assert re.fullmatch("v-[0-9a-f]{16}", version)
    for page, up in (("index", ""), ("packet", "../")):
        html = (tmp_path / f"uploaded-{page}.html").read_text()
        named = set(re.findall(rf'"{re.escape(up + version)}/((?:assets|client)/[^"]+)"', html))
        assert len(named) > 5 and {f"{version}/{name}" for name in named} <= set(names)
        assert f'"{up}assets/' not in html and f'"{up}client/' not in html
        assert f'content="{stack.outputs["PageUrl"]}{version}/assets/preview.png"' in html
    manifest = json.loads((tmp_path / "uploaded-manifest.webmanifest").read_text())
    assert manifest["icons"] and {icon["src"] for icon in manifest["icons"]} <= set(names)
    assert "--content-type application/manifest+json" in put[-4]
    assert all(name.endswith((".js", ".css", ".svg", ".png", ".html", ".json", ".webmanifest")) for name in names)
    assert all("immutable" in call for call in put[:-4])
    assert all("no-cache" in call for call in put[-4:-1]) and "no-store" in put[-1]
    config = json.loads((tmp_path / "uploaded-config.json").read_text())
    assert config.pop("covers") == ["birthday", "plain", "spring", "wedding"]
    assert config == json.loads(stack.outputs["PageConfig"])
    assert any(call.startswith("cloudfront create-invalidation") for call in calls)


def test_the_upload_keeps_what_the_app_says_of_itself(stack, uploads, checkout, tmp_path):
    own = {"profiles": "assets/people.js", "top_up": "https://app.example/topup", "withdrawal_terms": {"zh-CN": "到银行卡，$免手续费&'"}}
    (checkout / "web/config.json").write_text(json.dumps({**own, "local": True, "links": "fragment"}))
    uploads()
    config = json.loads((tmp_path / "uploaded-config.json").read_text())
    assert config.pop("covers")
    assert config == {**own, **json.loads(stack.outputs["PageConfig"])}


def test_the_bucket_is_emptied_before_it_is_deleted(stack, uploads):
    [removal] = [call for call in uploads("--remove") if call.startswith("s3 rm")]
    assert removal.endswith("--recursive s3://" + stack.outputs["PageBucketName"])
