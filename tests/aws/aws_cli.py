"""The AWS CLI as one process that forks for each call: starting the CLI itself takes half a second, and the runbook calls it hundreds of
times.

    python tests/aws/aws_cli.py SOCKET             serves
    python tests/aws/aws_cli.py SOCKET - ARG...    is `aws ARG...`, by the process that serves

It is version 1, from PyPI. What only version 2 knows is left out here.
"""

import json
import os
import signal
import socket
import sys
import traceback

KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
# Version 1 takes a payload as it is, always.
ONLY_OF_VERSION_2 = ("--cli-binary-format", "raw-in-base64-out")


def call(path, arguments):
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        message = json.dumps([arguments, os.getcwd(), dict(os.environ)]).encode()
        sent = socket.send_fds(server, [message], [0, 1, 2])
        server.sendall(message[sent:])
        server.shutdown(socket.SHUT_WR)
        sys.exit(int(server.recv(16) or b"1"))


def serve(path):
    import awscli.clidriver

    # Whatever is imported and read now, no call reads again.
    awscli.clidriver.create_clidriver().create_help_command()
    with socket.socket(socket.AF_UNIX) as server:
        # Nobody waits for the calls.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        server.bind(path)
        server.listen(16)
        print("ready", flush=True)
        while True:
            client, _ = server.accept()
            if os.fork() == 0:
                server.close()
                answer(client, awscli.clidriver.main)
            client.close()


def answer(client, main):
    message, streams, _, _ = socket.recv_fds(client, 1 << 16, 3)
    while more := client.recv(1 << 16):
        message += more
    arguments, folder, environment = json.loads(message)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.chdir(folder)
    # The CLI finds its own data by this one.
    own = os.environ["AWS_DATA_PATH"]
    os.environ.clear()
    os.environ.update(environment, AWS_DATA_PATH=own)
    code = 255
    try:
        if arguments[:2] == ["configure", "export-credentials"]:
            # Version 1 has no such command, and version 2 is in no registry.
            sys.exit(print(*(f"export {name}={environment[name]}" for name in KEYS), sep="\n", flush=True))
        # Version 1 asks the variable for most services, but not for SQS.
        endpoint = ["--endpoint-url", environment["AWS_ENDPOINT_URL"]]
        sys.argv[1:] = endpoint + [argument for argument in arguments if argument not in ONLY_OF_VERSION_2]
        code = main()
        sys.stdout.flush()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        client.send(str(code or 0).encode())
        os._exit(0)


if __name__ == "__main__":
    if sys.argv[2:]:
        call(sys.argv[1], sys.argv[3:])
    else:
        serve(sys.argv[1])
