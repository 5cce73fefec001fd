"""botocore signs the recorded tokens, which a test of the Rust code also signs."""

import json

import iam_tokens


def test_the_recorded_tokens_are_botocores():
    assert json.loads(iam_tokens.FILE.read_text()) == iam_tokens.vectors(), "to record them again: python tests/aws/iam_tokens.py"
