"""Certificates and kubeconfig files of a test cluster, from an authority that is made for it."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALID = timedelta(days=2)
_SIGNS = x509.KeyUsage(
    digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
    key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
)  # fmt: skip


class Authority:
    """Signs certificates; Kubernetes takes a user from a certificate's common name and groups from its organizations.

    Args:
        folder: where certificates and keys are written; `ca.crt` is the authority's own.
        strict: whether certificates have the extensions that Python asks for from 3.13 on.
    """

    def __init__(self, folder: Path, strict: bool = True) -> None:
        self.folder, self._strict = folder, strict
        folder.mkdir()
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test cluster")])
        built = self._builder(self._name, self._key).add_extension(x509.BasicConstraints(True, None), critical=True)
        if strict:
            own = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
            built = built.add_extension(_SIGNS, critical=True).add_extension(own, critical=False)
        self.file = self._written("ca", built.sign(self._key, hashes.SHA256()), self._key)

    def certificate(self, name: str, user: str, groups: Sequence[str] = (), hosts: Sequence[str] = ()) -> Path:
        """Writes a certificate for both ends of a connection and returns its path; its key is beside it (.key).

        Args:
            name: of the files.
            user: common name.
            groups: organizations.
            hosts: names and addresses of a server.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH])
        built = self._builder(subject, key).add_extension(usages, critical=False)
        if self._strict:
            authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
            built = built.add_extension(authority, critical=False)
        if hosts:
            built = built.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        return self._written(name, built.sign(self._key, hashes.SHA256()), key)

    def kubeconfig(self, name: str, server: str, user: str, groups: Sequence[str] = ()) -> Path:
        """Writes a kubeconfig file for a user of an API server."""
        certificate = self.certificate(name, user, groups)
        body = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority": str(self.file)}}],
            "users": [
                {
                    "name": name,
                    "user": {
                        "client-certificate": str(certificate),
                        "client-key": str(certificate.with_suffix(".key")),
                    },
                }
            ],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
            "current-context": "test",
        }
        file = self.folder / f"{name}.kubeconfig"
        file.write_text(yaml.safe_dump(body))
        return file

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + _VALID)
        )

    def _written(self, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Path:
        file = self.folder / f"{name}.crt"
        file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        encoded = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
        file.with_suffix(".key").write_bytes(encoded)
        return file


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
