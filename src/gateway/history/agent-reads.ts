import type { Response } from 'express';
import type { Clock } from '@conversation-operator/base/clock';
import type { Release, Shares } from '@conversation-operator/base/shares';
import type { CircuitBreakers } from '@conversation-operator/http/limits/circuit-breakers';
import type { AgentEndpoint } from '../../agent/agent.ts';
import { agentEndpointOf } from '../../agent/kinds.ts';
import { AgentError, isAgentError } from '../../agent/errors.ts';
import type { SandboxKeys } from '../../agent/keys.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { isStartOver, startStatusOf } from '../../resources/conversation.ts';
import { conversationIdOf } from '../../resources/ids.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import type { SandboxView } from '../../status/sandbox-phase.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { unavailable } from '../errors/common-problems.ts';
import { invalidRequest } from '../errors/validation.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import { sandboxViewOf } from '../presenters/conversation.ts';
import { agentTimeout } from '../proxy/upstreams.ts';
import { ownConversation, type OwnCall } from '../http/route.ts';

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

/** The agent of a conversation, and the id of the conversation in the agent. */
export interface Agent {
  readonly endpoint: AgentEndpoint;
  readonly id: string;
  readonly owner: string;
  readonly sandbox: string;
  /** Identifies the container in which the agent runs. */
  readonly container: string;
}

/** Calls `work` with a signal that aborts when the client disconnects before `work` is done. */
export async function untilLeft<R>(
  response: Response,
  work: (left: AbortSignal) => Promise<R>,
): Promise<R> {
  const leaving = new AbortController();
  const leave = () => leaving.abort();
  if (response.destroyed) leave();
  response.once('close', leave);
  try {
    return await work(leaving.signal);
  } finally {
    response.off('close', leave);
  }
}

interface AgentReadsNeeds {
  readonly lookup: ResourceLookup;
  readonly keys: Pick<SandboxKeys, 'sessionKey'>;
  readonly clock: Clock;
  /** Semaphore of reads, with limits for each owner and each sandbox. */
  readonly places: Shares;
  /** Circuit breakers, one for each container of an agent. */
  readonly silentAgents: CircuitBreakers;
  /** Maximum milliseconds until the first byte of an agent's response. */
  readonly firstByteMs: number;
}

/**
 * Requests to agents. A slow or silent agent holds few permits, and only permits of its own owner.
 * Methods throw only a `ProblemError`, even if no permit is free in time or the agent is silent.
 */
export class AgentReads {
  readonly #needs: AgentReadsNeeds;

  constructor(needs: AgentReadsNeeds) {
    this.#needs = needs;
  }

  /**
   * Asks the agent of the conversation that a request names, until the client disconnects.
   * @param begin Resolves when the agent has begun its response.
   * @param pass Reads the rest of the response, while the permit is held.
   */
  async askOwn<T, R>(
    call: AgentCall,
    begin: (agent: Agent, signal: AbortSignal) => Promise<T>,
    pass: (answer: T) => R | Promise<R>,
  ): Promise<R> {
    const { lookup } = this.#needs;
    const conversation = await ownConversation(lookup, call);
    const agent = this.agentOf(conversation, await lookup.sandboxOf(conversation));
    return untilLeft(call.response, (left) => this.ask(agent, left, begin, pass));
  }

  /** Asks a known agent in the same way as `askOwn`, until `left` is aborted. */
  async ask<T, R>(
    agent: Agent,
    left: AbortSignal,
    begin: (agent: Agent, signal: AbortSignal) => Promise<T>,
    pass: (answer: T) => R | Promise<R>,
  ): Promise<R> {
    const { places, silentAgents } = this.#needs;
    const ending = new AbortController();
    const signal = AbortSignal.any([left, ending.signal]);
    let release: Release | undefined;
    try {
      release = await places.wait(agent, { signal });
      const ask = () => this.#inTime(ending, () => begin(agent, signal));
      const asked = await silentAgents.call(agent.container, ask, isSilence);
      if ('restMs' in asked) throw agentSilent(asked.restMs);
      return await pass(asked.answer);
    } catch (error) {
      throw error instanceof AgentError ? problemOf(error) : error;
    } finally {
      release?.();
    }
  }

  /**
   * The agent of a conversation. Its address comes from the Sandbox, never from the request. Throws
   * a problem if the sandbox does not run, or if the start is in progress.
   * @param mayStop Whether the agent of a stopping sandbox is acceptable.
   */
  agentOf(
    conversation: CachedConversation,
    sandbox: Sandbox | undefined,
    { mayStop = false } = {},
  ): Agent {
    const { phase } = sandboxViewOf(conversation, sandbox);
    if (phase !== 'RUNNING' && !(mayStop && isStopping(phase, sandbox)))
      throw wrongState(`The sandbox is in ${phase}; its agent answers while that runs.`);
    if (!isStartOver(startStatusOf(conversation)))
      throw wrongState('The conversation is still starting; it has no events yet.');
    const endpoint = sandbox === undefined ? undefined : agentEndpointOf(sandbox, this.#needs.keys);
    if (sandbox === undefined || endpoint === undefined) throw unavailable();
    const { metadata, status } = sandbox;
    const container = `${metadata.uid} ${status?.podUID ?? ''} ${status?.containerID ?? ''}`;
    const id = conversationIdOf(conversation);
    const { owner } = conversation.spec;
    return { endpoint, id, owner, sandbox: metadata.uid, container };
  }

  /** Aborts a read whose response does not begin within `firstByteMs`; the rest may take longer. */
  async #inTime<T>(ending: AbortController, begin: () => Promise<T>): Promise<T> {
    const { clock, firstByteMs } = this.#needs;
    const late = new Error('the agent has not begun its answer in time');
    const timer = clock.after(firstByteMs, () => ending.abort(late));
    try {
      return await begin();
    } catch (error) {
      throw ending.signal.aborted ? agentTimeout(error) : error;
    } finally {
      timer.cancel();
    }
  }
}

const agentSilent = (restMs: number): ProblemError =>
  new ProblemError(
    'agent-silent',
    'The agent has not answered lately. The gateway asks again a little later.',
    { retryAfterSeconds: Math.max(1, Math.ceil(restMs / 1000)) },
  );

/** Whether the agent gave no response at all; a rejection is a response. */
const isSilence = (error: unknown): boolean =>
  error instanceof ProblemError
    ? error.code === 'agent-timeout'
    : error instanceof AgentError && silentCodes.has(error.code);
const silentCodes: ReadonlySet<unknown> = new Set(['timeout', 'unreachable']);

/** Whether a paused sandbox still has its agent, which stays until the archive is complete. */
export const isStopping = (phase: SandboxView['phase'], sandbox: Sandbox | undefined): boolean =>
  phase === 'PAUSED' && sandbox?.status?.containerID !== undefined;

/** Whether an agent has responded that it does not know the conversation. */
export const isUnknownToAgent = (error: unknown): boolean =>
  error instanceof ProblemError && isAgentError(error.cause, 'not-found');

/** Whether an agent has not answered, or was not asked because it recently did not answer. */
export const isAgentLost = (error: unknown): boolean =>
  error instanceof ProblemError && lostCodes.has(error.code);
const lostCodes: ReadonlySet<unknown> = new Set(['agent-silent', 'agent-timeout', 'unavailable']);

const wrongState = (detail: string, cause?: AgentError): ProblemError =>
  new ProblemError('wrong-state', detail, { cause });

function problemOf(error: AgentError): ProblemError {
  if (error.code === 'not-found')
    return wrongState('The agent does not know this conversation any more.', error);
  return error.status === 422 ? invalidRequest([]) : unavailable(undefined, error);
}
