"""The templates as CloudFormation receives them: after the SAM transform and the loops, which run here.

    python tests/aws/transformed.py target/aws    # default/ has the defaults of the parameters, all/ has a default for each part

checkov skips resources that the defaults do not make.
"""

import copy
import functools
import json
import os
import pathlib
import sys
from unittest import mock

from options import ALL

# The transform requires a region, but does not use it here.
REGION = os.environ.setdefault("AWS_DEFAULT_REGION", "ap-east-1")
ROOT = pathlib.Path(__file__).resolve().parents[2]
MAIN = "template.yaml"


def once(read):
    """Reading a template takes a second, so each is read once. Each caller gets a copy of its own."""
    made = functools.cache(read)
    return functools.wraps(read)(lambda *given: copy.deepcopy(made(*given)))


@once
def source(name: str = MAIN) -> dict:
    """A template as it is written, with short forms such as `!Ref X` in their long form."""
    from samtranslator.yaml_helper import yaml_parse

    return yaml_parse((ROOT / name).read_text())


def nested() -> dict:
    """The file of each nested template, by the logical id of its stack."""
    return {
        logical_id: resource["Properties"]["TemplateURL"]
        for logical_id, resource in source()["Resources"].items()
        if resource["Type"] == "AWS::CloudFormation::Stack"
    }


def transformed(name: str = MAIN, parameters: dict | None = None) -> dict:
    """A template after the transform, with a made-up location of the functions' code."""
    if name != MAIN:
        return looped(name)
    from samtranslator.translator.managed_policy_translator import ManagedPolicyLoader
    from samtranslator.translator.transform import transform

    template = source()
    template["Globals"]["Function"]["CodeUri"] = "s3://code/code.zip"
    return transform(template, parameters or {}, ManagedPolicyLoader(mock.Mock()))


@once
def looped(name: str) -> dict:
    """A nested template, with `Fn::ForEach` spelled out."""
    from cfnlint.decode import decode
    from cfnlint.template import Template
    from cfnlint.template.transforms._language_extensions import language_extension

    template, errors = decode(str(ROOT / name))
    assert not errors, errors
    errors, template = language_extension(Template(name, template, [REGION]))
    assert not errors, errors
    template.pop("Transform", None)
    return json.loads(json.dumps(template))


def resources(parameters: dict | None = None) -> dict:
    """The resources of all templates. No two have the same logical id."""
    found: dict = {}
    for name in (MAIN, *nested().values()):
        for logical_id, resource in transformed(name, parameters)["Resources"].items():
            assert logical_id not in found, f"two templates have a {logical_id}"
            found[logical_id] = resource
    return found


def write(folder: pathlib.Path, defaults: dict):
    """Writes each template with these defaults. A nested template's parameters get the defaults of the parameters with their names."""
    template = transformed()
    for name, value in defaults.items():
        template["Parameters"][name]["Default"] = value
    values = {name: parameter["Default"] for name, parameter in template["Parameters"].items()}
    templates = {MAIN: template} | {name: transformed(name) for name in nested().values()}
    for name, template in templates.items():
        for parameter, given in template["Parameters"].items():
            given["Default"] = values.get(parameter, "given")
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        # JSON is YAML, too.
        (folder / name).write_text(json.dumps(template, indent=1))


if __name__ == "__main__":
    for name, defaults in ("default", {}), ("all", ALL):
        write(pathlib.Path(sys.argv[1]) / name, defaults)
