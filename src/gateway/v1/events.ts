import { pipeline } from 'node:stream/promises';
import { Transform, type Readable } from 'node:stream';
import { z } from 'zod';
import type { Response } from 'express';
import type { AgentEndpoint } from '../../agent/agent.ts';
import { agentEndpointOf } from '../../agent/endpoint.ts';
import { AgentError } from '../../agent/errors.ts';
import type { EventQuery } from '../../agent/events.ts';
import { isStartOver, startStatusOf } from '../../resources/conversation.ts';
import { conversationIdOf } from '../../resources/ids.ts';
import type { Route } from '../http/route.ts';
import type { Services } from '../services.ts';
import { ProblemError, unavailable } from '../errors/problem-error.ts';
import { invalidRequest } from '../errors/validation.ts';
import type { ReadAgent } from '../limits/agent-reads.ts';
import { sandboxViewOf } from '../presenters/conversation.ts';
import { countSchema, pageSchema } from '../presenters/schemas.ts';
import { compact } from './compact.ts';
import { ownConversation, type OwnCall } from './own-objects.ts';
import { conversationParams, eventFilters, eventSearch, type EventSearch } from './schemas.ts';
import { endpoints } from './endpoints.ts';

const base = '/api/v1/conversation/{id}/events';
const { get } = endpoints('events');
/** Maximum bytes of one page. */
const maxBytes = 32 * 1024 * 1024;

const eventProblems = [
  'not-found',
  'wrong-state',
  'share-exceeded',
  'agent-busy',
  'agent-silent',
  'agent-timeout',
] as const;

export const eventPage = pageSchema(
  z.looseObject({
    id: z.string().optional(),
    kind: z
      .string()
      .optional()
      .describe('For example MessageEvent, ActionEvent, ObservationEvent.'),
    timestamp: z.string().optional().describe("The agent's local time, without a zone."),
    source: z.string().optional(),
  }),
);

type EventCall = OwnCall & { readonly response: Response };

interface Agent extends ReadAgent {
  readonly endpoint: AgentEndpoint;
  readonly id: string;
}

/** The events that an agent has stored of a conversation, forwarded while the agent runs. */
export function eventRoutes(services: Services): readonly Route[] {
  const { events, agentReads } = services;

  const reading = async <T, R>(
    call: EventCall,
    begin: (agent: Agent, signal: AbortSignal) => Promise<T>,
    pass: (answer: T) => R | Promise<R>,
  ): Promise<R> => {
    const { response } = call;
    const agent = await agentOf(services, call);
    const gone = new AbortController();
    const leave = () => gone.abort();
    response.once('close', leave);
    try {
      return await agentReads.read(agent, gone.signal, (signal) => begin(agent, signal), pass);
    } catch (error) {
      throw error instanceof AgentError ? problemOf(error) : error;
    } finally {
      response.off('close', leave);
    }
  };

  return [
    get(`${base}/search`, 'searchEvents', {
      summary: 'What has happened in a conversation, page by page, from its agent while that runs',
      params: conversationParams,
      query: eventSearch,
      responses: { 200: eventPage },
      problems: eventProblems,
      handle: async ({ query, ...call }) => {
        await reading(
          call,
          ({ endpoint, id }, signal) => events.search(endpoint, id, queryOf(query), signal),
          (answer) => passOn(answer, call.response),
        );
        return undefined;
      },
    }),
    get(`${base}/count`, 'countEvents', {
      summary: 'How many events a search would find',
      params: conversationParams,
      query: eventFilters,
      responses: { 200: countSchema },
      problems: eventProblems,
      handle: async ({ query, ...call }) => ({
        json: await reading(
          call,
          ({ endpoint, id }, signal) => events.count(endpoint, id, queryOf(query), signal),
          (count) => count,
        ),
      }),
    }),
  ];
}

const queryOf = ({ kind, kind__eq, ...others }: Partial<EventSearch>): EventQuery =>
  compact({ kind: kind__eq ?? kind, ...others });

/**
 * The agent of a conversation. Its address is that of the sandbox's pod in the Sandbox resource,
 * never a part of the request.
 */
async function agentOf(services: Services, call: OwnCall): Promise<Agent> {
  const { lookup, keys } = services;
  const conversation = await ownConversation(services, call);
  const sandbox = await lookup.sandboxOf(conversation);
  const { phase } = sandboxViewOf(conversation, sandbox);
  if (phase !== 'RUNNING')
    throw wrongState(`The sandbox is in ${phase}; events are read from its agent while that runs.`);
  if (!isStartOver(startStatusOf(conversation)))
    throw wrongState('The conversation is still starting; it has no events yet.');
  const endpoint = sandbox === undefined ? undefined : agentEndpointOf(sandbox, keys);
  if (sandbox === undefined || endpoint === undefined) throw unavailable();
  const { metadata, status } = sandbox;
  const container = `${metadata.uid} ${status?.podUID ?? ''} ${status?.containerID ?? ''}`;
  const id = conversationIdOf(conversation);
  return { endpoint, id, owner: call.owner, sandbox: metadata.uid, container };
}

const wrongState = (detail: string, cause?: AgentError): ProblemError =>
  new ProblemError('wrong-state', detail, { cause });

function problemOf(error: AgentError): ProblemError {
  if (error.code === 'not-found')
    return wrongState('The agent does not know this conversation any more.', error);
  return error.status === 422 ? invalidRequest([]) : unavailable(undefined, error);
}

/**
 * Forwards a page. Closes the connection where the page is too long or incomplete, because the
 * status has been sent already.
 */
async function passOn(page: Readable, response: Response): Promise<void> {
  let bytes = 0;
  const bounded = new Transform({
    transform: (chunk: Buffer, _encoding, done) => {
      bytes += chunk.length;
      if (bytes > maxBytes)
        done(new AgentError('malformed', `The agent's answer is larger than ${maxBytes} bytes.`));
      else done(null, chunk);
    },
  });
  response.statusCode = 200;
  response.setHeader('content-type', 'application/json');
  try {
    await pipeline(page, bounded, response);
  } catch (error) {
    if (!response.destroyed) throw error;
  }
}
