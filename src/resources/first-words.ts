import { beginningOf, plainText } from './plain-text.ts';

const maxDerivedLength = 80;
/**
 * Maximum characters that the first words are made of: far more than a title needs, far less than a
 * message may have.
 */
export const maxReadLength = 2000;

const fence = /^ {0,3}(?:```|~~~).*$/m;
const onOneLine = (text: string): string => text.replaceAll(/\s+/g, ' ').trim();

/**
 * The first words of a text on one line, truncated between words where that loses little. Code
 * counts only when there is no other text. Control and direction characters do not count.
 */
export function firstWords(text: string, maxLength = maxDerivedLength): string {
  const [words = '', ...code] = plainText(text, maxReadLength).split(fence);
  const line = onOneLine(words) || onOneLine(code.join(' '));
  if (line.length <= maxLength) return line;
  const space = line.slice(0, maxLength).lastIndexOf(' ');
  if (space > maxLength / 2) return `${line.slice(0, space)}…`;
  return `${beginningOf(line, maxLength - 1)}…`;
}

/**
 * The beginning of a text on one line: whole sentences where that loses little, else whole words,
 * with a mark where there is more.
 */
export function beginningOnOneLine(text: string, maxLength: number): string {
  const whole = onOneLine(text);
  const line = plainText(whole, maxReadLength).trim();
  if (line.length <= maxLength && whole.length <= maxReadLength) return line;
  const head = beginningOf(line, maxLength - 2);
  const sentences = /^.*[.!?](?=\s)/.exec(head)?.[0] ?? '';
  if (sentences.length > maxLength / 2) return `${sentences} …`;
  const space = head.lastIndexOf(' ');
  return `${space > maxLength / 2 ? head.slice(0, space) : head}…`;
}
