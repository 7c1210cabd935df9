import type { AgentAccess } from '../proxy/agent-access.ts';
import type { Response } from 'express';
import { z } from 'zod';
import { ProblemError } from '../errors/problem-error.ts';
import { unused } from '../http/fields.ts';
import { type Route, endpoints } from '../http/route.ts';
import { proxyHttp, type AgentRequest } from '../proxy/proxy-http.ts';
import { isFromOwnPage } from '../sign-in/session-cookie.ts';
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { sessionKeyHeader } from '../proxy/request-keys.ts';

/** A request that the body of another request describes. */
interface Contained {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

/** Headers of a contained request that are forwarded to the agent; the others are dropped. */
const passed: ReadonlySet<string> = new Set(['accept', sessionKeyHeader]);

/** The headers to forward, in lower case. A header that is given twice is dropped. */
function passedHeaders(described: Contained['headers']): readonly (readonly [string, string])[] {
  const named = Map.groupBy(Object.entries(described), ([name]) => name.toLowerCase());
  return [...named].flatMap(([name, [first, second]]) =>
    first !== undefined && second === undefined && passed.has(name)
      ? [[name, first[1]] as const]
      : [],
  );
}

/** Methods whose requests have no body, even if the description contains one. */
const withoutBody: ReadonlySet<string> = new Set(['GET', 'HEAD']);

/**
 * The contained request. Its headers name the client of the outer request, but contain neither the
 * key nor the cookie of that client.
 */
function containedRequest(
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

const { post } = endpoints('web ui');

/**
 * Maximum bytes of a request that contains another one. The web UI accepts images of 3 MB for one
 * message, which are 4 MB as a data URL. The maximum is less than an owner's share of `bodyBytes`.
 */
const maxContainedBytes = 6 * 1024 * 1024;
const maxPathLength = 4096;

const containedSchema = z.strictObject({
  host: z
    .string()
    .max(512)
    .describe('The agent, as the part of conversation_url before /api/conversations names it'),
  method: z.enum(['GET', 'POST', 'PUT', 'PATCH', 'DELETE']),
  path: z.string().max(maxPathLength).regex(/^\//).describe('The path for the agent'),
  headers: z
    .record(z.string(), z.string().max(maxPathLength))
    .describe('X-Session-API-Key and Accept are passed on, and no others'),
  body: z.unknown().optional().describe('JSON for the agent; null for none'),
  timeout_seconds: unused('the time limits are those of every request to an agent.'),
});

/** Releases the permits of a request as soon as its body has been sent, or the response closes. */
function releaseAfter(body: NodeJS.ReadableStream, response: Response): void {
  const { leave } = response.locals;
  if (leave === undefined) return;
  delete response.locals.leave;
  body.once('end', leave);
  response.once('close', leave);
}

/** Endpoints that only the official web UI expects at its own origin. */
export const webUiRoutes = ({
  agents,
  publicUrl,
}: {
  readonly agents: AgentAccess;
  readonly publicUrl: () => string;
}): readonly Route[] => [
  post('/api/cloud-proxy', 'passToAgent', {
    summary:
      'A request to an agent of this service, which a page sends here in the place of the address of the agent. The answer is that of the agent, with its status',
    body: containedSchema,
    maxForwardedBytes: maxContainedBytes,
    responses: { 200: z.unknown() },
    problems: [
      'forbidden',
      'share-exceeded',
      'agent-unreachable',
      'sandbox-not-running',
      'too-many-connections',
      'agent-timeout',
    ],
    handle: async ({ body, response, about }) => {
      const { req: request } = response;
      const { origin } = request.headers;
      const own = origin !== undefined && isFromOwnPage(request, publicUrl()) ? [origin] : [];
      const address = agents.addressing.named(body.host, body.path, own);
      if (address === undefined)
        throw new ProblemError('forbidden', 'The host is no agent of this service.');
      about(address.sandbox);
      const contained = containedRequest(body, request, response.locals.requestId);
      releaseAfter(contained, response);
      await proxyHttp(agents, { request: contained, response, address, isContained: true });
      return 'sent' as const;
    },
  }),
  post('/api/analytics/events', 'dropAnalyticsEvents', {
    scope: 'any',
    summary: 'Reports of how the web UI is used, of which nothing is kept',
    body: z.looseObject({}),
    responses: { 204: z.unknown() },
    handle: ({ response }) => {
      response.status(204).end();
      return 'sent';
    },
  }),
];
