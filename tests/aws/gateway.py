"""API Gateway before a local stack: it lets in users with a token of the pool, and requests signed for the operator. A test may plant a
fault in the stack's answers, which the engine does not have."""

import base64
import http.client
import http.server
import json
import re
import threading
import urllib.parse

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from transformed import REGION

OF_OPERATOR = ("/wallets/", "/users/", "/operator/")
UNAUTHORIZED, FORBIDDEN, UNAVAILABLE = ((status, {"message": "refused"}, {}) for status in (401, 403, 503))


class Gateway:
    """`fault` has a method and path, what an answer to it must have, and what the answer then has in place of it. A function of the answer
    may say so too. The name `http` means the status."""

    def __init__(self, engine, keys, client_id, fault=None):
        self.engine, self.keys, self.client_id, self.fault = urllib.parse.urlsplit(engine).netloc, keys, client_id, fault
        # Whether a web ACL stands before users' requests elsewhere, whether nobody needs a signature, and whether each ninth request fails.
        self.refuses_users = self.is_open = self.is_flaky = False
        # What the mapping of a custom domain puts before each path.
        self.base_path = ""
        self.asked = []
        gateway = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def handle_one(self):
                data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                assert self.path.startswith(f"{gateway.base_path}/"), self.path
                status, body, headers = gateway.answer(self, self.path.removeprefix(gateway.base_path), data)
                text = b"" if body is None else json.dumps(body).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_PUT = do_POST = do_DELETE = handle_one

        class Server(http.server.ThreadingHTTPServer):
            request_queue_size = 128

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def answer(self, request, path, data):
        self.asked.append(path.split("/")[1])
        user = self.user(request.headers)
        if self.is_flaky and len(self.asked) % 9 == 0:
            return UNAVAILABLE
        if path.startswith(OF_OPERATOR):
            if not self.is_open and not self.is_signed(request, data):
                return FORBIDDEN
        elif user is None:
            return UNAUTHORIZED
        elif self.refuses_users:
            return FORBIDDEN
        status, body, headers = self.ask(request.command, path, data, request.headers, user)
        if self.fault and body is not None:
            status, body = self.faulty(f"{request.command} {path.partition('?')[0]}", status, body)
        return status, body, headers

    def ask(self, method, path, data, headers, user):
        """The stack's answer."""
        given = {name: headers[name] for name in ("Content-Type", "Idempotency-Key") if name in headers}
        connection = http.client.HTTPConnection(self.engine, timeout=30)
        connection.request(method, path, data or None, given | ({"X-User-Id": user} if user else {}))
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        replayed = answer.headers.get("Idempotent-Replayed")
        return answer.status, json.loads(text) if text else None, {"Idempotent-Replayed": replayed} if replayed else {}

    def faulty(self, asked, status, body):
        pattern, has, change = self.fault
        answer = body | {"http": status}
        if re.fullmatch(pattern, asked) and has.items() <= {name: value for name, value in answer.items() if name in has}.items():
            answer |= change(answer) if callable(change) else change
        return answer.pop("http"), answer

    def user(self, headers):
        """The `sub` of a token of this client. moto's key is public, so a signature would prove nothing here."""
        token = headers.get("Authorization", "").removeprefix("Bearer ")
        try:
            payload = token.split(".")[1]
            claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        except (IndexError, ValueError):
            return None
        return claims.get("sub") if claims.get("client_id") == self.client_id else None

    def is_signed(self, request, data):
        """Whether the operator's keys signed what arrived, for `execute-api`."""
        given = request.headers.get("Authorization", "")
        found = re.search(r"SignedHeaders=([^,]+), Signature=(\w+)", given)
        if not found:
            return False
        headers = {name: request.headers[name] for name in found[1].split(";")}
        arrived = AWSRequest(request.command, f"{self.url}{request.path}", headers, data or None)
        arrived.context["timestamp"] = request.headers["X-Amz-Date"]
        auth = SigV4Auth(self.keys, "execute-api", REGION)
        return auth.signature(auth.string_to_sign(arrived, auth.canonical_request(arrived)), arrived) == found[2]
