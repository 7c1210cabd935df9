/** What is shorter stands in ordinary words, and is no secret anybody could mean. */
const leastLength = 6;

/** A text without these secrets: hosts of models like to repeat the key that they refuse. */
export const withoutSecrets = (text: string, secrets: readonly string[]): string =>
  secrets.filter(({ length }) => length >= leastLength).reduce((left, secret) => left.replaceAll(secret, '<redacted>'), text);
