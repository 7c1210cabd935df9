import { colouredLines } from '../colours.ts';
import type { ToColour } from '../coloured-lines.ts';

// A worker has its own global, whose types are not those of a page.
const worker = globalThis as unknown as {
  onmessage: (event: { readonly data: ToColour }) => void;
  readonly postMessage: (answer: unknown) => void;
};
worker.onmessage = ({ data: { path, text } }) => {
  worker.postMessage(colouredLines(path, text));
};
