#!/bin/sh
# Leaves in FOLDER, before the agent starts, the certificates that its programs trust: `added.crt`
# for programs that add a file to the roots that they have, `all.crt` for programs that read one
# file instead of the system's, and `cacerts`, which has the same certificates, for those of Java.
# The operator can't make the last two: the roots are those of the image.
#
# arguments: FOLDER SOURCE KIND NAME KEY
#   SOURCE          the file with the added certificates
#   KIND NAME KEY   where the file comes from, for a message
set -eu
folder=$1 source=$2 kind=$3 name=$4 key=$5
if ! [ -s "$source" ]; then
  echo "The $kind $name with the key $key does not exist in the sandbox's namespace."
  exit 78
fi
# A pod that loses its sandbox, as in a restart of its node, runs this again with its old volume.
rm -f "$folder/added.crt" "$folder/all.crt" "$folder/cacerts"
cat "$source" >"$folder/added.crt"

# Where distributions have the roots, in the order of Go's list. An image without such
# a file may have those of Python or of Node.
roots() {
  for each in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/ca-bundle.pem \
    /etc/pki/tls/cacert.pem /etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem /etc/ssl/cert.pem; do
    if [ -s "$each" ]; then
      cat "$each"
      return
    fi
  done
  python3 -c 'import certifi; print(open(certifi.where()).read())' 2>/dev/null && return
  node -p 'require("tls").rootCertificates.join("\n")' 2>/dev/null && return
  echo "The image has no root certificates: its programs trust those of the $kind $name alone." >&2
}
{
  roots
  echo
  cat "$folder/added.crt"
} >"$folder/all.crt"
chmod 444 "$folder/added.crt" "$folder/all.crt"

# Java's own format (JKS), which every version reads whatever its default is, without a password.
# Java reads no file that has one certificate too bad for it, so what OpenSSL does not read stays
# out, and so does a key on a curve that has no name (1.2.840.10045.2.1, and then no OID).
with_python() {
  python3 -c '
import hashlib, re, ssl, struct, sys
source, target = sys.argv[1:]
openssl, found = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), {}
for pem in re.findall("-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----", open(source, encoding="latin-1").read()):
    try:
        der = ssl.PEM_cert_to_DER_cert(pem)
        openssl.load_verify_locations(cadata=der)
    except (ValueError, OSError):
        continue
    if b"\x2a\x86\x48\xce\x3d\x02\x01\x30" not in der:
        found[der] = True
if not found:
    sys.exit(1)
integer = lambda value: struct.pack(">I", value)
text = lambda value: struct.pack(">H", len(value)) + value.encode()
store = integer(0xFEEDFEED) + integer(2) + integer(len(found))
for number, der in enumerate(found):
    store += integer(2) + text("ca-%d" % number) + bytes(8) + text("X.509") + integer(len(der)) + der
digest = hashlib.sha1("changeit".encode("utf-16-be") + b"Mighty Aphrodite" + store).digest()
open(target, "wb").write(store + digest)
' "$@"
}
with_node() {
  # shellcheck disable=SC2016 # The references are those of JavaScript.
  node -e '
const { createHash, X509Certificate } = require("crypto");
const { readFileSync, writeFileSync } = require("fs");
const [source, target] = process.argv.slice(1);
const found = new Map();
for (const [pem] of readFileSync(source, "latin1").matchAll(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g)) {
  try {
    const der = new X509Certificate(pem).raw;
    if (!der.includes("2a8648ce3d020130", 0, "hex")) found.set(der.toString("hex"), der);
  } catch {}
}
if (found.size === 0) process.exit(1);
const integer = (value, bytes = 4) => {
  const buffer = Buffer.alloc(bytes);
  buffer.writeUIntBE(value, 0, bytes);
  return buffer;
};
const text = (value) => [integer(value.length, 2), Buffer.from(value)];
const entries = [...found.values()].flatMap((der, number) => [integer(2), ...text(`ca-${number}`), Buffer.alloc(8), ...text("X.509"), integer(der.length), der]);
const store = Buffer.concat([integer(0xfeedfeed), integer(2), integer(found.size), ...entries]);
const password = Buffer.from("changeit", "utf16le").swap16();
const digest = createHash("sha1").update(password).update("Mighty Aphrodite").update(store).digest();
writeFileSync(target, Buffer.concat([store, digest]));
' "$@"
}
if with_python "$folder/all.crt" "$folder/cacerts" 2>/dev/null || with_node "$folder/all.crt" "$folder/cacerts" 2>/dev/null; then
  chmod 444 "$folder/cacerts"
else
  # Java keeps its own roots where the file is missing, and trusts nothing where it is damaged.
  rm -f "$folder/cacerts"
  echo "There is no file with certificates for Java, which Python or Node writes from certificates that they can read: its programs do not trust those of the $kind $name." >&2
fi
