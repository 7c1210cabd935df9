/** A text that may be seen nowhere, under the name that a report calls it by. */
export type Secrets = Readonly<Record<string, string | Buffer>>;

/** Forms of a secret in a text: as it is, and as common encodings make it. */
function formsOf(secret: string | Buffer): readonly string[] {
  const bytes = Buffer.from(secret);
  const text = bytes.toString();
  const forms = [
    text,
    JSON.stringify(text).slice(1, -1),
    encodeURIComponent(text.toWellFormed()),
    bytes.toString('hex'),
    bytes.toString('base64').replace(/=+$/, ''),
    bytes.toString('base64url'),
  ];
  return [...new Set(forms)];
}

/** The secrets that a text contains, in any form. */
export function leaksIn(text: string, secrets: Secrets): readonly string[] {
  return Object.entries(secrets)
    .filter(([, secret]) => formsOf(secret).some((form) => text.includes(form)))
    .map(([name]) => name);
}

/** JSON without the values of these fields, in which an answer may show a secret to its owner. */
export const withoutFields = (json: string, ...fields: readonly string[]): string =>
  json.replaceAll(new RegExp(`"(${fields.join('|')})":"[^"]*"`, 'g'), '"$1":""');
