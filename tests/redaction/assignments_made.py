"""Random secrets that can be recognised by their name or place only, and similar text that is not secret."""

from base64 import b64encode
from collections.abc import Iterator

from tests.redaction.secrets_made import BASE64, DIGITS, LETTERS, LOWER, UPPER, Chance

# How each kind is written; `{}` is the secret, which `made` draws from the characters after it.
KINDS = (
    ("an environment file", "DB_PASSWORD={}", "mixed"),
    ("a word in an environment file", "MYSQL_ROOT_PASSWORD={}", "letters"),
    ("a line of a shell", "export API_TOKEN={}", "mixed"),
    ("a variable before a command", "PGPASSWORD={} psql -h db", "mixed"),
    ("an environment file with quotes", "DJANGO_SECRET_KEY='{}'", "signs"),
    ("a numbered name", "ADMIN_PASSWORD_2={}", "mixed"),
    ("the base of keys", "SECRET_KEY_BASE={}", "mixed"),
    ("a key of any kind in an environment file", "MAPS_KEY={}", "mixed"),
    ("a short name", "SMTP_PASS={}", "signs"),
    ("JSON", '{"id": "x", "client_secret": "{}", "n": 1}', "mixed"),
    ("JSON without blanks", '{"user":"me","password":"{}"}', "mixed"),
    ("JSON in a string", '"{\\"client_secret\\": \\"{}\\"}"', "mixed"),
    ("JSON in a string in a string", '"{\\\\\\"client_secret\\\\\\": \\\\\\"{}\\\\\\"}"', "mixed"),
    ("lines in a string", '"A=1\\nDB_PASSWORD={}\\nB=2"', "mixed"),
    ("YAML", "database:\n  password: {}\n  host: db", "mixed"),
    ("YAML with quotes", 'password: "{}"', "signs"),
    ("TOML", 'secret = "{}"', "mixed"),
    ("an INI file", "[client]\npassword = {}", "mixed"),
    ("properties", "spring.datasource.password={}", "mixed"),
    ("source code", "const apiKey = '{}';", "mixed"),
    ("source code with a type", 'password: str = "{}"', "mixed"),
    ("an item of a mapping", 'os.environ["AUTH_TOKEN"] = "{}"', "mixed"),
    ("an argument of a call", 'connect(user="me", password="{}")', "mixed"),
    ("bytes", "secret = b'{}'", "mixed"),
    ("Ruby", ":password => '{}'", "mixed"),
    ("Go", 'token := "{}"', "mixed"),
    ("a template literal", "password: `{}`,", "signs"),
    ("XML", "<password>{}</password>", "mixed"),
    ("a connection string", "Server=db;User Id=sa;Password={};Database=x", "mixed"),
    ("an option", "mysqldump --password={} db", "mixed"),
    ("an option and its value", "tool --password {} db", "mixed"),
    ("an option in a list", '["tool", "--api-key", "{}"]', "mixed"),
    ("a header", "X-Auth-Token: {}", "mixed"),
    ("a query", "https://example.org/?access_token={}&x=1", "mixed"),
    ("netrc", "machine example.org login me password {}\n", "mixed"),
    ("netrc on lines", "machine example.org\n  login me\n  password {}\n", "mixed"),
    ("pgpass", "db.example.org:5432:app:me:{}\n", "mixed"),
    ("pgpass for any host", "*:*:*:me:{}\n", "mixed"),
    ("curl", "curl -s -u me:{} https://example.org/x", "mixed"),
    ("curl with the long option", "curl --user 'me:{}' https://example.org/x", "letters"),
    ("npm", "//registry.example.org/:_authToken={}", "mixed"),
    ("docker", '{"auths": {"x.io": {"auth": "{}"}}}', "basic"),
    ("a variable of a cluster", "- name: DB_PASSWORD\n  value: {}\n", "mixed"),
    ("a variable of a container", '{"name": "DB_PASSWORD", "value": "{}"}', "mixed"),
    ("only digits", 'password = "{}"', "digits"),
    ("a secret access key behind its id", "AKIA7Q2WERTYUIOPASDF,{}\n", "base64"),
    ("an address with an @ in its password", "postgres://me:{}@db/x", "at"),
)
# Placeholders for a secret, and code and text that only name one.
NONE = (
    *("password = None", "password: str", "password: str | None = None", "secret_key = os.environ['SECRET_KEY']"),
    *("token=$TOKEN", "token=${TOKEN}", "password: ${DB_PASSWORD}", "password: <your-password>", "PASSWORD=changeme"),
    *("password=xxxxxxxx", "password=********", "password=password", '"password": "password1"', "{{ secret }}"),
    *("password: {{ db_password1 }}", "token = next(tokens)", "token = self.tokens[0]", "token = self.token2"),
    *("if password == other1:", "if password != saved_1:", "password: see the wiki", "Password: enter your password"),
    *("password=True", "secret: false", "secret: 12345", "token: 1234567", "max_tokens: 4096", "tokens = 100000"),
    *('"nextPageToken": "CAUQAA12345xyz"', "password = getpass.getpass()", "passwd=/etc/passwd", "PWD=/home/me/x1"),
    *('"token": "string"', "token: Token1.Number2", "docker run -u 1000:1000 x", "curl -u $USER:$PASS x", "-u me:pw1x"),
    *("secret_name: my-secret-1", 'password_hash = "abc123def"', 'token_type = "bearer12"', "compass = n0rthwest"),
    *('"integrity": "sha512-Zm9vYmFy1234567890=="', 'secret = "sha256:abcd1234abcd"', "secret: vault:kv/db1#pw"),
    *(
        'password_hasher = "pbkdf2_sha256"',
        'key = "abc123def456"',
        'primary_key = "user_id_12"',
        "PUBLIC_KEY=abc123def",
    ),
    *("sort_key: 8f7a6b5c4d", "password=f'{user}1234'", "password: %s1234", 'token = "<token1234>"', "TOKEN=..."),
    *("secret: !vault |", "token = a1b2.c3d4(e5)", "api_key: ApiKeyT1 | None", "password -> Option<String>"),
    *("localhost:5432:app:me:password", "127.0.0.1:5432:5432", "login me, then password comes1", "AUTH=none"),
    *('"auth": "required"', '{"auth": "abcd1234"}', "postgres://me:password@db/x"),
)


def secret(chance: Chance, signs: str) -> str:
    """Return a random secret of some kind of characters."""
    match signs:
        case "mixed":
            return chance.some(LOWER, 2) + chance.some(DIGITS, 2) + chance.some(LETTERS, chance.randint(6, 80)) + "7"
        case "letters":
            return chance.some("bdfghjklmn", 9)
        case "signs":
            return chance.some(LOWER, 3) + "!" + chance.some(LETTERS, 3) + "%" + chance.some(UPPER, 3)
        case "digits":
            return "7" + chance.some("02468", 9)
        case "basic":
            return b64encode(b"me:" + chance.some(LETTERS, 12).encode()).decode()
        case "base64":
            return "aB1" + chance.some(BASE64, 37)
        case "at":
            return chance.some(LETTERS, 3) + "@" + chance.some(LETTERS, 5)
    raise AssertionError(signs)


def made(rounds: int = 3) -> Iterator[tuple[str, str, str]]:
    """Yield every kind: its name, a text with a secret, and the secret."""
    for kind, text, signs in KINDS:
        chance = Chance(kind)
        for _ in range(rounds):
            planted = secret(chance, signs)
            yield kind, text.replace("{}", planted), planted
