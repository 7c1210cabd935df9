import type { Readable } from 'node:stream';
import { validUtf8 } from '@conversation-operator/base/utf8';
import type { AgentEndpoint } from '../agent/agent.ts';
import { AgentError } from '../agent/errors.ts';
import type { AgentEvents } from '../agent/events.ts';
import { replacing, secretParts } from '../agent/redaction.ts';
import {
  agentEventOf,
  omittedEvent,
  type AgentEvent,
  type EventSource,
  type SourcePage,
  splitPage,
} from './agent-event.ts';

export interface AgentSourceOptions {
  readonly events: Pick<AgentEvents, 'search'>;
  readonly endpoint: AgentEndpoint;
  /** Id of the conversation at the agent. */
  readonly id: string;
  /** Texts that the archive must not contain. */
  readonly secrets: readonly string[];
}

/** Numbers of events per page. If a page is too large in bytes, the next smaller number is used. */
const pageSizes = [100, 10, 1] as const;
/** Maximum bytes of a page of several events. */
const maxPageBytes = 2 * 1024 * 1024;
/** Maximum bytes of a page of one event. A larger event is archived as its id and size. */
const maxParsedBytes = 16 * 1024 * 1024;
const maxReadBytes = 256 * 1024 * 1024;
/** Bytes at the end of a page that contain the id of the next page. */
const endBytes = 1024;
/** Minimum characters of a secret to hide. Shorter texts also occur in ordinary prose. */
const minSecretLength = 8;
const hidden = '<secret-hidden>';

/**
 * The event log of an agent. A page that is too large is read again as smaller pages, so that the
 * process never has more than `maxParsedBytes` of one agent in memory. Throws `AgentError`.
 */
export function agentSource({ events, endpoint, id, secrets }: AgentSourceOptions): EventSource {
  const hide = hiding(secrets);
  const read = async (
    from: string | undefined,
    limit: number,
    { descending, signal }: { readonly descending: boolean; readonly signal: AbortSignal },
  ): Promise<SourcePage | undefined> => {
    const query = {
      limit,
      sort_order: descending ? 'TIMESTAMP_DESC' : 'TIMESTAMP',
      ...(from === undefined ? {} : { page_id: from }),
    };
    const stream = await events.search(endpoint, id, query, signal);
    const { text, end, bytes } = await bounded(stream, limit === 1 ? maxParsedBytes : maxPageBytes);
    if (text !== undefined) return pageOf(hide(text), limit);
    return limit === 1 && from !== undefined ? omittedPage(from, end, bytes) : undefined;
  };
  return {
    page: async (from, options) => {
      for (const limit of pageSizes) {
        const page = await read(from, limit, options);
        if (page !== undefined) return page;
      }
      throw new AgentError('malformed', 'An event of the agent is too large to be read.');
    },
  };
}

function pageOf(text: Buffer, limit: number): SourcePage {
  const page = splitPage(text);
  if (page === undefined || page.items.length > limit)
    throw new AgentError(
      'malformed',
      "The agent's answer is not the page of events that was asked for.",
    );
  const events = page.items.map(agentEventOf).filter((event) => event !== undefined);
  return { events, invalid: page.items.length - events.length, next: page.next };
}

/** Page for one event that is too large. The page id `from` is also the id of the event. */
function omittedPage(from: string, end: string, bytes: number): SourcePage {
  const next = /"next_page_id"\s*:\s*"([^"\\]{1,128})"\s*\}\s*$/.exec(end)?.[1];
  const event: AgentEvent = omittedEvent(from, bytes);
  return { events: [event], invalid: 0, next };
}

interface Answer {
  /** Body in UTF-8; undefined if the answer is larger than the maximum. */
  readonly text: Buffer | undefined;
  readonly end: string;
  readonly bytes: number;
}

async function bounded(stream: Readable, maxBytes: number): Promise<Answer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  let end = Buffer.alloc(0);
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxReadBytes)
      throw new AgentError('malformed', 'An event of the agent is too large to be read.');
    end = Buffer.concat([end, chunk.subarray(-endBytes)]).subarray(-endBytes);
    if (bytes <= maxBytes) chunks.push(chunk);
    else if (chunks.length > 0) chunks.length = 0;
    // The caller reads a smaller page next. Only a page of a single event is read to its end.
    if (bytes > maxBytes && maxBytes === maxPageBytes) break;
  }
  const text = bytes > maxBytes ? undefined : validUtf8(Buffer.concat(chunks));
  return { text, end: end.toString(), bytes };
}

/** Returns a function that hides secrets, their escaped form in JSON, and their long lines. */
export function hiding(secrets: readonly string[]): (text: Buffer) => Buffer {
  const texts = secretParts(secrets)
    .filter(({ length }) => length >= minSecretLength)
    .flatMap((secret) => [...new Set([secret, JSON.stringify(secret).slice(1, -1)])]);
  const replace = replacing(texts, hidden);
  return (text) => {
    const whole = text.toString();
    const left = replace(whole);
    return left === whole ? text : Buffer.from(left);
  };
}
