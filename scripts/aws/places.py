"""Where smoke.py runs: a stack on this machine, or a deployment on AWS. Both have users, an operator, settle, an audit and
alarms."""

import base64
import concurrent.futures
import json
import os
import pathlib
import re
import secrets
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

# A caller may repeat a request with these answers: nothing is known, or it was too early.
REPEATED = {429, 502, 503, 504}
TRIES = 8
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 3.0
TIMEOUT_S = 30


class Wrong(Exception):
    """An answer is not what it must be."""


class Answer:
    def __init__(self, status, headers, text, seconds, tries):
        self.status, self.headers, self.text, self.seconds, self.tries = status, headers, text, seconds, tries
        try:
            self.body = json.loads(text)
        except ValueError:
            self.body = {}

    def __str__(self):
        return f"{self.status} {self.text[:300]}"


class Http:
    """Sends requests, and repeats those that may be repeated, as a client should."""

    def __init__(self, url, proxies=True):
        self.url = url.rstrip("/")
        # A stack on this machine is never behind a proxy.
        self.opener = urllib.request.build_opener(*([] if proxies else [urllib.request.ProxyHandler({})]))
        self.repeats, self.slowest_s = 0, 0.0

    def send(self, method, path, body=None, headers=None, sign=None):
        data = None if body is None else json.dumps(body).encode()
        given = dict(headers or {}) | ({} if data is None else {"Content-Type": "application/json"})
        pause, begun = FIRST_PAUSE_S, time.monotonic()
        for tried in range(1, TRIES + 1):
            signed = sign(method, self.url + path, data, given) if sign else given
            request = urllib.request.Request(self.url + path, data, signed, method=method)
            try:
                with self.opener.open(request, timeout=TIMEOUT_S) as answer:
                    status, headers, text = answer.status, answer.headers, answer.read().decode()
            except urllib.error.HTTPError as error:
                status, headers, text = error.code, error.headers, error.read().decode(errors="replace")
            except OSError as error:
                status, headers, text = 0, {}, str(error)
            if status not in REPEATED and status != 0:
                seconds = time.monotonic() - begun
                self.slowest_s = max(self.slowest_s, seconds)
                return Answer(status, headers, text, seconds, tried)
            self.repeats += 1
            time.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)
        raise Wrong(f"{method} {path} failed {TRIES} times, at last with {status} {text[:200]}")


class User:
    def __init__(self, id_, headers):
        self.id, self.headers = id_, headers


class Local:
    """A stack on this machine: the one at `url`, or one of its own that ends with this program."""

    # How long packets that expire stay open at least, how long settle may take to refund them, and the pause between looks.
    expires_in_s, refund_s, pause_s = 2, 20, 0.3
    has_wall = False

    def __init__(self, programs, url=None, stores=None):
        self.programs, self.process, self.folder = pathlib.Path(programs), None, None
        self.stores = stores
        if url:
            self.check(url)
        else:
            url = self.start()
        self.http = self.operators = Http(url, proxies=False)
        self.name = f"the local stack at {url}"

    def check(self, url):
        """Refuses before anything happens."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"{url.rstrip('/')}/me/wallet", timeout=TIMEOUT_S) as answer:
                status, text = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        except (OSError, ValueError) as error:
            raise Wrong(f"{url} does not answer: {getattr(error, 'reason', error)}. `make run` starts a stack") from error
        # Nobody is signed in.
        if status != 401 or b'"unauthenticated"' not in text:
            raise Wrong(f"{url} is not this API: /me/wallet answered {status}")
        if not self.stores or not os.path.exists(self.stores):
            raise Wrong(f"the audit needs the stores, and there is no {self.stores}: STORES=<the stack's data folder>/stores.env")

    def start(self):
        self.folder = tempfile.TemporaryDirectory(prefix="smoke-")
        command = [self.programs / "hongbao", "dev", "--port", "0", "--data-dir", self.folder.name, "--settle-every", "0s"]
        try:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        except OSError as error:
            raise Wrong(f"the local stack can't be started: {error}") from error
        self.stores = pathlib.Path(self.folder.name) / "stores.env"
        for line in self.process.stdout:
            found = re.search(r"ready at (http://\S+)", line)
            if found:
                return found[1]
        raise Wrong(f"{command[0]} ended with {self.process.wait()}")

    def people(self, run, count):
        return [User(f"smoke-{run}-{place}", {"X-User-Id": f"smoke-{run}-{place}"}) for place in range(count)]

    def strangers(self):
        """Requests that must be refused: what they are, method, path, headers."""
        # The local stack treats every request to an operator's route as signed.
        yield "without a user", "GET", "/me/wallet", {}

    def operate(self, method, path, body=None):
        return self.http.send(method, path, body)

    def settle(self):
        answer = self.http.send("POST", "/_local/settle")
        if answer.status != 200:
            raise Wrong(f"settle answered {answer}")
        return answer.body

    def audit(self, since_ms=None):
        """The report of an audit of what changed since then, or of everything."""
        lines = pathlib.Path(self.stores).read_text().splitlines()
        variables = {name: value.strip("'") for name, _, value in (line.partition("=") for line in lines)}
        keys = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_REGION": "local"}
        since = [] if since_ms is None else ["--since", f"{int(time.time() - since_ms / 1000) + 1}s"]
        command = [self.programs / "hongbao-admin", "--json", "audit", *since]
        ended = subprocess.run(command, env=os.environ | keys | variables, capture_output=True, text=True)
        if ended.returncode not in (0, 1) or not ended.stdout:
            raise Wrong(f"{command[0]} exited with {ended.returncode}: {ended.stderr.strip()}")
        return json.loads(ended.stdout)

    def quiet(self):
        return "none on this machine"

    def forget(self):
        """Ends what was started."""
        if self.process:
            self.process.terminate()
            self.process.wait()
            self.process.stdout.close()
            self.folder.cleanup()


class Deployment:
    """A stack on AWS, reached as its users and its operator reach it."""

    expires_in_s, pause_s = 20, 3
    # CloudWatch needs so long to evaluate alarms on what just happened.
    quiet_s = 180
    # Lambda returns its network interfaces after up to forty minutes.
    deletion_min = 75

    def __init__(self, stack, session, tokens=None, grace_s=30, url=None):
        self.stack, self.session, self.tokens = stack, session, tokens
        self.refund_s = grace_s + 180
        self.clients, self.made, self.ended = {}, [], None
        [found] = self.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
        if not found["StackStatus"].endswith("_COMPLETE") or "ROLLBACK_COMPLETE" == found["StackStatus"]:
            raise Wrong(f"{stack} is {found['StackStatus']}")
        self.outputs = {one["OutputKey"]: one["OutputValue"] for one in found.get("Outputs", [])}
        missing = {"ApiUrl", "TableName", "SettleFunction", "AuditFunction"} - set(self.outputs)
        if missing:
            raise Wrong(f"{stack} has no output {', '.join(sorted(missing))}: deploy it again")
        # A custom domain's address may have a path, which signatures must cover.
        # The page's address, where a web ACL stands before users' requests, or the load balancer's. Both have the users' routes only.
        users = self.outputs.get("UsersUrl") or self.outputs.get("EntranceUrl")
        self.http = Http(url or users or self.outputs["ApiUrl"])
        self.operators = Http(self.outputs["ApiUrl"]) if users else self.http
        self.has_wall = "UsersUrl" in self.outputs
        self.name = f"{stack} at {self.http.url}"

    def client(self, service):
        if service not in self.clients:
            from botocore.config import Config

            # Fifty sign-ups are many for Cognito. An audit may take a whole run of its function.
            config = Config(retries={"mode": "adaptive", "max_attempts": 10}, read_timeout=910)
            self.clients[service] = self.session.client(service, config=config)
        return self.clients[service]

    def people(self, run, count):
        if self.tokens:
            given = [line.strip() for line in pathlib.Path(self.tokens).read_text().splitlines() if line.strip()]
            users = [User(subject(token), {"Authorization": f"Bearer {token}"}) for token in given[:count]]
            if len({user.id for user in users}) < count:
                raise Wrong(f"{self.tokens} must have tokens of {count} users, one a line; it has {len(users)}")
            return users
        if "UserPoolId" not in self.outputs:
            raise Wrong("the stack has no user pool (JwtIssuer): give users' tokens with TOKENS=<file>, one a line")
        # Clients are not made in threads.
        self.client("cognito-idp")
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            return list(pool.map(lambda place: self.sign_up(f"smoke-{run}-{place}@example.com"), range(count)))

    def sign_up(self, address):
        cognito, pool = self.client("cognito-idp"), self.outputs["UserPoolId"]
        password = secrets.token_urlsafe(24) + "-aA1"
        made = cognito.admin_create_user(UserPoolId=pool, Username=address, MessageAction="SUPPRESS")["User"]
        self.made.append(made["Username"])
        cognito.admin_set_user_password(UserPoolId=pool, Username=made["Username"], Password=password, Permanent=True)
        signed_in = cognito.admin_initiate_auth(
            UserPoolId=pool,
            ClientId=self.outputs["UserPoolClientId"],
            AuthFlow="ADMIN_USER_PASSWORD_AUTH",
            AuthParameters={"USERNAME": made["Username"], "PASSWORD": password},
        )
        token = signed_in["AuthenticationResult"]["AccessToken"]
        return User(subject(token), {"Authorization": f"Bearer {token}"})

    def strangers(self):
        yield "without a token", "GET", "/me/wallet", {}
        yield "with a false token", "GET", "/me/wallet", {"Authorization": "Bearer e30.e30.e30"}
        yield "for the operator, unsigned", "GET", "/wallets/smoke", {}
        yield "for a user, unsigned", "GET", "/users/smoke/packets", {}
        yield "for any packet, unsigned", "GET", "/operator/packets?reference=smoke", {}
        yield "to close, unsigned", "POST", "/operator/packets/smoke/close", {}
        yield "to suspend, unsigned", "PUT", "/operator/users/smoke/suspension", {}

    def sign(self, method, url, data, headers):
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        request = AWSRequest(method, url, headers, data)
        SigV4Auth(
            self.session.get_credentials().get_frozen_credentials(), "execute-api", self.session.region_name
        ).add_auth(request)
        return dict(request.headers)

    def operate(self, method, path, body=None):
        return self.operators.send(method, path, body, sign=self.sign)

    def invoke(self, function, event):
        answer = self.client("lambda").invoke(FunctionName=self.outputs[function], Payload=json.dumps(event).encode())
        text = answer["Payload"].read().decode()
        if answer.get("FunctionError"):
            raise Wrong(f"{function} failed: {text[:300]}")
        return json.loads(text)

    def settle(self):
        return self.invoke("SettleFunction", {})

    def audit(self, since_ms=None):
        event = {"full": True} if since_ms is None else {"since_ms": since_ms}
        while True:
            # It resumes where its deadline ended it.
            report = self.invoke("AuditFunction", event)
            event = report.get("next")
            if not event:
                return report

    def alarms(self):
        pages = self.client("cloudwatch").get_paginator("describe_alarms").paginate(AlarmNamePrefix=f"{self.stack}-")
        for page in pages:
            for alarm in page["MetricAlarms"]:
                name = alarm["AlarmName"].removeprefix(f"{self.stack}-")
                # An alarm of the stack hongbao-dev-2 also begins with hongbao-dev-.
                if re.fullmatch(r"[A-Z]\w*", name):
                    yield name, alarm["StateValue"], alarm.get("StateReason", "")

    def quiet(self):
        time.sleep(self.quiet_s)
        states = list(self.alarms())
        if not states:
            raise Wrong("the stack has no alarms")
        loud = [f"{name} ({reason})" for name, state, reason in states if state == "ALARM"]
        if loud:
            raise Wrong(f"{'; '.join(loud)}. docs/RUNBOOK.md has a section for each")
        calm = sum(state == "OK" for _, state, _ in states)
        return f"{len(states)} alarms: {calm} OK, {len(states) - calm} without data yet; none fires"

    def check_teardown(self):
        """Refuses before anything happens."""
        table = self.client("dynamodb").describe_table(TableName=self.outputs["TableName"])["Table"]
        if table.get("DeletionProtectionEnabled"):
            raise SystemExit("smoke: TEARDOWN is refused: the table is protected (DeletionProtection=true)")

    def tear_down(self):
        """Deletes the stack and what would outlive it, if no money is in it."""
        report = self.audit()
        left = report["in_wallets"] + report["in_pending"] + report["in_slips"]
        if left:
            raise Wrong(
                f"{left} minor units are in wallets and slips, so this ledger is not only for trying; nothing is deleted"
            )
        self.forget()
        if "PageBucketName" in self.outputs:
            self.session.resource("s3").Bucket(self.outputs["PageBucketName"]).objects.all().delete()
        cloudformation = self.client("cloudformation")
        cloudformation.delete_stack(StackName=self.stack)
        waiter = {"Delay": 15, "MaxAttempts": self.deletion_min * 4}
        cloudformation.get_waiter("stack_delete_complete").wait(StackName=self.stack, WaiterConfig=waiter)
        self.client("dynamodb").delete_table(TableName=self.outputs["TableName"])
        if "UserPoolId" in self.outputs:
            self.client("cognito-idp").delete_user_pool(UserPoolId=self.outputs["UserPoolId"])
        return f"the stack, the table {self.outputs['TableName']} and the user pool are deleted"

    def forget(self):
        """Deletes the users that were made; their wallets stay, like every wallet."""
        for name in self.made:
            self.client("cognito-idp").admin_delete_user(UserPoolId=self.outputs["UserPoolId"], Username=name)
        self.made = []


def subject(token):
    """The `sub` of a token. Whether it is genuine, API Gateway decides."""
    payload = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["sub"]
