"""Files that by their name hold secrets: keys, certificates, credentials. They are never read.

Judges names only; a private key inside any other file is the reader's to find.
"""

from __future__ import annotations

import re

_NAMES = frozenset({
    ".netrc", "_netrc", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pypirc", ".pgpass", ".my.cnf", ".mylogin.cnf", ".htpasswd", "htpasswd",
    ".git-credentials", ".dockercfg", ".boto", ".s3cfg", ".vault-token", ".terraformrc", "terraform.rc", "kubeconfig", "credentials",
    "client_secret.json", "client_secrets.json", "master.key", "wp-config.php", "application_default_credentials.json",
})  # fmt: skip
_EXTENSIONS = frozenset({
    "pem", "key", "p12", "pfx", "p8", "jks", "keystore", "bks", "kdbx", "kdb", "crt", "cer", "der", "csr", "p7b", "p7c", "ppk", "gpg", "pgp",
    "tfstate", "tfvars", "ovpn", "keytab", "mobileprovision", "age", "jceks",
})  # fmt: skip
_FOLDERS = frozenset({".envs", ".ssh", ".gnupg", ".aws", ".azure", ".gcloud", ".kube", ".password-store"})
_PATTERN = re.compile(
    r".+\.env"
    r"|(?:credentials?|secrets?)\.(?:json|ya?ml|toml|ini|xml|cfg|conf|properties|csv)(?:\.enc)?"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?(?:[.\-_].*)?"
    r"|service[-_]?account.*\.json|.*\.tfstate\..*|.*\.tfvars\.json|client_secret.*\.json|.*-credentials\.json"
)
_ENVIRONMENT_TEMPLATE = re.compile(r"\.env[.-](?:example|sample|template|dist)")
_HARMLESS = re.compile(r"(?:.*[._-])?(?:example|examples|sample|template|tmpl|dist|defaults?|schema)(?:\.\w+)?")
_CODE = frozenset({"py", "js", "ts", "go", "rs", "java", "rb", "md"})  # id_rsa.py is a program about keys, not a key


def is_secret(path: str) -> bool:
    """Whether a file of this relative path is taken for a secret."""
    *folders, name = path.lower().split("/")
    extension = name.rpartition(".")[2] if "." in name else ""
    if not _FOLDERS.isdisjoint(folders):
        return True
    if extension in _EXTENSIONS or path.lower().endswith(".docker/config.json"):
        return True
    if name.startswith(".env"):  # .envrc, .env-production, .env~ and whatever else somebody calls a copy
        return _ENVIRONMENT_TEMPLATE.fullmatch(name) is None
    if name not in _NAMES and (extension in _CODE or not _PATTERN.fullmatch(name)):
        return False
    return _HARMLESS.fullmatch(name) is None
