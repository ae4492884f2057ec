"""Stand-in for pulumi-tls: private keys are really generated, so that host keys and fingerprints are real."""

from __future__ import annotations

import base64
import hashlib

from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from localcloud import provider, sdk
from localcloud.provider import UNKNOWN, Diff, Failure, Properties, Urn, changed_paths

_TYPE = "tls:index/privateKey:PrivateKey"
_CURVES: dict[str, ec.EllipticCurve] = {"P256": ec.SECP256R1(), "P384": ec.SECP384R1(), "P521": ec.SECP521R1()}
_COMPUTED = (
    "privateKeyOpenssh", "privateKeyPem", "privateKeyPemPkcs8", "publicKeyFingerprintMd5",
    "publicKeyFingerprintSha256", "publicKeyOpenssh", "publicKeyPem",
)  # fmt: skip


class Provider(provider.Provider):
    package = "tls"
    version = sdk.package_version("tls")

    def check(self, urn: Urn, olds: Properties, news: Properties) -> tuple[Properties, list[Failure]]:
        if urn.type != _TYPE:
            return news, [Failure("", f"{urn.type}: the local cloud makes private keys only")]
        failures = sdk.check_inputs(urn.type, news)
        inputs: Properties = {"ecdsaCurve": "P224", "rsaBits": 2048, **news}
        if inputs["algorithm"] not in ("RSA", "ECDSA", "ED25519", UNKNOWN):
            failures.append(Failure("algorithm", f"got {inputs['algorithm']}; RSA, ECDSA or ED25519"))
        if inputs["algorithm"] == "ECDSA" and inputs["ecdsaCurve"] not in (*_CURVES, UNKNOWN):
            failures.append(
                Failure("ecdsaCurve", f"got {inputs['ecdsaCurve']}; OpenSSH reads {', '.join(_CURVES)} only")
            )
        return inputs, failures

    def diff(self, urn: Urn, id: str, old_inputs: Properties, state: Properties, news: Properties) -> Diff:
        changes = changed_paths(old_inputs, news)
        return Diff(changes, changes)

    def create(self, urn: Urn, inputs: Properties, preview: bool) -> tuple[str, Properties]:
        if preview:
            return "", {**inputs, **dict.fromkeys(_COMPUTED, UNKNOWN)}
        made = _key(inputs)
        public, pem, plain = made.public_key(), form.Encoding.PEM, form.NoEncryption()
        # Ed25519 has no form of its own in PEM: the real provider gives PKCS#8 there.
        own = (
            form.PrivateFormat.PKCS8
            if isinstance(made, ed25519.Ed25519PrivateKey)
            else form.PrivateFormat.TraditionalOpenSSL
        )
        line = public.public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
        wire = base64.b64decode(line.split()[1])
        md5 = hashlib.md5(wire, usedforsecurity=False).hexdigest()
        texts: Properties = {
            "privateKeyPem": made.private_bytes(pem, own, plain).decode(),
            "privateKeyPemPkcs8": made.private_bytes(pem, form.PrivateFormat.PKCS8, plain).decode(),
            "privateKeyOpenssh": made.private_bytes(pem, form.PrivateFormat.OpenSSH, plain).decode(),
            "publicKeyPem": public.public_bytes(pem, form.PublicFormat.SubjectPublicKeyInfo).decode(),
            "publicKeyOpenssh": line.decode() + "\n",
            "publicKeyFingerprintMd5": ":".join(md5[i : i + 2] for i in range(0, 32, 2)),
            "publicKeyFingerprintSha256": "SHA256:"
            + base64.b64encode(hashlib.sha256(wire).digest()).decode().rstrip("="),
        }
        return hashlib.sha1(wire, usedforsecurity=False).hexdigest(), {**inputs, **texts}


def _key(inputs: Properties) -> rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey:
    if inputs["algorithm"] == "ED25519":
        return ed25519.Ed25519PrivateKey.generate()
    if inputs["algorithm"] == "ECDSA":
        return ec.generate_private_key(_CURVES[str(inputs["ecdsaCurve"])])
    return rsa.generate_private_key(65537, int(str(inputs["rsaBits"])))
