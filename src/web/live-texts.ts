import type { LiveActivity } from './wire.ts';

export interface LiveText {
  readonly id: string;
  readonly kind: 'output' | 'message' | 'thought';
  /** Id of the tool call that the output belongs to. */
  readonly call: string | null;
  readonly elapsedMs: number;
  /** Offset at which the next part begins. */
  readonly end: number;
  /** UTF-16 units before `text` that are not shown. */
  readonly skipped: number;
  readonly text: string;
}

/** Maximum UTF-16 units of a text. Only the end of a longer text is kept. */
export const maxLiveLength = 20_000;

const number = (count: number): string => count.toLocaleString('en-US');

/** Adds the parts in a response to the known texts. A text that the response lacks has ended. */
export const joinedTexts = (
  known: readonly LiveText[],
  { items }: Pick<LiveActivity, 'items'>,
): readonly LiveText[] =>
  items.map(({ id, kind, tool_call_id: call, elapsed_ms: elapsedMs, from, end, text }) => {
    const before = known.find((each) => each.id === id);
    const missed = before === undefined ? 0 : from - before.end;
    const gap = missed > 0 ? `\n… ${number(missed)} characters skipped …\n` : '';
    // A part that overlaps the known text replaces it.
    const joins = before !== undefined && missed >= 0;
    const whole = joins ? before.text + gap + text : text;
    const shown = endOf(whole);
    const skipped = (joins ? before.skipped : from) + whole.length - shown.length;
    return { id, kind, call, elapsedMs, end, skipped, text: shown };
  });

export const writtenIn = (texts: readonly LiveText[]): readonly LiveText[] =>
  ['thought', 'message'].flatMap(
    (wanted) => texts.findLast(({ kind, text }) => kind === wanted && text !== '') ?? [],
  );

/** The end of a text, from the beginning of a line if possible. */
function endOf(text: string): string {
  if (text.length <= maxLiveLength) return text;
  const start = text.length - maxLiveLength;
  const line = text.indexOf('\n', start) + 1;
  return text.slice(line > 0 && line < text.length - maxLiveLength / 2 ? line : start);
}

/** Escape sequences of terminals, and control characters except tab and line feed. */
const controls =
  // eslint-disable-next-line no-control-regex -- these are removed
  /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])|[\0-\x08\x0b-\x1f\x7f-\x9f]/g;

/** A line as a terminal shows it: text after a carriage return replaces the text before it. */
const lineOf = (line: string): string => line.replace(/\r$/, '').split('\r').at(-1) ?? '';

/** The text without control characters, after a note about the characters that are not shown. */
export const plainOf = ({ text, skipped }: Pick<LiveText, 'text' | 'skipped'>): string =>
  (skipped > 0 ? `… ${number(skipped)} characters not shown …\n` : '') +
  text.split('\n').map(lineOf).join('\n').replace(controls, '');
