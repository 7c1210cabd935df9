import { TextFinder } from '@conversation-operator/base/text-finder';

/** Minimum characters of a secret to hide. Shorter texts also occur in ordinary prose. */
const minSecretLength = 6;
/** Minimum characters of a line to hide. */
const minLineLength = 8;

/** Returns all secrets and their long lines, because programs print a text line by line. */
export const secretParts = (secrets: readonly string[]): readonly string[] => [
  ...secrets,
  ...secrets.flatMap((secret) => {
    const lines = secret.split(/[\r\n]+/);
    if (lines.length === 1) return [];
    return lines.map((line) => line.trim()).filter(({ length }) => length >= minLineLength);
  }),
];

/** The parts of the secrets that are long enough to hide. */
export const hidable = (secrets: readonly string[]): readonly string[] =>
  [...new Set(secretParts(secrets))].filter(({ length }) => length >= minSecretLength);

/** A value that no reader may see, and the name that readers see instead. */
export interface NamedSecret {
  readonly name: string;
  readonly value: string;
}

/** Parts of secrets that are long enough to hide. The name of a line ends in its line number. */
export function hidableSecrets(secrets: readonly NamedSecret[]): readonly NamedSecret[] {
  const named = secrets.flatMap(({ name, value }) => {
    const parts = hidable([value]);
    // Editors number all lines, so lines that are too short to hide count as well.
    const lines = value.split(/\r\n|[\r\n]/).map((line) => line.trim());
    return parts.map((part, index) => ({
      name: index === 0 || parts.length === 2 ? name : `${name}, line ${lines.indexOf(part) + 1}`,
      value: part,
    }));
  });
  // If several secrets have the same value, the first one gives the name.
  return [...new Map(named.toReversed().map((each) => [each.value, each])).values()].toReversed();
}

/** Returns a function that replaces each of the texts by the mark. No text may be empty. */
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

/** Removes the secrets. Error messages of model providers may contain the key that they reject. */
export const withoutSecrets = (text: string, secrets: readonly string[]): string =>
  replacing(hidable(secrets), '<redacted>')(text);
