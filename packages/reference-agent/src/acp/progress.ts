import * as z from 'zod/mini';
import type { AcpToolCall } from '../events.ts';

/** The parts of a tool call in an update. */
interface Parts {
  readonly title?: string | null | undefined;
  readonly kind?: string | null | undefined;
  readonly status?: string | null | undefined;
  readonly rawInput?: unknown;
  readonly rawOutput?: unknown;
  readonly content?: unknown;
  readonly locations?: unknown;
}

const texts = z.array(z.object({ content: z.object({ text: z.string() }) }));
const output = z.object({ output: z.string() });

/** A text that Codex shows as a block of code: its end moves with each update. */
const fenced = /^```\w*\n([^]*?)(?:\n?```\n*)?$/;

/** Returns the output so far that an update of a running call has; empty where it has none. */
export function outputOf({ content, rawOutput }: Parts): string {
  const parts = texts.safeParse(content).data ?? [];
  const text =
    parts.length > 0
      ? parts.map((part) => part.content.text).join('\n')
      : typeof rawOutput === 'string'
        ? rawOutput
        : (output.safeParse(rawOutput).data?.output ?? '');
  return fenced.exec(text)?.[1] ?? text;
}

const isSame = (given: string | null | undefined, known: string): boolean =>
  given == null || given === known;

/**
 * Whether an update says nothing of a call but its output so far. The log has a part of the output
 * whose size doubles each time, so that a command that writes for hours costs the log no more than
 * the output does: `logged` is the size that it has.
 */
export const isProgress = (
  { title, kind, status, rawInput, locations, ...update }: Parts,
  known: AcpToolCall | undefined,
  logged: number,
): boolean =>
  known?.status === 'in_progress' &&
  isSame(title, known.title) &&
  isSame(kind, known.tool_kind) &&
  isSame(status, known.status) &&
  rawInput === undefined &&
  locations === undefined &&
  sizeOf(update) < 2 * logged;

/** Size of the output of an update, in characters of JSON. */
export const sizeOf = ({ content, rawOutput }: Pick<Parts, 'content' | 'rawOutput'>): number =>
  lengthOf(content) + lengthOf(rawOutput);

const lengthOf = (value: unknown): number =>
  value === undefined ? 0 : JSON.stringify(value).length;
