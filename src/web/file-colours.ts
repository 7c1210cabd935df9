import type { ColouredLines, Colouring } from './coloured-lines.ts';
import { partOf } from './part.ts';
import type { GitDiff } from './wire.ts';

/** Lets the page react between two longer tasks. */
const pause = () => new Promise((resolve) => setTimeout(resolve));

/** A text in colours; without any where their part does not arrive, because it can be read alike. */
export async function coloursOfText(
  path: string,
  text: string | null,
): Promise<ColouredLines | undefined> {
  if (text === null || text === '') return undefined;
  const part = (await partOf('colours').catch(() => undefined)) as Colouring | undefined;
  await pause();
  return part?.colouredLines(path, text);
}

/** Both versions of a file in colours. */
export async function coloursOf(path: string, { original, modified }: GitDiff) {
  return { old: await coloursOfText(path, original), new: await coloursOfText(path, modified) };
}
