"""Files that by their name hold secrets: keys, certificates, credentials. They are never read.

Judges names only; a private key inside any other file is the reader's to find.
"""

from __future__ import annotations

import re

_NAMES = frozenset({
    ".netrc", "_netrc", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pypirc", ".pgpass", ".my.cnf", ".mylogin.cnf", ".htpasswd", "htpasswd",
    ".git-credentials", ".dockercfg", ".dockerconfigjson", ".boto", ".s3cfg", ".vault-token", ".terraformrc", "terraform.rc",
    "credentials.tfrc.json", "kubeconfig", "credentials", ".secret", ".secrets", "rclone.conf", "client_secret.json", "client_secrets.json",
    "master.key", "wp-config.php", "application_default_credentials.json", "fish_history", "consolehost_history.txt", ".lesshst",
    ".viminfo", ".dbshell",
})  # fmt: skip
_ENDINGS = ("/.docker/config.json", "/.config/gh/hosts.yml", "/.m2/settings.xml", "/.m2/settings-security.xml")
_EXTENSIONS = frozenset({
    "pem", "key", "p12", "pfx", "p8", "jks", "keystore", "bks", "kdbx", "kdb", "crt", "cer", "der", "csr", "p7b", "p7c", "ppk", "gpg", "pgp",
    "tfstate", "tfvars", "ovpn", "keytab", "mobileprovision", "age", "jceks",
})  # fmt: skip
_FOLDERS = frozenset({
    ".envs", ".env.d", ".secrets", ".ssh", ".gnupg", ".aws", ".azure", ".gcloud", ".kube", ".password-store",
})  # fmt: skip
_PATTERN = re.compile(
    r".+\.env|env\.(?:local|prod|production|dev|development|stag(?:e|ing)|test|qa|uat|ci|live|bak|backup|old)"
    r"|(?:credentials?|secrets?)\.(?:json|ya?ml|toml|ini|xml|cfg|conf|properties|csv|txt)(?:\.enc)?|.+[._-]secrets\.ya?ml"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?(?:[.\-_].*)?|ssh_host_.*_key(?:\.pub)?|wg[\w-]*\.conf"
    r"|secring\..*|(?:.*[._-])?(?:private|secret)(?:[._-]?key)?\.asc|\.?vault[_-]pass.*|\.[\w-]*history"
    r"|service[-_]?account.*\.json|.*firebase-adminsdk.*\.json|client_secret.*\.json|.*-credentials\.json"
    r"|.*\.tfstate\..*|.*\.tfvars\.json"
)
# In a folder called secrets: what holds values. Programs about secrets lie in such folders, too.
_VALUES = frozenset({"", "txt", "json", "yml", "yaml", "toml", "ini", "env", "conf", "properties"})
_ABOUT = frozenset(
    {"readme", "license", "notice", "codeowners", "makefile", "justfile", "dockerfile", "jenkinsfile", "build"}
)
_TRANSLATIONS = frozenset(
    {"i18n", "lang", "langs", "language", "languages", "locale", "locales", "messages", "translations"}
)
_ENVIRONMENT_TEMPLATE = re.compile(r"\.env[.-](?:example|sample|template|dist)")
_HARMLESS = re.compile(r"(?:.*[._-])?(?:example|examples|sample|template|tmpl|dist|defaults?|schema)(?:\.\w+)?")
_CODE = frozenset(
    {"py", "js", "ts", "go", "rs", "java", "rb", "md", "c", "h", "cpp", "cs", "kt", "php", "swift"}
)  # id_rsa.py isn't a key


def is_secret(path: str) -> bool:
    """Whether a file of this relative path is taken for a secret."""
    path = path.lower()
    *folders, name = path.split("/")
    extension = name.rpartition(".")[2] if "." in name else ""
    if not _FOLDERS.isdisjoint(folders) or extension in _EXTENSIONS or f"/{path}".endswith(_ENDINGS):
        return True
    if name.startswith(".env"):  # .envrc, .env-production, .env~ and whatever else somebody calls a copy
        return _ENVIRONMENT_TEMPLATE.fullmatch(name) is None
    return _holds_values(folders, name, extension) and _HARMLESS.fullmatch(name) is None


def in_secret_folder(path: str) -> bool:
    """Whether a folder is, or lies in, one that holds nothing but secrets."""
    return not _FOLDERS.isdisjoint(path.lower().split("/"))


def _holds_values(folders: list[str], name: str, extension: str) -> bool:
    if name in _NAMES or (extension not in _CODE and _PATTERN.fullmatch(name)):
        return True
    if name == "auth.json":  # a package manager's, unless it is a dictionary
        return _TRANSLATIONS.isdisjoint(folders)
    return "secrets" in folders and extension in _VALUES and name not in _ABOUT
