#!/bin/sh
# Leaves in FOLDER, before the agent starts, the certificates that its programs trust: `added.crt`
# for programs that add a file to the roots that they have, and `all.crt` for programs that read one
# file instead of the system's. The operator can't make the second file: the roots are those of the
# image.
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
rm -f "$folder/added.crt" "$folder/all.crt"
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
