/** Minimum length of a secret; a shorter text also occurs in ordinary prose. */
const minSecretLength = 6;
/** Minimum length of a line of a secret. */
const minLineLength = 8;

/**
 * The texts to hide for secrets: each secret, and behind them each line of those that have several,
 * because programs show parts of a text line by line. Short lines are left out.
 */
export const secretParts = (secrets: readonly string[]): readonly string[] => [
  ...secrets,
  ...secrets.flatMap((secret) => {
    const lines = secret.split(/[\r\n]+/);
    if (lines.length === 1) return [];
    return lines.map((line) => line.trim()).filter(({ length }) => length >= minLineLength);
  }),
];

/**
 * The parts of the secrets that are long enough to be hidden, longest first: a secret that contains
 * another one is hidden as a whole.
 */
export const hidable = (secrets: readonly string[]): readonly string[] =>
  [...new Set(secretParts(secrets))]
    .filter(({ length }) => length >= minSecretLength)
    .sort((one, other) => other.length - one.length);

/** Returns the text without these secrets: model providers repeat the key that they reject. */
export const withoutSecrets = (text: string, secrets: readonly string[]): string =>
  hidable(secrets).reduce((left, secret) => left.replaceAll(secret, '<redacted>'), text);
