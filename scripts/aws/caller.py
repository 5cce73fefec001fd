"""A function in the network of a cache: it signs in as the deployment's functions do, and returns the answers to commands. `make spike` puts
this file into its stack. Code in a template has at most 4,096 characters."""

import os
import socket
import ssl
from urllib.parse import urlencode

import boto3
from botocore.model import ServiceId
from botocore.signers import RequestSigner

CACHE, HOST, PORT, REDIS_USER = (os.environ.get(name, "") for name in ("CACHE", "HOST", "PORT", "REDIS_USER"))


def token():
    session = boto3.session.Session()
    region = session.region_name
    signer = RequestSigner(ServiceId("elasticache"), region, "elasticache", "v4", session.get_credentials(), session.events)
    url = f"https://{CACHE}/?{urlencode({'Action': 'connect', 'User': REDIS_USER, 'ResourceType': 'ServerlessCache'})}"
    request = {"method": "GET", "url": url, "body": {}, "headers": {}, "context": {}}
    return signer.generate_presigned_url(request, "connect", expires_in=900, region_name=region).removeprefix("https://")


def answer(stream):
    """One answer of the protocol. An error is an object, since no other answer is one."""
    line = stream.readline().decode()
    kind, rest = line[:1], line[1:].strip()
    if kind == "-":
        return {"error": rest}
    if kind == "$":
        return stream.read(int(rest) + 2)[:-2].decode("latin-1") if rest != "-1" else None
    if kind == "*":
        return [answer(stream) for _ in range(int(rest))] if rest != "-1" else None
    return int(rest) if kind == ":" else rest


def handler(commands, _):
    connection = ssl.create_default_context().wrap_socket(socket.create_connection((HOST, int(PORT)), 10), server_hostname=HOST)
    answers = []
    with connection, connection.makefile("rwb") as stream:
        for words in [["AUTH", REDIS_USER, token()], *commands]:
            stream.write(b"*%d\r\n" % len(words))
            for word in map(str.encode, words):
                stream.write(b"$%d\r\n%s\r\n" % (len(word), word))
            stream.flush()
            answers.append(answer(stream))
    return answers
