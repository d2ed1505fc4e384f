"""Certificates for the TLS tests, made with openssl."""
import subprocess


def _run(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


class Authority:
    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self.certificate, self.key = folder / f"{name}.pem", folder / f"{name}.key"
        _run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", f"/CN={name}",
             "-keyout", str(self.key), "-out", str(self.certificate))

    def issue(self, name, san=None, common_name=None, usage="clientAuth,serverAuth", days=2):
        """(certificate, key) files; san "DNS:x" or "URI:y" or None."""
        key, request, certificate = (self.folder / f"{self.name}-{name}.{e}" for e in ("key", "csr", "pem"))
        _run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={common_name or name}",
             "-keyout", str(key), "-out", str(request))
        extensions = self.folder / "extensions"
        extensions.write_text(f"extendedKeyUsage={usage}\n" + (f"subjectAltName={san}\n" if san else ""))
        _run("x509", "-req", "-in", str(request), "-CA", str(self.certificate), "-CAkey", str(self.key), "-CAcreateserial", "-days", str(days),
             "-extfile", str(extensions), "-out", str(certificate))
        key.chmod(0o644)  # the unprivileged server reads it
        return certificate, key
