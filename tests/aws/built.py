"""Whether SAM can build the templates, with the defaults and with each other value of each parameter.

    PATH=tests/aws/stub:$PATH .tools/sam/bin/python tests/aws/built.py target/built

The command `sam build` runs with all parts at once; with the defaults it runs in test_sam.py. It calls `get_stacks` first, which reads the nested templates and
evaluates their functions, whether their conditions hold or not. That one runs here with every value. Then each template is evaluated again
more strictly, both branches of each Fn::If too: nobody has said what CloudFormation itself evaluates of a branch that it does not use.
"""

import copy
import functools
import logging
import os
import pathlib
import re
import subprocess
import sys

from samcli.commands._utils.template import get_template_data
from samcli.commands.validate.lib.exceptions import InvalidSamDocumentException
from samcli.lib.cfn_language_extensions.resolvers.fn_if import FnIfResolver
from samcli.lib.cfn_language_extensions.sam_integration import AWS_LANGUAGE_EXTENSIONS_TRANSFORM, expand_language_extensions
from samcli.lib.intrinsic_resolver.intrinsics_symbol_table import IntrinsicsSymbolTable
from samcli.lib.providers import sam_stack_provider

from options import ALL, each

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAM = pathlib.Path(sys.executable).with_name("sam")
TEMPLATE = str(ROOT / "template.yaml")


def build(folder, parameters):
    """Runs the command with this build folder."""
    overrides = [f"{name}={value}" for name, value in parameters.items()]
    words = [SAM, "build", "--build-dir", folder, *(["--parameter-overrides", *overrides] if overrides else [])]
    variables = os.environ | {"CARGO_TARGET_DIR": str(folder.parent / "cargo"), "SAM_CLI_TELEMETRY": "0"}
    done = subprocess.run(words, cwd=ROOT, env=variables, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"sam build {' '.join(overrides)}: {done.stderr}")


# Most of the time goes into reading YAML.
read = functools.cache(get_template_data)


taken_branch = FnIfResolver.resolve


def both_branches(resolver, value):
    """Fn::If, of which the branch that is not taken must be without an error too."""
    for branch in value["Fn::If"][1:]:
        resolver.parent.resolve_value(branch)
    return taken_branch(resolver, value)


def evaluate(parameters):
    """The message of the first function that fails, or None."""
    try:
        FnIfResolver.resolve = taken_branch
        stacks, _ = sam_stack_provider.SamLocalStackProvider.get_stacks(
            TEMPLATE, parameter_overrides=parameters, language_extensions_enabled=True
        )
        FnIfResolver.resolve = both_branches
        for stack in stacks:
            values = IntrinsicsSymbolTable.DEFAULT_PSEUDO_PARAM_VALUES | (stack.parameters or {})
            template = read(stack.location) | {"Transform": AWS_LANGUAGE_EXTENSIONS_TRANSFORM}
            expand_language_extensions(template, values, enabled=True)
    except InvalidSamDocumentException as error:
        return str(error)


def main(folder):
    logging.disable()
    sam_stack_provider.get_template_data = lambda path: copy.deepcopy(read(path))
    declared = read(TEMPLATE)["Parameters"]
    conditions = [read(str(path)).get("Conditions") for path in (ROOT / "template.yaml", *ROOT.glob("stacks/*.yaml"))]
    tried = [{}, ALL, *each(declared, conditions)]
    for parameters in tried:
        for name, value in parameters.items():
            assert re.fullmatch(declared[name].get("AllowedPattern", ".*"), value, re.DOTALL), f"{name} does not take {value}"
    failed = [f"{parameters or 'defaults'}: {message}" for parameters in tried if (message := evaluate(parameters))]
    if failed:
        sys.exit("\n".join(["SAM cannot evaluate the templates:", *failed]))
    build(folder / "all", ALL)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve())
