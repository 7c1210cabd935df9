import { TextFinder } from '@conversation-operator/base/text-finder';

/** Minimum length of a secret; a shorter text also occurs in ordinary prose. */
const minSecretLength = 6;
/** Minimum length of a line of a secret. */
const minLineLength = 8;

/**
 * Texts to hide for secrets: each secret, then each line of those that have several, because
 * programs show parts of a text line by line. Short lines are left out.
 */
export const secretParts = (secrets: readonly string[]): readonly string[] => [
  ...secrets,
  ...secrets.flatMap((secret) => {
    const lines = secret.split(/[\r\n]+/);
    if (lines.length === 1) return [];
    return lines.map((line) => line.trim()).filter(({ length }) => length >= minLineLength);
  }),
];

/** The parts of the secrets that are long enough to be hidden. */
export const hidable = (secrets: readonly string[]): readonly string[] =>
  [...new Set(secretParts(secrets))].filter(({ length }) => length >= minSecretLength);

/** A value that no reader must see, and the name that readers know it by. */
export interface NamedSecret {
  readonly name: string;
  readonly value: string;
}

/** The parts of the secrets that are long enough to be hidden; a line is named by its number. */
export function hidableSecrets(secrets: readonly NamedSecret[]): readonly NamedSecret[] {
  const named = secrets.flatMap(({ name, value }) => {
    const parts = hidable([value]);
    // Lines are counted as in an editor: lines too short to be hidden have numbers as well.
    const lines = value.split(/\r\n|[\r\n]/).map((line) => line.trim());
    return parts.map((part, index) => ({
      name: index === 0 || parts.length === 2 ? name : `${name}, line ${lines.indexOf(part) + 1}`,
      value: part,
    }));
  });
  // The first of several secrets with the same value gives the name.
  return [...new Map(named.toReversed().map((each) => [each.value, each])).values()].toReversed();
}

/** Returns a function that replaces each of the texts, none of which is empty, by a mark. */
export function replacing(texts: readonly string[], mark: string): (text: string) => string {
  const finder = new TextFinder(texts);
  return (text) => {
    let left = '';
    let from = 0;
    for (const { start, end } of finder.in(text)) {
      left += text.slice(from, start) + mark;
      from = end;
    }
    return left + text.slice(from);
  };
}

/** Returns the text without these secrets: model providers repeat the key that they reject. */
export const withoutSecrets = (text: string, secrets: readonly string[]): string =>
  replacing(hidable(secrets), '<redacted>')(text);
