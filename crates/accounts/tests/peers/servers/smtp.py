"""A mail server by aiosmtpd: python smtp.py MODE, where MODE is plain, starttls or tls.

It takes mails from the user `sortie` with the password `p:ss` and, with starttls, inside TLS alone. It prints a JSON line
for its port and one for each mail. The last part of a recipient tells the answer: reject@, later@."""

import asyncio
import json
import ssl
import sys
import tempfile
from datetime import datetime, timedelta, timezone
from email import message_from_bytes, policy
from pathlib import Path

from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

mode = sys.argv[1]


def certificate():
    """A context with a certificate that nobody has signed."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mail.example")])
    now = datetime.now(timezone.utc)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("mail.example")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    folder = Path(tempfile.mkdtemp())
    (folder / "cert").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    unencrypted = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    (folder / "key").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, unencrypted))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert", folder / "key")
    return context


class Handler:
    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("reject@"):
            return "550 5.1.1 no such mailbox"
        if address.startswith("later@"):
            return "451 4.3.0 try again later"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        mail = message_from_bytes(envelope.content, policy=policy.default)
        seen = {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "tls": session.ssl is not None or mode == "tls",
            "defects": [str(defect) for defect in mail.defects],
            "headers": {name.lower(): str(value) for name, value in mail.items()},
            "text": mail.get_body(("plain",)).get_content(),
            "html": mail.get_body(("html",)).get_content(),
        }
        print(json.dumps(seen), flush=True)
        return "250 OK"


def authenticate(server, session, envelope, mechanism, data):
    expected = LoginPassword(b"sortie", b"p:ss")
    # Unhandled: the server itself answers the client.
    return AuthResult(success=data == expected, handled=False)


async def main():
    context = certificate() if mode != "plain" else None
    options = {
        "authenticator": authenticate,
        "auth_required": True,
        "auth_require_tls": mode == "starttls",
        "hostname": "mail.example",
    }
    if mode == "starttls":
        options |= {"tls_context": context, "require_starttls": True}
    loop = asyncio.get_running_loop()
    wrapped = context if mode == "tls" else None
    server = await loop.create_server(lambda: SMTP(Handler(), **options), "127.0.0.1", 0, ssl=wrapped)
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    await server.serve_forever()


asyncio.run(main())
