"""Shapes of keys and tokens recognised by their form: a fixed prefix, then enough characters of a certain class.

Each row defines the prefixes of a provider's keys, the characters of the rest and their minimum number; a longer match
is the same key. Checksums are not verified: prefix and length rarely occur by chance, and a key with another checksum
algorithm would be missed. Placeholders (`your-key`, `xxxxx`, `${TOKEN}`) are not keys.

A JSON Web Token counts as a secret: it grants access by itself, and nothing else has that shape. Values that are
secrets only by their name are in `assignments.py`.
Some keys begin with a few variable characters (`azure-client-secret`, `terraform-token`): the mark replaces all but
these.
"""

from wakelog.redaction.assignment_values import looks_random
from wakelog.redaction.shapes import AFTER_ANY_BREAK, ANYWHERE, WORD_CHARS, Piece, Run, Shape

_LETTERS = "A-Za-z0-9"
_WORD = WORD_CHARS
_BASE64 = "A-Za-z0-9+/=_-"
_DOTTED = "A-Za-z0-9_.-"
_BEARER = "A-Za-z0-9._~+/=-"
_HEX = "a-f0-9"
_ANY_HEX = "A-Fa-f0-9"
_PLACEHOLDER = r"(?i:your|x{5}|example)"
# Separators between a name and its value, in a shell, JSON, YAML or a header.
_ASSIGNED = Run(r"\s\"'\\=:>,", 1, 8)
# Line ends, also escaped as in strings, quotes, and the prefixes of listed lines (line numbers, diff and quote marks).
_GAP = Run(r"\s\\\"'nr+,0-9:|>-", 1, 24)


def _key(kind: str, *starts: str, least: int, chars: str = _LETTERS, behind: str = "", rest: str = _WORD) -> Shape:
    """Build the shape of a key that is a prefix and a run of characters."""
    body: list[Piece] = [Run(chars, least, least)]
    return Shape(kind=kind, starts=starts, body=body, unless=_PLACEHOLDER, behind=behind, rest=rest)


_CLOUDS = (
    Shape(
        kind="aws-access-key",
        starts=("AKIA", "ASIA", "ABIA", "ACCA"),
        # The example key of the AWS documentation ends so and is not valid.
        unless="[A-Z0-9]{0,9}EXAMPLE",
        body=[Run("A-Z0-9", 16, 16)],
        behind=f"[{_LETTERS}]",
    ),
    Shape(
        kind="aws-secret-key",
        starts=("secret_access_key", "secretaccesskey", "secret_key", "secretkey"),
        kept=[_ASSIGNED],
        unless="[A-Za-z0-9+/]{0,30}EXAMPLEKEY",
        body=[Run("A-Za-z0-9+/", 40, 40)],
        behind="[A-Za-z0-9+/]",
        any_case=True,
        before=ANYWHERE,
        # Digests and names may have the same length.
        check=lambda before, kept, value: looks_random(value),  # noqa: ARG005
    ),
    Shape(
        kind="aws-session-token",
        starts=("IQoJb3JpZ2lu", "FwoGZXIvYXdz", "FQoGZXIvYXdz"),
        body=[Run("A-Za-z0-9+/=", 40, 40)],
        rest=_BASE64,
    ),
    Shape(
        kind="amazon-bedrock-key",
        starts=("ABSKQmVkcm9ja",),
        body=["0FQSUtleS", Run(_BASE64, 40, 40)],
        unless=f"0FQSUtleS{_PLACEHOLDER}",
        rest=_BASE64,
    ),
    _key("google-api-key", "AIza", "AQ.Ab", least=35, chars=_WORD),
    _key("google-oauth-token", "ya29.", least=32, chars=_WORD, rest=_DOTTED),
    _key("google-refresh-token", "1//0", least=40, chars=_WORD),
    _key("google-client-secret", "GOCSPX-", least=24, chars=_WORD),
    Shape(
        kind="azure-account-key",
        starts=("AccountKey=", "SharedAccessKey="),
        kept=[],
        body=[Run("A-Za-z0-9+/", 43, 43)],
        rest=_BASE64,
    ),
    Shape(
        kind="azure-sas-signature",
        starts=("sig=",),
        kept=[],
        body=[Run("A-Za-z0-9%+/", 43, 43)],
        before="(?<=[?&;])",
        rest="A-Za-z0-9%+/=",
    ),
    Shape(
        kind="azure-client-secret",
        starts=("Q~",),
        clues=("~",),
        needs="~",
        body=[Run("A-Za-z0-9_~.-", 31, 31)],
        before="(?<=[A-Za-z0-9_~.]{3}[0-9])",
        rest="A-Za-z0-9_~.-",
    ),
    _key("digitalocean-token", "dop_v1_", "doo_v1_", "dor_v1_", least=64, chars=_HEX),
    _key("alibaba-access-key", "LTAI", least=16),
    _key("cloudflare-token", "cfk_", "cfut_", "cfat_", least=40, chars=_WORD),
    Shape(
        kind="cloudflare-origin-key",
        starts=("v1.0-",),
        body=[Run(_HEX, 24, 24), "-", Run(_HEX, 100, 100)],
    ),
    _key("databricks-token", "dapi", least=32, chars=_HEX),
    _key("heroku-key", "HRKU-", least=36, chars=_WORD),
    _key("fly-token", "fo1_", least=43, chars=_WORD),
    Shape(
        kind="fly-token",
        starts=("fm1a_", "fm1r_", "fm2_"),
        body=[Run("A-Za-z0-9+/=", 40, 40)],
        rest=_BASE64,
    ),
    _key("netlify-token", "nfp_", least=36),
    _key("planetscale-token", "pscale_tkn_", "pscale_pw_", "pscale_oauth_", least=32, chars=_WORD, rest=_DOTTED),
    _key("supabase-key", "sbp_", least=40, chars=_HEX),
    _key("supabase-key", "sb_secret_", least=24, chars=_WORD),
    _key("pulumi-token", "pul-", least=40, chars=_HEX),
    Shape(kind="terraform-token", starts=(".atlasv1.",), body=[Run(_WORD, 60, 60)], before=ANYWHERE),
    _key("vault-token", "hvs.", "hvb.", "hvr.", least=24, chars=_WORD),
    _key("doppler-token", "dp.pt.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit.", least=40),
    Shape(kind="doppler-token", starts=("dp.st.",), body=[("", [Run("a-z0-9_-", 2, 35), "."]), Run(_LETTERS, 40, 40)]),
    _key("tailscale-key", "tskey-", least=24, chars=_WORD),
    _key("openshift-token", "sha256~", least=43, chars=_WORD),
    _key("onepassword-token", "ops_eyJ", least=40, chars=_WORD, rest=_BASE64),
)

_CODE = (
    _key("github-token", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", least=36, chars=_WORD, rest=_DOTTED),
    _key("github-token", "github_pat_", least=36, chars="A-Za-z0-9_"),
    _key(
        "gitlab-token",
        *("glpat-", "gldt-", "glrt-", "glrtr-", "glptt-", "glcbt-", "glimt-", "glagent-", "gloas-", "glsoat-", "glft-"),
        least=20,
        chars=_WORD,
        rest=_DOTTED,
    ),
    _key("atlassian-token", "ATATT3", "ATCTT3", least=60, chars=_WORD, rest=_BASE64),
    _key("bitbucket-password", "ATBB", least=28),
    _key("sourcegraph-token", "sgp_", least=40, chars="A-Za-z0-9_"),
    _key("npm-token", "npm_", least=36),
    Shape(
        kind="npm-token", starts=("_authToken=",), kept=[], body=[Run(_WORD, 32, 32)], unless=_PLACEHOLDER, rest=_BASE64
    ),
    _key("pypi-token", "pypi-AgE", least=50, chars=_WORD),
    _key("rubygems-key", "rubygems_", least=48, chars=_HEX),
    _key("nuget-key", "oy2", least=43, chars="a-z0-9", behind=f"[{_WORD}]"),
    _key("docker-token", "dckr_pat_", "dckr_oat_", least=20, chars=_WORD),
    _key("clojars-token", "CLOJARS_", least=60, chars=_ANY_HEX),
    _key("artifactory-key", "AKCp", least=60),
    _key("postman-key", "PMAK-", least=24, chars=_HEX),
    _key("linear-key", "lin_api_", "lin_oauth_", least=32),
    _key("notion-token", "ntn_", least=40),
    _key("figma-token", "figd_", least=36, chars=_WORD),
    _key("sentry-token", "sntrys_", "sntryu_", least=20, chars=_WORD, rest=_BASE64),
    _key("grafana-token", "glsa_", "glc_eyJ", least=32, chars=_WORD, rest=_BASE64),
    _key("newrelic-key", "NRAK-", least=27),
    _key("dynatrace-token", "dt0c01.", least=24, chars="A-Z0-9", rest=_DOTTED),
    _key("prefect-key", "pnu_", least=36),
    _key("contentful-token", "CFPAT-", least=40, chars=_WORD),
)

_MESSAGES = (
    _key(
        "slack-token",
        *(f"xox{kind}-" for kind in "abcdeoprs"),
        least=20,
        chars="A-Za-z0-9-",
    ),
    _key("slack-app-token", "xapp-", least=30, chars=_WORD),
    Shape(
        kind="slack-webhook",
        starts=("hooks.slack.com/",),
        kept=[("services/", "workflows/", "triggers/")],
        body=[
            Run("A-Z0-9", 8, 16),
            "/",
            Run("A-Z0-9", 8, 20),
            "/",
            ("", [Run("0-9", 12, 24), "/"]),
            Run(_LETTERS, 20, 20),
        ],
    ),
    Shape(
        kind="discord-webhook",
        starts=("discord.com/", "discordapp.com/"),
        clues=("/webhooks/",),
        kept=["api/webhooks/", Run("0-9", 16, 20), "/"],
        body=[Run(_WORD, 60, 60)],
    ),
    # Begins with digits encoded as base64, which have only these prefixes.
    Shape(
        kind="discord-token",
        starts=("MT", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT"),
        body=[Run(_LETTERS, 20, 26), ".", Run(_WORD, 6, 6), ".", Run(_WORD, 27, 27)],
    ),
    Shape(kind="telegram-token", starts=(":AA",), body=[Run(_WORD, 33, 33)], before="(?<=[0-9]{6})"),
    _key("twilio-key", "SK", least=32, chars=_HEX, behind=f"[{_LETTERS}]"),
    Shape(kind="sendgrid-key", starts=("SG.",), body=[Run(_WORD, 20, 32), ".", Run(_WORD, 32, 32)]),
    # Not a digest behind a name, as in `cache-key-…`.
    Shape(
        kind="mailgun-key",
        starts=("key-",),
        body=[Run(_HEX, 32, 32)],
        before=f"{AFTER_ANY_BREAK}(?<![A-Za-z0-9]-)",
        behind=f"[{_LETTERS}]",
    ),
    _key("brevo-key", "xkeysib-", "xsmtpsib-", least=64, chars=_HEX),
    _key("mapbox-token", "sk.eyJ", least=40, chars=_WORD, rest=_DOTTED),
)

_PAYMENTS = (
    _key("stripe-key", "sk_live_", "sk_test_", "rk_live_", "rk_test_", least=16),
    _key("stripe-webhook-secret", "whsec_", least=24, chars=_WORD, rest=_BASE64),
    _key("square-token", "sq0atp-", "sq0csp-", least=22, chars=_WORD),
    Shape(
        kind="paypal-token",
        starts=("access_token$",),
        needs="$",
        body=[("production$", "sandbox$"), Run("a-z0-9", 16, 16), "$", Run(_HEX, 32, 32)],
    ),
    _key("shopify-token", "shpat_", "shpca_", "shppa_", "shpss_", least=32, chars=_ANY_HEX),
)

_MODELS = (
    _key("anthropic-key", "sk-ant-", least=24, chars=_WORD),
    _key("openrouter-key", "sk-or-v1-", least=40, chars=_WORD),
    _key("langfuse-key", "sk-lf-", least=36, chars=_WORD),
    _key("openai-key", "sk-proj-", "sk-svcacct-", "sk-admin-", "sk-None-", least=40, chars=_WORD),
    # Old keys of OpenAI, and those of other providers with the same form.
    _key("openai-key", "sk-", least=32),
    _key("huggingface-token", "hf_", "api_org_", least=34),
    _key("groq-key", "gsk_", least=40),
    _key("xai-key", "xai-", least=40),
    _key("perplexity-key", "pplx-", least=40),
    _key("replicate-token", "r8_", least=30),
    _key("nvidia-key", "nvapi-", least=40, chars=_WORD),
    _key("cerebras-key", "csk-", least=40),
    _key("tavily-key", "tvly-", least=24, chars=_WORD),
    _key("elevenlabs-key", "sk_", least=48, chars=_HEX),
    _key("langsmith-key", "lsv2_pt_", "lsv2_sk_", least=32, chars="A-Za-z0-9_"),
)

_GENERIC = (
    Shape(
        kind="private-key",
        starts=("-----BEGIN ",),
        kept=[
            ("", "RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED ", "PGP ", "SSH2 ENCRYPTED ", "ANY "),
            ("PRIVATE KEY-----", "PRIVATE KEY BLOCK-----"),
            _GAP,
            (
                "",
                ["Proc-Type: 4,ENCRYPTED", _GAP, "DEK-Info: ", Run("A-Z0-9-", 6, 16), ","],
                ["Version: ", Run(r"^\n\\", 1, 60), ("\n", "\\n"), Run(_GAP.chars, 0, 24)],
            ),
        ],
        body=[Run("A-Za-z0-9+/=", 16, 16)],
        before=ANYWHERE,
        clues=("begin ",),
        # Lines of base64 with their separators, up to the next five dashes.
        rest=r"A-Za-z0-9+/=\s\\\"',:|>-",
        until="-----",
    ),
    # The same encoded as base64, as in Kubernetes secrets: prefixes of the words above, 3 bytes in 4 characters.
    Shape(
        kind="private-key",
        starts=("LS0tLS1CRUdJTiB",),
        body=[
            ("QUklW", "SU0EgUFJJ", "FQyBQUklW", "EU0EgUFJJ", "PUEVOU1NIIFBS", "FTkNS"),
            Run(_BASE64, 40, 40),
        ],
        rest=_BASE64,
    ),
    _key("age-secret-key", "AGE-SECRET-KEY-1", least=50, chars="A-Z0-9"),
    Shape(
        kind="jwt",
        starts=("eyJ",),
        body=[Run(_WORD, 17, 512), ".eyJ", Run(_WORD, 8, 8)],
        rest=_DOTTED,
    ),
    Shape(
        kind="bearer-token",
        starts=("bearer",),
        kept=[Run(r"\s", 1, 2)],
        # A run of 20 to 39 characters without digits is taken for words.
        unless=rf"{_PLACEHOLDER}|[A-Za-z._~+/=-]{{20,39}}(?![{_BEARER}])",
        body=[Run(_BEARER, 20, 64)],
        rest=_BEARER,
        any_case=True,
    ),
    Shape(
        kind="basic-credentials",
        starts=("authorization",),
        kept=[_ASSIGNED, "basic", Run(r"\s", 1, 2)],
        unless=rf"{_PLACEHOLDER}|[a-z]{{8,39}}(?![{_BASE64}])",
        body=[Run("A-Za-z0-9+/=", 8, 40)],
        rest=_BASE64,
        any_case=True,
    ),
    Shape(
        kind="api-key",
        starts=("x-api-key", "x-goog-api-key"),
        clues=("api-key",),
        kept=[_ASSIGNED],
        unless=rf"{_PLACEHOLDER}|[A-Za-z._~+/=-]{{20,39}}(?![{_BEARER}])",
        body=[Run(_BEARER, 20, 64)],
        rest=_BEARER,
        any_case=True,
    ),
    Shape(
        kind="url-password",
        starts=("://", ":\\/\\/"),
        kept=[Run(r"^\s:/?#@\"'`<>{}()\[\]\\|,", 0, 256), ":"],
        unless=r"(?i:(?:pass|passwd|password|pwd|secret|token|user|\*+|x+|\.+)@)|\$|%[({s]",
        body=[Run(r"^\s/?#@\"'`<>{}\[\]\\|", 4, 256)],
        behind=r"[^@]|\Z",
        before=r"(?<=[A-Za-z0-9])",
        needs="@",
    ),
)

KEY_SHAPES: tuple[Shape, ...] = (*_MODELS, *_CLOUDS, *_CODE, *_MESSAGES, *_PAYMENTS, *_GENERIC)
