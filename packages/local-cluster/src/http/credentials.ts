import { generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { stringify } from 'yaml';

/**
 * A self-signed X.509 certificate (RFC 5280) for 127.0.0.1 and localhost. kubectl sends its token
 * only over TLS. Clients trust exactly this certificate, so no certificate authority is needed.
 */
export interface Certificate {
  readonly cert: string;
  /** Private key in PEM, PKCS #8. */
  readonly key: string;
}

const years = 10;

function encoded(tag: number, ...contents: readonly Uint8Array[]): Buffer {
  const body = Buffer.concat(contents);
  const bytes: number[] = [];
  for (let rest = body.length; rest > 0; rest >>>= 8) bytes.unshift(rest & 0xff);
  const length = body.length < 128 ? [body.length] : [0x80 | bytes.length, ...bytes];
  return Buffer.concat([Buffer.from([tag, ...length]), body]);
}

const sequence = (...contents: readonly Uint8Array[]): Buffer => encoded(0x30, ...contents);
const explicit = (number: number, ...contents: readonly Uint8Array[]): Buffer =>
  encoded(0xa0 | number, ...contents);
const objectId = (hex: string): Buffer => encoded(0x06, Buffer.from(hex, 'hex'));
const octets = (content: Uint8Array): Buffer => encoded(0x04, content);
const bits = (content: Uint8Array): Buffer => encoded(0x03, Buffer.of(0), content);
const truth = Buffer.of(0x01, 0x01, 0xff);

const ecdsaWithSha256 = sequence(objectId('2a8648ce3d040302'));
const commonName = (name: string): Buffer =>
  sequence(encoded(0x31, sequence(objectId('550403'), encoded(0x0c, Buffer.from(name)))));

/** Encodes a time by RFC 5280 §4.1.2.5: UTCTime before 2050, then GeneralizedTime. */
function time(date: Date): Buffer {
  const text = `${date.toISOString().slice(0, 19).replaceAll(/[-:T]/g, '')}Z`;
  return date.getUTCFullYear() < 2050
    ? encoded(0x17, Buffer.from(text.slice(2)))
    : encoded(0x18, Buffer.from(text));
}

const dnsName = (name: string): Buffer => encoded(0x82, Buffer.from(name));
const ipAddress = (...address: readonly number[]): Buffer => encoded(0x87, Buffer.from(address));

/** Basic constraints (a CA) and subject alternative names (the addresses of the server). */
const extensions = explicit(
  3,
  sequence(
    sequence(objectId('551d13'), truth, octets(sequence(truth))),
    sequence(objectId('551d11'), octets(sequence(ipAddress(127, 0, 0, 1), dnsName('localhost')))),
  ),
);

const pem = (der: Buffer): string =>
  `-----BEGIN CERTIFICATE-----\n${(der.toString('base64').match(/.{1,64}/g) ?? []).join('\n')}\n-----END CERTIFICATE-----\n`;

export function createCertificate({ nowMs }: { readonly nowMs: number }): Certificate {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  // The certificate is valid from an hour ago, because the clocks of clients may be behind.
  const from = new Date(nowMs - 3_600_000);
  const to = new Date(nowMs);
  to.setUTCFullYear(to.getUTCFullYear() + years);
  const name = commonName('conversation-operator');
  const serial = randomBytes(16);
  // The serial number is positive and has no leading zero.
  serial[0] = 0x40 | ((serial[0] ?? 0) & 0x3f);
  const content = sequence(
    explicit(0, encoded(0x02, Buffer.of(2))),
    encoded(0x02, serial),
    ecdsaWithSha256,
    name,
    sequence(time(from), time(to)),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    extensions,
  );
  const signature = sign('sha256', content, privateKey);
  return {
    cert: pem(sequence(content, ecdsaWithSha256, bits(signature))),
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  };
}

const name = 'conversation-operator';

interface KubeconfigContent {
  /** URL of the server; kubectl sends the token only over https. */
  readonly server: string;
  readonly token: string;
  /** Certificate of the server in PEM. */
  readonly ca?: string;
}

/** Writes a kubeconfig for this user only. Readers see either the old or the new content. */
export function writeKubeconfig(path: string, { server, token, ca }: KubeconfigContent): void {
  const authority =
    ca === undefined ? {} : { 'certificate-authority-data': Buffer.from(ca).toString('base64') };
  const text = stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name, cluster: { server, ...authority } }],
    users: [{ name, user: { token } }],
    contexts: [{ name, context: { cluster: name, user: name, namespace: 'default' } }],
    'current-context': name,
  });
  mkdirSync(dirname(path), { recursive: true });
  const temporary = `${path}.${process.pid}.tmp`;
  writeFileSync(temporary, text, { mode: 0o600 });
  renameSync(temporary, path);
}
