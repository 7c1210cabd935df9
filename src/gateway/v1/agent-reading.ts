import type { Response } from 'express';
import type { AgentEndpoint } from '../../agent/agent.ts';
import { agentEndpointOf } from '../../agent/endpoint.ts';
import { AgentError } from '../../agent/errors.ts';
import { isStartOver, startStatusOf } from '../../resources/conversation.ts';
import { conversationIdOf } from '../../resources/ids.ts';
import { ProblemError, unavailable } from '../errors/problem-error.ts';
import { invalidRequest } from '../errors/validation.ts';
import type { ReadAgent } from '../limits/agent-reads.ts';
import { sandboxViewOf } from '../presenters/conversation.ts';
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
export interface Agent extends ReadAgent {
  readonly endpoint: AgentEndpoint;
  readonly id: string;
}

/**
 * Asks the agent of a conversation, within the shares of owners, until the client leaves. Throws
 * problems alone.
 */
export const agentReading =
  (services: Services) =>
  async <T, R>(
    call: AgentCall,
    begin: (agent: Agent, signal: AbortSignal) => Promise<T>,
    pass: (answer: T) => R | Promise<R>,
  ): Promise<R> => {
    const { response } = call;
    const agent = await agentOf(services, call);
    const gone = new AbortController();
    const leave = () => gone.abort();
    response.once('close', leave);
    try {
      return await services.agentReads.read(
        agent,
        gone.signal,
        (signal) => begin(agent, signal),
        pass,
      );
    } catch (error) {
      throw error instanceof AgentError ? problemOf(error) : error;
    } finally {
      response.off('close', leave);
    }
  };

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
