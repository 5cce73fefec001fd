"""`make deploy` and `make destroy` with the real SAM and AWS CLI. Only cargo is a stub, and AWS is moto, which takes `sam deploy` as far as
its change set."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading

import boto3
import pytest
import yaml
from transformed import REGION, ROOT

BUCKET = "sam-bucket"


class Account:
    """An account behind an address, with the bucket that SAM makes for itself."""

    def __init__(self, folder, port):
        self.variables = {"AWS_ENDPOINT_URL": f"http://localhost:{port}", "AWS_REGION": REGION}
        self.folder = folder / "repository"
        self.folder.mkdir()
        for name in ("Makefile", "samconfig.toml", "template.yaml", "scripts", "stacks"):
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, self.folder / name)
        (self.folder / "scripts/install-tools.sh").write_text("#!/bin/sh\n")
        # The tests' AWS CLI is of version 1, which says so. Else both are alike here.
        program, real = folder / "bin/aws", os.path.join(os.path.dirname(sys.executable), "aws")
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\n[ "$1" != --version ] || exec echo aws-cli/2.0.0\nexec {real} "$@"\n')
        program.chmod(0o755)
        # moto cannot make the whole stack.
        config = self.folder / "samconfig.toml"
        config.write_text(config.read_text().replace("[dev.deploy.parameters]", "[dev.deploy.parameters]\nconfirm_changeset = true"))
        (self.folder / ".tools/lambda").mkdir(parents=True)
        (self.folder / ".tools/lambda/bin").symlink_to(ROOT / "tests/aws/stub")
        (self.folder / ".tools/sam").symlink_to(ROOT / ".tools/sam")
        cloudformation = self.client("cloudformation")
        self.client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        cloudformation.create_stack(
            StackName="aws-sam-cli-managed-default",
            TemplateBody=json.dumps({"Resources": {}, "Outputs": {"SourceBucket": {"Value": BUCKET}}}),
            Tags=[{"Key": "ManagedStackSource", "Value": "AwsSamCli"}],
        )

    def client(self, service):
        return boto3.client(service, region_name=REGION, endpoint_url=self.variables["AWS_ENDPOINT_URL"])

    def make(self, *words, answer):
        path = f"{self.folder.parent / 'bin'}:{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
        variables = os.environ | self.variables | {"PATH": path, "CARGO_TARGET_DIR": str(self.folder / "target")}
        return subprocess.run(["make", *words], cwd=self.folder, env=variables, input=answer, capture_output=True, text=True)

    def objects(self):
        return {item["Key"] for item in self.client("s3").list_objects_v2(Bucket=BUCKET).get("Contents", [])}

    def parameters(self, environment):
        """Those of the change set."""
        cloudformation, name = self.client("cloudformation"), f"hongbao-{environment}"
        # moto lists the change sets of all stacks.
        [made] = [made for made in cloudformation.list_change_sets(StackName=name)["Summaries"] if made["StackName"] == name]
        described = cloudformation.describe_change_set(ChangeSetName=made["ChangeSetId"])
        return {parameter["ParameterKey"]: parameter["ParameterValue"] for parameter in described["Parameters"]}


@pytest.fixture
def account(tmp_path):
    words = [sys.executable, "-c", "import moto.server; moto.server.main(['-p', '0'])"]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not (listens := re.search(r"Running on http://127.0.0.1:(\d+)", server.stderr.readline())):
        assert server.poll() is None
    # A server whose pipe is full would wait.
    threading.Thread(target=server.stderr.read, daemon=True).start()
    yield Account(tmp_path, listens[1])
    server.terminate()
    server.wait()


def test_a_deployment_reaches_its_change_set_and_its_deletion_leaves_the_objects_of_another(account):
    done = account.make("deploy", "ENV=dev", answer="n\n")
    said = done.stdout + done.stderr
    assert "Build Succeeded" in said, said
    assert done.returncode != 0 and "nothing was deployed" in said and "set-stack-policy" not in said, said
    given = account.parameters("dev")
    assert given["LogRetentionDays"] == "7" and re.fullmatch(r"\d{10}-\w+", given["Release"])
    uses = re.findall(r"(?:Uploading to|already exists at) ([^ ,]+)", said)
    assert account.objects() >= set(uses) != set()

    s3, of_another = account.client("s3"), "hongbao-prod/its-code"
    s3.put_object(Bucket=BUCKET, Key=of_another)
    whole = yaml.safe_load(s3.get_object(Bucket=BUCKET, Key=uses[-1])["Body"])
    functions = {
        name: {"Type": made["Type"], "Properties": {"CodeUri": made["Properties"]["CodeUri"]}}
        for name, made in whole["Resources"].items()
        if made["Type"] == "AWS::Serverless::Function"
    }
    account.client("cloudformation").delete_stack(StackName="hongbao-dev")
    account.client("cloudformation").create_stack(StackName="hongbao-dev", TemplateBody=json.dumps({"Resources": functions}))
    done = account.make("destroy", "ENV=dev", answer="y\n")
    assert done.returncode == 0, done.stderr
    assert account.objects() == {of_another}
