"""Takes out of objects and logs what a bug report must not hold: credentials, values of environment variables. Pure."""

import re
from typing import Any

REDACTED = "REDACTED"
DROPPED_METADATA = ("managedFields",)
OUR_ANNOTATIONS = ("colocation.dev/", "group.colocation.dev/", "recover.colocation.dev/")
NAMES = ("Name", "name")
"""Of fields that name a Secret or an account, and give nothing away."""

_KEY = re.compile(r"secret|password|passwd|token|credential|access.?key|private.?key|authorization", re.IGNORECASE)
_IN_TEXT = (
    re.compile(r"(?i)((?:bearer|basic)\s+)[\w.~+/=-]+"),
    re.compile(r"()eyJ[\w-]+\.[\w-]+\.[\w-]*"),  # a JSON web token
    re.compile(r"()\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    re.compile(r"(://[^\s/:@]+:)[^\s/@]+(?=@)"),  # a URL's password
    re.compile(
        # The name may go on, as in fs.s3a.secret.key, but not to say where a credential lies, as in tokenFile.
        r"(?i)((?:password|passwd|secret|token|credential|(?:access|account|private)[._-]?key|[?&]sig|signature)"
        r"(?![\w.-]{0,99}(?:file|path|name|ref|seconds)\b)[\w.-]{0,99}[\"']?\s*[=:]\s*[\"']?)[^\s\"',;&]+"
    ),
    re.compile(r"()-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
)


def redact_text(text: str) -> str:
    """Text without what looks like a credential."""
    for pattern in _IN_TEXT:
        text = pattern.sub(rf"\g<1>{REDACTED}", text)
    return text


def redact_object(value: Any) -> Any:
    """A Kubernetes object: environment variables keep their names; only our own annotations stay."""
    if isinstance(value, list):
        return [redact_object(item) for item in value]
    if not isinstance(value, dict):
        return redact_text(value) if isinstance(value, str) else value
    redacted: dict[str, Any] = {}
    for key, item in value.items():
        if key in DROPPED_METADATA:
            continue
        if key == "annotations" and isinstance(item, dict):
            item = {name: text for name, text in item.items() if str(name).startswith(OUR_ANNOTATIONS)}
        if key == "env" and isinstance(item, list):
            redacted[key] = [_variable(one) for one in item]
        elif isinstance(item, str) and _KEY.search(str(key)) and not str(key).endswith(NAMES):
            redacted[key] = REDACTED
        else:
            redacted[key] = redact_object(item)
    return redacted


def _variable(variable: Any) -> Any:
    if not isinstance(variable, dict):
        return REDACTED
    return {key: REDACTED if key == "value" else redact_object(item) for key, item in variable.items()}
