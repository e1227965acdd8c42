"""Passwords: who is let in, what a guess costs, and how many guesses wait."""

from __future__ import annotations

import asyncio
import base64
import threading

import bcrypt
import pytest

from ctctl.metrics import basic_auth
from ctctl.metrics.basic_auth import PasswordChecker, TooManyLoginsError, credentials
from ctctl.metrics.rate_limit import RateLimit

USERS = {"prometheus": bcrypt.hashpw(b"sesame", bcrypt.gensalt(4)).decode()}


def header(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def is_allowed(authorization: str | None, users: dict[str, str] | None = None) -> bool:
    return asyncio.run(PasswordChecker().is_allowed(users or USERS, authorization))


def test_the_right_password_is_let_in() -> None:
    assert is_allowed(header("prometheus", "sesame"))


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Basic",
        "Basic !!!",
        "Basic " + base64.b64encode(b"no colon").decode(),
        "Basic " + base64.b64encode(b"\xff\xfe:x").decode(),
        "Bearer " + base64.b64encode(b"prometheus:sesame").decode(),
        header("prometheus", "Sesame"),
        header("prometheus", ""),
        header("prometheus", "sesame\0"),
        header("", "sesame"),
        header("nobody", "sesame"),
    ],
)
def test_anything_else_is_not(authorization: str | None) -> None:
    assert not is_allowed(authorization)


def test_a_password_may_hold_colons_and_any_letters() -> None:
    password = "a:b:ü ☃"  # noqa: S105 made up here
    users = {"me": bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()}
    assert is_allowed(header("me", password), users)


def test_a_password_beyond_what_bcrypt_hashes_works_as_it_did_when_hashed() -> None:
    users = {"me": bcrypt.hashpw(b"x" * 72, bcrypt.gensalt(4)).decode()}
    assert is_allowed(header("me", "x" * 100), users)


@pytest.mark.parametrize("prefix", [b"$2a$", b"$2b$", b"$2y$"])
def test_hashes_of_every_maker_are_understood(prefix: bytes) -> None:
    hashed = bcrypt.hashpw(b"sesame", bcrypt.gensalt(4)).replace(b"$2b$", prefix)
    assert is_allowed(header("me", "sesame"), {"me": hashed.decode()})


def test_credentials_are_read_whatever_the_case_of_the_scheme() -> None:
    assert credentials("bAsIc " + base64.b64encode(b"a:b").decode()) == ("a", "b")


def test_nobodys_hash_is_one_that_can_be_checked_and_is_nobodys() -> None:
    assert not basic_auth._matches("", basic_auth._NOBODYS_HASH)
    bcrypt.checkpw(b"", basic_auth._NOBODYS_HASH.encode())


def test_a_user_that_is_not_there_is_refused_whatever_a_hash_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(basic_auth, "_matches", lambda password, hashed: True)
    assert is_allowed(header("prometheus", "any"))
    assert not is_allowed(header("nobody", "any"))


def test_each_answer_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def note(password: str, _: str) -> bool:
        asked.append(password)
        return len(asked) == 1

    monkeypatch.setattr(basic_auth, "_matches", note)

    async def scene() -> None:
        checker = PasswordChecker()
        for _ in range(3):
            assert await checker.is_allowed(USERS, header("prometheus", "sesame"))
            assert not await checker.is_allowed(USERS, header("prometheus", "wrong"))

    asyncio.run(scene())
    assert asked == ["sesame", "wrong"]


def test_a_user_taken_away_or_given_another_password_is_out_at_once() -> None:
    async def scene() -> None:
        checker = PasswordChecker()
        given = header("prometheus", "sesame")
        assert await checker.is_allowed(USERS, given)
        assert not await checker.is_allowed({"other": USERS["prometheus"]}, given)
        changed = {"prometheus": bcrypt.hashpw(b"new", bcrypt.gensalt(4)).decode()}
        assert not await checker.is_allowed(changed, given)

    asyncio.run(scene())


def test_guessing_neither_queues_without_end_nor_pushes_out_who_was_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def slow(password: str, _: str) -> bool:
        if password != "sesame":  # noqa: S105 made up here
            release.wait(60)
        return password == "sesame"  # noqa: S105 made up here

    monkeypatch.setattr(basic_auth, "_matches", slow)

    async def scene() -> None:
        checker = PasswordChecker()
        assert await checker.is_allowed(USERS, header("prometheus", "sesame"))
        guesses = [asyncio.create_task(checker.is_allowed(USERS, header("prometheus", str(n)))) for n in range(600)]
        await asyncio.sleep(0)
        assert await checker.is_allowed(USERS, header("prometheus", "sesame"))
        release.set()
        answers = await asyncio.gather(*guesses, return_exceptions=True)
        assert sum(answer is False for answer in answers) == basic_auth._MAX_WAITING
        assert sum(isinstance(answer, TooManyLoginsError) for answer in answers) == 600 - basic_auth._MAX_WAITING
        for number in range(1000, 1000 + 2 * basic_auth._MAX_REMEMBERED):
            await checker.is_allowed(USERS, header("prometheus", str(number)))
        assert len(checker._remembered) <= basic_auth._MAX_REMEMBERED
        assert True in checker._remembered.values()

    asyncio.run(scene())


def test_a_burst_passes_and_then_one_per_interval() -> None:
    limit = RateLimit(interval_s=1.0, burst=2)
    admitted = [limit.is_admitted(at) for at in (0.0, 0.0, 0.0, 0.5, 1.0, 1.1, 9.0, 9.0, 9.0)]
    assert admitted == [True, True, False, False, True, False, True, True, False]


def test_without_an_interval_everything_passes() -> None:
    assert all(RateLimit(0, 0).is_admitted(0.0) for _ in range(100))
