"""Random keys of every known shape: none was ever issued, and none is in this file.

They follow what the providers say of their own keys (prefix, characters, length), not the table under test.
"""

import base64
import json
import random
import string
from collections.abc import Callable

LOWER, UPPER, DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
LETTERS = LOWER + UPPER + DIGITS
WORD = LETTERS + "_-"
BASE64 = LETTERS + "+/"
HEX = "0123456789abcdef"


class Chance(random.Random):
    """A random generator of characters."""

    def some(self, signs: str, count: int) -> str:
        return "".join(self.choices(signs, k=count))

    def b64(self, count: int, *, url: bool = False) -> str:
        raw = self.randbytes(count)
        return (base64.urlsafe_b64encode(raw) if url else base64.b64encode(raw)).decode()


Make = Callable[[Chance], str]


def run(start: str, signs: str, count: int) -> Make:
    return lambda chance: start + chance.some(signs, count)


def jwt(chance: Chance) -> str:
    def part(value: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    header = part({"alg": chance.choice(("HS256", "RS256", "ES384")), "typ": "JWT"})
    claims = part({"sub": chance.some(LETTERS, chance.randint(4, 90)), "iat": chance.randint(10**9, 2 * 10**9)})
    return f"{header}.{claims}.{chance.b64(32, url=True).rstrip('=')}"


def discord(first: str) -> Make:
    def make(chance: Chance) -> str:
        digits = first + chance.some(DIGITS, chance.choice((17, 18)))
        user = base64.b64encode(digits.encode()).decode().rstrip("=")
        return f"{user}.{chance.some(WORD, 6)}.{chance.some(WORD, chance.choice((27, 38)))}"

    return make


def sentry(chance: Chance) -> str:
    claims = base64.b64encode(
        b'{"iat":1700000000.1,"url":"https://sentry.io","org":"%s"}' % chance.some(LOWER, 8).encode()
    )
    return f"sntrys_{claims.decode()}_{chance.some(BASE64, 43)}"


GITLAB = ("pat", "dt", "rt", "rtr", "ptt", "cbt", "imt", "agent", "oas", "soat", "ft")
# The secret itself, by the word of its mark; a word may have several kinds of key.
MADE: list[tuple[str, Make]] = [
    ("aws-access-key", run("AKIA", UPPER + "234567", 16)),
    *(("aws-access-key", run(kind, UPPER + DIGITS, 16)) for kind in ("ASIA", "ABIA", "ACCA")),
    (
        "amazon-bedrock-key",
        lambda chance: "ABSK" + base64.b64encode(b"BedrockAPIKey-").decode()[:18] + "S" + chance.b64(60),
    ),
    ("google-api-key", run("AIza" + "Sy", WORD, 33)),
    ("google-api-key", run("AQ" + ".Ab8", WORD, 48)),
    ("google-oauth-token", run("ya29" + ".a0", WORD, 140)),
    ("google-refresh-token", run("1/" + "/0", WORD, 60)),
    ("google-client-secret", run("GOCSPX" + "-", WORD, 28)),
    *(("digitalocean-token", run(f"do{kind}_v1_", HEX, 64)) for kind in "por"),
    *(("cloudflare-token", run(f"cf{kind}_", LETTERS, 48)) for kind in ("k", "ut", "at")),
    ("alibaba-access-key", run("LTAI" + "5t", LETTERS, 18)),
    ("cloudflare-origin-key", lambda chance: f"v1.0-{chance.some(HEX, 24)}-{chance.some(HEX, 146)}"),
    ("databricks-token", run("dapi", HEX, 32)),
    ("heroku-key", run("HRKU" + "-", WORD, 60)),
    ("fly-token", run("fo1" + "_", WORD, 43)),
    *(("fly-token", run(f"{kind}_lJPE", BASE64, 300)) for kind in ("fm1a", "fm1r", "fm2")),
    ("netlify-token", run("nfp" + "_", LETTERS, 36)),
    *(("planetscale-token", run(f"pscale_{kind}_", WORD, 43)) for kind in ("tkn", "pw", "oauth")),
    ("supabase-key", run("sbp" + "_", HEX, 40)),
    ("supabase-key", run("sb" + "_secret_", WORD, 31)),
    ("pulumi-token", run("pul" + "-", HEX, 40)),
    ("vault-token", run("hvs" + ".", WORD, 95)),
    *(("vault-token", run(f"hv{kind}.", WORD, 150)) for kind in "br"),
    *(("doppler-token", run(f"dp.{kind}.", LETTERS, 43)) for kind in ("pt", "st", "ct", "sa", "scim", "audit")),
    ("doppler-token", run("dp" + ".st.prd_eu.", LETTERS, 43)),
    ("tailscale-key", lambda chance: f"tskey-auth-{chance.some(LETTERS, 12)}CNTRL-{chance.some(LETTERS, 32)}"),
    ("openshift-token", run("sha256" + "~", WORD, 43)),
    ("onepassword-token", lambda chance: "ops" + "_eyJ" + chance.some(LETTERS, 300)),
    *(("github-token", run(f"gh{kind}_", LETTERS, 36)) for kind in "pousr"),
    ("github-token", lambda chance: "github" + f"_pat_{chance.some(LETTERS, 22)}_{chance.some(LETTERS, 59)}"),
    *(("gitlab-token", run(f"gl{kind}-", WORD, 20)) for kind in GITLAB),
    ("gitlab-token", lambda chance: f"glpat-{chance.some(WORD, 27)}.01.{chance.some(LOWER, 9)}"),
    ("atlassian-token", lambda chance: f"ATATT3{chance.some(WORD, 177)}={chance.some(HEX.upper(), 8)}"),
    ("github-token", lambda chance: f"ghs_{chance.some(DIGITS, 7)}_{jwt(chance)}"),
    ("atlassian-token", lambda chance: f"ATCTT3{chance.some(WORD, 177)}={chance.some(HEX.upper(), 8)}"),
    ("bitbucket-password", run("ATBB", LETTERS, 32)),
    ("sourcegraph-token", lambda chance: f"sgp_{chance.some(HEX, 16)}_{chance.some(HEX, 40)}"),
    ("npm-token", run("npm" + "_", LETTERS, 36)),
    ("pypi-token", run("pypi" + "-AgEIcHlwaS5vcmc", WORD, 150)),
    ("rubygems-key", run("rubygems" + "_", HEX, 48)),
    ("nuget-key", run("oy2", LOWER + DIGITS, 43)),
    *(("docker-token", run(f"dckr_{kind}_", WORD, 27)) for kind in ("pat", "oat")),
    ("clojars-token", run("CLOJARS" + "_", HEX, 60)),
    ("artifactory-key", run("AKCp", LETTERS, 69)),
    ("postman-key", lambda chance: f"PMAK-{chance.some(HEX, 24)}-{chance.some(HEX, 34)}"),
    *(("linear-key", run(f"lin_{kind}_", LETTERS, 40)) for kind in ("api", "oauth")),
    ("notion-token", lambda chance: "ntn" + f"_{chance.some(DIGITS, 11)}{chance.some(LETTERS, 35)}"),
    ("figma-token", run("figd" + "_", WORD, 40)),
    ("sentry-token", sentry),
    ("sentry-token", run("sntryu" + "_", HEX, 64)),
    ("grafana-token", lambda chance: f"glsa_{chance.some(LETTERS, 32)}_{chance.some(HEX, 8)}"),
    ("grafana-token", lambda chance: "glc_" + "eyJ" + chance.some(LETTERS, 120) + "=="),
    ("newrelic-key", run("NRAK" + "-", UPPER + DIGITS, 27)),
    ("dynatrace-token", lambda chance: f"dt0c01.{chance.some(UPPER + DIGITS, 24)}.{chance.some(UPPER + DIGITS, 64)}"),
    ("prefect-key", run("pnu" + "_", LETTERS, 36)),
    ("contentful-token", run("CFPAT" + "-", WORD, 43)),
    (
        "slack-token",
        lambda chance: f"xoxb-{chance.some(DIGITS, 12)}-{chance.some(DIGITS, 13)}-{chance.some(LETTERS, 24)}",
    ),
    ("slack-token", lambda chance: "xoxp" + f"-{chance.some(DIGITS, 12)}" * 3 + f"-{chance.some(HEX, 32)}"),
    *(("slack-token", run(f"xox{kind}-1-", LETTERS, 146)) for kind in "acdeors"),
    (
        "slack-app-token",
        lambda chance: f"xapp-1-A{chance.some(UPPER, 10)}-{chance.some(DIGITS, 13)}-{chance.some(HEX, 64)}",
    ),
    *(("discord-token", discord(first)) for first in "123456789"),
    ("twilio-key", run("SK", HEX, 32)),
    ("sendgrid-key", lambda chance: f"SG.{chance.some(WORD, 22)}.{chance.some(WORD, 43)}"),
    ("mailgun-key", run("key" + "-", HEX, 32)),
    ("brevo-key", lambda chance: f"xkeysib-{chance.some(HEX, 64)}-{chance.some(LETTERS, 16)}"),
    ("brevo-key", lambda chance: f"xsmtpsib-{chance.some(HEX, 64)}-{chance.some(LETTERS, 16)}"),
    ("mapbox-token", lambda chance: "sk." + f"eyJ1Ijoi{chance.some(LETTERS, 60)}.{chance.some(WORD, 22)}"),
    *(("stripe-key", run(f"{kind}_", LETTERS, 24)) for kind in ("sk_live", "sk_test", "rk_live", "rk_test")),
    ("stripe-key", run("sk" + "_live_51", LETTERS, 99)),
    ("stripe-webhook-secret", run("whsec" + "_", LETTERS, 32)),
    ("square-token", run("sq0" + "atp-", WORD, 22)),
    ("square-token", run("sq0" + "csp-", WORD, 43)),
    (
        "paypal-token",
        lambda chance: f"access_token$production${chance.some(LOWER + DIGITS, 16)}${chance.some(HEX, 32)}",
    ),
    *(("shopify-token", run(f"shp{kind}_", HEX, 32)) for kind in ("at", "ca", "pa", "ss")),
    *(
        ("anthropic-key", lambda chance, kind=kind: f"sk-ant-{kind}-{chance.some(WORD, 93)}AA")
        for kind in ("api03", "admin01", "oat01")
    ),
    ("openrouter-key", run("sk" + "-or-v1-", HEX, 64)),
    ("langfuse-key", lambda chance: "sk" + "-lf-" + "-".join(chance.some(HEX, size) for size in (8, 4, 4, 4, 12))),
    ("openai-key", lambda chance: f"sk-proj-{chance.some(WORD, 74)}T3BlbkFJ{chance.some(WORD, 74)}"),
    *(("openai-key", run(f"sk-{kind}-", WORD, 120)) for kind in ("svcacct", "admin")),
    ("openai-key", run("sk-" + "None-", LETTERS, 48)),
    ("openai-key", lambda chance: f"sk-{chance.some(LETTERS, 20)}T3BlbkFJ{chance.some(LETTERS, 20)}"),
    ("openai-key", run("sk" + "-", HEX, 32)),
    ("huggingface-token", run("hf" + "_", LETTERS, 34)),
    ("huggingface-token", run("api" + "_org_", LETTERS, 34)),
    ("groq-key", run("gsk" + "_", LETTERS, 52)),
    ("xai-key", run("xai" + "-", LETTERS, 80)),
    ("perplexity-key", run("pplx" + "-", LETTERS, 48)),
    ("replicate-token", run("r8" + "_", LETTERS, 37)),
    ("nvidia-key", run("nvapi" + "-", WORD, 64)),
    ("cerebras-key", run("csk" + "-", LETTERS, 48)),
    ("tavily-key", run("tvly" + "-dev-", LETTERS, 32)),
    ("elevenlabs-key", run("sk" + "_", HEX, 48)),
    *(
        ("langsmith-key", lambda chance, kind=kind: f"lsv2_{kind}_{chance.some(HEX, 32)}_{chance.some(HEX, 10)}")
        for kind in ("pt", "sk")
    ),
    ("age-secret-key", run("AGE-SECRET-KEY-" + "1", "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58)),
    *(("aws-session-token", run(kind + "ZXIvYXdz", BASE64, 300)) for kind in ("FwoG", "FQoG")),
    ("aws-session-token", lambda chance: "IQoJ" + "b3JpZ2luX2Vj" + chance.b64(300)),
    ("jwt", jwt),
]

# Keys that are recognised by the text before them: (word, before, secret, behind).
Around = Callable[[Chance], tuple[str, str, str]]


def pem(label: str, header: str = "", newline: str = "\n", mark: str = "") -> Around:
    def make(chance: Chance) -> tuple[str, str, str]:
        body = chance.b64(chance.randint(60, 900))
        lines = [mark + body[at : at + 64] for at in range(0, len(body), 64)]
        begin = f"{mark}-----BEGIN {label}-----{newline}{header.replace('~', newline)}"
        return begin, newline.join(lines), f"{newline}{mark}-----END {label}-----"

    return make


def pem_in_base64(label: str) -> Make:
    def make(chance: Chance) -> str:
        return base64.b64encode("".join(pem(label)(chance)).encode()).decode()

    return make


def around(before: str, make: Make, behind: str = "") -> Around:
    return lambda chance: (before, make(chance), behind)


def basic(chance: Chance) -> str:
    return base64.b64encode(f"{chance.some(LOWER, 6)}:{chance.some(WORD, chance.randint(6, 60))}".encode()).decode()


def uuid(chance: Chance) -> str:
    return "-".join(chance.some(HEX, size) for size in (8, 4, 4, 4, 12))


PASSWORD = WORD + "!$&*+;=~.%"
TOKEN = run("", WORD + "._~+/", 48)
IN_PLACE: list[tuple[str, Around]] = [
    ("aws-secret-key", around("AWS_SECRET_ACCESS_KEY=", run("", BASE64, 40))),
    ("aws-secret-key", around("aws_secret_access_key = ", run("", BASE64, 40), "\n")),
    ("aws-secret-key", around('"SecretAccessKey": "', run("", BASE64, 40), '"')),
    ("aws-secret-key", around("aws_secret_key: ", run("", BASE64, 40), "\n")),
    ("aws-secret-key", around('{"accessKey": "x", "secretKey": "', run("", BASE64, 40), '"}')),
    ("azure-account-key", around("DefaultEndpointsProtocol=https;AccountName=x;AccountKey=", lambda c: c.b64(64), ";")),
    ("azure-account-key", around("SharedAccessKeyName=x;SharedAccessKey=", lambda chance: chance.b64(32))),
    ("azure-sas-signature", around("https://x.blob.core.windows.net/y?sv=2022&sig=", run("", LETTERS, 43), "%3D")),
    ("azure-client-secret", around("secret: Abc8", run("Q" + "~", LETTERS + "_~.-", 34))),
    ("terraform-token", around("token = AbCdEfGhIjKlMn", run(".atlasv1" + ".", WORD, 67))),
    ("npm-token", around("//registry.example.org/:_authToken=", uuid)),
    ("telegram-token", around("bot123456789", run(":AA", WORD, 33))),
    (
        "slack-webhook",
        around(
            "https://hooks.slack.com/services/",
            lambda c: f"T{c.some(UPPER, 8)}/B{c.some(UPPER, 10)}/{c.some(LETTERS, 24)}",
        ),
    ),
    ("discord-webhook", around("https://discordapp.com/api/webhooks/12345678901234567/", run("", WORD, 68))),
    ("discord-webhook", around("https://discord.com/api/webhooks/123456789012345678/", run("", WORD, 68))),
    *(
        ("private-key", pem(label))
        for label in ("PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY")
    ),
    ("private-key", pem("ENCRYPTED PRIVATE KEY", newline="\r\n")),
    ("private-key", pem("PRIVATE KEY", newline="\\n")),
    ("private-key", pem("PRIVATE KEY", newline=" ")),
    ("private-key", pem("RSA PRIVATE KEY", mark="-")),
    ("private-key", pem("RSA PRIVATE KEY", mark="    ")),
    ("private-key", pem("PGP PRIVATE KEY BLOCK", header="~")),
    ("private-key", pem("PGP PRIVATE KEY BLOCK", header="Version: GnuPG v2.0.22 (GNU/Linux)~~")),
    (
        "private-key",
        pem(
            "RSA PRIVATE KEY", header="Proc-Type: 4,ENCRYPTED~DEK-Info: AES-128-CBC,0123456789ABCDEF0123456789ABCDEF~~"
        ),
    ),
    ("bearer-token", around("Authorization: Bearer ", TOKEN)),
    ("bearer-token", around('{"authorization": "bearer ', TOKEN, '"}')),
    ("basic-credentials", around("Authorization: Basic ", basic)),
    ("basic-credentials", around("{'Authorization': 'Basic ", basic, "'}")),
    ("api-key", around('"X-Goog-Api-Key": "', run("", LETTERS, 40), '"')),
    ("api-key", around("x-api-key: ", run("", LETTERS, 40), "\n")),
    ("url-password", around('"https:\\/\\/me:', run("p", LETTERS, 15), '@example.org"')),
    *(
        ("url-password", around(f"{scheme}://{user}:", run("p", PASSWORD, 15), "@db.example.org:5432/x"))
        for scheme in ("postgres", "postgresql+psycopg", "mysql", "mongodb+srv", "redis", "amqps", "https", "smtp")
        for user in ("me", "")
    ),
]

# As Kubernetes stores them.
MADE += [
    ("private-key", pem_in_base64(f"{kind}PRIVATE KEY"))
    for kind in ("", "RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED ")
]
