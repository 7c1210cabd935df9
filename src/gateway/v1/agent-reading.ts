import type { Response } from 'express';
import type { Release } from '@conversation-operator/base/shares';
import type { AgentEndpoint } from '../../agent/agent.ts';
import { agentEndpointOf } from '../../agent/endpoint.ts';
import { AgentError } from '../../agent/errors.ts';
import { isStartOver, startStatusOf } from '../../resources/conversation.ts';
import { conversationIdOf } from '../../resources/ids.ts';
import { ProblemError, unavailable } from '../errors/problem-error.ts';
import { invalidRequest } from '../errors/validation.ts';
import { sandboxViewOf } from '../presenters/conversation.ts';
import { agentTimeout } from '../proxy/agent-errors.ts';
import type { Services } from '../services.ts';
import { ownConversation, type OwnCall } from './own-objects.ts';

/** The problems of an endpoint that asks the agent of a conversation. */
export const agentProblems = [
  'not-found',
  'wrong-state',
  'share-exceeded',
  'agent-busy',
  'agent-silent',
  'agent-timeout',
] as const;

export type AgentCall = OwnCall & { readonly response: Response };

/** The agent of a conversation, and the id under which it has it. */
export interface Agent {
  readonly endpoint: AgentEndpoint;
  readonly id: string;
  readonly owner: string;
  readonly sandbox: string;
  /** Names the container that the agent runs in. */
  readonly container: string;
}

/**
 * Asks the agent of a conversation, until the client leaves. An agent that is slow or silent holds
 * few places, all of them of its own owner. Throws problems alone: also where there is no place in
 * time, and where the agent is silent.
 *
 * The returned function takes `begin`, which resolves when the agent has begun its answer, and
 * `pass`, which takes the rest of it; the place is held until that is over.
 */
export const agentReading =
  (services: Services) =>
  async <T, R>(
    call: AgentCall,
    begin: (agent: Agent, signal: AbortSignal) => Promise<T>,
    pass: (answer: T) => R | Promise<R>,
  ): Promise<R> => {
    const { response } = call;
    const { places, silentAgents } = services;
    const agent = await agentOf(services, call);
    const ending = new AbortController();
    const leave = () => ending.abort();
    response.once('close', leave);
    let release: Release | undefined;
    try {
      release = await places.eventReads.wait(agent, { signal: ending.signal });
      const ask = () => inTime(services, ending, () => begin(agent, ending.signal));
      const asked = await silentAgents.call(agent.container, ask, isSilence);
      if ('restMs' in asked) throw agentSilent(asked.restMs);
      return await pass(asked.answer);
    } catch (error) {
      throw error instanceof AgentError ? problemOf(error) : error;
    } finally {
      release?.();
      response.off('close', leave);
    }
  };

/** Gives up an agent that has not begun its answer in time; the rest of the answer may take longer. */
async function inTime<T>(
  { clock, agentFirstByteMs }: Services,
  ending: AbortController,
  begin: () => Promise<T>,
): Promise<T> {
  const late = new Error('the agent has not begun its answer in time');
  const timer = clock.after(agentFirstByteMs, () => ending.abort(late));
  try {
    return await begin();
  } catch (error) {
    throw ending.signal.reason === late ? agentTimeout(error) : error;
  } finally {
    timer.cancel();
  }
}

const agentSilent = (restMs: number): ProblemError =>
  new ProblemError(
    'agent-silent',
    'The agent has not answered lately. The gateway asks again a little later.',
    { retryAfterSeconds: Math.max(1, Math.ceil(restMs / 1000)) },
  );

/** Whether the agent gave no answer at all; a refusal is an answer. */
const isSilence = (error: unknown): boolean =>
  error instanceof ProblemError
    ? error.code === 'agent-timeout'
    : error instanceof AgentError && silentCodes.has(error.code);
const silentCodes: ReadonlySet<unknown> = new Set(['timeout', 'unreachable']);

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
    throw wrongState(`The sandbox is in ${phase}; its agent answers while that runs.`);
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
