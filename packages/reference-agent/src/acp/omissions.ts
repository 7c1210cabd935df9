import * as z from 'zod/mini';

/** A tool call as an agent asks about it. */
export interface AskedParts {
  readonly title: string;
  readonly kind: string;
  /** Inputs of the call before the question and in the question, nullish where there are none. */
  readonly inputs: readonly unknown[];
  /** Contents of the call, likewise. */
  readonly contents: readonly unknown[];
  /** Files that the question names, as the agent has sent them. */
  readonly locations: unknown;
}

const contentParts = z.array(
  z.looseObject({
    /** The file of a change. */
    path: z.optional(z.string()),
    content: z.optional(z.looseObject({ text: z.optional(z.string()) })),
  }),
);
const paths = z.array(z.object({ path: z.string() }));

/** Text of Gemini in place of arguments of an MCP tool that are longer than 500 characters. */
const omittedPayload = '[Payload omitted due to length';
/** End of a title that Gemini has shortened, for instance that of a fetch. */
const shortenedEnd = /(?:\.\.\.|…)["'`]?$/;
/** Kinds of tools that do nothing without an argument. */
const needsInput: ReadonlySet<string> = new Set(['read', 'delete', 'move', 'fetch']);

/**
 * Whether an agent has omitted a part of the call from its question: Gemini omits long arguments,
 * Codex the change of a file beyond 1 MiB, and OpenCode the file that it reads.
 */
export function hasOmission({ title, kind, inputs, contents, locations }: AskedParts): boolean {
  const parts = contents.flatMap((content) => contentParts.safeParse(content).data ?? []);
  if (parts.some(({ content }) => content?.text?.startsWith(omittedPayload) === true)) return true;
  const sent = inputs.filter((input) => input !== undefined && input !== null);
  if (sent.some((input) => !isEmpty(input))) return false;
  const changed = new Set(parts.flatMap(({ path }) => path ?? []));
  if (kind === 'edit' && parts.every(({ path }) => path !== undefined)) {
    const named = new Set(paths.safeParse(locations).data?.map(({ path }) => path));
    return changed.size < Math.max(1, named.size);
  }
  // The title of a command is the command, which may end like a shortened text.
  if (parts.length > 0 || kind === 'execute') return false;
  return shortenedEnd.test(title) || (sent.length > 0 && needsInput.has(kind));
}

const isEmpty = (input: unknown): boolean =>
  typeof input === 'object' && input !== null && Object.keys(input).length === 0;
