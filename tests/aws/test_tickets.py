"""PyJWT reads the vectors of tickets (tests/tickets.json) as the engine does."""

import json
import pathlib

import jwt
import pytest

from checks import ticket_fault

FILE = json.loads((pathlib.Path(__file__).parents[1] / "tickets.json").read_text())
KEYS = {key["kid"]: jwt.PyJWK(key, {"oct": "HS256", "OKP": "EdDSA"}[key["kty"]]) for key in FILE["keys"]["keys"]}
# Those that the engine refuses by their form may have a good signature.
SIGNED = [*FILE["signed"], *(vector for vector in FILE["vectors"] if vector["verdict"] != "invalid")]


@pytest.mark.parametrize("signed", SIGNED, ids=lambda signed: signed["name"])
def test_an_independent_library_accepts_the_signature(signed):
    key = KEYS[jwt.get_unverified_header(signed["token"])["kid"]]
    # The clock is the vector's, and the engine compares times itself.
    options = {"verify_exp": False, "verify_iat": False, "verify_nbf": False}
    claims = jwt.decode(signed["token"], key, algorithms=[key.algorithm_name], audience="hongbao:grab", options=options)
    assert claims["sub"] == (signed.get("user") or signed["ticket"]["user"])


@pytest.mark.parametrize("keys", FILE["key_sets"], ids=lambda keys: keys["fault"] or "fine")
def test_preflight_says_of_keys_what_the_functions_say(keys):
    assert ticket_fault(keys["text"]) == keys["fault"]
