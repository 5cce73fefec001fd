"""botocore signs the recorded tokens. A test of the Rust code signs the same ones."""

import json

import iam_tokens


def test_the_recorded_tokens_are_botocores():
    assert json.loads(iam_tokens.FILE.read_text()) == iam_tokens.vectors(), "renew them: python tests/aws/iam_tokens.py"
