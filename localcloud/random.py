"""Stand-in for pulumi-random: values are really random, drawn once and kept in the stack's state like the real ones."""

from __future__ import annotations

import base64
import secrets
import string

from localcloud import provider, sdk
from localcloud.provider import UNKNOWN, Diff, Failure, Properties, ProviderError, Urn, changed_paths

_BYTES = "random:index/randomBytes:RandomBytes"
_ID = "random:index/randomId:RandomId"
_PASSWORD = "random:index/randomPassword:RandomPassword"
_COMPUTED = {_BYTES: ("base64", "hex"), _ID: ("b64Std", "b64Url", "dec", "hex"), _PASSWORD: ("result", "bcryptHash")}
_LETTERS = {
    "Lower": string.ascii_lowercase,
    "Upper": string.ascii_uppercase,
    "Numeric": string.digits,
    "Special": "!@#$%&*()-_=+[]{}<>:?",
}


class Provider(provider.Provider):
    package = "random"
    version = sdk.package_version("random")

    def check(self, urn: Urn, olds: Properties, news: Properties) -> tuple[Properties, list[Failure]]:
        if urn.type not in _COMPUTED:
            return news, [Failure("", f"{urn.type}: the local cloud makes {', '.join(_COMPUTED)}")]
        return news, sdk.check_inputs(urn.type, news)

    def diff(self, urn: Urn, id: str, old_inputs: Properties, state: Properties, news: Properties) -> Diff:
        changes = changed_paths(old_inputs, news)
        return Diff(changes, changes)

    def create(self, urn: Urn, inputs: Properties, preview: bool) -> tuple[str, Properties]:
        if preview:
            return "", {**inputs, **dict.fromkeys(_COMPUTED[urn.type], UNKNOWN)}
        if urn.type == _PASSWORD:
            return "none", {**inputs, "result": _password(inputs)}
        raw = secrets.token_bytes(int(str(inputs["length" if urn.type == _BYTES else "byteLength"])))
        standard, url = base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode().rstrip("=")
        if urn.type == _BYTES:
            return "none", {**inputs, "base64": standard, "hex": raw.hex()}
        forms = {"b64Std": standard, "b64Url": url, "dec": str(int.from_bytes(raw)), "hex": raw.hex()}
        return url, {**inputs, **{name: f"{inputs.get('prefix') or ''}{form}" for name, form in forms.items()}}


def _password(inputs: Properties) -> str:
    """Characters of the classes asked for, with at least as many of each as asked for."""
    classes = {**_LETTERS, "Special": str(inputs.get("overrideSpecial") or _LETTERS["Special"])}
    used = {name: letters for name, letters in classes.items() if inputs.get(name.lower()) is not False}
    least = [secrets.choice(used[n]) for n in used for _ in range(int(str(inputs.get(f"min{n}") or 0)))]
    length = int(str(inputs["length"]))
    if not used or length < max(1, len(least)):
        raise ProviderError(f"length: got {length}; too short for the characters asked for, or every class is off")
    drawn = least + [secrets.choice("".join(used.values())) for _ in range(length - len(least))]
    secrets.SystemRandom().shuffle(drawn)
    return "".join(drawn)
