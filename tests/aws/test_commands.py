"""The commands of the Makefile, docs/DEPLOY.md and docs/RUNBOOK.md, run as they are written, with the variables that the document sets and no
others. Programs in place of the AWS CLI, SAM, Python and curl note what they get."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys

import botocore.session
import pytest
from transformed import ROOT

from region import region_of

# Notes the call, and answers as far as the commands need it.
NOTES = f"""#!{sys.executable}
import json, os, sys
name = os.path.basename(sys.argv[0])
with open(os.path.join(os.environ["HOME"], "calls"), "a") as calls:
    calls.write(json.dumps([name, *sys.argv[1:]]) + "\\t" + json.dumps({{k: v for k, v in os.environ.items() if k.startswith("AWS_")}}) + "\\n")
if sys.argv[1:3] == ["configure", "export-credentials"]:
    keys = open(os.path.join(os.environ["HOME"], "keys")).read()
    print(keys)
    sys.exit(not keys)
elif "describe-stacks" in sys.argv and "Release" in sys.argv[-3]:
    print(open(".aws-sam/release.yaml").read().removeprefix("Release: "), end="")
elif sys.argv[1:3] == ["configure", "get"]:
    print(open(os.path.join(os.environ["HOME"], "profile")).read())
"""


class Machine:
    """A machine with the repository's files, and with no variable of AWS."""

    def __init__(self, folder):
        self.folder, self.bin = folder / "repository", folder / "bin"
        self.bin.mkdir()
        (folder / "profile").write_text("")
        (folder / "keys").write_text("export AWS_ACCESS_KEY_ID=key AWS_SECRET_ACCESS_KEY=secret AWS_SESSION_TOKEN='a token'")
        for name in ("Makefile", "samconfig.toml", "template.yaml", "scripts", "stacks"):
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            self.folder.mkdir(exist_ok=True)
            copy(ROOT / name, self.folder / name)
        # SAM would write it.
        (self.folder / ".aws-sam/build").mkdir(parents=True)
        (self.folder / ".aws-sam/build/template.yaml").write_text("")
        (self.folder / "scripts/install-tools.sh").write_text("#!/bin/sh\n")
        tools = self.folder / ".tools/sam/bin"
        tools.mkdir(parents=True)
        for program in (self.bin / "aws", self.bin / "curl", tools / "sam", tools / "python"):
            program.write_text(NOTES)
            program.chmod(0o755)
        # A Python of pyenv would put its own folder, with its AWS CLI, before this one.
        (self.bin / "python3").symlink_to(sys.executable)
        # Without the variables that the tests themselves set.
        self.variables = {"HOME": str(folder), "PATH": f"{self.bin}:{os.environ['PATH']}"}
        self.log = folder / "calls"

    def run(self, *command, given="", **variables):
        """The finished command, and what it called: the words, and the variables of AWS."""
        self.log.write_text("")
        done = subprocess.run(
            command, cwd=self.folder, env=self.variables | variables, input=given, capture_output=True, text=True
        )
        calls = [tuple(map(json.loads, line.split("\t"))) for line in self.log.read_text().splitlines()]
        return done, [(words, got) for words, got in calls if words[1:3] != ["configure", "get"]]


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def region_by(words, variables, monkeypatch):
    """The region that a tool uses with these variables: the AWS CLI 2 prefers AWS_REGION, SAM and boto3 do not read it."""
    if words[0] == "aws" and "AWS_REGION" in variables:
        return variables["AWS_REGION"]
    with monkeypatch.context() as patch:
        patch.setenv("AWS_CONFIG_FILE", "/nowhere")
        for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
            patch.delenv(name, raising=False)
            if name in variables:
                patch.setenv(name, variables[name])
        return botocore.session.Session().get_config_variable("region")


def blocks(page, heading):
    """The blocks of commands below a heading of a page."""
    text = (ROOT / "docs" / page).read_text()
    section = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)


def test_from_nothing_to_a_first_grab_every_tool_uses_the_region_of_the_document(machine, monkeypatch):
    [deployment], [by_hand] = blocks("DEPLOY.md", "Deploy"), blocks("DEPLOY.md", "Grab once by hand")
    [region] = re.findall(r"export AWS_REGION=(\S+)", deployment)
    # The reader types a password, and the id that an answer shows.
    done, calls = machine.run("bash", "-euc", deployment + by_hand, given="a password of all kinds, 1 A\n1\n")
    assert done.returncode == 0, done.stderr
    called = [" ".join(words) for words, _ in calls]
    expected = [
        "python scripts/aws/preflight.py dev",
        "python scripts/aws/spike.py dev",
        "python scripts/aws/credentials.py",
        "sam build",
        "sam deploy --config-env dev",
        "aws cloudformation set-stack-policy",
        "python scripts/aws/smoke.py --env dev",
        "aws cognito-idp admin-create-user",
        "aws configure export-credentials",
        f"curl --aws-sigv4 aws:amz:{region}:execute-api",
    ]
    places = [next(at for at, call in enumerate(called) if call.startswith(start)) for start in expected]
    assert places == sorted(places)
    for words, variables in calls:
        assert words[0] == "curl" or region_by(words, variables, monkeypatch) == region, words
        # Keys that are exported end during a deployment. A tool that finds them itself renews them.
        assert "AWS_ACCESS_KEY_ID" not in variables or words[0] == "curl", words


ON_AWS = [["preflight"], ["spike"], ["deploy"], ["deploy", "ONLY=page"], ["destroy"], ["smoke"], ["smoke", "TEARDOWN=1"]]


@pytest.mark.parametrize("target", ON_AWS, ids=" ".join)
def test_each_target_uses_the_one_region(machine, monkeypatch, target):
    done, calls = machine.run("make", *target, "ENV=prod", given="y\n", AWS_REGION="eu-west-1")
    assert done.returncode == 0 and calls, done.stderr
    assert {region_by(words, got, monkeypatch) for words, got in calls} == {"eu-west-1"}
    done, calls = machine.run("make", *target, "ENV=prod")
    assert done.returncode != 0 and "there is no region: set AWS_REGION" in done.stderr and not calls


def test_the_region_is_named_once(machine):
    def region(**variables):
        done = machine.run("scripts/aws/region.py", "prod", **variables)[0]
        assert (done.returncode == 0) == bool(done.stdout), done.stderr
        return done.stdout.strip() or done.stderr

    assert region(AWS_DEFAULT_REGION="eu-west-1") == "eu-west-1"
    (machine.log.parent / "profile").write_text("eu-west-2\n")
    assert region() == "eu-west-2" and region(AWS_REGION="eu-west-1") == "eu-west-1"
    assert "the stack does not deploy to cn-north-1" in region(AWS_REGION="cn-north-1")
    said = region(AWS_REGION="eu-west-1", AWS_DEFAULT_REGION="us-east-1")
    assert "AWS_REGION says eu-west-1, AWS_DEFAULT_REGION says us-east-1" in said
    config = machine.folder / "samconfig.toml"
    config.write_text(config.read_text().replace("[prod.deploy.parameters]", '[prod.deploy.parameters]\nregion = "ap-east-1"'))
    assert "samconfig.toml says ap-east-1, AWS_REGION says eu-west-1" in region(AWS_REGION="eu-west-1")
    assert region() == "ap-east-1", "samconfig.toml is enough"


def test_a_region_of_another_partition_is_refused(monkeypatch):
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    aws = botocore.session.Session()
    for partition in aws.get_available_partitions():
        for name in aws.get_available_regions("ec2", partition):
            monkeypatch.setenv("AWS_REGION", name)
            if partition == "aws":
                assert region_of("dev") == name
                continue
            with pytest.raises(SystemExit, match=f"the stack does not deploy to {name}: "):
                region_of("dev")


def test_nothing_is_deleted_before_the_answer(machine):
    for answer in ("n\n", "\n", ""):
        done, calls = machine.run("make", "destroy", "ENV=prod", given=answer, AWS_REGION="eu-west-1")
        assert done.returncode != 0 and "Delete hongbao-prod?" in done.stdout and not calls


def test_a_deployment_that_may_not_begin_installs_and_builds_nothing(machine):
    (machine.folder / "scripts/install-tools.sh").write_text(NOTES)
    (machine.folder / ".tools/sam/bin/python").write_text("#!/bin/sh\nexit 1\n")
    done, calls = machine.run("make", "deploy", AWS_REGION="eu-west-1")
    assert done.returncode != 0 and [words for words, _ in calls] == [["install-tools.sh", "sam"]]


@pytest.mark.parametrize("line", ["stack_name = 'a-stack'", 'stack_name = "a-stack"  # of ours', 'stack_name="a-stack"'])
def test_the_stack_is_the_one_that_the_file_names(machine, line):
    config = machine.folder / "samconfig.toml"
    config.write_text(config.read_text().replace('stack_name = "hongbao-dev"', line))
    done, calls = machine.run("make", "destroy", "ENV=dev", given="n\n", AWS_REGION="eu-west-1")
    assert "Delete a-stack?" in done.stdout and not calls, done.stderr


def test_the_chinese_page_has_commands_of_the_english_ones_only():
    page, *documents = ((ROOT / "docs" / name).read_text() for name in ("DEPLOY.zh-CN.md", "DEPLOY.md", "OPERATE.md"))
    lines = "".join(re.findall(r"```sh\n(.*?)```", page, re.DOTALL)).splitlines()
    commands = [line.partition(" #")[0].strip() for line in lines] + re.findall(r"`((?:make|aws) [^`]+)`", page)
    assert len(commands) > 8
    for command in commands:
        assert any(command in document for document in documents), command


def test_an_old_python_is_named(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 10, 12))
    with pytest.raises(SystemExit, match="python3 is Python 3.10: install 3.11 or later"):
        runpy.run_path(str(ROOT / "scripts/aws/region.py"))


def test_a_build_and_the_local_smoke_need_no_region(machine):
    done, calls = machine.run("make", "deploy", "ONLY=build")
    assert done.returncode == 0 and [words for words, _ in calls] == [["sam", "build"]], done.stderr
    assert "region" not in machine.run("make", "-n", "smoke")[0].stderr


@pytest.mark.parametrize("page", ["OPERATE.md", "RUNBOOK.md", "INTEGRATE.md", "INTEGRATE.zh-CN.md"])
def test_the_query_of_a_signed_request_is_in_order(page):
    # Older curls sign it as it is written, and AWS in order: https://github.com/curl/curl/issues/9717
    text = (ROOT / "docs" / page).read_text()
    for query in re.findall(r"(?:operator |--aws-sigv4 )[^\n]*?\?([^\"'`\s]+)", text.replace("\\\n", "")):
        assert query.split("&") == sorted(query.split("&")), query


def test_a_request_of_the_operator_is_signed_with_new_keys_and_the_readers_own_stay(machine):
    first, preparation = blocks("RUNBOOK.md", "Preparation")
    definitions = "\n".join(re.findall(r"^with_keys.*$|^operator\(\) \(.*?^\)$", preparation, re.DOTALL | re.MULTILINE))
    script = f"{first}\n{definitions}\noperator https://api.example\necho $AWS_ACCESS_KEY_ID"
    keys = machine.log.parent / "keys"
    for given, token in (keys.read_text(), ["-Hx-amz-security-token: a token"]), ("export AWS_ACCESS_KEY_ID=key AWS_SECRET_ACCESS_KEY=secret", []):
        keys.write_text(given)
        done, calls = machine.run("bash", "-euc", script, AWS_ACCESS_KEY_ID="own", AWS_SECRET_ACCESS_KEY="own")
        assert done.returncode == 0 and done.stdout == "own\n", done.stderr
        [(asked, _), (words, variables)] = calls
        assert asked[:3] == ["aws", "configure", "export-credentials"] and variables["AWS_ACCESS_KEY_ID"] == "key"
        assert words[words.index("key:secret") + 1 :] == [*token, "https://api.example"]
    keys.write_text("")
    done, calls = machine.run("bash", "-euc", script)
    assert done.returncode != 0 and [words[0] for words, _ in calls] == ["aws"], "no request without keys"
