"""Made transcripts of agents: the kinds of text that are most often mistaken for secrets, and none that is one.

Output of tests, builds, git and clusters, diffs, logs, JSON results, lock files, minified scripts, pictures and source
code. Many lines assign something to a name that denotes a secret: an identifier, a path, a call, a hash, a number. All
texts come from a seeded generator.
"""

import base64
import json
import random
import string
import uuid
from collections.abc import Callable, Iterator

_HEX = "0123456789abcdef"
_LETTERS = string.ascii_letters + string.digits
_WORDS_TEXT = (
    "session state load ended cache read write token key secret password auth user account agent main message queue "
    "request response handler config store index entry event stream parse encode decode buffer client server worker "
    "thread process result error retry timeout limit count total size offset cursor page next previous first last "
    "input output prompt model context window budget usage price provider tool call channel group topic branch commit "
    "merge release version build test check verify validate schema migration table column row field value name type "
    "default public private shared local remote primary foreign sort hash digest seal signature header body query "
    "path file folder link image picture render layout style theme color border margin unit integration snapshot "
    "deploy cluster node pod service ingress volume secret claim registry docker python golang rust cargo crate "
    "telegram discord matrix whatsapp gateway webhook callback refresh access expiry rotate rotation environment"
)
_WORDS = tuple(_WORDS_TEXT.split())
_SECRET_NAMES_TEXT = (
    "session_key cache_key sort_key primary_key secret_name secret_ref token_count token_type next_page_token api_key "
    "api_key_env api_key_header password_field password_hash password_policy auth_token_url access_token_path "
    "client_secret_file refresh_token_expires_at csrf_token_name passphrase_prompt signing_key_id encryption_key_path "
    "CacheReadTokens CacheWriteTokens MaxTokens sessionKey tokenSource accessToken authToken apiKey secretKey "
    "clientSecret SECRET_KEY API_KEY AUTH_TOKEN DB_PASSWORD_FILE TOKEN_ENDPOINT CACHE_KEY TOKENIZER_PATH tokens "
    "secrets password token secret passwd privateKey publicKey idempotencyKey partitionKey"
)
_SECRET_NAMES = tuple(_SECRET_NAMES_TEXT.split())
_ASSIGNMENTS = (
    *("{} = {}", "{}: {}", "{}={}", '"{}": "{}",', "'{}': '{}',", '{} := "{}"', "{} => '{}'", "  {}: {}", "<{}>{}</x>"),
    *("self.{} = {}", "export {}={}", "--{}={}", "--{} {}", "?{}={}&page=2", 'os.environ["{}"] = "{}"', "+{}={}"),
    *('const {} = "{}";', "level=info {}={} msg=ok", "let {}: &str = {};", 'headers["{}"] = "{}"', "-  {}: {}"),
)
_NAMESPACES = ("agent:main:telegram:group", "agent:main:discord:channel", "agent:main", "urn:x:app", "arn:aws:iam")
_PLACEHOLDERS = (
    *("${SECRET_VALUE_FROM_ENV}", "{{ vault_secret_value }}", "<your-api-key-goes-here>", "your_api_key_goes_here_1"),
    *("xxxxxxxxxxxxxxxxxxxx", "********************", "REPLACE_WITH_REAL_TOKEN", "change-me-before-deploy"),
    *("$(cat /run/secrets/token)", "%(session_token)s", "process.env.SESSION_TOKEN", "os.environ['SESSION_TOKEN']"),
)


class Transcripts:
    """A generator of made transcripts: each text is the output of one tool."""

    def __init__(self, seed: int = 0) -> None:
        self._chance = random.Random(seed)
        self._makers: tuple[Callable[[], str], ...] = (
            self._go_tests,
            self._pytest,
            self._cargo,
            self._diff,
            self._log,
            self._json_result,
            self._lock_file,
            self._git,
            self._picture,
            self._minified,
            self._cluster,
            self._code,
            self._settings,
            self._stored_sessions,
        )

    def texts(self, size: int) -> Iterator[str]:
        """Yield texts of every kind in turn, until there are `size` characters."""
        while True:
            for maker in self._makers:
                text = maker()
                yield text
                size -= len(text)
                if size <= 0:
                    return

    # ── pieces ───────────────────────────────────────────────────────────────────────────────────

    def _words(self, least: int, most: int) -> list[str]:
        return self._chance.choices(_WORDS, k=self._chance.randint(least, most))

    def _hex(self, count: int) -> str:
        return "".join(self._chance.choices(_HEX, k=count))

    def _id(self) -> str:
        return str(uuid.UUID(bytes=self._chance.randbytes(16)))

    def _number(self) -> int:
        return self._chance.randint(0, 10 ** self._chance.randint(1, 13))

    def _camel(self, least: int = 2, most: int = 6) -> str:
        return "".join(map(str.capitalize, self._words(least, most)))

    def _snake(self, least: int = 2, most: int = 5) -> str:
        return "_".join(self._words(least, most))

    def _kebab(self, least: int = 2, most: int = 5) -> str:
        return "-".join(self._words(least, most))

    def _path(self) -> str:
        folders = "/".join(self._words(1, 4))
        return f"{self._chance.choice(('', '/', './', '../', 'src/', '~/', 'C:/'))}{folders}/{self._snake(1, 3)}.go"

    def _date(self) -> str:
        pick = self._chance.randint
        time = f"{pick(0, 23):02}:{pick(0, 59):02}:{pick(0, 59):02}.{pick(0, 999):03}"
        return f"2026-{pick(1, 12):02}-{pick(1, 28):02}T{time}Z"

    def _version(self) -> str:
        pick = self._chance.randint
        return f"v{pick(0, 40)}.{pick(0, 40)}.{pick(0, 99)}-{self._chance.choice(('beta', 'rc', 'dev'))}.{pick(1, 9)}"

    def _digest(self) -> str:
        raw = self._chance.randbytes(64)
        return self._chance.choice(
            (
                "sha512-" + base64.b64encode(raw).decode(),
                "sha256-" + base64.b64encode(raw[:32]).decode(),
                "sha256:" + raw[:32].hex(),
                raw[:20].hex(),
                raw[:16].hex(),
                raw[:32].hex(),
                f"md5:{raw[:16].hex()}",
                f"h1:{base64.b64encode(raw[:32]).decode()}",
            )
        )

    def harmless(self) -> str:
        """Return a value that is assigned to names of secrets and is none."""
        pick, chance = self._chance.randint, self._chance
        return chance.choice(
            (
                lambda: f"{chance.choice(('a', 'self', 'result', 'cfg', 'm.inner', 'this'))}.{self._camel()}",
                lambda: f"{chance.choice(_NAMESPACES)}:-100{pick(10**9, 10**10)}:topic:{pick(1, 900)}",
                lambda: f"{chance.choice(_NAMESPACES)}:{self._kebab()}:{self._id()}",
                lambda: f"Test{self._camel()}_{self._camel()}",
                lambda: f"{self._snake()}_{pick(1, 99)}",
                lambda: f"{self._kebab()}-{pick(1, 2026)}",
                lambda: f"{self._snake()}({self._snake(1, 2)}, {pick(1, 99)})",
                lambda: f"{self._camel()}::{self._snake()}",
                lambda: f"await{self._camel()}().{self._camel(1, 2)}",
                lambda: self._camel(3, 8)[:1].lower() + self._camel(3, 8)[1:],
                lambda: self._snake(3, 6).upper(),
                lambda: f"{self._camel()}{pick(1, 999)}",
                lambda: f"{self._kebab()}-{self._hex(chance.choice((7, 8, 10, 12)))}",
                lambda: f"linux-amd64-py3{pick(8, 14)}-{self._kebab(1, 3)}-{self._hex(40)}",
                lambda: f"https://{self._kebab(1, 2)}.example.org/{self._path()}?v={pick(1, 99)}",
                lambda: f"/var/run/secrets/{self._kebab(1, 2)}/{self._snake(1, 2)}",
                lambda: f"{self._snake(1, 2)}[{pick(0, 9)}].{self._camel(1, 3)}",
                lambda: f"projects/{self._kebab()}/secrets/{self._kebab()}/versions/{pick(1, 30)}",
                lambda: f"{self._snake(1, 2)}@{self._kebab(1, 2)}.example.org",
                lambda: f"10.{pick(0, 255)}.{pick(0, 255)}.{pick(0, 255)}:{pick(1024, 65535)}",
                lambda: chance.choice(_PLACEHOLDERS),
                self._path,
                self._id,
                self._date,
                self._version,
                self._digest,
                lambda: str(self._number()),
                lambda: f"{self._number()}_{self._number()}",
                lambda: f"0x{self._hex(16)}",
            )
        )()

    def _assignment(self) -> str:
        name = self._chance.choice(_SECRET_NAMES)
        return self._chance.choice(_ASSIGNMENTS).format(name, self.harmless())

    def _many(self, make: Callable[[], str], least: int, most: int) -> str:
        return "\n".join(make() for _ in range(self._chance.randint(least, most)))

    # ── texts ────────────────────────────────────────────────────────────────────────────────────

    def _go_tests(self) -> str:
        def line() -> str:
            name = f"Test{self._camel()}{self._chance.choice(('', '_', '/'))}{self._camel()}"
            return f"--- {self._chance.choice(('PASS', 'FAIL', 'SKIP'))}: {name} (0.0{self._chance.randint(0, 9)}s)"

        run = self._many(lambda: f"=== RUN   Test{self._camel()}_{self._camel()}\n{line()}", 20, 80)
        return f"{run}\nPASS\nok  \tgithub.com/x/{self._path()}\t{self._chance.random():.3f}s\n"

    def _pytest(self) -> str:
        def line() -> str:
            test = f"tests/{self._path()}::test_{self._snake()}[{self._kebab()}-{self.harmless()}]"
            return f"{test} {self._chance.choice(('PASSED', 'FAILED', 'XPASS'))} [{self._chance.randint(1, 100)}%]"

        failed = self._many(lambda: f"E       AssertionError: assert {self._snake()} == {self.harmless()}", 2, 9)
        return f"{self._many(line, 20, 80)}\n{failed}\n>       {self._assignment()}\n"

    def _cargo(self) -> str:
        def line() -> str:
            return (
                f"test {self._snake()}::tests::{self._snake()} ... {self._chance.choice(('ok', 'ignored', 'FAILED'))}"
            )

        built = self._many(lambda: f"   Compiling {self._kebab()} {self._version()}", 5, 30)
        return f"{built}\n{self._many(line, 20, 60)}\n  left: {self.harmless()}\n right: {self.harmless()}\n"

    def _diff(self) -> str:
        def hunk() -> str:
            path = self._path()
            lines = self._many(lambda: f"{self._chance.choice('+- ')}    {self._assignment()}", 4, 20)
            begin = (
                f"diff --git a/{path} b/{path}\nindex {self._hex(9)}..{self._hex(9)} 100644\n--- a/{path}\n+++ b/{path}"
            )
            return f"{begin}\n@@ -{self._chance.randint(1, 999)},7 +{self._chance.randint(1, 999)},9 @@\n{lines}"

        return self._many(hunk, 2, 8)

    def _log(self) -> str:
        def line() -> str:
            pairs = " ".join(
                f"{self._chance.choice(_SECRET_NAMES)}={self.harmless()}" for _ in range(self._chance.randint(1, 4))
            )
            return f"{self._date()} [{self._id()}] INFO {self._camel()} - {' '.join(self._words(3, 9))} {pairs}"

        return self._many(line, 20, 60)

    def _json_result(self) -> str:
        def record(depth: int) -> dict[str, object]:
            made: dict[str, object] = {"id": self._id(), "sha": self._hex(40), "created_at": self._date()}
            for _ in range(self._chance.randint(2, 6)):
                name = self._chance.choice(_SECRET_NAMES)
                made[name] = record(depth - 1) if depth and self._chance.random() < 0.2 else self.harmless()
            made["input_tokens"] = self._number()
            return made

        records = [record(2) for _ in range(self._chance.randint(3, 12))]
        text = json.dumps(records, indent=self._chance.choice((None, 2)))
        return text if self._chance.random() < 0.7 else json.dumps({"type": "tool_result", "content": text})

    def _lock_file(self) -> str:
        def package() -> str:
            name, version = self._kebab(1, 3), self._version()[1:]
            raw = base64.b64encode(self._chance.randbytes(64)).decode()
            url = f"https://packages.example.org/{name}/-/{name}-{version}.tgz"
            npm = f'"resolved": "{url}",\n      "integrity": "sha512-{raw}"'
            return self._chance.choice(
                (
                    f'    "node_modules/{name}": {{\n      "version": "{version}",\n      {npm}\n    }},',
                    f"{name} {version} h1:{raw[:43]}=\n{name} {version}/go.mod h1:{raw[20:63]}=",
                    f'[[package]]\nname = "{name}"\nversion = "{version}"\nchecksum = "{self._hex(64)}"',
                    f"{name}=={version} \\\n    --hash=sha256:{self._hex(64)}",
                    f"/{name}@{version}:\n    resolution: {{integrity: sha512-{raw}}}\n    dev: true",
                )
            )

        return self._many(package, 20, 60)

    def _git(self) -> str:
        def commit() -> str:
            return (
                f"commit {self._hex(40)}\nAuthor: {self._camel(1, 1)} <{self._snake(1, 2)}@example.org>\n"
                f"Date:   {self._date()}\n\n    {self._kebab(1, 1)}: {' '.join(self._words(3, 8))}\n"
            )

        short = self._many(lambda: f"{self._hex(8)} {self._kebab(1, 1)}: {' '.join(self._words(3, 9))}", 10, 40)
        listed = self._many(lambda: f"100644 blob {self._hex(40)}\t{self._path()}", 10, 30)
        return f"{self._many(commit, 3, 9)}\n{short}\n{listed}\n"

    def _picture(self) -> str:
        raw = base64.b64encode(self._chance.randbytes(self._chance.randint(300, 9_000))).decode()
        return self._chance.choice(
            (
                f'{{"type": "image", "source": {{"type": "base64", "media_type": "image/png", "data": "{raw}"}}}}',
                f'<img src="data:image/png;base64,{raw}">',
                "\n".join(raw[at : at + 76] for at in range(0, len(raw), 76)),
                f"//# sourceMappingURL=data:application/json;base64,{raw}",
            )
        )

    def _minified(self) -> str:
        def function() -> str:
            a, b, c = self._chance.choices(string.ascii_letters, k=3)
            return (
                f"function {a}{b}({a},{b}){{var {c}={a}.{self._camel()[:14]},token={b}[{c}],key={a}.k;"
                f"return{{accessToken:{a}.{self._camel(1, 2)},apiKey:{c}.{b}({a}),password:{b}?{c}:null}}}}"
            )

        names = "".join(f"{self._hex(3)}:'{self._kebab(1, 2)}.{self._hex(8)}'," for _ in range(40))
        return f"!function(){{{self._many(function, 20, 80)};var chunks={{{names}}}}}();".replace("\n", ";")

    def _cluster(self) -> str:
        def pod() -> str:
            end = "".join(self._chance.choices("bcdfghjklmnpqrstvwxz2456789", k=5))
            return f"{self._kebab(1, 3)}-{self._hex(10)}-{end}   1/1  Running  0  {self._chance.randint(1, 90)}d"

        def variable() -> str:
            name = self._snake(2, 3).upper() + self._chance.choice(("_TOKEN", "_PASSWORD", "_KEY", "_SECRET"))
            return (
                f"        - name: {name}\n          valueFrom:\n            secretKeyRef:\n"
                f"              name: {self._kebab()}\n              key: {self._kebab(1, 3)}"
            )

        mounts = self._many(
            lambda: f"      /var/run/secrets/kubernetes.io/serviceaccount from kube-api-access-{self._hex(5)} (ro)",
            2,
            6,
        )
        return f"NAME  READY  STATUS\n{self._many(pod, 10, 40)}\n{self._many(variable, 3, 12)}\n{mounts}\n"

    def _code(self) -> str:
        def statement() -> str:
            name, value = self._chance.choice(_SECRET_NAMES), self.harmless()
            return self._chance.choice(
                (
                    f"    if {name} != {self._snake()}[{self._chance.randint(0, 9)}]:",
                    f"    def test_{self._snake()}(self, {name}: str | None = None) -> {self._camel(1, 2)}:",
                    f'    raise ValueError(f"bad {name}: {{{name}!r}} of {self._snake()}")',
                    f"        {name} = {self._snake(1, 2)}.{self._snake()}({name}={self._snake()})",
                    f"\tresult.{self._camel()} = a.{self._camel()}",
                    f"    return {self._camel(1, 2)}({name}={self.harmless()!r})",
                    f"  {name}?: {self._camel(1, 3)}<{self._camel(1, 2)}>;",
                    f"// {name}: {' '.join(self._words(4, 12))}",
                    f"    assert {name} == {value!r}",
                    f"    {self._assignment()}",
                )
            )

        return self._many(statement, 20, 80)

    def _settings(self) -> str:
        return self._many(self._assignment, 20, 80)

    def _stored_sessions(self) -> str:
        def line() -> str:
            key = f"agent:main:telegram:{self._kebab(1, 1)}:{self._number()}"
            call = {"id": "toolu_" + "".join(self._chance.choices(_LETTERS, k=24)), "name": self._snake(1, 2)}
            entry = {"session_key": key, "sessionKey": key, "tool": call, "tokens": self._number(), "h": self._hex(64)}
            return json.dumps({**entry, "text": f"{self._assignment()}\n{self._assignment()}"})

        return self._many(line, 10, 40)
