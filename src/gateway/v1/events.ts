import { pipeline } from 'node:stream/promises';
import { Transform, type Readable } from 'node:stream';
import { z } from 'zod';
import type { Response } from 'express';
import { AgentError } from '../../agent/errors.ts';
import type { EventQuery } from '../../agent/events.ts';
import { type Route, endpoints } from '../http/route.ts';
import type { Services } from '../services.ts';
import { countSchema, pageSchema } from '../presenters/schemas.ts';
import { agentProblems, agentReading } from './agent-reading.ts';
import { compact } from '@conversation-operator/base/compact';
import { conversationParams, eventFilters, eventSearch, type EventSearch } from './schemas.ts';

const base = '/api/v1/conversation/{id}/events';
const { get } = endpoints('events');
/** Maximum bytes of one page. */
const maxBytes = 32 * 1024 * 1024;

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

/** The events that an agent has stored of a conversation, forwarded while the agent runs. */
export function eventRoutes(services: Services): readonly Route[] {
  const { events } = services;

  const reading = agentReading(services);

  return [
    get(`${base}/search`, 'searchEvents', {
      summary: 'What has happened in a conversation, page by page, from its agent while that runs',
      params: conversationParams,
      query: eventSearch,
      responses: { 200: eventPage },
      problems: agentProblems,
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
      problems: agentProblems,
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
