"""A deployment to rehearse the runbook on: the stack on moto, with a local stack as its functions, table and Redis. The AWS CLI and the
engine's own programs reach it by one endpoint.

What is real: the AWS CLI, `hongbao-admin`, `curl`, the engine. What is emulated: AWS. A few calls that moto lacks are answered here, from
the stack's own resources, so that a name which does not exist is an error.
"""

import datetime
import gzip
import hmac
import io
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import emulated
from emulated import ACCOUNT, REGION, ROOT, client

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "debug"
STACK = "hongbao-prod"
READS, REPAIRS = f"{STACK}-operate-read", f"{STACK}-operate-repair"
URL_OF_REPAIRS = "/url-of-repairs/"
DAY = "2026-11-22"


def ask(url, method="GET", body=None, **headers):
    """Without boto3, whose calls all go to moto here."""
    request = urllib.request.Request(url, method=method, data=None if body is None else json.dumps(body).encode())
    for name, value in headers.items():
        request.add_header(name.replace("_", "-"), value)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.headers, answer.read()


class Engine:
    """A local stack: the functions, the table and Redis. With a data folder it has stores that other programs reach."""

    def __init__(self, *flags, subcommand="dev", data=None):
        assert (PROGRAMS / "hongbao").exists(), f"{PROGRAMS} has no programs: cargo build --workspace --bins"
        command = [PROGRAMS / "hongbao", subcommand, "--port", "0", "--settle-every", "0s", *flags]
        command += ["--data-dir", data] if data else []
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if "is ready at" in line:
                self.url = line.split()[-1]
                break
        else:
            raise AssertionError("the local stack did not start")
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        lines = (data / "stores.env").read_text().splitlines() if data else []
        self.stores = {name: value.strip("'") for name, _, value in (line.partition("=") for line in lines)}

    def settle(self):
        return ask(f"{self.url}/_local/settle", "POST")[1]

    def admin(self, *arguments, **variables):
        environment = os.environ | self.stores | variables
        return subprocess.run([PROGRAMS / "hongbao-admin", *arguments], capture_output=True, text=True, env=environment)

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=30)


class Endpoint:
    """All of AWS behind one address: moto, and what it lacks."""

    def __init__(self, stack, engine):
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import WSGIRequestHandler, make_server

        self.stack, self.engine = stack, engine
        self.moto = DomainDispatcherApplication(create_backend_app)

        class Quiet(WSGIRequestHandler):
            def log_request(self, *_):
                pass

        self.server = make_server("127.0.0.1", 0, self.answer, threaded=True, request_handler=Quiet)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()

    def answer(self, environ, start_response):
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        path = urllib.parse.unquote(environ["PATH_INFO"])
        action = environ.get("HTTP_X_AMZ_TARGET", "").rpartition(".")[2]
        fields = {name: value[0] for name, value in urllib.parse.parse_qs(body.decode(errors="replace")).items()}
        action = action or fields.get("Action", "")
        if path.endswith("/invocations"):
            status, answer = self.invoke(path.split("/")[3], json.loads(body or "{}"), environ)
        elif path == f"/2021-10-31/functions/{REPAIRS}/url":
            status, answer = "200 OK", json.dumps({"FunctionUrl": f"{self.url}{URL_OF_REPAIRS}"}).encode()
        elif path in ("/backup-jobs/", "/copy-jobs/"):
            status, answer = "200 OK", b'{"BackupJobs": [], "CopyJobs": []}'
        elif path == URL_OF_REPAIRS:
            status, answer = self.operate(json.loads(body))
        elif own := getattr(self, f"on_{action}", None):
            status, answer = own(fields if "Action" in fields else json.loads(body))
        else:
            return self.with_the_engines_address(environ, start_response)
        start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(answer)))])
        return [answer]

    def with_the_engines_address(self, environ, start_response):
        """The answer of moto. The API, which it makes, has no functions behind it."""
        given = []
        answer = b"".join(self.moto(environ, lambda status, headers, *_: given.extend((status, headers))))
        answer = answer.replace(self.stack.outputs["ApiUrl"].encode(), self.engine.url.encode())
        headers = [(name, value) for name, value in given[1] if name.lower() != "content-length"]
        start_response(given[0], [*headers, ("Content-Length", str(len(answer)))])
        return [answer]

    def invoke(self, function, event, environ):
        """Runs a function. The engine's programs stand for it."""
        ids = {READS: "OperateRead"} | {self.stack.live(name): name for name in ("Settle", "Audit")}
        # An ARN names the alias, a name does not.
        is_live = function.endswith(":live") or environ.get("QUERY_STRING") == "Qualifier=live"
        called = ids.get(function) if is_live else None
        if called is None:
            error = {"Type": "User", "Message": f"Function not found: {function}"}
            return "404 Not Found", json.dumps(error).encode()
        if environ.get("HTTP_X_AMZ_INVOCATION_TYPE") == "Event":
            return "202 Accepted", b""
        if called == "Settle":
            return "200 OK", self.engine.settle()
        return self.operate(event)

    def operate(self, event):
        done = self.engine.admin(*event.pop("arguments"))
        assert not event, event
        answer = {"exit": done.returncode, "output": done.stdout}
        return "200 OK", json.dumps(answer if done.stdout else {"exit": done.returncode, "error": done.stderr}).encode()

    def xml(self, action, result):
        return "200 OK", f"<{action}Response><{action}Result>{result}</{action}Result></{action}Response>".encode()

    def query_error(self, code, message):
        return "404 Not Found", f"<ErrorResponse><Error><Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>".encode()

    def on_ExportTableToPointInTime(self, given):
        """Writes the table's items as DynamoDB does, into the bucket. moto wants a prefix, and writes no manifest."""
        arn = f"{given['TableArn']}/export/1"
        assert given["TableArn"].endswith(f":table/{self.stack.outputs['TableName']}") and given["ExportFormat"] == "DYNAMODB_JSON"
        ledger, scan = self.engine.stores["AWS_ENDPOINT_URL_DYNAMODB"], {"TableName": self.stack.outputs["TableName"]}
        signed = f"AWS4-HMAC-SHA256 Credential=made-up/20261127/{REGION}/dynamodb/aws4_request, SignedHeaders=host, Signature=0"
        headers = {"X-Amz-Target": "DynamoDB_20120810.Scan", "Content-Type": "application/x-amz-json-1.0", "Authorization": signed}
        headers["X-Amz-Date"] = "20261127T000000Z"
        asked = ask(f"{ledger}/", "POST", scan, **headers)
        items = json.loads(asked[1])["Items"]
        data = gzip.compress("".join(json.dumps({"Item": item}) + "\n" for item in items).encode())
        at = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        summary = {"exportArn": arn, "exportTime": at, "outputFormat": "DYNAMODB_JSON", "exportType": "FULL_EXPORT", "itemCount": len(items)}
        files = {"dataFileS3Key": "AWSDynamoDB/1/data/1.json.gz", "itemCount": len(items)}
        for name, body in (("manifest-summary.json", summary), ("manifest-files.json", files)):
            client("s3").put_object(Bucket=given["S3Bucket"], Key=f"AWSDynamoDB/1/{name}", Body=json.dumps(body))
        client("s3").put_object(Bucket=given["S3Bucket"], Key=files["dataFileS3Key"], Body=data)
        return "200 OK", json.dumps({"ExportDescription": {"ExportArn": arn, "ExportStatus": "IN_PROGRESS"}}).encode()

    def on_StartMessageMoveTask(self, given):
        assert given["SourceArn"] in [f"arn:aws:sqs:{REGION}:{ACCOUNT}:{url.rpartition('/')[2]}" for url in self.stack.outputs.values()]
        return "200 OK", json.dumps({"TaskHandle": "task"}).encode()

    def on_ListMessageMoveTasks(self, given):
        return "200 OK", json.dumps({"Results": [{"Status": "COMPLETED", "ApproximateNumberOfMessagesMoved": 0}]}).encode()

    def on_DescribeExport(self, given):
        assert given["ExportArn"].endswith("/export/1")
        return "200 OK", json.dumps({"ExportDescription": {"ExportArn": given["ExportArn"], "ExportStatus": "COMPLETED"}}).encode()

    def on_DescribeReplicationGroups(self, given):
        if given["ReplicationGroupId"] != self.stack.outputs["RedisName"]:
            return self.query_error("ReplicationGroupNotFoundFault", given["ReplicationGroupId"])
        [group] = self.stack.noted("AWS::ElastiCache::ReplicationGroup").values()
        members = "".join(
            f"<NodeGroupMember><CacheClusterId>{given['ReplicationGroupId']}-{shard + 1:04}-{node + 1:03}</CacheClusterId></NodeGroupMember>"
            for shard in range(int(group["NumNodeGroups"]))
            for node in range(int(group["ReplicasPerNodeGroup"]) + 1)
        )
        return self.xml(
            "DescribeReplicationGroups",
            f"<ReplicationGroups><ReplicationGroup><NodeGroups><NodeGroup><NodeGroupMembers>{members}</NodeGroupMembers></NodeGroup>"
            "</NodeGroups></ReplicationGroup></ReplicationGroups>",
        )

    def on_DescribeEvents(self, given):
        kinds = ("replication-group", "serverless-cache")
        if given["SourceType"] not in kinds or given["SourceIdentifier"] != self.stack.outputs["RedisName"]:
            return self.query_error("InvalidParameterValue", given["SourceIdentifier"])
        return self.xml("DescribeEvents", "<Events/>")

    def on_DescribeCacheParameters(self, given):
        if given["CacheParameterGroupName"] != self.stack.outputs["RedisParameters"]:
            return self.query_error("CacheParameterGroupNotFound", given["CacheParameterGroupName"])
        parameter = "<ParameterName>maxmemory-policy</ParameterName><ParameterValue>noeviction</ParameterValue>"
        return self.xml("DescribeCacheParameters", f"<Parameters><Parameter>{parameter}</Parameter></Parameters>")

    def on_ModifyCacheParameterGroup(self, given):
        if given["CacheParameterGroupName"] != self.stack.outputs["RedisParameters"]:
            return self.query_error("CacheParameterGroupNotFound", given["CacheParameterGroupName"])
        return self.xml("ModifyCacheParameterGroup", f"<CacheParameterGroupName>{given['CacheParameterGroupName']}</CacheParameterGroupName>")


class Night:
    """The deployment, with one packet that bob grabbed from, and the variables that the runbook's reader has."""

    def __init__(self, folder, parameters):
        self.folder = folder
        self.stack = emulated.Stack(**parameters)
        self.engine = Engine("--table", self.stack.outputs["TableName"], data=folder / "data")
        self.endpoint = Endpoint(self.stack, self.engine)
        self.wrong = folder / "wrong"
        self.programs()
        self.variables = self.history() | {
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ENDPOINT_URL": self.endpoint.url,
            "AWS_ENDPOINT_URL_DYNAMODB_OF_ADMIN": self.engine.stores["AWS_ENDPOINT_URL_DYNAMODB"],
            "AWS_ACCESS_KEY_ID": "made-up",
            "AWS_SECRET_ACCESS_KEY": "made-up",
            "AWS_SESSION_TOKEN": "made-up",
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "WRONG": str(self.wrong),
            "HOME": str(folder),
        }

    def programs(self):
        """What the reader has on their machine."""
        socket, python = self.folder / "aws.socket", sys.executable
        self.cli = subprocess.Popen([python, HERE / "aws_cli.py", socket], stdout=subprocess.PIPE, text=True)
        assert self.cli.stdout.readline() == "ready\n"
        scripts = {
            "aws": f'"{python}" -S -E -s "{HERE}/aws_cli.py" "{socket}" - "$@"',
            # The table's items are in the local stack, all else of AWS is in moto.
            "hongbao-admin": f'AWS_ENDPOINT_URL_DYNAMODB=$AWS_ENDPOINT_URL_DYNAMODB_OF_ADMIN "{PROGRAMS}/hongbao-admin" "$@"',
            # An answer that is no success is an error here.
            "curl": 'PATH="${PATH#*:}" curl --fail-with-body "$@"',
            # test_stack.py tries what it does. Here it only must exist, with this environment.
            "make": f'PATH="${{PATH#*:}}" make -C "{ROOT}" --dry-run "$@"',
        }
        (self.folder / "bin").mkdir()
        for name, line in scripts.items():
            path = self.folder / "bin" / name
            # The shell hides the end of a command inside another one.
            path.write_text(f'#!/bin/sh\n{line} || {{ code=$?; echo "{name} $*: exit code $code" >>"$WRONG"; exit $code; }}\n')
            path.chmod(0o755)

    def send(self, key):
        """A packet of alice's."""
        terms = {"split": "equal", "total_amount": 1_000, "count": 10, "reference": "evening"}
        return json.loads(ask(f"{self.engine.url}/packets", "POST", terms, X_User_Id="alice", Idempotency_Key=key)[1])["packet_id"]

    def grab(self, packet):
        """What bob is answered, also if it is no slip."""
        try:
            headers, answer = ask(f"{self.engine.url}/packets/{packet}/grab", "POST", X_User_Id="bob")
        except urllib.error.HTTPError as refused:
            headers, answer = refused.headers, refused.read()
        return headers, json.loads(answer)

    def history(self):
        url = self.engine.url
        ask(f"{url}/wallets/alice/deposits/first", "PUT", {"amount": 10_000})
        packet = self.send("first")
        headers, won = self.grab(packet)
        assert won["outcome"] == "grabbed"
        ask(f"{url}/wallets/bob/withdrawals/payout-1", "PUT", {"amount": 50, "pending": True})
        client("s3").create_bucket(Bucket="exports", CreateBucketConfiguration={"LocationConstraint": REGION})
        made = self.engine.admin("journal", "--day", DAY, "--day-zone", "Asia/Shanghai", "--output", str(self.folder / f"journal-{DAY}"))
        assert made.returncode == 0, made.stderr
        for name in ["transfers.csv", "bank-2026-11-21.csv"]:
            (self.folder / name).write_text("id,kind,user,amount,currency,time\n")
        deploy = client("codedeploy")
        for application, group in (self.stack.ids["ServerlessDeploymentApplication"], "Grab"), ("another", "Other"):
            deploy.create_application(applicationName=application, computePlatform="Lambda")
            role = f"arn:aws:iam::{ACCOUNT}:role/r"
            deploy.create_deployment_group(applicationName=application, deploymentGroupName=group, serviceRoleArn=role)
            deploy.create_deployment(applicationName=application, deploymentGroupName=group)
        now = datetime.datetime.now(datetime.timezone.utc)
        [described] = client("cloudformation").describe_stacks(StackName=STACK)["Stacks"]
        key = described["StackId"].split("/")[2]
        return {
            "NAME": hmac.digest(key.encode(), b"bob", "sha256").hex()[:12],
            "PACKET": packet,
            "SLIP": "0",
            "SENDER": "alice",
            "REFERENCE": "evening",
            "DAY": "2026-11-21",
            "NEXT_DAY": DAY,
            "USER_ID": "bob",
            "DEPLOYMENT": "shop-dev",
            "WITHDRAWAL": "payout-1",
            "PAID": "50",
            "REQUEST": headers["X-Request-Id"],
            "REASON": "a rehearsal",
            "FROM": (now - datetime.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "TO": (now + datetime.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "BUCKET": "exports",
        }

    def close(self):
        self.endpoint.close()
        self.engine.close()
        self.cli.terminate()

    def run(self, preparation, commands, **variables):
        """Runs the commands of a block as one reads them: one after the other, and none may fail."""
        self.wrong.write_text("")
        script = self.folder / "script.sh"
        script.write_text(f"""set -euo pipefail
{preparation}
# A name that the stack does not have is an empty text for the shell.
for one in output resource; do
  eval "plain_$(declare -f $one)"
  eval "$one() {{ local found; found=\\$(plain_$one \\"\\$1\\"); [ -n \\"\\$found\\" ] || echo \\"the stack has no $one \\$1\\" >>\\"\\$WRONG\\"; echo \\"\\$found\\"; }}"
done
{commands}
""")
        begun = time.monotonic()
        command = ["bash", str(script)]
        done = subprocess.run(command, cwd=self.folder, env=self.variables | variables, capture_output=True, text=True, timeout=120)
        wrong = self.wrong.read_text()
        said = f"{commands}\n--- exit code {done.returncode} after {time.monotonic() - begun:.1f} s\n{done.stdout}\n{done.stderr}\n{wrong}"
        return done.returncode == 0 and not wrong, said
