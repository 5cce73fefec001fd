"""The deployed API agrees with openapi.yaml."""

import json

import pytest
from emulated import ACCOUNT, REGION, STACK, client
from policies import allows, listed, matches, parsed

PREFLIGHT = "OPTIONS /{proxy+}"
READS = ("GET ", "HEAD ")
USER, OPERATOR = [{"userToken": []}], [{"operatorSignature": []}]


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
    return {
        route["RouteKey"]: integrations[route["Target"].removeprefix("integrations/")].split("/functions/")[1].rsplit("/", 1)[0]
        for route in client("apigatewayv2").get_routes(ApiId=api)["Items"]
    }


def test_each_operation_has_its_route_and_its_function(stack, operations):
    # Requests reach published versions only.
    arns = {program: configuration["FunctionArn"] + ":live" for program, _, configuration in stack.called()}
    expected = {key: arns[operation["x-hongbao-function"]] for key, operation in operations.items()}
    deployed = routes(stack)
    # moto names the default route as the document does.
    open_to_all = {key: arn for key, arn in deployed.items() if key.endswith("$default") or key == PREFLIGHT}
    assert list(open_to_all.values()) == [arns["view"]] * 2
    assert {key: arn for key, arn in deployed.items() if key not in open_to_all} == expected


def test_each_operation_is_guarded(stack, operations, body):
    for key, operation in operations.items():
        method, path = key.split(" ")
        [who] = body["paths"][path][method.lower()]["security"]
        expected = {str(USER): "UserToken", str(OPERATOR): "AWS_IAM"}[str(operation["security"])]
        assert list(who) == [expected], key
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
    for_all = {"$default": special.pop("$default"), PREFLIGHT: special.pop(PREFLIGHT)}
    # Anybody may call the default route, and it invokes a function.
    assert for_all["$default"] == {"ThrottlingRateLimit": 20, "ThrottlingBurstLimit": 40}
    # A browser asks before each grab from another origin.
    assert for_all[PREFLIGHT] == special["POST /packets/{packet_id}/grab"]
    assert set(special) <= set(operations), "API Gateway refuses settings of routes that don't exist"
    for settings in (default, *special.values()):
        assert int(settings["ThrottlingRateLimit"]) > 0 and int(settings["ThrottlingBurstLimit"]) > 0
    # Routes that cost or move money have their own limits, and so have the operator's own views.
    own = ("GET /wallets/", "GET /operator/", "HEAD /wallets/", "HEAD /operator/")
    assert set(special) == {key for key in operations if not key.startswith(READS) or key.startswith(own)}


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
    assert set(cors["allowHeaders"]) == {"Authorization", "Content-Type", "Idempotency-Key", "If-None-Match"}
    assert cors["allowMethods"] == ["GET", "HEAD", "POST"] and "allowCredentials" not in cors


RIGHTS = ("Read", "Money", "Users", "Repair", "Books")


@pytest.fixture(scope="module")
def rights(stack):
    """The statements of the operator's policies."""
    found = {}
    for right in RIGHTS:
        arn = stack.outputs[f"Operator{right}PolicyArn"]
        document = client("iam").get_policy_version(PolicyArn=arn, VersionId="v1")["PolicyVersion"]["Document"]
        found[right] = parsed(document)["Statement"]
    return found


def test_the_operators_rights_are_five(stack, operations, rights):
    def of_route(key, operation):
        if operation["security"] != OPERATOR:
            return set()
        if key.split(" ")[1].startswith("/users/"):
            return {"Users"}
        return {"Read"} if key.startswith(READS) else {"Money"}

    def having(action, resource):
        return {right for right in RIGHTS if allows(rights[right], action, resource)}

    for key, operation in operations.items():
        method, path = key.split(" ")
        called = f"arn:aws:execute-api:{REGION}:{ACCOUNT}:{stack.ids['Api']}/$default/{method}{path}"
        assert having("execute-api:Invoke", called) == of_route(key, operation), key
    for program, logical_id, configuration in stack.functions():
        expected = {"operate-read": {"Read"}, "operate-repair": {"Repair"}, "settle": {"Repair"}, "audit": {"Repair"}}
        found = having("lambda:InvokeFunction", configuration["FunctionArn"])
        assert found == expected.get(program, set()), program
    actions = {
        action for right in set(RIGHTS) - {"Books"} for s in rights[right] for action in listed(s["Action"])
    }
    assert actions == {"execute-api:Invoke", "lambda:InvokeFunction"}


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
