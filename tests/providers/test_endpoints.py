"""Law 14: a key goes where its owner sends it, never where a log does."""

import pytest

from tests.loopback import Answer, Loopback
from tests.providers.asking import deltas, request
from tests.providers.wire_formats import RIGS
from wakelog.errors import UsageError
from wakelog.log.content import Finished
from wakelog.providers.endpoints import Server, check_trusted, resolve_server
from wakelog.providers.http_provider import HttpProvider

OWN = "https://api.example.com/v1"


def check(endpoint, named=None):
    check_trusted(endpoint, vendor_address=OWN, configured_address=named, variable="X_BASE_URL")


@pytest.mark.parametrize(
    "endpoint",
    [
        OWN,
        "https://api.example.com:443/other",
        "https://eu.api.example.com/v1",
        "http://127.0.0.1:8000/v1",
        "http://localhost:1234/v1",
        "http://[::1]:8080",
        "http://ollama.localhost/v1",
    ],
)
def test_the_provider_itself_and_this_machine(endpoint):
    """Its regions too."""
    check(endpoint)


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://evil.example.net/v1",
        "http://api.example.com/v1",
        "https://api.example.com.evil.net/v1",
        "https://api.example.com@evil.net/v1",
        "https://127.0.0.1.evil.net/",
        "https://localhost.evil.net/",
        "https://api.example.com:8443/v1",
        "https://evilapi.example.com/v1",
    ],
)
def test_where_only_a_log_says_so(endpoint):
    """Law 13: names that look alike, other ports and plain text are other addresses."""
    with pytest.raises(UsageError, match="an endpoint that only a log names") as refused:
        check(endpoint)
    assert f"X_BASE_URL={endpoint}" in refused.value.hint
    check(endpoint, named=endpoint)


# ── at every door ────────────────────────────────────────────────────────────────────────────────

ELSEWHERE = "https://evil.example.net/v1"


@pytest.fixture(params=RIGS)
def rig(request):
    return RIGS[request.param]


def variables_of_headers(vendor):
    """Every variable whose value is sent."""
    return (*vendor.key_variables, *vendor.header_variables.values(), vendor.custom_headers_variable)


def _ask(rig, environ, endpoint=None):
    params = {"endpoint": endpoint} if endpoint else {}
    return deltas(HttpProvider(rig.way, environ=environ), request(params=params))


def test_no_provider_sends_its_key_there(rig):
    """Law 14: refused before anybody is asked, for everything that may be secret."""
    for variable in variables_of_headers(rig.way.vendor):
        with pytest.raises(UsageError, match="an endpoint that only a log names"):
            HttpProvider(rig.way, environ={variable: "a-key"}).stream(request(params={"endpoint": ELSEWHERE}))


def test_a_server_here_needs_no_key(rig, monkeypatch, tmp_path):
    """RUN-19: and gets none, whatever an SDK would find lying about."""
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "found-in-a-drawer")
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    for variable in rig.way.vendor.key_variables:
        monkeypatch.setenv(variable, "found-in-a-drawer")
    with Loopback() as server:
        for environ, endpoint in [({}, server.url), ({rig.way.vendor.url_variable: server.url}, None)]:
            server.play(Answer(rig.whole))
            assert isinstance(_ask(rig, environ, endpoint)[-1], Finished)
        for asked in server.asked:
            assert asked.headers["authorization"] == "Bearer none"
            assert "drawer" not in str(asked.headers)


def test_the_owner_wants_a_key(rig):
    """RUN-19: one line that says which variable to set, and that the demo needs none."""
    owner = rig.way.vendor
    regional = owner.address.replace("https://", "https://eu.")
    for endpoint in (None, owner.address, regional):
        with pytest.raises(UsageError) as error:
            resolve_server(owner, endpoint, {})
        assert (owner.key_variables[0] in error.value.hint, "--model demo" in error.value.hint) == (True, True)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://api.example.com/v1", "api.example.com"),
        ("http://me:pass@127.0.0.1:18999/v1?a=b#c", "127.0.0.1:18999"),
        ("http://[::1]:8080/v1", "[::1]:8080"),
    ],
)
def test_how_a_server_is_named(url, host):
    """LOG-13: nothing of an address that may be secret."""
    assert Server(url).host == host


@pytest.mark.parametrize(
    "url",
    ["localhost:11434", "ftp://x", "http://", "http://[::1", "http://x:99999/v1", "http://x:0", "http://127.0.0.1\t/"],
)
def test_what_is_no_address(rig, url):
    """One line, whether a log says it or the environment."""
    for environ, endpoint in [({}, url), ({rig.way.vendor.url_variable: url}, None)]:
        with pytest.raises(UsageError, match="is not a valid URL") as error:
            resolve_server(rig.way.vendor, endpoint, environ)
        assert error.value.message.isprintable()


@pytest.mark.parametrize("value", ["schlüssel", "two\x07lines", "\x1b[31m"])
def test_what_no_header_can_carry(rig, value):
    """It is named by its variable, and never shown."""
    for variable in variables_of_headers(rig.way.vendor):
        with pytest.raises(UsageError, match=variable) as error:
            resolve_server(rig.way.vendor, "http://127.0.0.1", {variable: value})
        assert value not in error.value.message
