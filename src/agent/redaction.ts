/** Minimum length of a secret; a shorter text also occurs in ordinary prose. */
const minSecretLength = 6;

/** The secrets that are long enough to be hidden. */
export const hidable = (secrets: readonly string[]): readonly string[] =>
  secrets.filter(({ length }) => length >= minSecretLength);

/** Returns the text without these secrets: model providers repeat the key that they reject. */
export const withoutSecrets = (text: string, secrets: readonly string[]): string =>
  hidable(secrets).reduce((left, secret) => left.replaceAll(secret, '<redacted>'), text);
