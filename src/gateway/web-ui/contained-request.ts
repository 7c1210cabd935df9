import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import type { AgentRequest } from '../proxy/proxy-http.ts';
import { sessionKeyHeader } from '../proxy/request-keys.ts';

/** The parts of a request that a body describes. */
export interface Contained {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

/** Headers that an agent may get from the description; there is no use for more. */
const passed: ReadonlySet<string> = new Set(['accept', sessionKeyHeader]);

/** The described headers, in lower case. One that is there twice is left out. */
function passedHeaders(described: Contained['headers']): readonly (readonly [string, string])[] {
  const named = Map.groupBy(Object.entries(described), ([name]) => name.toLowerCase());
  return [...named].flatMap(([name, [first, second]]) =>
    first !== undefined && second === undefined && passed.has(name)
      ? [[name, first[1]] as const]
      : [],
  );
}

/** A method of these has no body, whatever is described. */
const withoutBody: ReadonlySet<string> = new Set(['GET', 'HEAD']);

/**
 * The request that another one describes. Its headers name the client of the other one, of whose
 * key and cookie it has nothing.
 */
export function containedRequest(
  { method, headers, body }: Contained,
  outer: Pick<IncomingMessage, 'headers' | 'socket'>,
  requestId: string,
): AgentRequest {
  const bytes =
    body === undefined || body === null || withoutBody.has(method)
      ? undefined
      : Buffer.from(JSON.stringify(body));
  const own = [
    ...passedHeaders(headers),
    ...(bytes === undefined
      ? []
      : ([
          ['content-type', 'application/json'],
          ['content-length', String(bytes.length)],
        ] as const)),
  ];
  const forwardedFor = outer.headers['x-forwarded-for'];
  return Object.assign(Readable.from(bytes === undefined ? [] : [bytes], { objectMode: false }), {
    method,
    rawHeaders: own.flat(),
    headers: {
      ...Object.fromEntries(own),
      'x-request-id': requestId,
      ...(forwardedFor === undefined ? {} : { 'x-forwarded-for': forwardedFor }),
    },
    socket: outer.socket,
  });
}
