"""PyJWT's verdicts on the vectors of tickets (tests/tickets.json), by the rules of docs/INTEGRATE.md."""

import json
import pathlib

import jwt
import pytest

from checks import ticket_fault

FILE = json.loads((pathlib.Path(__file__).parents[1] / "tickets.json").read_text())
KEYS = {key["kid"]: jwt.PyJWK(key, {"oct": "HS256", "OKP": "EdDSA"}[key["kty"]]) for key in FILE["keys"]["keys"]}
CHARACTERS_MAX, LEEWAY_S, LIFE_MAX_S = 2048, 10, 86_400


def is_second(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def verdict(token, user, packet, sender, reference, at):
    """As the engine's: valid, early, expired, foreign or invalid."""
    # PyJWT lets the padding pass that RFC 7515 forbids.
    if len(token) > CHARACTERS_MAX or "=" in token:
        return "invalid"
    try:
        header = jwt.get_unverified_header(token)
        key = KEYS[header["kid"]]
        # PyJWT knows no extensions, so none is critical. The clock is the vector's.
        claims = jwt.decode(token, key, algorithms=[key.algorithm_name], audience="hongbao:grab", options={"verify_exp": False, "verify_iat": False, "verify_nbf": False})
    except (jwt.PyJWTError, KeyError, TypeError):
        return "invalid"
    if "crit" in header or claims.get("sub") != user:
        return "invalid"
    times = [claims.get("iat"), claims.get("exp")] + ([claims["nbf"]] if claims.get("nbf") is not None else [])
    if not all(map(is_second, times)):
        return "invalid"
    iat, exp = times[:2]
    if times[2:] and times[2] >= exp:
        return "invalid"
    if not 0 <= exp - iat <= LIFE_MAX_S or iat > at + LEEWAY_S:
        return "invalid"
    named = {name: claims[name] for name in ("pkt", "ref", "snd") if claims.get(name) is not None}
    if set(named) not in ({"pkt"}, {"ref", "snd"}) or not all(isinstance(value, str) for value in named.values()):
        return "invalid"
    if exp + LEEWAY_S <= at:
        return "expired"
    if not named.items() <= {"pkt": packet, "ref": reference, "snd": sender}.items():
        return "foreign"
    return "early" if claims.get("nbf", 0) > at + LEEWAY_S else "valid"


@pytest.mark.parametrize("vector", FILE["vectors"], ids=lambda vector: vector["name"])
def test_a_token_has_its_verdict(vector):
    found = verdict(*(vector[name] for name in ("token", "user", "packet", "sender", "reference", "at")))
    # The engine refuses an id that none can be before it compares it.
    assert found == vector["verdict"] or (found, vector["verdict"]) == ("foreign", "invalid")


@pytest.mark.parametrize("signed", FILE["signed"], ids=lambda signed: signed["name"])
def test_what_a_client_signs_is_valid(signed):
    ticket = signed["ticket"]
    packet, sender, reference = (ticket.get(name) for name in ("packet", "sender", "reference"))
    assert verdict(signed["token"], ticket["user"], packet, sender, reference, signed["now"]) in ("valid", "early")


@pytest.mark.parametrize("keys", FILE["key_sets"], ids=lambda keys: keys["fault"] or "fine")
def test_preflight_says_of_keys_what_the_functions_say(keys):
    assert ticket_fault(keys["text"]) == keys["fault"]
