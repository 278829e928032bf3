"""Random secrets that can be recognised by their name or place only, and similar text that is not secret."""

from base64 import b64encode
from collections.abc import Callable, Iterator

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
# Those that only `strict` finds in every case, written in the same way.
STRICT_KINDS = (
    ("an opaque bearer token", "Authorization: Bearer {}", "any"),
    ("an opaque bearer token without its header", "use Bearer {} for it", "mixed"),
    ("another scheme", "Authorization: Token {}", "any"),
    ("a header without a scheme", "Proxy-Authorization: {}", "mixed"),
    ("a cookie", "Cookie: theme=dark; sessionid={}", "any"),
    ("a cookie that is set", "Set-Cookie: sid={}; Path=/; HttpOnly", "any"),
    ("a cookie in a command", "curl --cookie 'sid={}' https://example.org/x", "any"),
    ("a dictionary of cookies", "cookies={'sessionid': '{}'}", "mixed"),
    ("a cookie of a server", "JSESSIONID={}", "mixed"),
    ("sshpass", "sshpass -p {} ssh me@example.org", "any"),
    ("sshpass with quotes", "sshpass -p '{}' ssh me@example.org", "any"),
    ("mysql", "mysql -u root -p{} app", "any"),
    ("mysqldump with quotes", "mysqldump -uroot -p'{}' app > app.sql", "any"),
    ("mongo", "mongosh -u me -p {} db.example.org", "any"),
    ("docker login", "docker login -u me -p {} registry.example.org", "any"),
    ("a list of arguments", '["sshpass", "-p", "{}", "ssh", "me@x"]', "any"),
    ("redis-cli", "redis-cli -h db -a {} ping", "any"),
    ("sqlcmd", "sqlcmd -S db -U sa -P {} -Q x", "any"),
    ("ldapsearch", "ldapsearch -x -D cn=me -w {} uid=me", "any"),
    ("7z", "7z x -p{} archive.7z", "any"),
    ("a word before a command", "PGPASSWORD={} psql -h db", "any"),
    ("a user of PostgreSQL", "CREATE USER me WITH PASSWORD '{}';", "any"),
    ("a role of PostgreSQL", "ALTER ROLE me PASSWORD '{}'", "any"),
    ("a user of MySQL", "CREATE USER 'me'@'%' IDENTIFIED BY '{}';", "any"),
    ("a user of MySQL with a plugin", "ALTER USER 'me' IDENTIFIED WITH mysql_native_password BY '{}'", "any"),
    ("a password in a function of SQL", "SET PASSWORD FOR 'me' = PASSWORD('{}')", "mixed"),
    ("PHP", "define('DB_PASSWORD', '{}');", "any"),
    ("PHP without blanks", 'define("DB_PASSWORD","{}");', "any"),
    ("an array of PHP", "'db_password' => '{}',", "mixed"),
    ("a variable of PHP", "$password = '{}';", "mixed"),
    ("setenv", 'setenv("API_TOKEN", "{}", 1);', "mixed"),
    ("Rust", 'env::set_var("DB_PASSWORD", "{}");', "any"),
    ("Go sets a variable", 'os.Setenv("AUTH_TOKEN", "{}")', "mixed"),
    ("a setter of Java", 'config.setPassword("{}");', "mixed"),
    ("a builder of Java", '.password("{}")', "mixed"),
    ("a member of JavaScript", "process.env.API_TOKEN = '{}'", "mixed"),
    ("PowerShell", "$env:API_TOKEN = '{}'", "mixed"),
    ("a secure string of PowerShell", 'ConvertTo-SecureString "{}" -AsPlainText -Force', "any"),
    ("a pair of user and password", 'requests.get(url, auth=("me", "{}"))', "any"),
    ("a credential of C#", 'new NetworkCredential("me", "{}")', "any"),
    ("a login of a mail server", 'server.login("me@example.org", "{}")', "any"),
    ("a block scalar of YAML", "db:\n  password: |\n    {}\n  host: x", "mixed"),
    ("a folded scalar of YAML", "db:\n  password: >-\n    {}\n  host: x", "mixed"),
    ("a list of YAML", "- password: {}", "mixed"),
    ("an encoded query", "https://example.org/?password=a%40b{}&x=1", "mixed"),
    ("an encoded name and value", "https://example.org/?q=x%26password%3D{}", "mixed"),
    ("encoded JSON", "https://example.org/?q=%7B%22password%22%3A%22{}%22%2C%22x%22%3A1%7D", "mixed"),
    ("a fragment", "https://example.org/back#access_token={}&state=1", "mixed"),
    ("a header of HAR", '{"name":"Authorization","value":"Bearer {}"}', "any"),
    ("a cookie header of HAR", '{"name": "Cookie", "value": "theme=dark; sid={}"}', "any"),
    ("a key header of HAR", '{"name": "X-Api-Key", "value": "{}"}', "mixed"),
    ("a header in source code", 'headers.set("Authorization", "Bearer {}")', "any"),
    ("a header in a command", "curl -H 'X-Api-Key: {}' https://example.org/x", "mixed"),
    ("a header of JSON", '{"Authorization": "Token {}"}', "any"),
    ("colours around the value", "password: \x1b[32m{}\x1b[0m", "mixed"),
    ("colours around the name", "\x1b[1mDB_PASSWORD\x1b[0m=\x1b[33m{}\x1b[0m", "mixed"),
    ("colours in the name", "DB_\x1b[01;31m\x1b[KPASS\x1b[m\x1b[KWORD={}", "mixed"),
    ("colours as text", "DB_PASSWORD=\\u001b[33m{}\\u001b[0m", "mixed"),
    ("a password file of a web server", "me:$apr1$x7Yb2kQz${}", "hash"),
    ("a password file of a system", "root:$6$x7Yb2kQz${}:19000:0:99999:7:::", "hash"),
    ("htpasswd", "htpasswd -cb users.txt me {}", "any"),
    ("rabbitmqctl", "rabbitmqctl add_user me {}", "any"),
    ("a password of npm", "//registry.example.org/:_password={}", "mixed"),
    ("an opaque token of npm", "//registry.example.org/:_authToken={}", "mixed"),
    ("a secret of a cluster", "apiVersion: v1\ndata:\n  password: {}\nkind: Secret", "base64text"),
    ("a secret given to a cluster", "kubectl create secret generic x --from-literal=password={}", "mixed"),
    ("a value given to a chart", "helm install x --set auth.rootPassword={}", "mixed"),
    ("ODBC", "Driver={x};Server=db;Uid=sa;Pwd={};", "mixed"),
    ("JDBC", "jdbc:mysql://db/app?user=me&password={}", "mixed"),
    ("JDBC with a list", "jdbc:sqlserver://db;user=me;password={};encrypt=true", "mixed"),
    ("Oracle", "jdbc:oracle:thin:me/{}@db:1521/x", "any"),
    ("sqlplus", "sqlplus me/{}@db", "any"),
    ("AMQP", "amqp://me:{}@queue.example.org/x", "mixed"),
    ("Redis", "redis://:{}@db:6379/0", "mixed"),
    ("the configuration of Redis", "requirepass {}", "mixed"),
    ("keywords of libpq", "host=db user=me password={} dbname=x", "mixed"),
    ("a file of Docker", "ENV DB_PASSWORD {}", "mixed"),
    ("an argument of Docker", "docker run -e API_TOKEN={} x", "mixed"),
    ("the fish shell", "set -x API_TOKEN {}", "mixed"),
    ("Windows", "setx API_TOKEN {}", "mixed"),
    ("make", "API_TOKEN ?= {}", "mixed"),
    ("an attribute of XML", '<property name="password" value="{}"/>', "mixed"),
    ("a named element of XML", '<entry key="password">{}</entry>', "mixed"),
    ("a field of HTML", '<input type="password" value="{}">', "mixed"),
    ("a form in several parts", 'name="password"\r\n\r\n{}\r\n--x', "mixed"),
    ("a short word for it", "pwd: {}", "mixed"),
    ("a wireless network", 'psk="{}"', "mixed"),
    ("a credential", "credentials: {}", "mixed"),
    ("a token against forged requests", "csrftoken={}", "mixed"),
    ("Ansible", "ansible_ssh_pass={}", "mixed"),
    ("Terraform", 'admin_password = "{}"', "signs"),
    ("Kotlin", 'val apiKey: String = "{}"', "mixed"),
    ("a sentence", "The password is {}, do not tell", "mixed"),
    ("letters without a digit", 'api_key = "{}"', "cases"),
)
ALL_KINDS = (*KINDS, *STRICT_KINDS)
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
        case "any":
            return chance.choice(
                (chance.some(LETTERS, 12), chance.some("bdfghjklmn", 9), chance.some(LOWER + DIGITS, 20))
            )
        case "cases":
            return "aB" + chance.some(LOWER + UPPER, 24)
        case "hash":
            return chance.some(LETTERS + "./", 43)
        case "base64text":
            return b64encode(chance.some(LETTERS, 14).encode()).decode()
        case "at":
            return chance.some(LETTERS, 3) + "@" + chance.some(LETTERS, 5)
    raise AssertionError(signs)


def random_value(chance: Chance, signs: str) -> str:
    """Return a random secret of 24 characters; of the same kind of characters where the notation asks for one."""
    return secret(chance, signs) if signs in ("hash", "basic", "base64", "base64text") else chance.some(LETTERS, 24)


def made(rounds: int = 3, values: Callable[[Chance, str], str] = secret) -> Iterator[tuple[str, str, str]]:
    """Yield every kind: its name, a text with a secret, and the secret."""
    for kind, text, signs in ALL_KINDS:
        chance = Chance(kind)
        for _ in range(rounds):
            planted = values(chance, signs)
            yield kind, text.replace("{}", planted), planted
