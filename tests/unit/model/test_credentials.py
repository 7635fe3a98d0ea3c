"""Claims are read from whatever comes, and nothing that comes does harm."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.model.credentials import MAX_TOKEN_CHARACTERS, Claims, claims_of
from tests.unit.agent.tokens import part, token


@pytest.mark.parametrize("audience", ["colocation.dev", ["colocation.dev"], ["colocation.dev", 7]])
def test_the_claims_of_a_token(audience: object) -> None:
    """One audience or a list of them, as JWTs have it."""
    assert claims_of(token(audience, 200, iat=100)) == Claims(frozenset({"colocation.dev"}), 100.0, 200.0)


@pytest.mark.parametrize(
    "text",
    [
        "", "secret", "a.b", "a.b.c.d", "..", "a.!.c", "a." + "b" * MAX_TOKEN_CHARACTERS + ".c",
        pytest.param(token([]), id="without an audience"),
        pytest.param(token(7), id="for a number"),
        pytest.param(token(expires_at=None), id="without an end"),
        pytest.param(token(expires_at=True), id="ends at true"),
        pytest.param(token(expires_at="2e9"), id="ends at a text"),
        pytest.param(token(expires_at=float("nan")), id="ends at NaN"),
        pytest.param(token(expires_at=float("inf")), id="ends never"),
        pytest.param(token(expires_at=10**400), id="ends beyond all numbers"),
        pytest.param(f"a.{part([1])}.c", id="a list"),
        pytest.param("a." + base64.urlsafe_b64encode(b"[" * 9000).decode() + ".c", id="deep"),
        pytest.param("a." + base64.urlsafe_b64encode(b"\xff{}").decode() + ".c", id="no UTF-8"),
    ],
)  # fmt: skip
def test_what_is_no_token(text: str) -> None:
    """It has no claims; nothing is raised."""
    assert claims_of(text) is None


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda raw: f"a.{base64.urlsafe_b64encode(raw).decode()}.b"))
def test_no_text_does_harm(text: str) -> None:
    """Whatever comes gives claims or none."""
    claims_of(text)
