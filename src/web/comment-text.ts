import type { DiffRow } from './line-diff.ts';

/** A comment on one line of a file. */
export interface Commented {
  readonly path: string;
  readonly line: DiffRow;
  readonly text: string;
}

/** A comment as a part of a message: the place, the line as a quotation, and the text. */
export function commentText({ path, line, text }: Commented): string {
  const number = line.new ?? line.old ?? 0;
  const place = line.new === undefined ? `line ${number} before the change` : `line ${number}`;
  const mark = line.missing > 0 ? ' …' : '';
  return `\`${path}\`, ${place}:\n> ${line.text}${mark}\n${text}\n`;
}

/** Makes comments parts of the next message, where there can be one. */
export const commenting = (onMessage: ((text: string) => void) | undefined) =>
  onMessage === undefined
    ? undefined
    : (comment: Commented) => {
        onMessage(commentText(comment));
      };
