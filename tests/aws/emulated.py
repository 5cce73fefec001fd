"""The transformed templates, deployed to moto's CloudFormation.

moto supports some resource types in templates. For types that it supports only as a service, a few lines here call the
service. For all other types, this file notes the properties that the resource would get. Nothing here tries rules, updates,
or whether AWS accepts each property; cfn-lint checks that.
"""

import json
import re
import warnings

import boto3
import moto
from moto.cloudformation import parsing
from moto.core.common_models import CloudFormationModel

from transformed import MAIN, REGION, ROOT, resources, source, transformed

__all__ = ["ROOT", "Stack", "client", "emulator"]
STACK = "hongbao-test"
ACCOUNT = "123456789012"


def client(service):
    return boto3.client(service, region_name=REGION)


class Noted:
    """A resource that `make` creates, or that is only noted."""

    made: dict = {}
    kind = ""

    def __init__(self, reference, attributes):
        self.physical_resource_id = reference
        self.attributes = attributes

    @classmethod
    def cloudformation_type(cls):
        return cls.kind

    @staticmethod
    def cloudformation_name_type():
        return ""

    @classmethod
    def has_cfn_attr(cls, attr):
        return True

    def get_cfn_attribute(self, attribute):
        return self.attributes.get(attribute, f"{self.physical_resource_id}.{attribute}")

    @classmethod
    def create_from_cloudformation_json(cls, resource_name, cloudformation_json, account_id, region_name, **given):
        properties = without_nothing(cloudformation_json.get("Properties", {}))
        logical_id = given["LogicalId"]
        Noted.made.setdefault(cls.kind, {})[logical_id] = properties
        reference, attributes = cls.make(logical_id, properties)
        return cls(reference, attributes)

    @classmethod
    def make(cls, logical_id, properties):
        return f"{STACK}-{logical_id}".lower(), {}


def without_nothing(value):
    """moto leaves a `null` in a list in place of `AWS::NoValue`."""
    if isinstance(value, dict):
        return {key: without_nothing(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [without_nothing(inner) for inner in value if inner is not None]
    return value


OURS: dict = {}


def kind(name):
    def named(make):
        # moto searches the direct subclasses of its model, and files each under the second part of its module's name.
        body = {"kind": name, "make": classmethod(lambda cls, *given: make(*given)), "__module__": "tests.aws"}
        model = type(CloudFormationModel)(make.__name__, (Noted, CloudFormationModel), body)
        OURS[name] = model
        return model

    return named


@kind("AWS::CloudFormation::Stack")
def nested(logical_id, properties):
    """moto has one, but reads its template from S3."""
    outputs = create(f"{STACK}-{logical_id}", transformed(properties["TemplateURL"]), properties["Parameters"])
    return f"{STACK}-{logical_id}", {f"Outputs.{name}": value for name, value in outputs.items()}


@kind("AWS::ApiGatewayV2::Api")
def api(logical_id, properties):
    made = client("apigatewayv2").create_api(Name=STACK, ProtocolType="HTTP")
    client("apigatewayv2").reimport_api(ApiId=made["ApiId"], Body=json.dumps(properties["Body"]))
    return made["ApiId"], {"ApiEndpoint": made["ApiEndpoint"]}


@kind("AWS::ApiGatewayV2::Stage")
def stage(logical_id, properties):
    # Whether AWS makes numbers of a parameter's text shows `make spike`.
    numbers = {"ThrottlingRateLimit": float, "ThrottlingBurstLimit": int}
    settings = {
        route: {name: numbers[name](value) for name, value in given.items()}
        for route, given in properties.get("RouteSettings", {}).items()
    }
    client("apigatewayv2").create_stage(ApiId=properties["ApiId"], StageName=properties["StageName"], RouteSettings=settings)
    return properties["StageName"], {}


@kind("AWS::Lambda::Version")
def version(logical_id, properties):
    """moto has one, but without its number."""
    made = client("lambda").publish_version(FunctionName=properties["FunctionName"])
    return made["FunctionArn"], {"Version": made["Version"]}


@kind("AWS::Lambda::Alias")
def alias(logical_id, properties):
    given = {key: value for key, value in properties.items() if key != "ProvisionedConcurrencyConfig"}
    return client("lambda").create_alias(**given)["AliasArn"], {}


@kind("AWS::Scheduler::Schedule")
def schedule(logical_id, properties):
    client("scheduler").create_schedule(**properties)
    return properties["Name"], {}


@kind("AWS::CloudWatch::Alarm")
def alarm(logical_id, properties):
    client("cloudwatch").put_metric_alarm(**properties)
    return properties["AlarmName"], {}


@kind("AWS::Cognito::UserPool")
def user_pool(logical_id, properties):
    made = client("cognito-idp").create_user_pool(PoolName=properties["UserPoolName"])["UserPool"]
    return made["Id"], {"ProviderURL": f"https://cognito-idp.{REGION}.amazonaws.com/{made['Id']}"}


@kind("AWS::Cognito::UserPoolClient")
def user_pool_client(logical_id, properties):
    made = client("cognito-idp").create_user_pool_client(UserPoolId=properties["UserPoolId"], ClientName=logical_id)
    return made["UserPoolClient"]["ClientId"], {}


@kind("AWS::S3::Bucket")
def bucket(logical_id, properties):
    """moto has one, but without the block of public access."""
    name = f"{STACK}-{logical_id}".lower()
    client("s3").create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    blocked = properties["PublicAccessBlockConfiguration"]
    client("s3").put_public_access_block(Bucket=name, PublicAccessBlockConfiguration=blocked)
    return name, {"Arn": f"arn:aws:s3:::{name}", "RegionalDomainName": f"{name}.s3.{REGION}.amazonaws.com"}


@kind("AWS::S3::BucketPolicy")
def bucket_policy(logical_id, properties):
    client("s3").put_bucket_policy(Bucket=properties["Bucket"], Policy=json.dumps(properties["PolicyDocument"]))
    return f"{STACK}-{logical_id}".lower(), {}


@kind("AWS::IAM::Role")
def role(logical_id, properties):
    """moto has one, but without the managed policies."""
    iam, name = client("iam"), f"{STACK}-{logical_id}"
    trust = json.dumps(properties["AssumeRolePolicyDocument"])
    made = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust)["Role"]
    for policy in properties.get("Policies", []):
        document = json.dumps(policy["PolicyDocument"])
        iam.put_role_policy(RoleName=name, PolicyName=policy["PolicyName"], PolicyDocument=document)
    # The emulator has none of AWS's own policies. Only CodeDeploy's role has one.
    for arn in (arn for arn in properties.get("ManagedPolicyArns", []) if "iam::aws:" not in arn):
        iam.attach_role_policy(RoleName=name, PolicyArn=arn)
    return name, {"Arn": made["Arn"]}


@kind("AWS::SecretsManager::Secret")
def secret(logical_id, properties):
    """moto has one, but does not generate what stands in it."""
    return client("secretsmanager").create_secret(Name=f"{STACK}-{logical_id}")["ARN"], {}


ONLY_NOTED = [
    kind(name)(Noted.make)
    for name in (
        "AWS::Backup::BackupPlan",
        "AWS::Backup::BackupSelection",
        "AWS::Backup::BackupVault",
        "AWS::CloudFront::Distribution",
        "AWS::CloudFront::Function",
        "AWS::CloudFront::OriginAccessControl",
        "AWS::CloudFront::ResponseHeadersPolicy",
        "AWS::CodeDeploy::Application",
        "AWS::CodeDeploy::DeploymentGroup",
        "AWS::Cognito::UserPoolDomain",
        "AWS::EC2::SecurityGroupEgress",
        "AWS::ElastiCache::ParameterGroup",
        "AWS::ElastiCache::ReplicationGroup",
        "AWS::ElastiCache::ServerlessCache",
        "AWS::ElastiCache::SubnetGroup",
        "AWS::ElastiCache::User",
        "AWS::ElastiCache::UserGroup",
        "AWS::ElasticLoadBalancingV2::Listener",
        "AWS::ElasticLoadBalancingV2::ListenerRule",
        "AWS::ElasticLoadBalancingV2::LoadBalancer",
        "AWS::ElasticLoadBalancingV2::TargetGroup",
        "AWS::Lambda::EventInvokeConfig",
        "AWS::Lambda::EventSourceMapping",
        "AWS::Lambda::Url",
        "AWS::Logs::MetricFilter",
        "AWS::SNS::Subscription",
        "AWS::SNS::TopicPolicy",
        "AWS::SQS::QueuePolicy",
    )
]


def spelled_out(value):
    """The template without what moto does not support: `Fn::Cidr`, and a nested stack's outputs in `Fn::Sub`."""
    if isinstance(value, list):
        return [spelled_out(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if list(value) == ["Fn::Cidr"]:
        return [f"10.64.{4 * i}.0/22" for i in range(value["Fn::Cidr"][1])]
    if list(value) == ["Fn::Sub"]:
        text, values = value["Fn::Sub"] if isinstance(value["Fn::Sub"], list) else (value["Fn::Sub"], {})
        found = re.findall(r"\$\{(\w+)\.Outputs\.(\w+)\}", text)
        values = spelled_out(values) | {f"{stack}{name}": {"Fn::GetAtt": [stack, f"Outputs.{name}"]} for stack, name in found}
        return {"Fn::Sub": [re.sub(r"\$\{(\w+)\.Outputs\.(\w+)\}", r"${\1\2}", text), values]}
    return {key: spelled_out(inner) for key, inner in value.items()}


def create(name, template, parameters):
    """Makes one stack, and returns its outputs."""
    given = [{"ParameterKey": key, "ParameterValue": str(value)} for key, value in parameters.items()]
    body = json.dumps(spelled_out(template))
    client("cloudformation").create_stack(
        StackName=name, TemplateBody=body, Parameters=given, Capabilities=["CAPABILITY_IAM"]
    )
    [made] = client("cloudformation").describe_stacks(StackName=name)["Stacks"]
    return {output["OutputKey"]: output["OutputValue"] for output in made.get("Outputs", [])}


class Stack:
    """A deployed stack with its nested ones, to be read back while the emulator runs."""

    def __init__(self, **parameters):
        Noted.made = {}
        template = transformed(MAIN, parameters)
        # The resources of all templates, and the outputs of the main one.
        self.template = {"Resources": resources(parameters), "Outputs": template["Outputs"]}
        client("s3").create_bucket(Bucket="code", CreateBucketConfiguration={"LocationConstraint": REGION})
        client("s3").put_object(Bucket="code", Key="code.zip", Body=b"PK\x05\x06" + 18 * b"\0")
        # Ours replace moto's own.
        parsing.get_model_map().update(OURS)
        with warnings.catch_warnings():
            # A resource type that this file does not know must fail, not be skipped.
            warnings.filterwarnings("error", message="Tried to parse")
            self.outputs = create(STACK, template, parameters)
        self.ids = {}
        for name in (STACK, *(f"{STACK}-{logical_id}" for logical_id in self.noted("AWS::CloudFormation::Stack"))):
            found = client("cloudformation").describe_stack_resources(StackName=name)["StackResources"]
            # Some of moto's own resources have no physical id.
            named = [resource for resource in found if "PhysicalResourceId" in resource]
            self.ids |= {resource["LogicalResourceId"]: resource["PhysicalResourceId"] for resource in named}

    def noted(self, kind):
        return Noted.made.get(kind, {})

    def functions(self):
        """Each deployed function of the engine: its name in actions.json, its logical id, its configuration."""
        for logical_id, resource in source()["Resources"].items():
            if "BuildMethod" in resource.get("Metadata", {}) and logical_id in self.ids:
                configuration = client("lambda").get_function_configuration(FunctionName=self.ids[logical_id])
                program = resource["Metadata"]["BuildProperties"]["Binary"]
                variables = configuration["Environment"]["Variables"]
                kind = {"false": "-read", "true": "-repair", None: ""}[variables.get("OPERATE_REPAIRS")]
                if target := variables.get("EVENT_TARGET"):
                    kind = "-to-bus" if target.startswith("arn:") else "-to-queue"
                yield program + kind, logical_id, configuration

    def live(self, logical_id):
        """The ARN of a function's alias."""
        return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{self.ids[logical_id]}:live"

    def called(self):
        """The functions that alarms watch. A failure of the operator's functions shows on the operator's own screen."""
        return [found for found in self.functions() if not found[0].startswith("operate-")]


def emulator():
    return moto.mock_aws()
