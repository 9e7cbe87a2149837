"""Names of files that are secrets: keys, certificates, credentials. They are never read.

Judges names only. The reader finds files that are nothing but a private key; a secret inside any
other file is redacted where it is shown. So files that only may contain one are read (see `READ`).
"""

from __future__ import annotations

import fnmatch
import re

# Kinds of secret files, with their names. `*` stands for anything, a name that ends with "/" is a
# folder, one with "/" inside it is the end of a path. Names with `*` between other letters don't
# apply to programs: see `_CODE`.
LEFT_OUT = (
    (
        "variables of an environment",
        ".envs/ .env.d/ *.env dotenv env.{stage} environment.{stage} dotenv.{stage}",
    ),
    (
        "private keys",
        "*.pem *.key *.p12 *.pfx *.p8 *.ppk *.gpg *.pgp *.age *.asc.key *.keytab master.key "
        "secring.*",
    ),
    (
        "private keys",
        "id_{ssh} id_{ssh}[._-]* *[._-]id_{ssh} *[._-]id_{ssh}[._-]* ssh_host_*_key "
        "ssh_host_*_key.pub",
    ),
    (
        "private keys",
        "deploy[_-]key deploy[_-]key.* *[._-]deploy[_-]key private.asc secret.asc "
        "*[._-]{own}.asc {own}[._-]key.asc",
    ),
    ("private keys", "*[._-]{own}[._-]key.asc {own}key.asc *[._-]{own}key.asc wg*.conf"),
    (
        "copies of keys",
        "*.{key}.txt *.{key}.bak *.{key}.old *.{key}.orig *.{key}.backup *.{key}.b64 "
        "*.{key}.enc *.{key}~",
    ),
    (
        "key stores",
        "*.jks *.keystore *.bks *.jceks *.kdbx *.kdb keystore.properties key.properties "
        "signing.properties",
    ),
    ("certificates", "*.crt *.cer *.der *.csr *.p7b *.p7c *.mobileprovision"),
    ("folders of keys", ".ssh/ .gnupg/ .aws/ .azure/ .gcloud/ .kube/ .password-store/ .secrets/"),
    (
        "logins of tools",
        ".netrc _netrc netrc .npmrc .yarnrc .yarnrc.yml .pypirc .pgpass .my.cnf .mylogin.cnf "
        ".htpasswd htpasswd",
    ),
    (
        "logins of tools",
        ".git-credentials .dockercfg .dockerconfigjson docker[_-]config.json "
        "dockerconfig.json .boto .s3cfg",
    ),
    (
        "logins of tools",
        ".vault-token .terraformrc terraform.rc credentials.tfrc.json rclone.conf "
        "local.settings.json",
    ),
    (
        "logins of tools",
        "/.docker/config.json /.config/gh/hosts.yml /.m2/settings.xml "
        "/.m2/settings-security.xml *.ovpn",
    ),
    (
        "logins of clusters",
        "kubeconfig kubeconfig[._-]* kube[_-]config kube[_-]config.* *.kubeconfig "
        "*[._-]kubeconfig *[._-]kubeconfig.{file}",
    ),
    (
        "logins of clouds",
        "credentials rootkey.csv accesskeys.csv *[._-]accesskeys.csv *credentials*.csv "
        "*-credentials.json",
    ),
    (
        "logins of clouds",
        "service[_-]account*.json serviceaccount*.json *firebase-adminsdk*.json "
        "client_secret*.json",
    ),
    (
        "logins of clouds",
        "sa[_-]key*.json *[._-]sa[_-]key*.json firebase[_-]key*.json gcp[_-]key*.json "
        "gcloud[_-]key*.json google[_-]key*.json",
    ),
    ("logins of clouds", "application_default_credentials.json token.json token.txt *.token"),
    (
        "lists of secrets",
        ".secret .secrets {list}.{file} {list}.{file}.enc {list}.enc.{file} "
        "*[._-]secrets.y*ml *[._-]secrets.enc.{file}",
    ),
    (
        "lists of secrets",
        "vault.yml vault.yaml .vault[_-]pass* vault[_-]pass* password.txt passwords.txt "
        "password.csv passwords.csv",
    ),
    ("state and variables of Terraform", "*.tfstate *.tfstate.* *.tfvars *.tfvars.json"),
    ("settings that are passwords", "wp-config.php wp-config.php[.~]* wp-config.bak"),
    ("what was typed", ".*history fish_history consolehost_history.txt .lesshst .viminfo .dbshell"),
)
# Names that sound like a secret and are read all the same: secrets in them are redacted.
READ = (
    (
        "settings, of which a secret is one line at most",
        "appsettings.*.json application-*.properties application-*.yml database.yml",
    ),
    (
        "settings, of which a secret is one line at most",
        "gradle.properties settings.xml google-services.json config.json",
    ),
    (
        "colours and sizes of a design, or words of a language model",
        "tokens.json tokens.txt tokens.css",
    ),
    ("a program more often than a list of values", "env environment"),
    ("public by their nature", "known_hosts authorized_keys key.asc"),
)
_WORDS = {
    "stage": "local prod production dev development stage staging test qa uat ci live bak backup "
    "old",
    "ssh": "rsa dsa ecdsa ed25519 ecdsa_sk ed25519_sk",
    "own": "private secret",
    "key": "pem key p12 pfx ppk",
    "list": "credential credentials secret secrets",
    "file": "json yml yaml toml ini xml cfg conf properties csv txt",
}
# In a folder called secrets: extensions of files with values. Programs about secrets are in such
# folders, too.
_VALUES = frozenset({"", "txt", "json", "yml", "yaml", "toml", "ini", "env", "conf", "properties"})
_ABOUT = frozenset(
    {
        "readme",
        "license",
        "notice",
        "codeowners",
        "makefile",
        "justfile",
        "dockerfile",
        "jenkinsfile",
        "build",
    }
)
_TRANSLATIONS = frozenset(
    {
        "i18n",
        "lang",
        "langs",
        "language",
        "languages",
        "locale",
        "locales",
        "messages",
        "translations",
    }
)
_ENVIRONMENT_TEMPLATE = re.compile(r"\.env[.-](?:example|sample|template|dist)")
_HARMLESS = re.compile(
    r"(?:.*[._-])?(?:example|examples|sample|template|tmpl|dist|defaults?|schema)(?:\.\w+)?"
)
# Extensions of programs and their documentation: id_rsa.py isn't a key, kubeconfig.md isn't a
# login.
_CODE = frozenset(
    "py pyi js jsx mjs cjs ts tsx go rs java kt kts scala groovy rb php c h cc cpp hpp m "
    "mm cs fs swift dart lua pl r jl ex "
    "exs erl hs clj vue svelte html htm css scss sh bash zsh fish ps1 bat tf hcl sql "
    "proto md mdx rst adoc tex ipynb".split()
)


def _names() -> list[str]:
    """All names of the table, with placeholders written out."""
    names = [name for _, row in LEFT_OUT for name in row.split()]
    for word, choices in _WORDS.items():
        mark = f"{{{word}}}"
        names = [
            name.replace(mark, choice)
            for name in names
            for choice in (choices.split() if mark in name else ("",))
        ]
    return names


_ALL = _names()
_FOLDERS = frozenset(name[:-1] for name in _ALL if name.endswith("/"))
_ENDINGS = tuple(name for name in _ALL if name.startswith("/"))
_FILES = [name for name in _ALL if not name.endswith("/") and not name.startswith("/")]
_EXACT = frozenset(name for name in _FILES if not set(name) & set("*["))
_EXTENSIONS = frozenset(name[2:] for name in _FILES if re.fullmatch(r"\*\.\w+", name))
_PATTERN = re.compile(
    "|".join(
        fnmatch.translate(name)
        for name in _FILES
        if set(name) & set("*[") and name[2:] not in _EXTENSIONS
    )
)


def is_secret(path: str) -> bool:
    """True if a file of this relative path counts as a secret."""
    path = path.lower()
    *folders, name = path.split("/")
    extension = name.rpartition(".")[2] if "." in name else ""
    if not _FOLDERS.isdisjoint(folders) or f"/{path}".endswith(_ENDINGS):
        return True
    # Also .envrc, .env-production, .env~ and other copies.
    if name.startswith(".env"):
        return _ENVIRONMENT_TEMPLATE.fullmatch(name) is None
    if extension in _EXTENSIONS and extension != "env":
        return True
    return _holds_values(folders, name, extension) and _HARMLESS.fullmatch(name) is None


def in_secret_folder(path: str) -> bool:
    """True if a folder is, or lies in, one that contains nothing but secrets."""
    return not _FOLDERS.isdisjoint(path.lower().split("/"))


def _holds_values(folders: list[str], name: str, extension: str) -> bool:
    if name in _EXACT or extension == "env" or (extension not in _CODE and _PATTERN.match(name)):
        return True
    # Belongs to a package manager, unless it is a translation.
    if name == "auth.json":
        return _TRANSLATIONS.isdisjoint(folders)
    return "secrets" in folders and extension in _VALUES and name not in _ABOUT
