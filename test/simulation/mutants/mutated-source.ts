import { readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { fileURLToPath } from 'node:url';

export interface SourceMutation {
  /** Path below the root of the repository. */
  readonly file: string;
  /** A text that the file contains exactly once. */
  readonly from: string;
  readonly to: string;
}

const source = new URL('../../../', import.meta.url);

/**
 * The text of the mutated file. `from` is found whatever the layout of the file: white space does
 * not count, nor does the comma before a closing bracket. Throws when the file does not contain the
 * text exactly once: then the product has moved on.
 */
export function mutatedText({ file, from, to }: SourceMutation): string {
  const text = readFileSync(new URL(file, source), 'utf8');
  const places = significant(text);
  const compact = places.map((place) => text[place]).join('');
  const wanted = significant(from)
    .map((place) => from[place])
    .join('');
  const start = compact.indexOf(wanted);
  if (start < 0) throw new Error(`${file} does not have: ${from}`);
  if (compact.includes(wanted, start + 1)) throw new Error(`${file} has more than once: ${from}`);
  const end = (places[start + wanted.length - 1] ?? 0) + 1;
  return text.slice(0, places[start]) + to + text.slice(end);
}

/** Indices of the characters of a program that its layout does not decide. */
function significant(text: string): readonly number[] {
  const places = Array.from({ length: text.length }, (_, index) => index).filter(
    (index) => !/\s/.test(text.charAt(index)),
  );
  return places.filter(
    (place, index) => text[place] !== ',' || !/[)\]}]/.test(text[places[index + 1] ?? -1] ?? ''),
  );
}

/** From here on this thread loads the mutated product, of which nothing may be loaded before. */
export function mutateSource(mutation: SourceMutation): void {
  const path = fileURLToPath(new URL(mutation.file, source));
  const text = mutatedText(mutation);
  registerHooks({
    load: (url, context, next) => {
      if (!url.startsWith('file:') || fileURLToPath(url) !== path) return next(url, context);
      return { format: 'module-typescript', shortCircuit: true, source: text };
    },
  });
}
