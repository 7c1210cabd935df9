/** Minimum length of a secret; a shorter text also occurs in ordinary prose. */
const minSecretLength = 6;

/** Returns the text without these secrets: model providers repeat the key that they reject. */
export const withoutSecrets = (text: string, secrets: readonly string[]): string =>
  secrets
    .filter(({ length }) => length >= minSecretLength)
    .reduce((left, secret) => left.replaceAll(secret, '<redacted>'), text);
