"""What `make deploy ENV=…` would deploy: the stack's name and each parameter's value."""

import os
import pathlib
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Environment:
    """A section of samconfig.toml, over the defaults of template.yaml."""

    def __init__(self, name, root=ROOT):
        # SAM's own reader knows the short forms of CloudFormation, such as `!Ref`.
        from samtranslator.yaml_helper import yaml_parse

        config = tomllib.loads((root / "samconfig.toml").read_text())
        known = [key for key, section in config.items() if isinstance(section, dict) and "global" in section]
        if name not in known:
            sys.exit(f"samconfig.toml has no environment {name}: it has {', '.join(known)}")
        deploy = config[name].get("deploy", {}).get("parameters", {})
        self.name = name
        self.stack = config[name]["global"]["parameters"]["stack_name"]
        self.region = deploy.get("region") or config[name]["global"]["parameters"].get("region")
        template = yaml_parse((root / "template.yaml").read_text())
        self.parameters = {key: str(of.get("Default", "")) for key, of in template["Parameters"].items()}
        for override in deploy.get("parameter_overrides", []):
            key, _, value = override.partition("=")
            self.parameters[key] = value


def session(region=None):
    """The credentials and the region of the environment, as the AWS CLI finds them."""
    import boto3

    # The CLI reads both variables, boto3 only the second one.
    return boto3.session.Session(region_name=region or os.environ.get("AWS_REGION"))
