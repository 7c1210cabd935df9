import { maxColoured, type ColouredLines } from './coloured-lines.ts';
import { addressOf } from './part.ts';
import type { GitDiff } from './wire.ts';

/** Time limit for the colours of a text in the worker, because some texts take minutes. */
const timeoutMs = 1_000;

let worker: Worker | undefined;
let turn: Promise<unknown> = Promise.resolve();

function ask(path: string, text: string): Promise<ColouredLines | undefined> {
  return new Promise((resolve) => {
    const present = (worker ??= new Worker(addressOf('colours')));
    const end = (lines: ColouredLines | undefined) => {
      clearTimeout(timer);
      resolve(lines);
    };
    const giveUp = () => {
      present.terminate();
      worker = undefined;
      end(undefined);
    };
    const timer = setTimeout(giveUp, timeoutMs);
    present.onmessage = ({ data }) => end(data as ColouredLines | undefined);
    present.onerror = giveUp;
    present.postMessage({ path, text });
  });
}

/** The coloured lines of a text; undefined without colours, or after the time limit. */
export function coloursOfText(
  path: string,
  text: string | null,
): Promise<ColouredLines | undefined> {
  if (text === null || text === '' || text.length > maxColoured) return Promise.resolve(undefined);
  const lines = turn.then(() => ask(path, text));
  turn = lines.catch(() => undefined);
  return lines.catch(() => undefined);
}

export async function coloursOf(path: string, { original, modified }: GitDiff) {
  return { old: await coloursOfText(path, original), new: await coloursOfText(path, modified) };
}
