import { readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { fileURLToPath } from 'node:url';

/** One mistake in one line of the product. */
export interface SourceMutation {
  /** Path below the root of the repository. */
  readonly file: string;
  /** A text that stands in the file exactly once. */
  readonly from: string;
  readonly to: string;
}

const source = new URL('../../../', import.meta.url);

/** The text of the mutated file. Throws when the text to replace does not stand in it exactly once: then the product has moved on. */
export function mutatedText({ file, from, to }: SourceMutation): string {
  const text = readFileSync(new URL(file, source), 'utf8');
  const parts = text.split(from);
  if (parts.length !== 2) throw new Error(`${file} has ${parts.length - 1} times, and not once: ${from}`);
  return parts.join(to);
}

/** From here on this thread loads the product with the mistake. Nothing of the product may have been loaded before. */
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
