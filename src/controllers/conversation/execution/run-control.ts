import type { Logger } from '@conversation-operator/base/logger';
import type { AgentClient } from '../../../agent/agent.ts';
import { AgentError } from '../../../agent/errors.ts';
import { isoTime, type Clock } from '@conversation-operator/base/clock';
import type { ConversationStatus } from '../../../resources/conversation-status.ts';
import { durationMs } from '../../../resources/sandbox-template.ts';
import type { Stores } from '../../caches.ts';
import { requestKey } from '../../controller-spec.ts';
import type { SaveStatus, Scope } from '../scope.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { Request } from '@conversation-operator/kube/controller';
import { withRunResult } from './run-result.ts';
import {
  RunObserver,
  StuckDetection,
  runKey,
  type Observation,
  type PolledRun,
} from './run-observer.ts';
import { Interruption } from './interruption.ts';
import {
  retryAfterMs,
  withResumeAttempt,
  withResumeFailed,
  withRunResumed,
  withRunStuck,
} from './run-resume.ts';
import { createHash } from 'node:crypto';
import type { CachedConversation } from '../../../resources/cached-conversation.ts';
import type { AgentConfigurations } from '../agent-configuration.ts';

/** Code of the agent's error when the API of the model rejects the key. */
const authenticationError = 'LLMAuthenticationError';

interface KeyRotationOptions {
  readonly agent: AgentClient;
  readonly configurations: AgentConfigurations;
}

/**
 * Sends the current API key to a conversation whose model has rejected the previous key, so that
 * the next run uses the current key. Where the gateway relays the model, the agent gets the relay's
 * address and token instead, so that a key that the agent still has leaves the sandbox when it is
 * revoked. The sent keys are in memory only; a new process sends the same
 * key again, which changes nothing.
 */
export class KeyRotation {
  readonly #options: KeyRotationOptions;
  /** UID of the conversation and SHA-256 of the sent key, by `namespace/name`. */
  readonly #given = new Map<string, string>();

  constructor(options: KeyRotationOptions) {
    this.#options = options;
  }

  forget(conversation: Request): void {
    this.#given.delete(requestKey(conversation));
  }

  /** Throws `AgentError` when the agent could not be called; the next poll tries again. */
  async rotate(
    conversation: CachedConversation,
    { state, endpoint, sandbox }: Pick<PolledRun, 'state' | 'endpoint' | 'sandbox'>,
    signal: AbortSignal,
  ): Promise<void> {
    const { agent, configurations } = this.#options;
    const { uid } = conversation.metadata;
    const key = requestKey(conversation.metadata);
    const { executionStatus, executionDetail } = conversation.status ?? {};
    if (executionStatus !== 'error' || executionDetail?.startsWith(authenticationError) !== true)
      return;
    const llm = await configurations.llmWithKey(conversation, sandbox);
    if (llm === undefined) return;
    // A client may have set another model, which has a key of its own.
    if (state.llm === undefined || !configurations.isOwn(state.llm, conversation, sandbox)) return;
    const given = `${uid} ${createHash('sha256').update(llm.apiKey).digest('base64')}`;
    if (this.#given.get(key) === given) return;
    try {
      await agent.useLlm(endpoint, state.id, llm, { signal });
    } catch (error) {
      // An agent that answers with one of these codes does not support the call: the error is
      // ignored, because another attempt would fail as well.
      if (!(
        error instanceof AgentError &&
        (error.code === 'not-found' || error.code === 'refused')
      ))
        throw error;
    }
    this.#given.set(key, given);
  }
}

interface RunCallOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly agent: AgentClient;
  readonly stuck: StuckDetection;
}

interface RunCallContext {
  readonly status: ConversationStatus;
  readonly save: SaveStatus;
  readonly signal: AbortSignal;
}

/**
 * Requests the agent to resume an interrupted run. The attempt is stored before the request, with
 * the resourceVersion that was read: an operator with an outdated version gets a conflict, and so
 * never resumes a run that was resumed or abandoned since.
 */
export async function resumeRun(
  { agent, clock, logger }: RunCallOptions,
  { endpoint, id }: PolledRun,
  { status: before, save, signal }: RunCallContext,
): Promise<{ readonly status: ConversationStatus; readonly againAfterMs?: number | undefined }> {
  const attempted = await save(withResumeAttempt(before));
  let isRequested = false;
  try {
    const state = await agent.conversation(endpoint, id, { signal });
    // While actions wait for an answer, a request to run would confirm them.
    if (state?.executionStatus !== 'waiting_for_confirmation') {
      isRequested = true;
      const isBudgetEnd = before.interruption?.reason === Interruption.budget;
      await (isBudgetEnd
        ? agent.continueRun(endpoint, id, { signal })
        : agent.run(endpoint, id, { signal }));
    }
  } catch (error) {
    if (!(error instanceof AgentError) || signal.aborted) throw error;
    logger.info('the agent did not resume the run', { conversation: id, code: error.code });
    const status = withResumeFailed(attempted, { error, isRequested });
    return { status, againAfterMs: status.interruption && retryAfterMs(status.interruption) };
  }
  return { status: withRunResumed(attempted, isoTime(clock)) };
}

/**
 * Interrupts a run whose agent has reported nothing for longer than the template allows. The status
 * is stored first. Otherwise a crash after the interrupt would leave a paused run without a known
 * cause, which would wait for ever.
 */
export async function interruptStuckRun(
  { agent, clock, stuck }: RunCallOptions,
  run: PolledRun & { readonly stuckAfter: string | undefined },
  { status, save, signal }: RunCallContext,
): Promise<ConversationStatus> {
  const key = runKey(run);
  const quietMs = stuck.quietMs(key, status);
  const { stuckAfter } = run;
  if (
    stuckAfter === undefined ||
    status.executionStatus !== 'running' ||
    quietMs < durationMs(stuckAfter)
  )
    return status;
  const interrupted = await save(withRunStuck(status, isoTime(clock), stuckAfter));
  try {
    await agent.interrupt(run.endpoint, run.id, { signal });
    stuck.recordAccepted(key);
  } finally {
    stuck.recordInterrupt(key);
  }
  return interrupted;
}

export interface RunControlOptions {
  readonly client: Pick<KubeClient, 'get'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly agent: AgentClient;
  readonly configurations: AgentConfigurations;
  readonly stores: Pick<Stores, 'templates'>;
}

/**
 * Follows the run of a conversation, in this order: observes it (`run-observer.ts`), reads its
 * result (`run-result.ts`), gives its model the current key, and resumes or interrupts the run.
 */
export class RunControl {
  readonly #options: RunControlOptions;
  readonly #stuck: StuckDetection;
  readonly #observer: RunObserver;
  readonly #keyRotation: KeyRotation;

  constructor(options: RunControlOptions) {
    this.#options = options;
    this.#stuck = new StuckDetection(options);
    this.#observer = new RunObserver({
      client: options.client,
      agent: options.agent,
      clock: options.clock,
      stuck: this.#stuck,
    });
    this.#keyRotation = new KeyRotation(options);
  }

  forget(conversation: Request): void {
    this.#keyRotation.forget(conversation);
  }

  /** Throws `AgentError` for an error whose cause the agent does not report. */
  observe({ status, signal }: Scope, run: PolledRun): Promise<Observation> {
    return this.#observer.observe(run, status, signal);
  }

  /** Returns the milliseconds until the next attempt. */
  async follow(
    scope: Scope,
    run: PolledRun,
    { status, resume }: Observation,
  ): Promise<number | undefined> {
    const { stores } = this.#options;
    const { save, signal, status: before } = scope;
    const options = { ...this.#options, stuck: this.#stuck };
    scope.status = resume ? status : await withRunResult(options, run, { before, status, signal });
    await this.#keyRotation.rotate({ ...scope.stored, status: scope.status }, run, signal);
    if (resume) {
      const resumed = await resumeRun(options, run, { status: scope.status, save, signal });
      scope.status = resumed.status;
      return resumed.againAfterMs;
    }
    const { metadata, spec } = run.sandbox;
    const template = stores.templates.get(metadata.namespace, spec.templateName);
    const { stuckAfter } = template?.spec.agent ?? {};
    scope.status = await interruptStuckRun(
      options,
      { ...run, stuckAfter },
      { status: scope.status, save, signal },
    );
    return undefined;
  }
}
