import type { Response } from 'express';
import type { Clock } from '@conversation-operator/base/clock';
import type { Release, Shares } from '@conversation-operator/base/shares';
import type { KubeClient } from '@conversation-operator/kube/client';
import { found } from '@conversation-operator/kube/errors';
import { StoreError } from '@conversation-operator/object-store/object-store';
import { type ArchiveState, ArchiveError, isGone } from '../../archive/layout.ts';
import type { HistoryReader } from '../../archive/history.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import {
  conversations,
  startStatusOf,
  type Conversation,
  isStartOver,
} from '../../resources/conversation.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { notFound, unavailable } from '../errors/common-problems.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import { sandboxViewOf } from '../presenters/conversation.ts';
import {
  agentProblems,
  isAgentLost,
  isStopping,
  isUnknownToAgent,
  untilLeft,
  type Agent,
  type AgentCall,
  AgentReads,
} from './agent-reads.ts';
import { ownConversation } from '../http/route.ts';
import { CircuitBreakers } from '@conversation-operator/http/limits/circuit-breakers';
import { AgentControl } from '../../agent/openhands-api.ts';
import { AgentEvents } from '../../agent/events.ts';
import type { SandboxKeys } from '../../agent/keys.ts';
import { WorkspaceFiles } from '../../agent/workspace-files.ts';
import type { StartStatus } from '../../resources/conversation-status.ts';
import type { SandboxView } from '../../status/sandbox-phase.ts';

export const historyProblems = [
  ...agentProblems,
  'archive-disabled',
  'archive-empty',
  'archive-expired',
  'archive-damaged',
  'archive-unavailable',
] as const;

/** Maximum duration of a read of an archive, including the wait for a permit. */
const archiveTimeoutMs = 15_000;

/** A read of an archive; `state` names the head and the files to read. */
export type ArchiveCall<R> = (
  reader: HistoryReader,
  state: ArchiveState,
  signal: AbortSignal,
) => Promise<R>;

/** Functions that read the events of a conversation, by their source. */
export interface Ways<R> {
  readonly agent: (agent: Agent, left: AbortSignal, conversation: CachedConversation) => Promise<R>;
  readonly archive: (conversation: CachedConversation, left: AbortSignal) => Promise<R>;
  /** Result for a conversation whose start is not over; by default `archive-empty`. */
  readonly starting?: R;
}

interface HistoryReadsNeeds {
  readonly agentReads: AgentReads;
  readonly lookup: ResourceLookup;
  readonly client: KubeClient;
  readonly clock: Clock;
  /** Semaphore of reads of archives, with a limit for each owner. */
  readonly places: Shares;
  /** Undefined if the gateway reads no archives. */
  readonly archives: HistoryReader | undefined;
}

/**
 * The events of conversations: from the agent while the sandbox runs or stops, else from the
 * archive. `historySourceOf` selects the source. Methods throw only a `ProblemError`.
 */
export class HistoryReads {
  readonly #needs: HistoryReadsNeeds;

  constructor(needs: HistoryReadsNeeds) {
    this.#needs = needs;
  }

  get readsArchives(): boolean {
    return this.#needs.archives !== undefined;
  }

  /**
   * Reads the events of the conversation that a request names, until the client disconnects. Falls
   * back to the archive if the agent does not know the conversation.
   */
  async ofOwn<R>(call: AgentCall, ways: Ways<R>): Promise<R> {
    return this.of(await ownConversation(this.#needs.lookup, call), call.response, ways);
  }

  /** Reads the events of a known conversation in the same way. */
  async of<R>(conversation: CachedConversation, response: Response, ways: Ways<R>): Promise<R> {
    const sandbox = await this.#needs.lookup.sandboxOf(conversation);
    const { phase } = sandboxViewOf(conversation, sandbox);
    const { readsArchives } = this;
    const stops = isStopping(phase, sandbox);
    const start = startStatusOf(conversation);
    const source = historySourceOf({ start, phase, isStopping: stops, readsArchives });
    if (source === 'nowhere') {
      if (ways.starting !== undefined) return ways.starting;
      throw noHistory(readsArchives ? 'archive-empty' : 'archive-disabled');
    }
    if (source === 'archive-disabled') throw noHistory(source);
    return untilLeft(response, async (left) => {
      // `status.archive.head` may be missing after a restore, so the archive is read anyway.
      if (source !== 'agent') return ways.archive(conversation, left);
      try {
        const agent = this.#needs.agentReads.agentOf(conversation, sandbox, { mayStop: true });
        return await ways.agent(agent, left, conversation);
      } catch (error) {
        // The agent of a stopping sandbox may have exited by now.
        const isOver = isUnknownToAgent(error) || (stops && isAgentLost(error));
        if (!isOver || !readsArchives || response.headersSent) throw error;
        try {
          return await ways.archive(conversation, left);
        } catch (archiveError) {
          // Without an archive, the agent's error is thrown instead, because it is more specific.
          throw conversation.status?.archive?.head !== undefined || !isNoHistory(archiveError)
            ? archiveError
            : error;
        }
      }
    });
  }

  /**
   * Reads the archive of a conversation with a permit of its owner. The cached
   * `status.archive.head` may be outdated: if its objects are deleted, the Conversation is read
   * once from the API server. A restored Conversation may name a head that does not exist: then the
   * newest head in the object store is used.
   */
  async archive<R>(
    conversation: CachedConversation,
    left: AbortSignal,
    read: ArchiveCall<R>,
  ): Promise<R> {
    const { clock, places } = this.#needs;
    const ending = new AbortController();
    const signal = AbortSignal.any([left, ending.signal]);
    const late = new StoreError('timeout', 'The archive has not answered in time.');
    const timer = clock.after(archiveTimeoutMs, () => ending.abort(late));
    let release: Release | undefined;
    try {
      release = await places.wait({ owner: conversation.spec.owner }, { signal });
      return await this.#readCurrent(conversation, signal, read);
    } catch (error) {
      throw archiveProblem(signal.aborted ? signal.reason : error, left);
    } finally {
      release?.();
      timer.cancel();
    }
  }

  async #readCurrent<R>(
    conversation: CachedConversation,
    signal: AbortSignal,
    read: ArchiveCall<R>,
  ): Promise<R> {
    const { archives, client } = this.#needs;
    if (archives === undefined) throw noHistory('archive-disabled');
    let known: Pick<Conversation | CachedConversation, 'metadata' | 'status'> = conversation;
    try {
      return await readOnce(archives, known, signal, read);
    } catch (error) {
      if (!isGone(error)) throw error;
    }
    if (known.status?.archive?.head !== undefined)
      known = await storedConversation(client, conversation);
    try {
      return await readOnce(archives, known, signal, read);
    } catch (error) {
      if (!isGone(error)) throw error;
      const { namespace, uid } = known.metadata;
      const { head, expiredTime } = known.status?.archive ?? {};
      const newest = await archives.newest({ namespace, uid }, expiredTime, signal);
      if (newest !== undefined) return await read(archives, newest, signal);
      throw head === undefined && expiredTime !== undefined
        ? noHistory('archive-expired', error)
        : error;
    }
  }
}

export interface HistoryFacts {
  readonly start: StartStatus;
  readonly phase: SandboxView['phase'];
  /** Whether the sandbox is paused, and its agent still answers. */
  readonly isStopping: boolean;
  readonly readsArchives: boolean;
}

type NoHistory = 'archive-disabled' | 'archive-empty' | 'archive-expired';

/** The source of a conversation's events; `nowhere` while the start is not over. */
export function historySourceOf(
  facts: HistoryFacts,
): 'agent' | 'archive' | 'nowhere' | 'archive-disabled' {
  const { start, phase, isStopping, readsArchives } = facts;
  if (!isStartOver(start)) return 'nowhere';
  // The archive lacks the last events until the sandbox has stopped.
  if (phase === 'RUNNING' || (isStopping && readsArchives)) return 'agent';
  return readsArchives ? 'archive' : 'archive-disabled';
}

const details: Readonly<Record<NoHistory, string>> = {
  'archive-disabled':
    'This service keeps no history: the events are with the agent, which answers while its sandbox runs.',
  'archive-empty':
    'No event of this conversation is archived. Its agent answers while its sandbox runs.',
  'archive-expired':
    'The history of this conversation was deleted, because its retention was over.',
};

export const noHistory = (code: NoHistory, cause?: unknown): ProblemError =>
  new ProblemError(code, details[code], { cause });

/** Whether an error means that the conversation has no archive. */
const isNoHistory = (error: unknown): boolean =>
  error instanceof ProblemError && Object.hasOwn(details, error.code);

/** Reads the archive at the head in the status; throws `gone` if the status has no head. */
async function readOnce<R>(
  archives: HistoryReader,
  { metadata, status }: Pick<Conversation | CachedConversation, 'metadata' | 'status'>,
  signal: AbortSignal,
  read: ArchiveCall<R>,
): Promise<R> {
  const { namespace, uid } = metadata;
  const { head, files } = status?.archive ?? {};
  if (head === undefined)
    throw new ArchiveError('gone', `The Conversation ${uid} names no head of its archive.`);
  return read(archives, { namespace, uid, head, files }, signal);
}

/** The conversation from the API server; throws 404 if the conversation is deleted. */
async function storedConversation(
  client: KubeClient,
  { metadata: { namespace, name, uid } }: CachedConversation,
): Promise<Conversation> {
  const stored = await found(client.get(conversations, namespace, name));
  if (stored?.metadata.uid !== uid) throw notFound('conversation');
  return stored;
}

/** Converts an error of a read of an archive into a problem; returns other errors unchanged. */
export function archiveProblem(error: unknown, left: AbortSignal): unknown {
  if (error instanceof ProblemError) return error;
  if (left.aborted) return unavailable(undefined, error);
  if (isGone(error)) return noHistory('archive-empty', error);
  if (error instanceof ArchiveError)
    return new ProblemError(
      'archive-damaged',
      'The archive of this conversation is damaged. The log of the gateway has the reason.',
      { cause: error },
    );
  if (error instanceof StoreError)
    return new ProblemError(
      'archive-unavailable',
      'The archive does not answer at the moment. Try again.',
      { retryAfterSeconds: 5, cause: error },
    );
  return error;
}

interface ReadsNeeds {
  readonly lookup: ResourceLookup;
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly keys: Pick<SandboxKeys, 'sessionKey'>;
  readonly places: { readonly eventReads: Shares; readonly historyReads: Shares };
  /** Undefined if the gateway reads no archives. */
  readonly archives: HistoryReader | undefined;
  /** Maximum milliseconds until the first byte of an agent's response; 10,000 by default. */
  readonly firstByteMs: number | undefined;
}

/** Creates the readers. The caller closes `control`, `events` and `files`. */
export function createReads({ places, firstByteMs = 10_000, ...needs }: ReadsNeeds) {
  const silentAgents = new CircuitBreakers({ clock: needs.clock });
  const agentReads = new AgentReads({
    ...needs,
    firstByteMs,
    places: places.eventReads,
    silentAgents,
  });
  return {
    agentReads,
    history: new HistoryReads({ ...needs, agentReads, places: places.historyReads }),
    events: new AgentEvents(),
    files: new WorkspaceFiles(),
    control: new AgentControl(),
  };
}
