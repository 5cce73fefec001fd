"""Each role allows the actions of its function in actions.json, and nothing else."""

import json

import pytest
from emulated import ACCOUNT, REGION, client
from policies import allows, listed, matches, statements_of

TRANSACTION = {"dynamodb:EnclosingOperation": ["TransactWriteItems"]}
# Actions that no function may do to any table.
NEVER = ("DeleteItem", "BatchWriteItem", "DeleteTable", "UpdateTable", "PartiQLDelete", "UpdateContinuousBackups")
WRITES = ("dynamodb:PutItem", "dynamodb:UpdateItem")
OF_STREAM = ("DescribeStream", "GetRecords", "GetShardIterator", "ListStreams")


@pytest.fixture(scope="module")
def actions(repository):
    # Publish does nothing to the table. Lambda reads its stream in the functions' name.
    return {"publish-to-queue": [], "publish-to-bus": []} | json.loads((repository / "tests/aws/actions.json").read_text())


@pytest.fixture(scope="module")
def roles(stack):
    return {
        program: statements_of(configuration["Role"].rpartition("/")[2])
        for program, _, configuration in stack.functions()
    }


def arn_of(stack, on="table"):
    table = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{stack.outputs['TableName']}"
    return table if on == "table" else f"{table}/{on}"


def cases(actions, program):
    for entry in actions[program]:
        for key in entry.get("keys", [None]):
            context = {"dynamodb:LeadingKeys": [key + "x"]} if key else {}
            if "in" in entry:
                context["dynamodb:EnclosingOperation"] = [entry["in"]]
            yield entry["action"], entry["on"], context


def test_a_functions_actions_are_allowed(stack, roles, actions):
    assert set(roles) | {"publish-to-queue", "publish-to-bus", "notify"} == set(actions)
    for program, statements in roles.items():
        for action, on, context in cases(actions, program):
            assert allows(statements, action, arn_of(stack, on), context), f"{program} may not {action} {context}"


def test_no_other_action_is_allowed(stack, roles, actions):
    for program, statements in roles.items():
        for statement in statements:
            for action in listed(statement["Action"]):
                if not action.startswith("dynamodb:"):
                    continue
                for resource in listed(statement["Resource"]):
                    if program.startswith("publish"):
                        assert action.removeprefix("dynamodb:") in OF_STREAM and "/stream/" in resource
                        continue
                    done = [e for e in actions[program] if e["action"] == action and arn_of(stack, e["on"]) == resource]
                    assert done, f"{program} never does {action} on {resource}"
                    patterns = statement.get("Condition", {}).get("ForAllValues:StringLike", {}).get("dynamodb:LeadingKeys")
                    keys = [key for entry in actions[program] for key in entry.get("keys", [])]
                    for pattern in patterns or []:
                        assert any(matches(pattern, key + "x") for key in keys), f"{program}: {action} of {pattern}"


def test_writes_need_a_transaction_and_the_functions_own_keys(stack, roles, actions):
    for program, statements in roles.items():
        for action in WRITES:
            entries = actions[program]
            # Notify puts nothing.
            does = any(entry["action"] == action for entry in entries)
            written = {key for entry in entries for key in entry.get("keys", []) if does}
            for key in ("USER#", "PACKET#", "PART#", "SLIPS#", "REF#", "WEBHOOK#", "OTHER#"):
                alone = {"dynamodb:LeadingKeys": [key + "x"]}
                assert not allows(statements, action, arn_of(stack), alone), f"{program}: {action} alone"
                allowed = allows(statements, action, arn_of(stack), alone | TRANSACTION)
                assert allowed == (key in written), f"{program}: {action} of {key}"
            # Also if DynamoDB checks the keys of the whole transaction at once.
            whole = {"dynamodb:LeadingKeys": [key + "x" for key in written], **TRANSACTION}
            assert allows(statements, action, arn_of(stack), whole) == bool(written), program


def test_notify_reads_one_item_of_the_table_only(stack, roles):
    for key in ("USER#x", "PACKET#x", "WEBHOOK#RECEIVER") if "notify" in roles else ():
        context = {"dynamodb:LeadingKeys": [key]}
        assert allows(roles["notify"], "dynamodb:GetItem", arn_of(stack), context) == (key == "WEBHOOK#RECEIVER"), key


def test_no_function_deletes_or_reaches_another_table(stack, roles, actions):
    other = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/another"
    for program, statements in roles.items():
        for action in NEVER:
            assert not allows(statements, f"dynamodb:{action}", arn_of(stack), TRANSACTION), f"{program}: {action}"
        for action, _, context in cases(actions, program):
            assert not allows(statements, action, other, context), f"{program}: {action} of another table"


def test_a_roles_actions_outside_the_table(stack, roles):
    for program, statements in roles.items():
        uses_redis = program in ("send", "grab", "view", "settle", "operate-read", "operate-repair")
        expected = {"logs:CreateLogStream", "logs:PutLogEvents"}
        if uses_redis:
            expected |= {
                "ec2:AssignPrivateIpAddresses",
                "ec2:CreateNetworkInterface",
                "ec2:DeleteNetworkInterface",
                "ec2:DescribeNetworkInterfaces",
                "ec2:DescribeSubnets",
                "ec2:UnassignPrivateIpAddresses",
            }
        if uses_redis and stack.way != "existing":
            expected.add("elasticache:Connect")
            # Each function signs in as its own user only.
            users = {user: f"arn:aws:elasticache:{REGION}:{ACCOUNT}:user:{stack.ids[user]}" for user in ("RedisUser", "RedisReader")}
            own = {user for user, arn in users.items() if allows(statements, "elasticache:Connect", arn)}
            assert own == {"RedisReader" if program == "operate-read" else "RedisUser"}, program
        if program in ("publish-to-queue", "publish-to-bus"):
            expected.add("sqs:SendMessage")
        if program in ("audit", "publish-to-bus"):
            expected.add("events:PutEvents")
        if program == "notify":
            expected |= {"secretsmanager:GetSecretValue"} | {
                f"sqs:{action}"
                for action in ("ChangeMessageVisibility", "DeleteMessage", "GetQueueAttributes", "ReceiveMessage", "SendMessage")
            }
        if program in ("grab", "view") and "TicketSecretArn" in stack.parameters:
            expected.add("secretsmanager:GetSecretValue")
        if "CustomerKeyArn" in stack.parameters:
            expected.add("kms:Decrypt")
        allowed = {action for s in statements if s["Effect"] == "Allow" for action in listed(s["Action"])}
        assert {action for action in allowed if not action.startswith("dynamodb:")} == expected, program
        everywhere = {a for s in statements if s["Resource"] == "*" for a in listed(s["Action"])}
        assert all(action.startswith("ec2:") for action in everywhere), f"{program}: {everywhere}"
        # Lambda itself may do this, but the function's code may not.
        inside = {"lambda:SourceFunctionArn": [f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{program}"]}
        assert allows(statements, "ec2:CreateNetworkInterface", "*") == uses_redis
        assert not allows(statements, "ec2:CreateNetworkInterface", "*", inside)


def test_each_function_has_its_own_role_and_log_group(stack):
    roles, groups = set(), {}
    for program, logical_id, configuration in stack.functions():
        roles.add(configuration["Role"])
        groups[program] = stack.template["Resources"][logical_id]["Properties"]["LoggingConfig"]["LogGroup"]
        # On instances the same program has the same role and log group.
        logs = f"{logical_id.removesuffix('OnInstances')}Logs"
        assert groups[program] == {"Ref": logs}
        found = client("logs").describe_log_groups(logGroupNamePrefix=stack.ids[logs])["logGroups"]
        assert [group["retentionInDays"] for group in found] == [30], program
        trust = client("iam").get_role(RoleName=configuration["Role"].rpartition("/")[2])["Role"]
        [statement] = trust["AssumeRolePolicyDocument"]["Statement"]
        assert statement["Principal"] == {"Service": "lambda.amazonaws.com"}
    assert len(roles) == len(groups) == len({program for program, _, _ in stack.functions()})


def test_no_role_of_any_kind_has_a_wildcard_action(stack):
    for logical_id, resource in stack.template["Resources"].items():
        if resource["Type"] in ("AWS::IAM::Role", "AWS::IAM::ManagedPolicy"):
            properties = resource["Properties"]
            documents = [policy["PolicyDocument"] for policy in properties.get("Policies", [])]
            documents += [properties["PolicyDocument"]] if "PolicyDocument" in properties else []
            for statement in (statement for document in documents for statement in document["Statement"]):
                # A statement may depend on a condition.
                statement = statement.get("Fn::If", [None, statement])[1]
                assert not any("*" in action for action in listed(statement["Action"])), logical_id


def test_the_networks_endpoint_allows_its_functions_actions(stack, actions):
    [endpoint] = [
        resource
        for resource in stack.template["Resources"].values()
        if resource["Type"] == "AWS::EC2::VPCEndpoint" and resource["Properties"]["VpcEndpointType"] == "Gateway"
    ]
    [statement] = endpoint["Properties"]["PolicyDocument"]["Statement"]
    inside = [program for program, _, configuration in stack.functions() if configuration.get("VpcConfig")]
    assert sorted(inside) == ["grab", "operate-read", "operate-repair", "send", "settle", "view"]
    assert set(statement["Action"]) == {entry["action"] for program in inside for entry in actions[program]}
    condition, restored, own = statement["Resource"]["Fn::If"]
    assert condition == "IsRestored" and own == [{"Fn::GetAtt": ["Table", "Arn"]}, {"Fn::Sub": "${Table.Arn}/index/due"}]
    assert [one["Fn::Sub"][0].partition(":table/")[2] for one in restored] == ["${Name}", "${Name}/index/due"]
